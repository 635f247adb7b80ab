// SPDX-License-Identifier: MIT
/* hedge-ip: hedging at the inflection point of the home drive's model, the latency from which a
 * read counts as slow. */
#include "engine.h"
#include "hedging.h"

static void hedge_ip_read(struct replay *r, struct user_io *io)
{
	attempt_send(r, io, io->home, SEND_PLAIN);
	hedging_arm(r, io);
}

static void hedge_ip_timer(struct replay *r, struct user_io *io)
{
	hedging_fire(r, io, SEND_PLAIN);
}

const struct policy policy_hedge_ip = {
	.name = "hedge-ip",
	.help = "hedging at the model's inflection point (sysfs threshold_us, or --hedge-us)",
	.setup = hedging_setup_threshold,
	.read = hedge_ip_read,
	.timer = hedge_ip_timer,
};
