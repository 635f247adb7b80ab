// SPDX-License-Identifier: MIT
/* lowest-h95: lowest, and hedging at p95 of the usual latency, at the next lowest prediction. */
#include "hedging.h"
#include "policy.h"
#include "prediction.h"

static void lowest_h95_setup(struct replay *r)
{
	prediction_setup(r);
	hedging_setup_percentile(r, 95);
}

const struct policy policy_lowest_h95 = {
	.name = "lowest-h95",
	.help = "lowest, and hedging at p95 (or --hedge-us, --hedge-percentile)",
	.setup = lowest_h95_setup,
	.read = prediction_read,
	.timer = prediction_timer,
};
