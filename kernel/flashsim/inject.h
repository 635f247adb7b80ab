/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: slowness put on top, by pattern, shape, place and time.
 */
#ifndef FLASHSIM_INJECT_H
#define FLASHSIM_INJECT_H

#include <linux/time64.h>
#include <linux/types.h>

/* The longest latency_us, and the longest that a Pareto draw can be. */
#define FLASHSIM_INJECT_MAX_US	(60 * USEC_PER_SEC)

/* Turns that windows can be dealt in: the bits of a mask. */
#define FLASHSIM_INJECT_MAX_TURNS	64

/* For so long a sector's Pareto draw stays the same. */
#define FLASHSIM_INJECT_DRAW_NS	(10 * NSEC_PER_MSEC)

/* Which I/Os injection hits, see inject.c. */
enum flashsim_pattern {
	FLASHSIM_INJECT_NONE,
	FLASHSIM_INJECT_ALL,
	FLASHSIM_INJECT_RANDOM,
	FLASHSIM_INJECT_CONTINUOUS,
	FLASHSIM_INJECT_INTERVAL,
};

/* How much time it adds to them, see inject.c. */
enum flashsim_shape {
	FLASHSIM_INJECT_CONSTANT,
	FLASHSIM_INJECT_RAMP,
	FLASHSIM_INJECT_QUEUE,
	FLASHSIM_INJECT_PARETO,
};

/**
 * struct flashsim_inject - slowness put on top of the drive's own, see inject.c
 * @pattern: which I/Os are hit
 * @shape: how much time is added to them
 * @op: mask of FLASHSIM_OP_*
 * @ratio_ppm: share of matching I/Os hit
 * @period_ios: length of the cycle of the continuous pattern
 * @interval: distance between hits of the interval pattern
 * @latency_us: time added to an I/O that is hit: at the ramp's peak, at the
 *	queue shape's depth, at the Pareto distribution's median
 * @at_depth: queue: I/Os in the drive that make it latency_us
 * @tail_milli: Pareto: the tail index, in thousandths
 * @region_sector: first sector of the slow region
 * @region_sectors: its length; 0: the whole drive
 * @window_start_us: when the first window opens, after arming
 * @window_us: how long it is open; 0: always
 * @window_every_us: from one window's opening to the next; 0: there is one
 * @window_turns: the windows are dealt in so many turns
 * @window_turn_mask: which of them are this drive's
 * @armed: injection is on
 * @armed_ns: when it was armed, the zero of the window clock
 * @matched: matching I/Os seen since then
 */
struct flashsim_inject {
	enum flashsim_pattern pattern;
	enum flashsim_shape shape;
	u32 op;
	u64 ratio_ppm;
	u64 period_ios;
	u64 interval;
	u64 latency_us;
	u64 at_depth;
	u64 tail_milli;
	u64 region_sector;
	u64 region_sectors;
	u64 window_start_us;
	u64 window_us;
	u64 window_every_us;
	u64 window_turns;
	u64 window_turn_mask;
	bool armed;
	u64 armed_ns;
	u64 matched;
};

/**
 * struct flashsim_inject_io - what injection looks at
 * @op: FLASHSIM_OP_READ or FLASHSIM_OP_WRITE
 * @sector: first sector
 * @nr_sectors: how many
 * @in_flight: requests in the drive when this one reaches it, itself not counted
 */
struct flashsim_inject_io {
	u32 op;
	u64 sector;
	u32 nr_sectors;
	u32 in_flight;
};

void flashsim_inject_init(struct flashsim_inject *inj);
int flashsim_inject_arm(struct flashsim_inject *inj, bool on, u64 now);
u64 flashsim_inject_next(struct flashsim_inject *inj, u64 seed,
			 const struct flashsim_inject_io *io, u64 now);

#endif /* FLASHSIM_INJECT_H */
