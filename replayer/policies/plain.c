// SPDX-License-Identifier: MIT
/* Policies that ignore the state of the drives. */
#include "drive/splitmix.h"
#include "engine/attempts.h"
#include "policy.h"

static void baseline_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, io->default_drive, SEND_PLAIN);
}

const struct policy policy_baseline = {
	.name = "baseline",
	.help = "the default drive, however long it takes",
	.read = baseline_read,
};

static void random_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, splitmix_next(&r->random_state) % r->n_drives, SEND_PLAIN);
}

const struct policy policy_random = {
	.name = "random",
	.help = "a replica chosen at random (--seed)",
	.read = random_read,
};

/*
 * The tail latency is reduced at the cost of twice the read load. A drive with the maximum number
 * of orphaned reads (--max-orphans) is left out.
 */
static void clone_read(struct replay *r, struct io *io)
{
	unsigned int copies = r->n_drives < 2 ? 1 : 2;

	for (unsigned int i = 0; i < copies; i++) {
		unsigned int drive = drive_after_default(r, io, i);

		if (!orphans_full(r, drive))
			attempt_send(r, io, drive, SEND_PLAIN);
	}
	if (!io->sent)
		attempt_send(r, io, io->default_drive, SEND_PLAIN);
	r->c.copies_denied += copies - io->sent;
}

const struct policy policy_clone = {
	.name = "clone",
	.help = "the default drive and the next replica at once; the first answer counts",
	.read = clone_read,
};
