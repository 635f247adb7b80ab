/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: additional latency, by pattern, shape, place and time. */
#ifndef FLASHSIM_INJECT_H
#define FLASHSIM_INJECT_H

#include <linux/time64.h>
#include <linux/types.h>

#include "flashsim.h"

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
 * @armed: injection is on
 * @armed_ns: when it was armed, the zero of the window clock
 * @matched: matching I/Os seen since then
 *
 * The other members are settings, see settings.h.
 */
struct flashsim_inject {
#define INJECT(_name, ...) u64 _name;
#define INJECT_WORD INJECT
#include "settings.h"
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
