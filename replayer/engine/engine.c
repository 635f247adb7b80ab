// SPDX-License-Identifier: MIT
/* The engine's loop, from its first I/O to its last: see engine.h. */
#include "engine.h"
#include "attempts.h"
#include "buffers.h"
#include "slow/inject.h"
#include "results/progress.h"
#include "results/series.h"
#include "slow/storm.h"
#include "users.h"

#include <signal.h>
#include <unistd.h>

/* In a backlog the clock is read again after so many submissions, to keep their stamps honest. */
#define ISSUE_BATCH 8
/* Saturated: the drive works on the first I/Os of a round while the next are prepared. Larger
 * batches leave it idle, and a system call for each costs about as much as is won. */
#define SATURATE_BATCH 2

static volatile sig_atomic_t interrupted;

void engine_interrupt(void)
{
	/* The first drains, the second does not wait for drives that never answer, the third is for
	 * despair. */
	if (++interrupted > 2)
		_exit(130);
}

static void submitting(void *replay)
{
	attempts_submitted(replay);
}

static void open_ring(struct replay *r)
{
	int drives[MAX_DRIVES];

	for (unsigned int k = 0; k < r->n_drives; k++)
		drives[k] = r->devices[k].fd;
	ring_open(&r->ring, r->o.depth, drives, r->n_drives, ring_monotonic_ns, &interrupted);
	r->ring.submitting = submitting;
	r->ring.context = r;
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
	open_ring(r);
	r->buffers = buffers_new(&r->ring.uring);
	r->sources = (struct sources){.o = &r->o,
				      .n_drives = r->n_drives,
				      .limit_bytes = smallest_bytes(r),
				      .n_shares = 1};
	for (unsigned int k = 0; k < r->n_drives; k++)
		content_init(&r->contents[k], r->o.seed, r->o.replicate_writes ? 0 : k,
			     r->devices[k].size_bytes / BLOCK_BYTES,
			     r->o.unwritten == UNWRITTEN_ZERO);
	r->random_state = r->o.seed;
	latency_init(&r->read_latency, LATENCY_EXACT_MAX);
	latency_init(&r->write_latency, LATENCY_EXACT_MAX);
	latency_init(&r->read_response, LATENCY_EXACT_MAX);
	latency_init(&r->write_response, LATENCY_EXACT_MAX);
	latency_init(&r->lag, LATENCY_EXACT_MAX);
	for (unsigned int k = 0; k < r->n_drives; k++)
		latency_init(&r->drive_latency[k], 0);
	r->series = series_new(r->o.interval_s);
}

struct scan {
	struct replay *r;
	unsigned int trace;
	scan_visit *visit;
	void *context;
};

static void expect_buffers(void *context, unsigned int trace, const struct trace_io *io)
{
	struct scan *scan = context;
	struct replay *r = scan->r;

	if (trace != scan->trace)
		buffers_expect_trace(r->buffers);
	scan->trace = trace;
	/* Without the traces' times all may come at once, up to --depth. */
	buffers_expect(r->buffers, r->o.saturate ? 0 : io->at_ns, io->size_bytes);
	if (scan->visit)
		scan->visit(scan->context, trace, io);
}

void engine_scan(struct replay *r, scan_visit *visit, void *context)
{
	struct scan scan = {.r = r, .visit = visit, .context = context};

	sources_scan(&r->sources, expect_buffers, &scan);
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

static void reserve_buffers(struct replay *r)
{
	unsigned int copies = r->o.replicate_writes ? r->n_drives : r->n_drives > 1 ? 2 : 1;

	for (unsigned int i = 0; i < r->storms->n; i++)
		buffers_expect_more(r->buffers, r->storms->each[i].block_bytes,
				    r->storms->each[i].depth);
	buffers_reserve(r->buffers, copies, r->o.depth);
}

void engine_run(struct replay *r)
{
	struct progress progress;
	uint64_t full_until_ns = 0; /* I/Os due by then found no place under --depth */
	bool full = false;

	sources_open(&r->sources);
	reserve_buffers(r);
	r->start_ns = ring_wait_for_round_time(&r->ring, r->o.start_every_s * 1e9);
	inject_arm(r->inject);
	storms_start(r);
	progress_start(&progress, r, r->start_ns);
	if (r->o.saturate)
		ring_tick(&r->ring);
	for (;;) {
		struct source *s;
		uint64_t wake;
		unsigned int issued = 0;

		if (interrupted && !r->draining) {
			r->stop_reason = "interrupted";
			r->draining = true;
		}
		if (interrupted > 1)
			break;
		if (r->o.saturate && r->o.duration_s &&
		    r->ring.now_ns - r->start_ns >= r->o.duration_s * 1e9)
			r->draining = true;
		attempts_reap(r);
		if (attempts_timed_out(r)) {
			r->stop_reason = "timeout";
			break;
		}
		fire_timers(r);
		if (full && r->user_ios_in_flight < r->o.depth) {
			full = false;
			full_until_ns = r->ring.now_ns;
		}
		s = r->draining ? NULL : source_first(&r->sources);
		while (s && r->user_ios_in_flight < r->o.depth &&
		       (issued < ISSUE_BATCH || r->o.saturate) &&
		       (r->o.saturate || r->start_ns + s->next.at_ns <= r->ring.now_ns)) {
			r->c.depth_stalls +=
				!r->o.saturate && r->start_ns + s->next.at_ns <= full_until_ns;
			issue(r, s);
			issued++;
			if (r->o.saturate && issued % SATURATE_BATCH == 0)
				ring_submit(&r->ring);
			s = source_first(&r->sources);
		}
		/* Nothing to be on time for: one system call submits and waits. */
		if (r->o.saturate && !r->timers.count && r->user_ios_in_flight) {
			ring_submit_and_wait(&r->ring);
			progress_show(&progress, r);
			continue;
		}
		ring_submit(&r->ring);
		if (issued == ISSUE_BATCH) {
			/* More may be due: no sleep, but a look at clock and completions. */
			ring_wait_until(&r->ring, 0);
			continue;
		}
		if (!s && !r->user_ios_in_flight) {
			/* The run is over when the last user has an answer, and storms end with it;
			 * what still is at a drive is waited for all the same, and checked. */
			if (!r->end_ns)
				r->end_ns = r->ring.now_ns;
			r->draining = true;
			if (!storms_in_flight(r->storms) && !r->losers_in_flight &&
			    !r->explorations_in_flight)
				break;
		}
		wake = timer_next(&r->timers);
		if (s && r->user_ios_in_flight >= r->o.depth) {
			full = true;
		} else if (s && r->start_ns + s->next.at_ns < wake) {
			wake = r->start_ns + s->next.at_ns;
		}
		progress_show(&progress, r);
		ring_wait_until(&r->ring, wake);
	}
	if (!r->end_ns)
		r->end_ns = r->ring.now_ns;
	progress_end(&progress);
	inject_disarm(r->inject);
}

void engine_close(struct replay *r)
{
	/* What is still at a drive owns its buffer: the kernel cleans up behind the program. */
	if (r->user_ios_in_flight || storms_in_flight(r->storms) || r->losers_in_flight ||
	    r->explorations_in_flight)
		return;
	ring_close(&r->ring);
	sources_close(&r->sources);
	for (unsigned int k = 0; k < r->n_drives; k++) {
		content_free(&r->contents[k]);
		latency_free(&r->drive_latency[k]);
		device_close(&r->devices[k]);
	}
	latency_free(&r->read_latency);
	latency_free(&r->write_latency);
	latency_free(&r->read_response);
	latency_free(&r->write_response);
	latency_free(&r->lag);
	series_free(r->series);
}
