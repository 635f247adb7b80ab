// SPDX-License-Identifier: MIT
/* hedge: the home drive first; when it has not answered by a percentile of the usual latency (p95),
 * the next replica as well. The tail beyond the percentile becomes the percentile plus another
 * drive's latency. */
#include "engine.h"
#include "hedging.h"

static void hedge_setup(struct replay *r)
{
	hedging_setup_percentile(r, 95);
}

static void hedge_read(struct replay *r, struct user_io *io)
{
	attempt_send(r, io, io->home, SEND_PLAIN);
	hedging_arm(r, io);
}

static void hedge_timer(struct replay *r, struct user_io *io)
{
	hedging_fire(r, io, SEND_PLAIN);
}

const struct policy policy_hedge = {
	.name = "hedge",
	.help = "a second replica when the first has not answered by p95 (--hedge-percentile, "
		"--hedge-us)",
	.setup = hedge_setup,
	.read = hedge_read,
	.timer = hedge_timer,
};
