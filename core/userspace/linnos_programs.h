/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LinnOS: the kernel interfaces that the core needs, for programs; see linnos_shim.h.
 *
 * Several threads may use one drive. A program in which they do is built with LINNOS_THREADS, so
 * that they do not share cache lines without need.
 */
#ifndef _LINNOS_PROGRAMS_H
#define _LINNOS_PROGRAMS_H

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
#define BITS_PER_LONG (8 * sizeof(long))
#define div_u64(n, d) ((u64)(n) / (d))
#define div64_u64(n, d) ((u64)(n) / (d))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define clamp_t(type, v, low, high) min_t(type, max_t(type, v, low), high)

#define NSEC_PER_USEC 1000L

typedef int atomic_t;
typedef s64 atomic64_t;

#ifdef LINNOS_THREADS
#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))
#else
#define ____cacheline_aligned_in_smp
#endif

#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define atomic_read(v) __atomic_load_n(v, __ATOMIC_RELAXED)
#define atomic_set(v, i) __atomic_store_n(v, i, __ATOMIC_RELAXED)
#define atomic64_add_return(i, v) __atomic_add_fetch(v, i, __ATOMIC_RELAXED)
#define test_and_set_bit_lock(bit, word)                              \
	(!!(__atomic_fetch_or(word, 1UL << (bit), __ATOMIC_ACQUIRE) & \
	    1UL << (bit)))
#define clear_bit_unlock(bit, word) \
	((void)__atomic_fetch_and(word, ~(1UL << (bit)), __ATOMIC_RELEASE))

static inline u64 cmpxchg(u64 *p, u64 old, u64 new)
{
	__atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return old;
}
#define atomic_inc_return(v) atomic64_add_return(1, v)
#define atomic_inc(v) ((void)atomic_inc_return(v))
#define atomic_dec(v) ((void)atomic64_add_return(-1, v))
#define atomic64_read(v) atomic_read(v)
#define atomic64_add(i, v) ((void)atomic64_add_return(i, v))

static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

static inline u64 linnos_get(const u8 *p, int bytes)
{
	u64 value = 0;

	while (bytes--)
		value = value << 8 | p[bytes];
	return value;
}

static inline void linnos_put(u64 value, u8 *p, int bytes)
{
	for (; bytes--; value >>= 8)
		*p++ = value & 0xff;
}

#define get_unaligned_le16(p) ((u16)linnos_get(p, 2))
#define get_unaligned_le32(p) ((u32)linnos_get(p, 4))
#define get_unaligned_le64(p) linnos_get(p, 8)
#define put_unaligned_le16(value, p) linnos_put(value, p, 2)
#define put_unaligned_le32(value, p) linnos_put(value, p, 4)
#define put_unaligned_le64(value, p) linnos_put(value, p, 8)

/* Return the first byte that differs from @byte, or NULL. */
static inline const void *memchr_inv(const void *p, int byte, size_t bytes)
{
	const u8 *at = p, *end = at + bytes;

	for (; at < end; at++)
		if (*at != byte)
			return at;
	return NULL;
}

/* CRC-32 of IEEE 802.3, reflected, four bits per step. */
static inline u32 crc32_le(u32 crc, const u8 *p, size_t bytes)
{
	static const u32 table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};

	while (bytes--) {
		crc ^= *p++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return crc;
}

#endif /* _LINNOS_PROGRAMS_H */
