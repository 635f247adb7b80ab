// SPDX-License-Identifier: MIT
/* The loop of one submitter, from its first I/O to its last: see loop.h. */
#include "loop.h"
#include "attempts.h"
#include "buffers.h"
#include "results/progress.h"
#include "users.h"

#include <unistd.h>

/*
 * With a backlog, read the clock again after this number of submissions, to keep timestamps
 * accurate.
 */
#define ISSUE_BATCH 8
/*
 * With --saturate, the drive works on the first I/Os of a round while the next are prepared. Larger
 * batches leave the drive idle. Smaller ones cost about as much in system calls as they gain.
 */
#define SATURATE_BATCH 2

static sig_atomic_t interrupted;

static int times_interrupted(void)
{
	return __atomic_load_n(&interrupted, __ATOMIC_RELAXED);
}

void loops_interrupt(void)
{
	/*
	 * The first signal drains, the second does not wait for drives that never answer, and the
	 * third ends the program at once.
	 */
	if (__atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED) > 2)
		_exit(130);
}

static void submitting(void *replay)
{
	attempts_submitted(replay);
}

void loop_open(struct replay *r, const struct replay *like)
{
	int drives[MAX_DRIVES];

	for (unsigned int k = 0; k < r->n_drives; k++)
		drives[k] = r->devices[k].fd;
	ring_open(&r->ring, r->depth, drives, r->n_drives, ring_monotonic_ns, &interrupted);
	r->ring.submitting = submitting;
	r->ring.context = r;
	r->buffers = buffers_new(&r->ring.uring, like ? like->buffers : NULL);
	for (unsigned int i = 0; i < N_LATENCIES; i++)
		latency_init(&r->latency[i], LATENCY_EXACT_MAX);
	for (unsigned int k = 0; k < r->n_drives; k++)
		latency_init(&r->drive_latency[k], 0);
}

bool loop_close(struct replay *r)
{
	/*
	 * The kernel still uses the buffers of I/Os at the drives; it cleans up after the program
	 * has ended.
	 */
	if (r->user_ios_in_flight || r->orphans_in_flight || r->explorations_in_flight)
		return false;
	ring_close(&r->ring);
	sources_close(&r->sources);
	return true;
}

void loop_free(struct replay *r)
{
	for (unsigned int k = 0; k < r->n_drives; k++)
		latency_free(&r->drive_latency[k]);
	for (unsigned int i = 0; i < N_LATENCIES; i++)
		latency_free(&r->latency[i]);
}

void loop_prepare(struct replay *r)
{
	unsigned int copies = r->o.replicate_writes ? r->n_drives : r->n_drives > 1 ? 2 : 1;

	sources_open(&r->sources);
	buffers_reserve(r->buffers, copies, r->depth);
}

static void issue(struct replay *r, struct source *s)
{
	struct io *io = io_new(r);
	uint64_t elapsed = r->ring.now_ns - r->start_ns;

	io->due_ns = r->o.saturate ? elapsed : s->next.at_ns;
	io->offset_bytes = s->next.offset_bytes;
	io->size_bytes = s->next.size_bytes;
	io->is_write = s->next.is_write;
	io->home = s->drive;
	io->tag = r->o.tags[s - r->sources.each];
	source_advance(&r->sources, s);
	user_io_start(r, io);
}

static void fire_timers(struct replay *r)
{
	struct timer *t;

	while ((t = timer_expired(&r->timers, r->ring.now_ns)))
		t->expired(r, t);
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
	       r->user_ios_in_flight < r->depth && (issued < ISSUE_BATCH || r->o.saturate) &&
	       (r->o.saturate || r->start_ns + s->next.at_ns <= r->ring.now_ns)) {
		r->c.depth_stalls += !r->o.saturate && r->start_ns + s->next.at_ns <= full_until_ns;
		issue(r, s);
		issued++;
		if (r->o.saturate && issued % SATURATE_BATCH == 0)
			ring_submit(&r->ring);
	}
	return issued;
}

/* Return true if the run has to stop, for any reason. */
static bool must_stop(struct replay *r)
{
	if (times_interrupted() && !r->draining) {
		r->stop_reason = "interrupted";
		r->draining = true;
	}
	if (times_interrupted() > 1)
		return true;
	if (r->o.saturate && r->o.duration_s &&
	    r->ring.now_ns - r->start_ns >= r->o.duration_s * 1e9)
		r->draining = true;
	attempts_reap(r);
	if (attempts_timed_out(r)) {
		r->stop_reason = "timeout";
		/* The other threads stop as well. */
		__atomic_store_n(&interrupted, 2, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}

/*
 * Called when all users have their answers and no I/O will follow. The run ends.
 * Return true once all I/Os still at the drives have completed; they are checked, too.
 */
static bool is_over(struct replay *r)
{
	if (!r->end_ns)
		r->end_ns = r->ring.now_ns;
	r->draining = true;
	return !r->orphans_in_flight && !r->explorations_in_flight;
}

void loop_run(struct replay *r, struct progress *progress)
{
	uint64_t full_until_ns = 0; /* I/Os due up to this time were delayed by --depth */
	bool full = false;

	if (r->o.saturate)
		ring_tick(&r->ring);
	while (!must_stop(r)) {
		struct source *s;
		unsigned int issued;
		uint64_t wake;

		fire_timers(r);
		if (full && r->user_ios_in_flight < r->depth) {
			full = false;
			full_until_ns = r->ring.now_ns;
		}
		issued = issue_due(r, full_until_ns);
		/* No timer is pending, so one system call submits and waits. */
		if (r->o.saturate && !r->timers.count && r->user_ios_in_flight) {
			ring_submit_and_wait(&r->ring);
			progress_show(progress, r);
			continue;
		}
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
		if (s && r->user_ios_in_flight >= r->depth)
			full = true;
		else if (s && r->start_ns + s->next.at_ns < wake)
			wake = r->start_ns + s->next.at_ns;
		progress_show(progress, r);
		ring_wait_until(&r->ring, wake);
	}
	if (!r->end_ns)
		r->end_ns = r->ring.now_ns;
	r->c.mapped_late = buffers_mapped_late(r->buffers);
}
