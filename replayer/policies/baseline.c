// SPDX-License-Identifier: MIT
/* baseline: every read goes to its home drive, and waits for it. */
#include "engine/attempts.h"
#include "policy.h"

static void baseline_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, io->home, SEND_PLAIN);
}

const struct policy policy_baseline = {
	.name = "baseline",
	.help = "the home drive, however long it takes",
	.read = baseline_read,
};
