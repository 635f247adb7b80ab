// SPDX-License-Identifier: MIT
/*
 * c3: the ranking that C3 uses to choose a replica (Suresh et al., "C3: Cutting Tail Latency in
 * Cloud Data Stores via Adaptive Replica Selection", NSDI 2015), based on this program's own
 * counters. The drive with the lowest score is read:
 *
 *	score = response - service + queue^3 * service
 *	queue = 1 + outstanding * clients + waiting
 *
 * The cube keeps the queue lengths of drives with different speeds closer together than their
 * speeds. A fast drive does not get a queue that would take long if the drive became slow.
 *
 * The terms are defined as follows; all but outstanding and clients are moving averages:
 *
 *	response       the latency of a read
 *	service        the time from the submission or the drive's previous answer, whichever is
 *	               later, to the answer. For a drive without parallelism it is the time per
 *	               read, for others the interval at which reads leave the queue.
 *	outstanding    this program's I/Os at the drive, including writes
 *	clients        1, because no other client reads there
 *	waiting        this program's I/Os at the drive when it answers
 *
 * In the paper, servers measure service and waiting and send them with each answer. C3 also limits
 * the rate at which each client sends to a server, for the benefit of other clients. There are no
 * other clients here, so nothing is limited.
 */
#include "engine/attempts.h"
#include "error.h"
#include "policy.h"
#include "rankings.h"
#include "score.h"

/* The weight of each new answer in the average: about the last ten answers count. */
#define WEIGHT 0.1

struct average {
	double value;
	bool known;
};

struct ranked { /* one drive */
	struct average response_us, service_us, waiting;
	uint64_t last_completion_ns;
};

static void c3_setup(struct replay *r)
{
	r->policy_state = xcalloc(r->n_drives, sizeof(struct ranked));
}

static void average_add(struct average *a, double value)
{
	a->value = a->known ? (1 - WEIGHT) * a->value + WEIGHT * value : value;
	a->known = true;
}

static double c3_drive_score(const struct replay *r, unsigned int drive)
{
	const struct ranked *d = (const struct ranked *)r->policy_state + drive;
	double queue = 1 + r->in_flight[drive] + d->waiting.value;

	/*
	 * In the paper's stores, low-ranked replicas are measured as well, because some reads go to
	 * all replicas.
	 */
	if (is_stale(r, drive, d->last_completion_ns))
		return 0;
	return c3_score(d->response_us.value, d->service_us.value, queue);
}

static void c3_answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct ranked *d = (struct ranked *)r->policy_state + a->drive;
	uint64_t begun_ns =
		a->submit_ns > d->last_completion_ns ? a->submit_ns : d->last_completion_ns;

	average_add(&d->response_us, (double)(r->done_ns - a->submit_ns) / 1000);
	average_add(&d->service_us, (double)(r->done_ns - begun_ns) / 1000);
	average_add(&d->waiting, r->in_flight[a->drive]);
	d->last_completion_ns = r->done_ns;
}

const struct policy policy_c3 = {
	.name = "c3",
	.help = "C3's ranking (NSDI 2015): the lowest score of response time and cubed queue, by "
		"moving averages",
	.setup = c3_setup,
	.score = c3_drive_score,
	.read = score_read,
	.answered = c3_answered,
};
