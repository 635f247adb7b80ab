/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flash drive emulator: declarations shared by all parts.
 *
 *  config.c   the module and configfs: create drives, set their parameters,
 *             injection and fault rules
 *  settings.h the table of all settings and counters
 *  drive.h    a drive
 *  disk.c     the block device: receive requests, move data, complete requests
 *  stats.c    debugfs
 *  model.c    time: the write buffer, completion times of I/Os; and the clock
 *  chip.c     time: chips and channels
 *  ftl.c      space: location of each page, garbage collection, wear
 *  store.c    the data itself
 *  fault.c    faults, by rule
 *  setting.c  parse and print a setting
 *  inject.c   additional latency, by pattern, shape, place and time
 *  profile.c  the predefined drives, with the sources of their parameters
 *
 * Each part calls only those listed after it. Only model.c, chip.c and ftl.c implement the
 * internals of a drive; they move no data. Only store.c holds data; it does not use time.
 */
#ifndef FLASHSIM_H
#define FLASHSIM_H

#include <linux/bits.h>
#include <linux/blk_types.h>
#include <linux/limits.h>
#include <linux/types.h>

/* The FTL maps units of 4 KiB, as nearly all drives do. */
#define FLASHSIM_UNIT_SHIFT	12
#define FLASHSIM_UNIT_SECTORS	(1U << (FLASHSIM_UNIT_SHIFT - SECTOR_SHIFT))
#define FLASHSIM_NONE		U32_MAX

/* Kinds of I/O that injection and fault rules can be limited to. */
#define FLASHSIM_OP_READ	BIT(0)
#define FLASHSIM_OP_WRITE	BIT(1)

/**
 * flashsim_hash() - get a pseudo-random number, the same on every run
 * @seed: the sequence
 * @n: index in the sequence
 *
 * Return: 64 well-mixed bits (the finaliser of SplitMix64).
 */
static inline u64 flashsim_hash(u64 seed, u64 n)
{
	u64 z = seed + (n + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

#endif /* FLASHSIM_H */
