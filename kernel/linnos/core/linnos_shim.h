/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* LinnOS: all that the core wants of a kernel. Programs have it from elsewhere. */
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
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#define __linnos_cacheline ____cacheline_aligned_in_smp

typedef atomic_t linnos_atomic_t;
typedef atomic64_t linnos_atomic64_t;

#define linnos_read(v) atomic_read(v)
#define linnos_set(v, i) atomic_set(v, i)
#define linnos_add(v, i) atomic_add(i, v)
#define linnos_read64(v) atomic64_read(v)
#define linnos_add_return64(v, i) atomic64_add_return(i, v)
#define linnos_take_bit(bit, word) (!test_and_set_bit_lock(bit, word))
#define linnos_leave_bit(bit, word) clear_bit_unlock(bit, word)
#define linnos_swap_if(p, old, new) (cmpxchg(p, old, new) == (old))
#else
#include "../userspace/linnos_programs.h"
#endif

/* Where all of a variable is written anyway; old kernels and programs lack it. */
#ifndef __uninitialized
#define __uninitialized
#endif

#define LINNOS_NS_PER_US 1000ULL

#endif /* _LINNOS_SHIM_H */
