/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS: all that the core wants of a kernel, and the same for programs.
 *
 * A program is built with LINNOS_THREADS where several threads use one drive; else what
 * is atomic in a kernel is plain arithmetic there.
 */
#ifndef _LINNOS_SHIM_H
#define _LINNOS_SHIM_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

#define LINNOS_BITS_PER_LONG BITS_PER_LONG
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

#else /* !__KERNEL__ */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;

#define S16_MAX __INT16_MAX__
#define S16_MIN (-S16_MAX - 1)
#define S32_MAX __INT32_MAX__
#define U32_MAX __UINT32_MAX__

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define LINNOS_BITS_PER_LONG (8 * sizeof(long))
#define div_u64(n, d) ((u64)(n) / (d))
#define div64_u64(n, d) ((u64)(n) / (d))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define clamp_t(type, v, low, high) min_t(type, max_t(type, v, low), high)

typedef int linnos_atomic_t;
typedef s64 linnos_atomic64_t;

#ifdef LINNOS_THREADS
#define __linnos_cacheline __attribute__((aligned(64)))
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define linnos_read(v) __atomic_load_n(v, __ATOMIC_RELAXED)
#define linnos_set(v, i) __atomic_store_n(v, i, __ATOMIC_RELAXED)
#define linnos_add(v, i) ((void)__atomic_fetch_add(v, i, __ATOMIC_RELAXED))
#define linnos_read64(v) __atomic_load_n(v, __ATOMIC_RELAXED)
#define linnos_add_return64(v, i) __atomic_add_fetch(v, i, __ATOMIC_RELAXED)
#define linnos_take_bit(bit, word)                                   \
	(!(__atomic_fetch_or(word, 1UL << (bit), __ATOMIC_ACQUIRE) & \
	   1UL << (bit)))
#define linnos_leave_bit(bit, word) \
	((void)__atomic_fetch_and(word, ~(1UL << (bit)), __ATOMIC_RELEASE))
#define linnos_swap_if(p, old, new)                               \
	__atomic_compare_exchange_n(p, &(u64){ old }, new, false, \
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#else
#define __linnos_cacheline
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, v) ((x) = (v))
#define linnos_read(v) (*(v))
#define linnos_set(v, i) ((void)(*(v) = (i)))
#define linnos_add(v, i) ((void)(*(v) += (i)))
#define linnos_read64(v) (*(v))
#define linnos_add_return64(v, i) (*(v) += (i))
#define linnos_leave_bit(bit, word) ((void)(*(word) &= ~(1UL << (bit))))
#define linnos_swap_if(p, old, new) \
	(*(p) == (old) ? (*(p) = (new), true) : false)

static inline bool linnos_take_bit(unsigned int bit, unsigned long *word)
{
	*word |= 1UL << bit;
	return true;
}
#endif

static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

#endif

/* Where all of a variable is written anyway; old kernels and programs lack it. */
#ifndef __uninitialized
#define __uninitialized
#endif

#define LINNOS_NS_PER_US 1000ULL

#endif /* _LINNOS_SHIM_H */
