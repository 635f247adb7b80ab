// SPDX-License-Identifier: MIT
/* hedge-ip: hedging at the inflection point of the home drive's model, the latency from which a
 * read counts as slow. */
#include "hedging.h"
#include "policy.h"

const struct policy policy_hedge_ip = {
	.name = "hedge-ip",
	.help = "hedging at the model's inflection point (sysfs threshold_us, or --hedge-us)",
	.setup = hedging_setup_threshold,
	.read = hedging_read,
	.timer = hedging_timer,
};
