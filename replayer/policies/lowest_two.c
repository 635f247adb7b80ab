// SPDX-License-Identifier: MIT
/* lowest-two: lowest, and the next lowest prediction as well, at once, later or never, by what that
 * is expected to gain and what it costs others (race.h). */
#include "policy.h"
#include "prediction.h"

const struct policy policy_lowest_two = {
	.name = "lowest-two",
	.help = "lowest, and a second replica as well, at once or later, where that gains most",
	.setup = prediction_setup_two,
	.read = prediction_read,
	.timer = prediction_timer,
	.answered = prediction_answered,
};
