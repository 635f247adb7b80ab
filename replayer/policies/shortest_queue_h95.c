// SPDX-License-Identifier: MIT
/* shortest-queue-h95: shortest-queue, and hedging at p95 of the usual latency, at the shortest
 * queue among the drives that were not asked yet. */
#include "engine/attempts.h"
#include "hedging.h"
#include "policy.h"
#include "shortest.h"

static void shortest_queue_h95_setup(struct replay *r)
{
	hedging_setup_percentile(r, 95);
}

static void shortest_queue_h95_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, shortest_queue(r, io, 0), SEND_PLAIN);
	hedging_arm(r, io);
}

static void shortest_queue_h95_timer(struct replay *r, struct io *io)
{
	int drive = shortest_queue(r, io, io->tried);

	if (drive < 0)
		hedging_fire(r, io, SEND_PLAIN);
	else
		hedging_send(r, io, drive, SEND_PLAIN);
}

const struct policy policy_shortest_queue_h95 = {
	.name = "shortest-queue-h95",
	.help = "shortest-queue, and hedging at p95 (or --hedge-us, --hedge-percentile)",
	.setup = shortest_queue_h95_setup,
	.read = shortest_queue_h95_read,
	.timer = shortest_queue_h95_timer,
};
