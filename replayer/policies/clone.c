// SPDX-License-Identifier: MIT
/* clone: every read goes to the home drive and to the next replicas at once; the first answer wins.
 * It buys its tail with twice the read load (--clone-copies 2) or more. */
#include "engine.h"

static void clone_read(struct replay *r, struct user_io *io)
{
	for (unsigned int i = 0; i < r->o.clone_copies && i < r->n_drives; i++)
		attempt_send(r, io, (io->home + i) % r->n_drives, SEND_PLAIN);
}

const struct policy policy_clone = {
	.name = "clone",
	.help = "the home drive and the next replica at once, first answer wins (--clone-copies)",
	.read = clone_read,
};
