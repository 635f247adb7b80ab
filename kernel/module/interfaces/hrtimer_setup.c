// SPDX-License-Identifier: GPL-2.0-only
/* Since 6.13, a timer is initialised together with its function. */
#include <linux/hrtimer.h>

static void __maybe_unused
linnos_test(struct hrtimer *timer,
	    enum hrtimer_restart (*function)(struct hrtimer *))
{
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}
