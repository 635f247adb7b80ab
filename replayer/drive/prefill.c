// SPDX-License-Identifier: MIT
/* Write the blocks that reads touch before the run: see prefill.h. */
#include "prefill.h"
#include "engine/attempts.h"
#include "error.h"
#include "results/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define WRITE_BLOCKS 256u /* 1 MiB per write */
#define WRITE_DEPTH 16u	  /* writes in flight per drive */
#define LEAF_BLOCKS 512u  /* bits of a leaf: 64 bytes */

/* The owner of a prefill write is the counter of writes in flight. */
static void write_done(struct replay *r, struct attempt *a, int result)
{
	uint32_t *writing = a->io->owner;

	a->io->answered = true;
	--*writing;
	if (result != (int)a->io->size_bytes)
		attempt_failed(r, a, result);
}

/* Bitmap of the blocks to be written. */
struct touched {
	struct sparse words; /* leaves of LEAF_BLOCKS bits */
	uint64_t n_blocks, count;
};

static void touch(void *context, const struct trace_io *io)
{
	struct touched *t = context;
	uint64_t block = io->offset_bytes / BLOCK_BYTES;

	if (io->is_write)
		return;
	for (uint64_t end = block + io->size_bytes / BLOCK_BYTES; block < end; block++) {
		uint64_t *words = sparse_make(&t->words, block / LEAF_BLOCKS);
		uint64_t *word = &words[block % LEAF_BLOCKS / 64], bit = 1ull << block % 64;

		t->count += !(*word & bit);
		*word |= bit;
	}
}

/* Return the bits of 64 blocks, starting at a multiple of 64. */
static uint64_t word_at(const struct touched *t, uint64_t block)
{
	const uint64_t *words = sparse_get(&t->words, block / LEAF_BLOCKS);

	return words ? words[block % LEAF_BLOCKS / 64] : 0;
}

/*
 * Find the next run of set bits at or after *from. Return its length, at most WRITE_BLOCKS, or 0 at
 * the end.
 */
static uint32_t next_run(const struct touched *t, uint64_t *from)
{
	uint64_t at = *from, word;
	uint32_t n = 0;

	while (at < t->n_blocks) {
		if (!(at % LEAF_BLOCKS) && !sparse_get(&t->words, at / LEAF_BLOCKS)) {
			at += LEAF_BLOCKS;
			continue;
		}
		word = word_at(t, at) >> at % 64;
		if (word) {
			at += __builtin_ctzll(word);
			break;
		}
		at = (at / 64 + 1) * 64;
	}
	*from = at;
	while (at + n < t->n_blocks && n < WRITE_BLOCKS && word_at(t, at + n) >> (at + n) % 64 & 1)
		n++;
	return n;
}

/*
 * Write every block that a read of any trace touches on every drive, because any drive may serve
 * it. This is the same for all policies, so that the drives are in the same state. Other blocks
 * stay unchanged.
 */
void prefill(struct replay *r)
{
	struct touched touched = {.n_blocks = r->sources.limit_bytes / BLOCK_BYTES};
	uint64_t at[MAX_DRIVES] = {0};
	uint32_t writing = 0;
	bool waited;

	sparse_init(&touched.words, touched.n_blocks / LEAF_BLOCKS + 1,
		    LEAF_BLOCKS / 64 * sizeof(uint64_t));
	sources_scan(&r->sources, touch, &touched);
	ring_wait_for_round_time(&r->ring, r->o.start_every_s * 1e9);
	do {
		for (unsigned int k = 0; k < r->n_drives && !ring_is_stopped(&r->ring); k++)
			while (r->in_flight[k] < WRITE_DEPTH) {
				uint32_t n = next_run(&touched, &at[k]);

				if (!n)
					break;
				writing++;
				background_write(r, k, at[k] * BLOCK_BYTES, n * BLOCK_BYTES,
						 write_done, &writing);
				r->c.prefill_blocks += n;
				at[k] += n;
			}
		ring_submit(&r->ring);
		waited = writing;
		if (waited) {
			ring_wait_until(&r->ring, UINT64_MAX);
			attempts_reap(r);
			if (attempts_timed_out(r))
				die("prefill: a drive is unusable, or needs a longer --timeout");
		}
		progress_show_prefill(r, touched.count * r->n_drives);
	} while (waited);
	progress_end(r);
	sparse_free(&touched.words);
	if (r->c.io_errors)
		die("prefill: %llu writes failed; a drive is unusable, or needs --prefill none",
		    (unsigned long long)r->c.io_errors);
	/*
	 * Give the drives time to flush their buffers, so that the run does not start during a
	 * flush.
	 */
	if (r->c.prefill_blocks)
		ring_sleep_until(&r->ring, r->ring.now_ns + r->o.settle_ms * 1000000ull);
	/* Keep only the number of prefilled blocks. */
	memset(&r->c, 0, offsetof(struct counters, prefill_blocks));
}
