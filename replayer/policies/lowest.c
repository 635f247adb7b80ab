// SPDX-License-Identifier: MIT
/*
 * lowest: before a drive is asked, a model of each drive predicts how long this read would take
 * there, and it goes to the lowest prediction. The drives need no support for it.
 */
#include "policy.h"
#include "prediction.h"

const struct policy policy_lowest = {
	.name = "lowest",
	.help = "the replica with the lowest predicted latency (--latency-model), on any kernel",
	.setup = prediction_setup,
	.read = prediction_read,
	.timer = prediction_timer,
	.answered = prediction_answered,
};
