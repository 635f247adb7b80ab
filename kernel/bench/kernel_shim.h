/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the kernel that the policy needs to run in a program: the same atomic operations,
 * locks and per-CPU data, so that its paths can be timed on real cores. There are no interrupts and
 * no preemption. Functions that are only needed to compile do nothing. x86-64 only.
 */
#ifndef _KERNEL_SHIM_H
#define _KERNEL_SHIM_H

#define _GNU_SOURCE
#include <asm/types.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#define CONFIG_BLK_LINNOS 1
#define CONFIG_BLK_LATCRIT 1
#define CONFIG_BLK_LINNOS_NETWORK 1

/* Annotations of the kernel that have no effect on a compiler. */
#define __percpu
#define __user
#define __rcu
#define GFP_KERNEL 0
#define EXPORT_SYMBOL_GPL(symbol)
#define module_param_named(...)
#define MODULE_PARM_DESC(...)

#define __aligned(x) __attribute__((__aligned__(x)))
#define ____cacheline_aligned_in_smp __aligned(64)
#define __uninitialized __attribute__((__uninitialized__))
#define static_assert _Static_assert
#define S16_MAX 0x7fff
#define S16_MIN (-S16_MAX - 1)
#define S32_MAX 0x7fffffff
#define U32_MAX 0xffffffffU
#define PAGE_SIZE 4096
#define BITS_PER_LONG 64
#define NSEC_PER_USEC 1000L
#define USEC_PER_MSEC 1000L
#define BIT(n) (1UL << (n))
#define FIELD_PREP(mask, value) ((unsigned long)(value) << __builtin_ctzl(mask))
#define IS_ENABLED(option) 1
#define GENMASK(high, low) ((~0UL >> (63 - (high))) & (~0UL << (low)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define fls(n) ((n) ? 32 - __builtin_clz(n) : 0)
#define __ffs(word) ((unsigned int)__builtin_ctzl(word))
#define div_u64(a, b) ((u64)(a) / (u32)(b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define clamp_t(type, v, low, high) min_t(type, max((type)(v), (type)(low)), high)
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define barrier() __asm__ __volatile__("" ::: "memory")
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, value) __atomic_store_n(p, value, __ATOMIC_RELEASE)
#define get_unaligned_le32(p) (*(const u32 *)(p))

/* Atomic operations; on x86 the same instructions as the kernel's. */
typedef struct {
	int counter;
} atomic_t;
typedef struct {
	s64 counter;
} atomic64_t;
#define atomic_read(p) READ_ONCE((p)->counter)
#define atomic_set(p, n) WRITE_ONCE((p)->counter, n)
#define atomic_add(n, p) ((void)__atomic_add_fetch(&(p)->counter, n, __ATOMIC_SEQ_CST))
#define atomic_inc_return(p) __atomic_add_fetch(&(p)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_inc(p) ((void)atomic_inc_return(p))
#define atomic_dec(p) atomic_add(-1, p)
#define atomic64_read(p) READ_ONCE((p)->counter)
#define atomic64_add_return(n, p) __atomic_add_fetch(&(p)->counter, n, __ATOMIC_SEQ_CST)
#define atomic64_add(n, p) ((void)atomic64_add_return(n, p))
#define cmpxchg(p, old, new) shim_cmpxchg(p, old, new)
#define shim_cmpxchg(p, old, new)                                                      \
	({                                                                             \
		typeof(*(p)) __was = (old);                                            \
		__atomic_compare_exchange_n(p, &__was, new, 0, __ATOMIC_SEQ_CST,       \
					    __ATOMIC_SEQ_CST);                         \
		__was;                                                                 \
	})
#define test_bit(bit, word) (READ_ONCE(*(word)) >> (bit) & 1)
#define test_and_set_bit_lock(bit, word) \
	(!!(__atomic_fetch_or(word, BIT(bit), __ATOMIC_ACQUIRE) & BIT(bit)))
#define clear_bit_unlock(bit, word) ((void)__atomic_fetch_and(word, ~BIT(bit), __ATOMIC_RELEASE))

/* Locks. */
typedef struct {
	int locked;
} raw_spinlock_t;
typedef struct {
	unsigned int sequence;
} seqcount_raw_spinlock_t;
struct mutex {
};
#define raw_spin_lock_init(lock) ((lock)->locked = 0)
#define mutex_init(lock) ((void)(lock))
#define mutex_lock(lock) ((void)(lock))
#define mutex_unlock(lock) ((void)(lock))
#define lockdep_assert_held(lock) ((void)(lock))
#define lockdep_is_held(lock) 1
#define seqcount_raw_spinlock_init(s, lock) ((s)->sequence = 0)

static inline void spin_lock(raw_spinlock_t *lock)
{
	while (__atomic_exchange_n(&lock->locked, 1, __ATOMIC_ACQUIRE))
		while (READ_ONCE(lock->locked))
			__builtin_ia32_pause();
}

#define raw_spin_lock_irqsave(lock, flags) ((void)((flags) = 0), spin_lock(lock))
#define raw_spin_unlock_irqrestore(lock, flags) ((void)(flags), smp_store_release(&(lock)->locked, 0))

/* Nothing has to be held: no code frees data or changes a setting meanwhile. */
#define guard(name) guard_##name
#define guard_rcu() barrier()
#define guard_mutex(lock) ((void)(lock))

static inline void write_seqcount_begin(seqcount_raw_spinlock_t *s)
{
	WRITE_ONCE(s->sequence, s->sequence + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void write_seqcount_end(seqcount_raw_spinlock_t *s)
{
	smp_store_release(&s->sequence, s->sequence + 1);
}

static inline unsigned int read_seqcount_begin(const seqcount_raw_spinlock_t *s)
{
	unsigned int sequence;

	while ((sequence = smp_load_acquire(&s->sequence)) & 1)
		__builtin_ia32_pause();
	return sequence;
}

static inline int read_seqcount_retry(const seqcount_raw_spinlock_t *s, unsigned int sequence)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return READ_ONCE(s->sequence) != sequence;
}

/* CPUs are threads, and their data are a page apart. */
#ifndef SHIM_CPUS
#define SHIM_CPUS 2
#endif
static __thread int shim_cpu;
#define per_cpu_ptr(p, cpu) ((typeof(p))((char *)(p) + (cpu)*PAGE_SIZE))
#define alloc_percpu(type) ((type *)shim_alloc(SHIM_CPUS * PAGE_SIZE))
#define free_percpu(p) ((void)(p))
#define this_cpu_read(x) (*per_cpu_ptr(&(x), shim_cpu))
#define this_cpu_add(x, n) (*per_cpu_ptr(&(x), shim_cpu) += (n))
#define this_cpu_inc(x) this_cpu_add(x, 1)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < SHIM_CPUS; (cpu)++)

struct rcu_head {
};
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_dereference_protected(p, condition) (p)
#define rcu_replace_pointer(p, new, condition) __atomic_exchange_n(&(p), new, __ATOMIC_SEQ_CST)
/* memory is never freed: another CPU may use it */
#define kvfree_rcu(p, head) ((void)(p))

/* A static branch that is always taken. */
#define DEFINE_STATIC_KEY_FALSE(name) int name
#define DECLARE_STATIC_KEY_FALSE(name) extern int name
#define static_branch_unlikely(key) unlikely(*(key))
#define static_branch_inc(key) (++*(key))
#define static_branch_dec(key) (--*(key))

static inline u64 ktime_get_ns(void)
{
#ifdef SHIM_CLOCK_NS
	return SHIM_CLOCK_NS;
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
#endif
}

/* All allocations, each on a page of its own; they are never freed. */
#define SHIM_BYTES (4 << 20)
static char shim_memory[SHIM_BYTES] __aligned(PAGE_SIZE);
static size_t shim_used;

static inline void *shim_alloc(size_t bytes)
{
	void *p = shim_memory + shim_used;

	shim_used += (bytes + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
	if (shim_used > SHIM_BYTES)
		abort();
	return memset(p, 0, bytes);
}

#define kzalloc(bytes, flags) shim_alloc(bytes)
#define kvmalloc(bytes, flags) shim_alloc(bytes)
#define kvzalloc(bytes, flags) shim_alloc(bytes)
#define kfree(p) ((void)(p))
#define kvfree(p) ((void)(p))
#define pr_warn(...) fprintf(stderr, __VA_ARGS__)

struct kobject {
};
#define kobject_init_and_add(...) 0
#define kobject_del(kobj) ((void)(kobj))
#define kobject_put(kobj) ((void)(kobj))

/* The block layer. */
typedef u8 blk_status_t;
typedef u64 sector_t;
enum { BLK_STS_OK, BLK_STS_REVOKED };
enum { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_ZONE_APPEND };
#define REQ_LATCRIT 1
#define BIO_LATCRIT_DECIDED 0
#define GENHD_FL_REMOVABLE 1
#define GD_DEAD 2

struct gendisk;
struct request_queue {
	struct gendisk *disk;
	struct mutex rq_qos_mutex;
};

struct device {
	struct device *parent;
	struct kobject kobj;
};

struct gendisk {
	struct request_queue *queue;
	struct blk_linnos *linnos;
	struct device device;
	const char *disk_name;
	unsigned long state;
	int flags;
};
#define SECTOR_SHIFT 9
#define queue_max_sectors(q) ((void)(q), 2560)
#define disk_to_dev(disk) (&(disk)->device)
#define disk_devt(disk) 0

struct block_device {
	struct gendisk *bd_disk;
	sector_t bd_start_sect;
};

struct bio {
	struct block_device *bi_bdev;
	struct {
		u32 bi_size;
		sector_t bi_sector;
	} bi_iter;
	int op;
	unsigned int bi_opf;
	unsigned int bi_flags;
};
#define bio_op(bio) ((bio)->op)
#define bio_sectors(bio) ((bio)->bi_iter.bi_size >> SECTOR_SHIFT)
#define bio_flagged(bio, flag) (!!((bio)->bi_flags & BIT(flag)))
#define bio_set_flag(bio, flag) ((bio)->bi_flags |= BIT(flag))

struct request {
	struct request_queue *q;
	u64 linnos[2];
};

struct rq_qos {
};
struct rq_qos_ops {
	void (*track)(struct rq_qos *rqos, struct request *rq, struct bio *bio);
	void (*merge)(struct rq_qos *rqos, struct request *rq, struct bio *bio);
	void (*issue)(struct rq_qos *rqos, struct request *rq);
	void (*done)(struct rq_qos *rqos, struct request *rq);
	void (*exit)(struct rq_qos *rqos);
};
#define rq_qos_add(rqos, disk, id, ops) ((void)(ops), 0)
#define blk_stat_enable_accounting(q) ((void)(q))
#define blk_stat_disable_accounting(q) ((void)(q))

#define LINNOS_TRACE_HISTORY 4
/* A program that defines these events defines SHIM_TRACES. */
#ifndef SHIM_TRACES
#define trace_linnos_decision_enabled() 0
#define trace_linnos_decision(...) ((void)0)
#define trace_linnos_expected(...) ((void)0)
#endif

#endif /* _KERNEL_SHIM_H */
