// SPDX-License-Identifier: MIT
/*
 * prequal: the rule that Prequal uses to choose a server (Wydrowski et al., "Load is not what you
 * should balance: Introducing Prequal", NSDI 2024), based on this program's own counters.
 *
 *	requests in flight at the drive > a quantile of recent values ──► hot, otherwise cold
 *
 *	any drive is cold:    the lowest estimated latency of the cold drives
 *	all drives are hot:   the fewest requests in flight
 *
 * The estimate is the median of the drive's recent latencies of reads that met about the same
 * number of requests in flight as there are now.
 *
 * In the paper, servers count and estimate; clients get the values by probes, which expire and are
 * used up, and choose among a few servers. This program sends all of the array's I/Os, so for every
 * read it knows the result of a probe of each drive. The load of other programs is visible only in
 * the latencies.
 */
#include "engine/attempts.h"
#include "error.h"
#include "policy.h"
#include "rankings.h"
#include "results/io_log.h"
#include "score.h"

#include <stdlib.h>

/*
 * The number of samples for the quantile. With three drives these are the last 80 reads, few enough
 * to follow a burst of requests and enough to limit noise.
 */
#define SAMPLES 240u
/* Higher numbers of requests in flight are treated as equal. */
#define RIF_MAX 1023u
/*
 * The number of latencies that are remembered, and the number of those, nearest by requests in
 * flight, that the median is taken of. It is the smallest number for which two outliers do not
 * matter.
 */
#define LATENCIES 64u
#define NEAREST 5u

struct answer {
	uint32_t met;
	uint32_t latency_us;
};

struct estimator { /* of one drive */
	struct answer last[LATENCIES];
	uint64_t n;
	uint64_t last_completion_ns;
};

struct prequal {
	struct estimator drives[MAX_DRIVES];
	uint16_t samples[SAMPLES];
	uint32_t n_with[RIF_MAX + 1]; /* histogram of the samples, by requests in flight */
	uint64_t n_samples;
};

static void prequal_setup(struct replay *r)
{
	r->policy_state = xcalloc(1, sizeof(struct prequal));
}

static uint32_t in_flight(const struct replay *r, unsigned int drive)
{
	return r->in_flight[drive] < RIF_MAX ? r->in_flight[drive] : RIF_MAX;
}

static void add_sample(struct prequal *p, uint32_t requests)
{
	uint16_t *oldest = &p->samples[p->n_samples % SAMPLES];

	if (p->n_samples++ >= SAMPLES)
		p->n_with[*oldest]--;
	*oldest = requests;
	p->n_with[requests]++;
}

/* Return the maximum number of requests in flight of a cold drive. */
static uint32_t cold_max(const struct prequal *p)
{
	uint32_t rank =
		nearest_rank(p->n_samples < SAMPLES ? p->n_samples : SAMPLES, PREQUAL_HOT_QUANTILE);
	uint32_t requests = 0, n = p->n_with[0];

	while (n < rank)
		n += p->n_with[++requests];
	return requests;
}

static uint32_t distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

static int by_latency(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Return the median latency with about this number of requests; UINT32_MAX if there is none. */
static uint32_t estimate_us(const struct estimator *e, uint32_t requests)
{
	unsigned int n = e->n < LATENCIES ? e->n : LATENCIES, n_near = 0;
	uint32_t near[LATENCIES], far, next = 0;

	/* Increase the distance until there are enough samples. */
	do {
		far = next;
		next = UINT32_MAX;
		n_near = 0;
		for (unsigned int i = 0; i < n; i++) {
			uint32_t d = distance(e->last[i].met, requests);

			if (d <= far)
				near[n_near++] = e->last[i].latency_us;
			else if (d < next)
				next = d;
		}
	} while (n_near < NEAREST && n_near < n);
	if (!n_near)
		return UINT32_MAX;
	qsort(near, n_near, sizeof(*near), by_latency);
	return near[(n_near - 1) / 2];
}

static uint32_t expected_us(const struct replay *r, unsigned int drive)
{
	const struct estimator *e = &((const struct prequal *)r->policy_state)->drives[drive];

	if (is_stale(r, drive, e->last_completion_ns))
		return 0;
	return estimate_us(e, in_flight(r, drive));
}

static void prequal_read(struct replay *r, struct io *io)
{
	struct prequal *p = r->policy_state;
	unsigned int chosen = io->default_drive;
	uint32_t limit, chosen_us = UINT32_MAX;
	bool some_cold = false;

	for (unsigned int k = 0; k < r->n_drives; k++)
		add_sample(p, in_flight(r, k));
	limit = cold_max(p);
	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = drive_after_default(r, io, i);
		bool cold = in_flight(r, drive) <= limit;
		bool fewer = r->in_flight[drive] < r->in_flight[chosen];
		uint32_t us = cold ? expected_us(r, drive) : UINT32_MAX;

		if (cold ? !some_cold || us < chosen_us || (us == chosen_us && fewer)
			 : !some_cold && fewer) {
			chosen = drive;
			chosen_us = us;
			some_cold = cold;
		}
	}
	attempt_send(r, io, chosen, SEND_PLAIN);
}

static void prequal_answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct prequal *p = r->policy_state;
	struct estimator *e = &p->drives[a->drive];

	e->last[e->n++ % LATENCIES] = (struct answer){
		.met = a->met < RIF_MAX ? a->met : RIF_MAX,
		.latency_us = saturate_u32((r->done_ns - a->submit_ns) / 1000),
	};
	e->last_completion_ns = r->ring.now_ns;
}

const struct policy policy_prequal = {
	.name = "prequal",
	.help = "Prequal's rule (NSDI 2024): the lowest estimated latency among the drives without "
		"a long queue, otherwise the shortest queue",
	.setup = prequal_setup,
	.read = prequal_read,
	.answered = prequal_answered,
};
