// SPDX-License-Identifier: MIT
/* lowest-h95: lowest, and hedging at p95 of the usual latency, at the next lowest prediction. */
#include "policy.h"
#include "prediction.h"

const struct policy policy_lowest_h95 = {
	.name = "lowest-h95",
	.help = "lowest, and hedging at p95 (or --hedge-us, --hedge-percentile)",
	.setup = prediction_setup_h95,
	.read = prediction_read,
	.timer = prediction_timer,
	.answered = prediction_answered,
};
