// SPDX-License-Identifier: MIT
/*
 * heuristic: the queue length tells. A drive with more pending 4 KiB pages than the limit, this
 * read included, is taken to be slow; the read goes to the first replica from home on that is not,
 * or to the last one.
 *
 * The pending pages are those this replayer has at the drive, which is all an application can know.
 * The limit is
 * --heuristic-queue, else the p95 of the queue lengths that the reads of --profile met.
 */
#include "engine/attempts.h"
#include "policy.h"
#include "error.h"
#include "queue_limit.h"

static void heuristic_read(struct replay *r, struct io *io)
{
	unsigned int drive = io->home;

	for (unsigned int i = 0; i < r->n_drives; i++) {
		drive = (io->home + i) % r->n_drives;
		if (!queue_is_long(r, io, drive))
			break;
	}
	attempt_send(r, io, drive, SEND_PLAIN);
}

const struct policy policy_heuristic = {
	.name = "heuristic",
	.help = "a drive with a long queue is passed over (--heuristic-queue PAGES, or --profile)",
	.setup = queue_limit_setup,
	.read = heuristic_read,
};
