// SPDX-License-Identifier: MIT
/*
 * shortest-queue: every read goes to the replica with the fewest pending 4 KiB pages, and of equal
 * ones to the first from home on. Nothing is learnt and nothing is set: what a balancer does.
 *
 * The pending pages are those this replayer has at the drive, which is all an application can know.
 * A read counts from the moment it is decided on, so that reads due together spread.
 */
#include "engine/attempts.h"
#include "policy.h"
#include "shortest.h"

static void shortest_queue_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, shortest_queue(r, io, 0), SEND_PLAIN);
}

const struct policy policy_shortest_queue = {
	.name = "shortest-queue",
	.help = "the replica with the fewest pending 4 KiB pages",
	.read = shortest_queue_read,
};
