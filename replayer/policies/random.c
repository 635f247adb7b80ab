// SPDX-License-Identifier: MIT
/* random: every read goes to a replica drawn from the seed. */
#include "engine/attempts.h"
#include "policy.h"
#include "drive/splitmix.h"

static void random_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, splitmix_next(&r->random_state) % r->n_drives, SEND_PLAIN);
}

const struct policy policy_random = {
	.name = "random",
	.help = "a replica drawn from --seed",
	.read = random_read,
};
