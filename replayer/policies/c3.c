// SPDX-License-Identifier: MIT
/*
 * c3: the ranking by which C3 chooses a replica (Suresh et al., "C3: Cutting Tail Latency in Cloud
 * Data Stores via Adaptive Replica Selection", NSDI 2015), on this program's own counters. The
 * lowest score is read:
 *
 *	score = response - service + queue^3 * service
 *	queue = 1 + outstanding * clients + waiting
 *
 * The cube makes drives of different speeds have queues less different than their speeds: a fast
 * one is not given a queue that would take long should it become slow.
 *
 * What they are here; of all but outstanding there are moving averages:
 *
 *	response       a read's latency
 *	service        from the later of its submission and the drive's last answer to its own
 *	               answer: of a drive that does one after another how long each takes, of one
 *	               that does many the time in which one of them leaves the queue
 *	outstanding    this program's I/Os at the drive, writes as well
 *	clients        1: nobody else reads there
 *	waiting        this program's I/Os that an answer left behind at the drive
 *
 * In the paper, servers measure service and waiting and send them along with each answer. C3 also
 * limits the rate that each client sends to a server, for the sake of the other clients: there are
 * none here, and nothing is limited.
 */
#include "engine/attempts.h"
#include "error.h"
#include "policy.h"
#include "stale.h"

/* Of the average each answer replaces so much: the last ten answers, about. */
#define WEIGHT 0.1

struct average {
	double value;
	bool known;
};

struct ranked { /* one drive */
	struct average response_us, service_us, waiting;
	uint64_t heard_ns;
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

static double score(const struct replay *r, unsigned int drive)
{
	const struct ranked *d = (const struct ranked *)r->policy_state + drive;
	double queue = 1 + r->in_flight[drive] + d->waiting.value;

	/* The paper's stores hear of those that rank last, too: some reads go to all replicas. */
	if (is_stale(r, drive, d->heard_ns))
		return 0;
	return d->response_us.value - d->service_us.value +
	       queue * queue * queue * d->service_us.value;
}

static void c3_read(struct replay *r, struct io *io)
{
	unsigned int lowest = io->home;

	for (unsigned int i = 1; i < r->n_drives; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (score(r, drive) < score(r, lowest))
			lowest = drive;
	}
	attempt_send(r, io, lowest, SEND_PLAIN);
}

static void c3_answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct ranked *d = (struct ranked *)r->policy_state + a->drive;
	uint64_t begun_ns = a->submit_ns > d->heard_ns ? a->submit_ns : d->heard_ns;

	average_add(&d->response_us, (double)(r->done_ns - a->submit_ns) / 1000);
	average_add(&d->service_us, (double)(r->done_ns - begun_ns) / 1000);
	average_add(&d->waiting, r->in_flight[a->drive]);
	d->heard_ns = r->done_ns;
}

const struct policy policy_c3 = {
	.name = "c3",
	.help = "C3's ranking (NSDI 2015): the lowest response time and cubed queue, by moving "
		"averages",
	.keeps_count = true,
	.setup = c3_setup,
	.read = c3_read,
	.answered = c3_answered,
};
