/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: slowness put on top, by pattern.
 */
#ifndef FLASHSIM_INJECT_H
#define FLASHSIM_INJECT_H

#include <linux/types.h>

/* Which I/Os injection hits, see inject.c. */
enum flashsim_pattern {
	FLASHSIM_INJECT_NONE,
	FLASHSIM_INJECT_RANDOM,
	FLASHSIM_INJECT_CONTINUOUS,
	FLASHSIM_INJECT_INTERVAL,
};

/**
 * struct flashsim_inject - slowness put on top of the drive's own, see inject.c
 * @pattern: which I/Os are hit
 * @ops: mask of FLASHSIM_OP_*
 * @ratio_ppm: share of matching I/Os hit
 * @period_ios: length of the cycle of the continuous pattern
 * @interval: distance between hits of the interval pattern
 * @latency_us: time added to an I/O that is hit
 * @window_start_us: when the first active window opens, after arming
 * @window_us: how long it is open; 0: always active
 * @window_every_us: from one window's opening to the next; 0: there is one
 * @armed: injection is on
 * @armed_ns: when it was armed, the zero of the window clock
 * @matched: matching I/Os seen since then
 */
struct flashsim_inject {
	enum flashsim_pattern pattern;
	u32 ops;
	u64 ratio_ppm;
	u64 period_ios;
	u64 interval;
	u64 latency_us;
	u64 window_start_us;
	u64 window_us;
	u64 window_every_us;
	bool armed;
	u64 armed_ns;
	u64 matched;
};

void flashsim_inject_init(struct flashsim_inject *inj);
void flashsim_inject_arm(struct flashsim_inject *inj, bool on, u64 now);
u64 flashsim_inject_peek(const struct flashsim_inject *inj, u64 seed, u32 op,
			 u64 now);
u64 flashsim_inject_next(struct flashsim_inject *inj, u64 seed, u32 op,
			 u64 now);

#endif /* FLASHSIM_INJECT_H */
