// SPDX-License-Identifier: MIT
/* A run with one or several submitters: see engine.h. */
#include "engine.h"
#include "attempts.h"
#include "buffers.h"
#include "drive/splitmix.h"
#include "error.h"
#include "loop.h"
#include "results/progress.h"
#include "slow/inject.h"
#include "thread.h"

#include <pthread.h>
#include <string.h>

/* A thread with a ring, a share of the I/Os, and all state that depends on them. */
struct submitter {
	pthread_t thread;
	struct replay replay;
};

/* All submitters except the first, which is the main thread. */
struct team {
	const struct replay *first;
	pthread_barrier_t barrier; /* reached by all when prepared; then the run begins */
	unsigned int n;
	struct submitter *submitters;
};

static struct team team;

static uint64_t smallest_bytes(const struct replay *r)
{
	uint64_t bytes = UINT64_MAX;

	for (unsigned int k = 0; k < r->n_drives; k++)
		if (r->devices[k].size_bytes < bytes)
			bytes = r->devices[k].size_bytes;
	return bytes - bytes % BLOCK_BYTES;
}

/* With N threads, each takes one of N I/Os, and the same share of all limits. */
static void take_share(struct replay *r, unsigned int share)
{
	unsigned int n = r->o.threads;

	r->depth = r->o.depth / n + (share < r->o.depth % n);
	r->orphans_limit = r->o.max_orphans / n;
	r->hedge_budget.burst = r->o.hedge_burst / n;
	r->random_state = share ? splitmix_mix(r->o.seed + share) : r->o.seed;
	r->sources.n_shares = n;
	r->sources.share = share;
}

void engine_setup(struct replay *r)
{
	r->depth = r->o.depth;
	loop_open(r, NULL);
	r->sources = (struct sources){.o = &r->o,
				      .n_drives = r->n_drives,
				      .limit_bytes = smallest_bytes(r),
				      .n_shares = 1};
	r->contents = xcalloc(r->n_drives, sizeof(*r->contents));
	for (unsigned int k = 0; k < r->n_drives; k++)
		content_init(&r->contents[k], r->o.seed, r->o.replicate_writes ? 0 : k,
			     r->devices[k].size_bytes / BLOCK_BYTES,
			     r->o.unwritten == UNWRITTEN_ZERO);
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
	/* Without the trace's times, all I/Os may be due at once, limited by --depth. */
	buffers_expect(r->buffers, r->o.saturate ? 0 : io->at_ns, io->size_bytes);
	if (scan->visit)
		scan->visit(scan->context, trace, io);
}

void engine_scan(struct replay *r, scan_visit *visit, void *context)
{
	struct scan scan = {.r = r, .visit = visit, .context = context};

	sources_scan(&r->sources, expect_buffers, &scan);
}

static void *submit(void *submitter)
{
	struct replay *r = &((struct submitter *)submitter)->replay;
	struct progress none = {.quiet = true};

	loop_open(r, team.first);
	loop_prepare(r);
	pthread_barrier_wait(&team.barrier);
	pthread_barrier_wait(&team.barrier);
	r->start_ns = team.first->start_ns;
	r->ring.now_ns = ring_monotonic_ns();
	loop_run(r, &none);
	loop_close(r);
	return NULL;
}

/* The other submitters start as copies of the first one, which has scanned all I/Os. */
static void team_prepare(struct replay *first)
{
	static pthread_mutex_t results_lock = PTHREAD_MUTEX_INITIALIZER;

	team.first = first;
	team.n = first->o.threads - 1;
	if (!team.n)
		return;
	team.submitters = xcalloc(team.n, sizeof(*team.submitters));
	pthread_barrier_init(&team.barrier, NULL, team.n + 1);
	first->results_lock = &results_lock;
	for (unsigned int i = 0; i < team.n; i++) {
		struct replay *r = &team.submitters[i].replay;
		struct sources sources = {.o = &r->o,
					  .n_drives = first->n_drives,
					  .limit_bytes = first->sources.limit_bytes,
					  .loops = first->sources.loops,
					  .loop_ns = first->sources.loop_ns};
		int error;

		*r = *first;
		r->sources = sources;
		r->free_ios = NULL;
		r->free_attempts = NULL;
		memset(&r->timers, 0, sizeof(r->timers));
		memset(&r->c, 0, sizeof(r->c));
		take_share(r, i + 1);
		/* Only the first thread handles signals. */
		error = thread_begin(&team.submitters[i].thread, submit, &team.submitters[i]);
		if (error)
			die("--threads %u: %s", first->o.threads, strerror(-error));
	}
	pthread_barrier_wait(&team.barrier);
}

/* Add the results of another submitter to those of the first. */
static void take_results(struct replay *first, struct replay *r)
{
	uint64_t *into = (uint64_t *)&first->c, *from = (uint64_t *)&r->c;
	uint64_t orphans_max = first->c.orphans_max;

	for (unsigned int i = 0; i < sizeof(first->c) / sizeof(*into); i++)
		into[i] += from[i];
	first->c.orphans_max = orphans_max > r->c.orphans_max ? orphans_max : r->c.orphans_max;
	for (unsigned int i = 0; i < N_LATENCIES; i++)
		latency_merge(&first->latency[i], &r->latency[i]);
	for (unsigned int k = 0; k < r->n_drives; k++)
		latency_merge(&first->drive_latency[k], &r->drive_latency[k]);
	first->sources.realigned += r->sources.realigned;
	first->sources.folded += r->sources.folded;
	if (r->end_ns > first->end_ns)
		first->end_ns = r->end_ns;
	if (r->stop_reason && (!first->stop_reason || r->c.timed_out))
		first->stop_reason = r->stop_reason;
}

static void team_end(struct replay *first)
{
	for (unsigned int i = 0; i < team.n; i++) {
		struct replay *r = &team.submitters[i].replay;

		pthread_join(team.submitters[i].thread, NULL);
		take_results(first, r);
		loop_free(r);
	}
}

void engine_run(struct replay *r)
{
	struct progress progress;

	take_share(r, 0);
	loop_prepare(r);
	team_prepare(r);
	r->start_ns = ring_wait_for_round_time(&r->ring, r->o.start_every_s * 1e9);
	inject_arm(r->inject);
	if (team.n)
		pthread_barrier_wait(&team.barrier);
	progress_start(&progress, r, r->start_ns);
	loop_run(r, &progress);
	team_end(r);
	progress_end(&progress);
	inject_disarm(r->inject);
}

void engine_close(struct replay *r)
{
	if (!loop_close(r))
		return;
	loop_free(r);
	for (unsigned int k = 0; k < r->n_drives; k++) {
		content_free(&r->contents[k]);
		device_close(&r->devices[k]);
	}
}
