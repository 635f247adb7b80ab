// SPDX-License-Identifier: MIT
/*
 * ewma-inflight: the drive with the lowest product of its mean latency and of its I/Os in flight,
 * this read included. The mean is an exponentially weighted moving average (EWMA). Load balancers
 * use this rule under the name "peak EWMA" or "least loaded by latency".
 */
#include "engine/attempts.h"
#include "error.h"
#include "policy.h"
#include "score.h"

/* The weight of each new latency: about the last ten count, as for c3. */
#define WEIGHT 0.1

struct tracked {	/* one drive */
	double mean_us; /* 0 before the first completion */
	uint64_t last_completion_ns;
};

static void ewma_setup(struct replay *r)
{
	r->policy_state = xcalloc(r->n_drives, sizeof(struct tracked));
}

/* A drive without recent completions is tried again. */
static double ewma_score(const struct replay *r, unsigned int drive)
{
	const struct tracked *d = (const struct tracked *)r->policy_state + drive;

	if (is_stale(r, drive, d->last_completion_ns))
		return 0;
	return d->mean_us * (1 + r->in_flight[drive]);
}

static void ewma_answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct tracked *d = (struct tracked *)r->policy_state + a->drive;
	double latency_us = (double)(r->done_ns - a->submit_ns) / 1000;

	d->mean_us += (d->mean_us > 0 ? WEIGHT : 1) * (latency_us - d->mean_us);
	d->last_completion_ns = r->done_ns;
}

const struct policy policy_ewma_inflight = {
	.name = "ewma-inflight",
	.help = "the replica with the lowest product of mean latency, a moving average, and I/Os "
		"in flight",
	.setup = ewma_setup,
	.score = ewma_score,
	.read = score_read,
	.answered = ewma_answered,
};
