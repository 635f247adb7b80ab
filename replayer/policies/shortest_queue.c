// SPDX-License-Identifier: MIT
/*
 * shortest-queue: every read goes to the replica with the fewest pending 4 KiB pages, and of equal
 * ones to the first from home on. Nothing is learnt and nothing is set: what a balancer does. With
 * -h95 it is hedged, at the shortest queue among the drives that were not asked yet.
 *
 * The pending pages are those this replayer has at the drive, which is all an application can know.
 * A read counts from the moment it is decided on, so that reads due together spread.
 */
#include "engine/attempts.h"
#include "hedging.h"
#include "policy.h"

/* Of the drives whose bit is not in mask; -1 when all are. */
static int shortest_queue(const struct replay *r, const struct io *io, uint32_t mask)
{
	int shortest = -1;

	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (mask & 1u << drive)
			continue;
		if (shortest < 0 || r->pending_pages[drive] < r->pending_pages[shortest])
			shortest = drive;
	}
	return shortest;
}

static void shortest_queue_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, shortest_queue(r, io, 0), SEND_PLAIN);
}

const struct policy policy_shortest_queue = {
	.name = "shortest-queue",
	.help = "the replica with the fewest pending 4 KiB pages",
	.keeps_count = true,
	.read = shortest_queue_read,
};

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
	.keeps_count = true,
	.hedge_percentile = 95,
	.read = shortest_queue_h95_read,
	.timer = shortest_queue_h95_timer,
};
