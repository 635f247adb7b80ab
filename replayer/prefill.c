// SPDX-License-Identifier: MIT
/* The blocks that reads touch, written before the run: see prefill.h. */
#include "prefill.h"
#include "attempts.h"
#include "engine.h"
#include "error.h"
#include "ring.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define WRITE_BLOCKS 256u /* 1 MiB a write */
#define WRITE_DEPTH 16u	  /* writes in flight per drive */

static void prefill_write(struct replay *r, unsigned int drive, uint64_t block, uint32_t n)
{
	struct user_io *io = user_io_new(r);

	io->offset_bytes = block * BLOCK_BYTES;
	io->size_bytes = n * BLOCK_BYTES;
	io->is_write = true;
	io->home = drive;
	io->submit_ns = r->now_ns;
	io->warmup = true;
	r->user_ios_in_flight++;
	r->c.unanswered++;
	write_send(r, io, drive);
	r->c.prefill_blocks += n;
}

/* The next run of set bits at or after *from, at most WRITE_BLOCKS long; its length, 0 at the
 * end. */
static uint32_t next_run(const uint64_t *bits, uint64_t n_blocks, uint64_t *from)
{
	uint64_t at = *from;
	uint32_t n = 0;

	while (at < n_blocks && !(bits[at / 64] >> (at % 64) & 1))
		at = bits[at / 64] >> (at % 64) ? at + 1 : (at / 64 + 1) * 64;
	*from = at;
	while (at + n < n_blocks && n < WRITE_BLOCKS &&
	       (bits[(at + n) / 64] >> ((at + n) % 64) & 1))
		n++;
	return n;
}

/*
 * Every block that a read of any trace touches is written on every drive, since any of them may
 * serve it; under every policy alike, so that the drives are in the same state. Blocks no read
 * touches stay as they are.
 */
void prefill(struct replay *r)
{
	uint64_t n_blocks = r->smallest_bytes / BLOCK_BYTES, at[MAX_DRIVES] = {0};
	uint32_t writing;
	uint64_t *bits;

	bits = xcalloc(n_blocks / 64 + 1, sizeof(*bits));
	sources_open(r);
	for (unsigned int i = 0; i < r->o.n_traces; i++)
		for (struct source *s = &r->sources[i]; s->have; source_advance(r, s)) {
			uint64_t block = s->next.offset_bytes / BLOCK_BYTES;

			if (s->next.is_write)
				continue;
			for (uint32_t b = 0; b < s->next.size_bytes / BLOCK_BYTES; b++)
				bits[(block + b) / 64] |= 1ull << ((block + b) % 64);
		}
	ring_wait_for_round_time(r);
	do {
		writing = 0;
		for (unsigned int k = 0; k < r->n_drives && !engine_interrupted(); k++)
			while (r->in_flight[k] < WRITE_DEPTH) {
				uint32_t n = next_run(bits, n_blocks, &at[k]);

				if (!n)
					break;
				prefill_write(r, k, at[k], n);
				at[k] += n;
			}
		ring_submit(r);
		if (r->user_ios_in_flight) {
			ring_wait_until(r, UINT64_MAX);
			attempts_reap(r);
			if (attempts_timed_out(r))
				die("prefill: a drive is unusable (or allow more with --timeout)");
			writing = 1;
		}
	} while (writing);
	free(bits);
	if (r->c.io_errors)
		die("prefill: %llu writes failed; a drive is unusable (or use --prefill none)",
		    (unsigned long long)r->c.io_errors);
	/* Lets the drives put away what they buffered, so that the run does not start inside it. */
	if (r->c.prefill_blocks) {
		uint64_t until = r->now_ns + r->o.settle_ms * 1000000ull;

		while (r->now_ns < until && !engine_interrupted())
			ring_wait_until(r, until);
	}
	/* Only the prefill's own block count outlives it. */
	memset(&r->c, 0, offsetof(struct counters, prefill_blocks));
}
