// SPDX-License-Identifier: MIT
/* hedge: the home drive first; when it has not answered by a percentile of the usual latency (p95),
 * the next replica as well. The tail beyond the percentile becomes the percentile plus another
 * drive's latency. */
#include "hedging.h"
#include "policy.h"

static void hedge_setup(struct replay *r)
{
	hedging_setup_percentile(r, 95);
}

const struct policy policy_hedge = {
	.name = "hedge",
	.help = "a second replica when the first has not answered by p95 (--hedge-percentile, "
		"--hedge-us)",
	.setup = hedge_setup,
	.read = hedging_read,
	.timer = hedging_timer,
};
