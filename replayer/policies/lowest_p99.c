// SPDX-License-Identifier: MIT
/* lowest-p99: lowest, and hedging a read at the p99 of those that were predicted to take as long.
 */
#include "policy.h"
#include "prediction.h"

static void lowest_p99_setup(struct replay *r)
{
	prediction_setup(r);
	prediction_setup_hedging(r);
}

const struct policy policy_lowest_p99 = {
	.name = "lowest-p99",
	.help = "lowest, and hedging at the p99 of what is predicted (--hedge-table)",
	.setup = lowest_p99_setup,
	.read = prediction_read,
	.timer = prediction_timer,
	.answered = prediction_answered,
};
