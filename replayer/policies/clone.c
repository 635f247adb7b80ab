// SPDX-License-Identifier: MIT
/* clone: every read goes to the home drive and to the next replicas at once; the first answer wins.
 * It buys its tail with twice the read load (--clone-copies 2) or more. A drive that holds --losers
 * lost reads is left out. */
#include "engine/attempts.h"
#include "policy.h"

static void clone_read(struct replay *r, struct io *io)
{
	unsigned int copies = r->o.clone_copies < r->n_drives ? r->o.clone_copies : r->n_drives;

	for (unsigned int i = 0; i < copies; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (!losers_full(r, drive))
			attempt_send(r, io, drive, SEND_PLAIN);
	}
	if (!io->sent)
		attempt_send(r, io, io->home, SEND_PLAIN);
	r->c.copies_denied += copies - io->sent;
}

const struct policy policy_clone = {
	.name = "clone",
	.help = "the home drive and the next replica at once, first answer wins (--clone-copies)",
	.read = clone_read,
};
