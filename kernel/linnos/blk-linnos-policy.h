/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS: the per-drive state, shared by the policy, its model, its sysfs files
 * and its tests, and by nobody else.
 */
#ifndef _BLK_LINNOS_POLICY_H
#define _BLK_LINNOS_POLICY_H

#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/blk-linnos.h>
#include <linux/blk_types.h>
#include <linux/kobject.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "blk-rq-qos.h"
#include "linnos_fast.h"

enum linnos_mode {
	LINNOS_OFF,
	LINNOS_OBSERVE,
	LINNOS_ENFORCE,
};

/* Without a model no read is slow. */
#define LINNOS_NO_THRESHOLD U32_MAX

/* What was decided about a bio in flight; two bits are kept of it. */
enum linnos_verdict {
	LINNOS_VERDICT_NONE,
	LINNOS_VERDICT_FAST,
	LINNOS_VERDICT_SLOW, /* admitted all the same: observe mode */
	LINNOS_VERDICT_PROBE,
};

/**
 * struct bio_linnos - what is remembered of a bio in flight
 * @pending: pages pending when it was counted in, all of itself included
 * @verdict: an enum linnos_verdict
 * @probe: which one, if it is a probe
 * @pages: its own, as long as they are pending
 * @decided: linnos_decide() has admitted it, and it has not arrived yet
 * @part: it is a part of another, which the block layer split
 * @served_us: how long the drive took, or %LINNOS_NOT_SERVED
 */
struct bio_linnos {
	u32 pending;
	u32 verdict;
	u32 probe;
	u32 pages;
	bool decided;
	bool part;
	u32 served_us;
};

/* In the place of the longest of latencies, 71 minutes, which is cut by 1 us. */
#define LINNOS_NOT_SERVED U32_MAX
#define LINNOS_SERVED_MAX (LINNOS_NOT_SERVED - 1)

/*
 * All bios of all drives have room for it, used or not, so it is packed: 64
 * bits, and 16 in a hole of struct bio. 16383 pending pages and more are the
 * same to a network that sees no more than 999. A bio of 4 GiB has 2^20 pages.
 *
 * The first parts of a bio may complete, on other CPUs, while its last one is
 * submitted. So what completions write, served_us, is a word of its own.
 */
#define LINNOS_BIO_PENDING GENMASK(13, 0)
#define LINNOS_BIO_VERDICT GENMASK(15, 14)
#define LINNOS_BIO_PAGES GENMASK(20, 0)
#define LINNOS_BIO_PROBE GENMASK(29, 21)
#define LINNOS_BIO_DECIDED BIT(30)
#define LINNOS_BIO_PART BIT(31)

static inline void linnos_pack(struct bio *bio, const struct bio_linnos *io)
{
	u32 pending = min_t(u32, io->pending, LINNOS_BIO_PENDING);

	bio->bi_linnos_load = FIELD_PREP(LINNOS_BIO_PENDING, pending) |
			      FIELD_PREP(LINNOS_BIO_VERDICT, io->verdict);
	bio->bi_linnos_served_us = io->served_us;
	bio->bi_linnos = FIELD_PREP(LINNOS_BIO_PAGES, io->pages) |
			 FIELD_PREP(LINNOS_BIO_PROBE, io->probe) |
			 (io->decided ? LINNOS_BIO_DECIDED : 0) |
			 (io->part ? LINNOS_BIO_PART : 0);
}

static inline struct bio_linnos linnos_unpack(const struct bio *bio)
{
	return (struct bio_linnos){
		.pending = FIELD_GET(LINNOS_BIO_PENDING, bio->bi_linnos_load),
		.verdict = FIELD_GET(LINNOS_BIO_VERDICT, bio->bi_linnos_load),
		.probe = FIELD_GET(LINNOS_BIO_PROBE, bio->bi_linnos),
		.pages = FIELD_GET(LINNOS_BIO_PAGES, bio->bi_linnos),
		.decided = bio->bi_linnos & LINNOS_BIO_DECIDED,
		.part = bio->bi_linnos & LINNOS_BIO_PART,
		.served_us = READ_ONCE(bio->bi_linnos_served_us),
	};
}

/**
 * struct linnos_history - the last four completed reads
 * @pending: pages pending when they were counted in, oldest first
 * @latency_us: their latencies, oldest first
 * @generation: changes with every read that completes
 * @cpu: where the last one completed
 */
struct linnos_history {
	u32 pending[LINNOS_HISTORY];
	u32 latency_us[LINNOS_HISTORY];
	u32 generation;
	u32 cpu;
};

/* Files of stats/, in the order in which they are listed. */
enum linnos_stat {
	LINNOS_STAT_READS,
	LINNOS_STAT_LATENCY_CRITICAL,
	LINNOS_STAT_ADMITTED,
	LINNOS_STAT_REVOKED,
	LINNOS_STAT_STALLED,
	LINNOS_STAT_PROBES,
	LINNOS_STAT_SLOW,
	LINNOS_STAT_FALSE_SUBMITS,
	LINNOS_STAT_FALSE_REVOKES,
	LINNOS_STAT_INFERENCES,
	LINNOS_STAT_INFERENCE_NS,
	LINNOS_NR_STATS,
};

struct linnos_stats {
	u64 count[LINNOS_NR_STATS];
};

/**
 * struct linnos_active_model - what decides
 * @rcu: frees it when nobody uses it any more
 * @serial: never the same for two models, so that what has been prepared with
 *	one is not taken for another's
 * @id: CRC-32 of its file
 * @threshold_us: a read slower than this is slow
 * @wide: the model, should its weights not fit 16 bits; otherwise NULL
 * @net: the packed model; not allocated if there is a @wide one
 */
struct linnos_active_model {
	struct rcu_head rcu;
	u64 serial;
	u32 id;
	u32 threshold_us;
	struct linnos_model *wide;
	struct linnos_net net;
};

/**
 * struct linnos_prepared - what one CPU has computed ahead
 * @past: the share of a history
 * @generation: of this history
 * @serial: and this model
 * @in_use: an interrupt must leave it alone
 * @unused: histories prepared since the last hinted read
 * @local: how often, of late, a hinted read followed a completion on this CPU
 */
struct linnos_prepared {
	struct linnos_past past;
	u64 serial;
	u32 generation;
	bool in_use;
	u8 unused;
	u8 local;
};

/* A model file on its way in, chunk by chunk. */
struct linnos_upload {
	const void *writer; /* identity only, never dereferenced */
	size_t bytes;
	u8 *file;
};

/**
 * struct blk_linnos - LinnOS on one disk
 * @mode: what to do with hinted reads
 * @awake: I/Os are counted; never if @mode is off
 * @hinted: there has been a hinted read, or a question, since @sleep_work last
 *	looked
 * @threshold_us: that of the active model, or LINNOS_NO_THRESHOLD
 * @model: the active model, or NULL
 * @stats: counters, allocated when @mode first leaves off
 * @prepared: computed ahead, allocated with @stats
 * @probe_after_us: history older than this is stale; 0: never
 * @probe_after_revokes: so is one followed by so many revocations; 0: never
 * @stall_us: reads are stalled when none completes for so long; 0: never
 * @in_flight: pages, reads, and a reference of the disk, see blk-linnos.c
 * @busy_since_ns: when the number of reads in flight last left zero, or
 *	@stall_us was set
 * @history_lock: serialises writers of @history
 * @history_seq: lets a reader take @history without the lock
 * @history: the last four completed reads
 * @last_read_ns: when the drive last answered a read
 * @revokes: revocations since then, and answers that it is slow
 * @probe: the probe in flight, or the last one, see PROBE_IN_FLIGHT
 * @probe_since_ns: when it was chosen
 * @probe_again: the last probe was fast, admit the next one at once
 * @probe_backoff: the last probes were slow, wait 2^this times as long
 * @rqos: our place among the queue's policies
 * @attached: @rqos is in the queue's list; never if @mode is off
 * @key_held: this disk counts in blk_linnos_key
 * @wake_work: wakes the drive up
 * @sleep_work: sends it to sleep when there are no hinted reads
 * @lock: serialises changes of @mode, @awake and @model
 * @upload: the model being written
 * @disk: the disk
 * @kobj: /sys/block/<disk>/linnos
 * @idle_work: lets go of a disk that is gone when its last bio has ended
 */
struct blk_linnos {
	/* read by every I/O */
	enum linnos_mode mode;
	bool awake;
	bool hinted;
	u32 threshold_us;
	struct linnos_active_model __rcu *model;
	struct linnos_stats __percpu *stats;
	struct linnos_prepared __percpu *prepared;
	u32 probe_after_us;
	u32 probe_after_revokes;
	u32 stall_us;

	/* written by every I/O */
	atomic64_t in_flight ____cacheline_aligned_in_smp;
	u64 busy_since_ns;

	/* written by every read */
	raw_spinlock_t history_lock ____cacheline_aligned_in_smp;
	seqcount_raw_spinlock_t history_seq;
	struct linnos_history history;
	u64 last_read_ns;
	atomic_t revokes;
	atomic_t probe;
	u64 probe_since_ns;
	bool probe_again;
	u8 probe_backoff;

	/* configuration */
	struct rq_qos rqos ____cacheline_aligned_in_smp;
	bool attached;
	bool key_held;
	struct work_struct wake_work;
	struct delayed_work sleep_work;
	struct mutex lock; /* mode, awake, model, upload */
	struct linnos_upload upload;
	struct gendisk *disk;
	struct kobject kobj;
	struct work_struct idle_work;
};

static inline void linnos_count(struct blk_linnos *linnos,
				enum linnos_stat stat)
{
	this_cpu_inc(linnos->stats->count[stat]);
}

/* blk-linnos.c */
struct blk_linnos *linnos_alloc(struct gendisk *disk);
void linnos_free(struct blk_linnos *linnos);
int linnos_alloc_percpu(struct blk_linnos *linnos);
void linnos_forget_past(struct blk_linnos *linnos, u64 now_ns);
int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode);
u64 linnos_stat(struct blk_linnos *linnos, enum linnos_stat stat);
u32 linnos_pending_pages(struct blk_linnos *linnos);
bool linnos_decide(struct blk_linnos *linnos, struct bio *bio, u64 now_ns);
enum blk_linnos_expected linnos_expect(struct blk_linnos *linnos,
				       unsigned int bytes, u64 now_ns);
void linnos_arrive(struct blk_linnos *linnos, struct bio *bio);
void linnos_start(struct blk_linnos *linnos, struct bio *bio, u64 now_ns);
void linnos_issued(struct blk_linnos *linnos, const struct bio *bio);
void linnos_tried(struct bio *bio, u64 time_ns);
void linnos_served(struct blk_linnos *linnos, struct bio *bio, u64 latency_ns,
		   u64 now_ns);
void linnos_end(struct blk_linnos *linnos, struct bio *bio,
		blk_status_t status);
bool linnos_bio_counts(const struct bio *bio);

/* blk-linnos-model.c */
bool linnos_predict(struct blk_linnos *linnos,
		    const struct linnos_active_model *active,
		    const struct linnos_history *history, u32 pending,
		    s64 *out);
void linnos_prepare(struct blk_linnos *linnos,
		    const struct linnos_history *history);
int linnos_set_model(struct blk_linnos *linnos, const void *file, size_t bytes);
int linnos_upload_chunk(struct blk_linnos *linnos, const void *writer,
			const void *chunk, size_t offset, size_t bytes);
const char *linnos_engine_name(void);
void linnos_active_store(const struct linnos_active_model *active, void *file,
			 struct linnos_model *scratch);
void linnos_active_free(struct linnos_active_model *active);

/* blk-linnos-sysfs.c */
extern const struct kobj_type linnos_ktype;

#endif /* _BLK_LINNOS_POLICY_H */
