// SPDX-License-Identifier: MIT
/* The loop of a run, from its first I/O to its last: see engine.h. */
#include "engine.h"
#include "attempts.h"
#include "buffers.h"
#include "error.h"
#include "policies/policy.h"
#include "results/progress.h"
#include "slow/inject.h"
#include "users.h"

#include <stddef.h>
#include <unistd.h>

/*
 * With a backlog, read the clock again after this number of submissions, to keep timestamps
 * accurate.
 */
#define ISSUE_BATCH 8

static volatile sig_atomic_t interrupted;

void engine_interrupt(void)
{
	/*
	 * The first signal drains, the second does not wait for drives that never answer, and the
	 * third ends the program at once.
	 */
	if (++interrupted > 2)
		_exit(130);
}

static void submitting(void *replay)
{
	attempts_submitted(replay);
}

static uint64_t smallest_bytes(const struct replay *r)
{
	uint64_t bytes = UINT64_MAX;

	for (unsigned int k = 0; k < r->n_drives; k++)
		if (r->devices[k].size_bytes < bytes)
			bytes = r->devices[k].size_bytes;
	return bytes - bytes % BLOCK_BYTES;
}

void engine_setup(struct replay *r)
{
	int drives[MAX_DRIVES];

	r->contents = xcalloc(r->n_drives, sizeof(*r->contents));
	for (unsigned int k = 0; k < r->n_drives; k++) {
		drives[k] = r->devices[k].fd;
		latency_init(&r->drive_latency[k], 0);
		content_init(&r->contents[k], r->o.seed, r->o.replicate_writes ? 0 : k,
			     r->devices[k].size_bytes / BLOCK_BYTES,
			     r->o.unwritten == UNWRITTEN_ZERO);
	}
	for (unsigned int i = 0; i < N_LATENCIES; i++)
		latency_init(&r->latency[i], LATENCY_EXACT_MAX);
	ring_open(&r->ring, r->o.depth, drives, r->n_drives, ring_monotonic_ns, &interrupted);
	r->ring.submitting = submitting;
	r->ring.context = r;
	r->buffers = buffers_new(&r->ring.uring);
	r->sources = (struct sources){
		.o = &r->o, .n_drives = r->n_drives, .limit_bytes = smallest_bytes(r)};
	r->random_state = r->o.seed;
}

void engine_close(struct replay *r)
{
	if (!r->user_ios_in_flight && !r->orphans_in_flight && !r->probe_copies_in_flight)
		ring_close(&r->ring);
}

static void issue(struct replay *r, struct source *s)
{
	struct io *io = io_new(r);

	io->due_ns = s->next.at_ns;
	io->offset_bytes = s->next.offset_bytes;
	io->size_bytes = s->next.size_bytes;
	io->is_write = s->next.is_write;
	io->default_drive = s->drive;
	io->tag = r->o.tags[s - r->sources.each];
	source_advance(&r->sources, s);
	user_io_start(r, io);
}

static void fire_timers(struct replay *r)
{
	struct timer *t;

	while ((t = timer_expired(&r->timers, r->ring.now_ns)))
		/* Only the reads of users have timers. */
		r->o.policy->timer(r, (struct io *)((char *)t - offsetof(struct io, timer)));
}

/*
 * Start the I/Os that are due, limited by --depth, and return their number. I/Os due up to
 * full_until_ns were delayed by --depth.
 */
static unsigned int issue_due(struct replay *r, uint64_t full_until_ns)
{
	unsigned int issued = 0;
	struct source *s;

	while (!r->draining && (s = source_first(&r->sources)) &&
	       r->user_ios_in_flight < r->o.depth && issued < ISSUE_BATCH &&
	       r->start_ns + s->next.at_ns <= r->ring.now_ns) {
		r->c.depth_stalls += r->start_ns + s->next.at_ns <= full_until_ns;
		issue(r, s);
		issued++;
	}
	return issued;
}

/* Return true if the run has to stop, for any reason. */
static bool must_stop(struct replay *r)
{
	if (interrupted && !r->draining) {
		r->stop_reason = "interrupted";
		r->draining = true;
	}
	if (interrupted > 1)
		return true;
	attempts_reap(r);
	if (!attempts_timed_out(r))
		return false;
	r->stop_reason = "timeout";
	return true;
}

/*
 * Called when all users have their answers and no I/O will follow: the run has ended. Return true
 * once the drives have also completed the orphans and probe copies, which are checked, too.
 */
static bool is_over(struct replay *r)
{
	if (!r->end_ns)
		r->end_ns = r->ring.now_ns;
	r->draining = true;
	return !r->orphans_in_flight && !r->probe_copies_in_flight;
}

static void loop(struct replay *r)
{
	uint64_t full_until_ns = 0; /* I/Os due up to this time were delayed by --depth */
	bool full = false;

	while (!must_stop(r)) {
		struct source *s;
		unsigned int issued;
		uint64_t wake;

		fire_timers(r);
		if (full && r->user_ios_in_flight < r->o.depth) {
			full = false;
			full_until_ns = r->ring.now_ns;
		}
		issued = issue_due(r, full_until_ns);
		ring_submit(&r->ring);
		if (issued == ISSUE_BATCH) {
			/*
			 * More I/Os may be due: do not sleep, but read the clock and check for
			 * completions.
			 */
			ring_wait_until(&r->ring, 0);
			continue;
		}
		s = r->draining ? NULL : source_first(&r->sources);
		if (!s && !r->user_ios_in_flight && is_over(r))
			break;
		wake = timer_next(&r->timers);
		if (s && r->user_ios_in_flight >= r->o.depth)
			full = true;
		else if (s && r->start_ns + s->next.at_ns < wake)
			wake = r->start_ns + s->next.at_ns;
		progress_show_run(r);
		ring_wait_until(&r->ring, wake);
	}
	if (!r->end_ns)
		r->end_ns = r->ring.now_ns;
}

void engine_run(struct replay *r)
{
	sources_open(&r->sources);
	r->start_ns = ring_wait_for_round_time(&r->ring, r->o.start_every_s * 1e9);
	inject_arm(r->inject);
	loop(r);
	progress_end(r);
	inject_disarm(r->inject);
}
