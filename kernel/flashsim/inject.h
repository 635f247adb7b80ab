/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: additional latency, by pattern, shape, place and time. */
#ifndef FLASHSIM_INJECT_H
#define FLASHSIM_INJECT_H

#include <linux/time64.h>
#include <linux/types.h>

/* The maximum of latency_us and of a Pareto value. */
#define FLASHSIM_INJECT_MAX_US	(60 * USEC_PER_SEC)

/* The maximum number of turns of windows: the bits of a mask. */
#define FLASHSIM_INJECT_MAX_TURNS	64

/* The time for which a sector's Pareto value stays the same. */
#define FLASHSIM_INJECT_DRAW_NS	(10 * NSEC_PER_MSEC)

/* The I/Os that are hit, see inject.c. */
enum flashsim_pattern {
	FLASHSIM_INJECT_NONE,
	FLASHSIM_INJECT_ALL,
	FLASHSIM_INJECT_RANDOM,
	FLASHSIM_INJECT_CONTINUOUS,
	FLASHSIM_INJECT_INTERVAL,
};

/* The latency that is added to them, see inject.c. */
enum flashsim_shape {
	FLASHSIM_INJECT_CONSTANT,
	FLASHSIM_INJECT_RAMP,
	FLASHSIM_INJECT_QUEUE,
	FLASHSIM_INJECT_PARETO,
};

/**
 * struct flashsim_inject - latency added to the drive's own, see inject.c
 * @pattern: which I/Os are hit
 * @shape: how much latency is added
 * @op: mask of FLASHSIM_OP_
 * @ratio_ppm: fraction of matching I/Os that are hit
 * @period_ios: length of the cycle of the continuous pattern
 * @interval: distance between hits of the interval pattern
 * @latency_us: latency added to an I/O that is hit: at the ramp's peak, at the
 *	queue shape's depth, as the Pareto distribution's median
 * @at_depth: queue: number of I/Os in the drive for which latency_us is added
 * @tail_milli: Pareto: the tail index, in thousandths
 * @region_sector: first sector of the slow region
 * @region_sectors: its length; 0 for the whole drive
 * @window_start_us: start of the first window, after arming
 * @window_us: length of a window; 0 for always
 * @window_every_us: from the start of one window to the next; 0 for a single
 *	window
 * @window_turns: number of turns in which windows are assigned to drives
 * @window_turn_mask: the turns of this drive
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
 * struct flashsim_inject_io - the properties of an I/O that injection uses
 * @op: FLASHSIM_OP_READ or FLASHSIM_OP_WRITE
 * @sector: first sector
 * @nr_sectors: number of sectors
 * @in_flight: other requests in the drive when this one reaches it
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
