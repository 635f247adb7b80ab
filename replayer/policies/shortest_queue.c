// SPDX-License-Identifier: MIT
/*
 * shortest-queue: every read goes to the replica with the fewest pending 4 KiB pages; in a tie, to
 * the first one from the default drive on. Like a load balancer, it has no training and no
 * settings. With -h95 it is hedged, to the shortest queue among the drives that were not tried yet.
 *
 * The pending pages are those of this replayer, which is all that an application can know. A read
 * counts from the moment of its decision, so that reads due at the same time are distributed.
 */
#include "engine/attempts.h"
#include "hedging.h"
#include "policy.h"

/* Return the drive with the shortest queue that is not in @mask; -1 if there is none. */
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
