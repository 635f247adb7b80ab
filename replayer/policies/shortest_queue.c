// SPDX-License-Identifier: MIT
/*
 * Policies that count the I/O in flight. Like load balancers, they need no training and have no
 * settings.
 *
 *	fewest			the replica with the fewest I/Os in flight
 *	shortest-queue		the replica with the fewest pending 4 KiB pages
 *	shortest-queue-h95	the same, hedged to the shortest queue among the drives that were
 *				not tried yet
 *
 * Only I/Os of this replayer count, which is all that an application can know. A read counts from
 * the moment of its decision, so that reads due at the same time are distributed.
 */
#include "engine/attempts.h"
#include "hedging.h"
#include "policy.h"
#include "score.h"

static double pending_pages(const struct replay *r, unsigned int drive)
{
	return r->pending_pages[drive];
}

static double in_flight(const struct replay *r, unsigned int drive)
{
	return r->in_flight[drive];
}

const struct policy policy_fewest = {
	.name = "fewest",
	.help = "the replica with the fewest I/Os in flight, as md raid1 counts them",
	.score = in_flight,
	.read = score_read,
};

const struct policy policy_shortest_queue = {
	.name = "shortest-queue",
	.help = "the replica with the fewest pending 4 KiB pages",
	.score = pending_pages,
	.read = score_read,
};

static void shortest_queue_h95_read(struct replay *r, struct io *io)
{
	score_read(r, io);
	hedging_arm(r, io);
}

static void shortest_queue_h95_timer(struct replay *r, struct io *io)
{
	int drive = score_lowest(r, io, io->tried);

	if (drive < 0)
		hedging_fire(r, io, SEND_PLAIN);
	else
		hedging_send(r, io, drive, SEND_PLAIN);
}

const struct policy policy_shortest_queue_h95 = {
	.name = "shortest-queue-h95",
	.help = "shortest-queue, and hedging at p95 (or --hedge-us, --hedge-percentile)",
	.hedge_percentile = 95,
	.score = pending_pages,
	.read = shortest_queue_h95_read,
	.timer = shortest_queue_h95_timer,
};
