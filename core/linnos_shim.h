/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* LinnOS: the kernel interfaces that the core needs. Programs have their own versions. */
#ifndef _LINNOS_SHIM_H
#define _LINNOS_SHIM_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/crc32.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#else
#include "userspace/linnos_programs.h"
#endif

/* The lock of a history, for the caller. It is declared here to share a cache line with it. */
struct linnos_history_lock {
#ifdef __KERNEL__
	raw_spinlock_t writers; /* one at a time */
	seqcount_raw_spinlock_t seq; /* for readers that copy the history */
#endif
};

/* Old kernels and programs lack this attribute of variables that are written before use. */
#ifndef __uninitialized
#define __uninitialized
#endif

#endif /* _LINNOS_SHIM_H */
