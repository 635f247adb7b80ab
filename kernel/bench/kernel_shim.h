/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of the kernel as blk-linnos.c and its like need to run in a program, so that their paths for arriving and completing I/O can be timed on real cores: the same
 * atomic operations, locks and per-CPU data. Interrupts and preemption do not
 * exist here. What is only needed to compile aborts, or does nothing. x86-64 only.
 */
#ifndef _KERNEL_SHIM_H
#define _KERNEL_SHIM_H

#define _GNU_SOURCE
#include <asm/types.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "linnos_model.h"

#define CONFIG_BLK_LINNOS 1

/* Words of the kernel that say nothing to a compiler. */
#define __percpu
#define __user
#define __packed __attribute__((__packed__))
#define __rcu
#define __init
#define __force
#define ____cacheline_aligned_in_smp __attribute__((__aligned__(64)))
#define KERN_ERR ""
#define GFP_KERNEL 0
#define __GFP_ZERO 0
#define __maybe_unused __attribute__((__unused__))
#define static_assert _Static_assert
typedef unsigned int uint;

#define U32_MAX 0xffffffffU
#define PAGE_SIZE 4096
#define S64_MAX 0x7fffffffffffffffLL
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L
#define USEC_PER_MSEC 1000L
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define BITS_PER_LONG 64
#define BITS_TO_LONGS(n) (((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define fls(n) ((n) ? 32 - __builtin_clz(n) : 0)
#define __ffs(word) ((unsigned int)__builtin_ctzl(word))
#define GENMASK_ULL(high, low) ((~0ULL >> (63 - (high))) & (~0ULL << (low)))
#define GENMASK(high, low) GENMASK_ULL(high, low)
#define FIELD_PREP(mask, value) (((u64)(value) << __builtin_ctzll(mask)) & (mask))
#define FIELD_GET(mask, value) (((u64)(value) & (mask)) >> __builtin_ctzll(mask))
#define lower_32_bits(n) ((u32)(n))
#define DIV_ROUND_UP_ULL(a, b) (((u64)(a) + (b) - 1) / (b))
#define div_u64(a, b) ((u64)(a) / (u32)(b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp_t(type, n, low, high) min(max((type)(n), (type)(low)), (type)(high))
#define abs(n) __builtin_llabs(n)
#define sign_extend64(n, sign) ((s64)((u64)(n) << (63 - (sign))) >> (63 - (sign)))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define prefetchw(p) __builtin_prefetch(p, 1)
#define barrier() __asm__ __volatile__("" ::: "memory")
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_mb__after_atomic() smp_mb()
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, value) __atomic_store_n(p, value, __ATOMIC_RELEASE)

/* Atomic operations; on x86 the same instructions as the kernel's. */
typedef struct {
	int counter;
} atomic_t;
typedef struct {
	s64 counter;
} atomic64_t;
#define ATOMIC64_INIT(n) { (n) }
#define atomic_read(p) READ_ONCE((p)->counter)
#define atomic_read_acquire(p) smp_load_acquire(&(p)->counter)
#define atomic_set(p, n) WRITE_ONCE((p)->counter, n)
#define atomic_set_release(p, n) smp_store_release(&(p)->counter, n)
#define atomic_inc(p) ((void)__atomic_add_fetch(&(p)->counter, 1, __ATOMIC_SEQ_CST))
#define atomic_dec(p) ((void)__atomic_sub_fetch(&(p)->counter, 1, __ATOMIC_SEQ_CST))
#define atomic64_read(p) READ_ONCE((p)->counter)
#define atomic64_read_acquire(p) smp_load_acquire(&(p)->counter)
#define atomic64_add(n, p) ((void)atomic64_add_return(n, p))
#define atomic64_set(p, n) WRITE_ONCE((p)->counter, n)
#define atomic64_inc_return(p) atomic64_add_return(1, p)
#define atomic64_add_return(n, p) __atomic_add_fetch(&(p)->counter, n, __ATOMIC_SEQ_CST)
#define atomic64_xchg(p, n) __atomic_exchange_n(&(p)->counter, n, __ATOMIC_SEQ_CST)
#define atomic64_try_cmpxchg(p, old, new) try_cmpxchg(&(p)->counter, old, new)
#define atomic64_sub(n, p) ((void)atomic64_sub_return(n, p))
#define atomic64_sub_return(n, p) __atomic_sub_fetch(&(p)->counter, n, __ATOMIC_SEQ_CST)

static inline s64 atomic64_cmpxchg(atomic64_t *v, s64 old, s64 new)
{
	__atomic_compare_exchange_n(&v->counter, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return old;
}

static inline bool test_and_set_bit_lock(unsigned int bit, unsigned long *word)
{
	return __atomic_fetch_or(word, BIT(bit), __ATOMIC_ACQUIRE) & BIT(bit);
}

#define test_bit(bit, word) (READ_ONCE(*(word)) >> (bit) & 1)
#define clear_bit_unlock(bit, word) ((void)__atomic_fetch_and(word, ~BIT(bit), __ATOMIC_RELEASE))
#define get_unaligned_le32(p) (*(const u32 *)(p))

#define atomic64_cmpxchg_release(v, old, new) atomic64_cmpxchg(v, old, new)
#define try_cmpxchg(p, old, new) \
	__atomic_compare_exchange_n(p, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Locks. */
typedef struct {
	int locked;
} raw_spinlock_t;
typedef struct {
	unsigned int sequence;
} seqcount_raw_spinlock_t;
struct mutex {
	int unused;
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
#define raw_spin_is_locked(lock) (READ_ONCE((lock)->locked) != 0)
#define raw_spin_unlock_irqrestore(lock, flags) ((void)(flags), smp_store_release(&(lock)->locked, 0))

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

/* CPUs are threads, and their data a page apart. */
#ifndef SHIM_CPUS
#define SHIM_CPUS 2
#endif
extern __thread int shim_cpu;
#define per_cpu_ptr(p, cpu) ((typeof(p))((char *)(p) + (cpu)*PAGE_SIZE))
#define alloc_percpu(type) ((type *)shim_alloc(SHIM_CPUS * PAGE_SIZE))
#define free_percpu(p) shim_free(p)
#define get_cpu_ptr(p) per_cpu_ptr(p, shim_cpu)
#define put_cpu_ptr(p) ((void)(p))
#define raw_cpu_ptr(p) per_cpu_ptr(p, shim_cpu)
#define num_possible_cpus() SHIM_CPUS
#define num_online_cpus() SHIM_CPUS
#define this_cpu_read(x) (*per_cpu_ptr(&(x), shim_cpu))
#define this_cpu_add(x, n) (*per_cpu_ptr(&(x), shim_cpu) += (n))
#define this_cpu_inc(x) this_cpu_add(x, 1)
#define smp_processor_id() shim_cpu
#define raw_smp_processor_id() shim_cpu
/* One program, and a task on each CPU. */
#define current ((const void *)&shim_cpu)
#define task_tgid_nr(task) ((void)(task), 1)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < SHIM_CPUS; (cpu)++)

struct rcu_head {
	int unused;
};
#define rcu_read_lock() barrier()
#define rcu_read_unlock() barrier()
#define synchronize_rcu() barrier()
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_access_pointer(p) READ_ONCE(p)
#define rcu_dereference_protected(p, condition) (p)
#define rcu_replace_pointer(p, new, condition) __atomic_exchange_n(&(p), new, __ATOMIC_SEQ_CST)
#define call_rcu(head, function) ((void)(function))

/* A branch that is taken. */
struct static_key_false {
	int enabled;
};
#define DEFINE_STATIC_KEY_FALSE(name) struct static_key_false name
#define DECLARE_STATIC_KEY_FALSE(name) extern struct static_key_false name
#define static_branch_unlikely(key) unlikely((key)->enabled)
#define static_branch_inc(key) ((key)->enabled++)
#define static_branch_dec(key) ((key)->enabled--)

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

/* What the policy has allocated, for one who wants to know. */
#ifndef SHIM_RANGES
#define SHIM_RANGES 32
#endif
static struct shim_range {
	uintptr_t begin;
	size_t bytes;
} shim_ranges[SHIM_RANGES];
static int shim_n_ranges;

static inline void *shim_alloc(size_t bytes)
{
	void *p = aligned_alloc(PAGE_SIZE, (bytes + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE);

	if (!p || shim_n_ranges == SHIM_RANGES)
		abort();
	shim_ranges[shim_n_ranges++] = (struct shim_range){ (uintptr_t)p, bytes };
	return memset(p, 0, bytes);
}

static inline void shim_free(const void *p)
{
	int i;

	for (i = 0; p && i < shim_n_ranges; i++)
		if (shim_ranges[i].begin == (uintptr_t)p)
			shim_ranges[i] = shim_ranges[--shim_n_ranges];
	free((void *)p);
}

#define kzalloc(bytes, flags) shim_alloc(bytes)
#define kvmalloc(bytes, flags) shim_alloc(bytes)
#define alloc_pages_exact(bytes, flags) shim_alloc(bytes)
#define free_pages_exact(p, bytes) ((void)(bytes), shim_free(p))
#define kfree(p) shim_free(p)
#define kvfree(p) shim_free(p)
#define pr_warn(...) fprintf(stderr, __VA_ARGS__)

struct work_struct {
	int unused;
};
struct delayed_work {
	struct work_struct work;
};
#define HZ 100
#define INIT_WORK(work, function) ((void)(function))
#define INIT_DELAYED_WORK(work, function) ((void)(function))
#define mod_delayed_work(queue, work, delay) ((void)(work))
#define cancel_work_sync(work) ((void)(work))
#define cancel_delayed_work_sync(work) ((void)(work))
#define system_wq NULL
#define queue_work(queue, work) abort()

struct list_head {
	struct list_head *next, *prev;
};
#define INIT_LIST_HEAD(list) ((list)->next = (list)->prev = (list))

struct kobject {
	int unused;
};
struct kobj_type;
#define kobject_init_and_add(...) 0
#define kobject_del(kobj) ((void)(kobj))
#define kobject_put(kobj) ((void)(kobj))

/* The block layer. */
typedef u8 blk_status_t;
typedef u64 sector_t;
#define BLK_STS_OK 0
#define BLK_STS_TRANSPORT 1
#define BLK_STS_REVOKED 2
#define BLK_STS_IOERR 3
enum { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_ZONE_APPEND };
#define REQ_LATCRIT 1
#define BIO_QOS_ADMITTED 1
#define BIO_CHAIN 2
#define RQ_QOS_LINNOS 0
#define GD_DEAD 2

struct device {
	struct kobject kobj;
};

struct gendisk;
struct request_queue {
	struct mutex rq_qos_mutex;
	struct gendisk *disk;
};

struct module;
struct block_device_operations {
	struct module *owner;
};
#define __module_get(module) ((void)(module))
#define module_put(module) ((void)(module))
#define get_device(device) ((void)(device))
#define put_disk(disk) ((void)(disk))

struct blk_linnos;
struct gendisk {
	struct request_queue *queue;
	struct blk_linnos *linnos;
	const struct block_device_operations *fops;
	struct device device;
	const char *disk_name;
	unsigned long state;
};

struct block_device {
	struct gendisk *bd_disk;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	struct {
		u32 bi_size;
		sector_t bi_sector;
	} bi_iter;
	int op;
	unsigned int bi_opf;
	int flags;
	blk_status_t bi_status;
	void (*bi_end_io)(struct bio *bio);
	void *bi_private;
	u32 bi_linnos;
	u32 bi_linnos_served_us;
	unsigned short bi_linnos_load;
};
#define bio_op(bio) ((bio)->op)
#define bio_sectors(bio) ((bio)->bi_iter.bi_size >> 9)
#define bio_flagged(bio, flag) ((bio)->flags & (flag))
#define bio_set_flag(bio, flag) ((bio)->flags |= (flag))
#define bio_clear_flag(bio, flag) ((bio)->flags &= ~(flag))
#define disk_devt(disk) 0
#define disk_to_dev(disk) (&(disk)->device)

static inline void bio_chain_endio(struct bio *bio)
{
	abort();
}

struct request {
	struct request_queue *q;
	struct bio *bio;
	u64 io_start_time_ns;
};
#define req_op(rq) bio_op((rq)->bio)
#define blk_mq_request_started(rq) ((void)(rq), 1)

struct rq_qos {
	int unused;
};
struct rq_qos_ops {
	void (*arrive)(struct rq_qos *rqos, struct bio *bio);
	void (*track)(struct rq_qos *rqos, struct request *rq, struct bio *bio);
	void (*merge)(struct rq_qos *rqos, struct request *rq, struct bio *bio);
	void (*requeue)(struct rq_qos *rqos, struct request *rq);
	void (*exit)(struct rq_qos *rqos);
};
#define rq_qos_add(...) 0
#define rq_qos_del(rqos) ((void)(rqos))

#define LINNOS_TRACE_HISTORY 4
enum linnos_reason {
	LINNOS_PREDICTED_FAST,
	LINNOS_PREDICTED_SLOW,
	LINNOS_PROBE,
	LINNOS_NO_MODEL,
	LINNOS_STALLED,
	LINNOS_KEPT,
	LINNOS_NO_CHOICE,
};
#define EXPORT_SYMBOL_GPL(symbol)
#define EXPORT_TRACEPOINT_SYMBOL_GPL(event)
/* A program that has these events says so. */
#ifndef SHIM_TRACES
#define trace_linnos_decision_enabled() 0
#define trace_linnos_decision(...) ((void)0)
#define trace_linnos_expected(...) ((void)0)
#define trace_linnos_peer(...) ((void)0)
#endif

#endif /* _KERNEL_SHIM_H */
