/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS: the per-drive state, shared by the policy, its model, its sysfs files
 * and its tests, and by nobody else.
 */
#ifndef _BLK_LINNOS_POLICY_H
#define _BLK_LINNOS_POLICY_H

#include <linux/bitfield.h>
#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/blk-linnos.h>
#include <linux/blk_types.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "blk-rq-qos.h"
#include "linnos_latency.h"
#include "linnos_network.h"

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
 * @watched: of a read that is no probe, its place in struct linnos_watch, 0 if it
 *	has none; of a write, 1 if it is counted among @write_pages
 * @size: of a read the order of its size, all of it, see linnos_size_order()
 * @trusted: admitted although the model calls it slow, for others were fast
 */
struct bio_linnos {
	u32 pending;
	u32 verdict;
	u32 probe;
	u32 pages;
	bool decided;
	bool part;
	u32 served_us;
	u32 watched;
	u32 size;
	bool trusted;
};

/* In the place of the longest of latencies, 71 minutes, which is cut by 1 us. */
#define LINNOS_NOT_SERVED U32_MAX
#define LINNOS_SERVED_MAX (LINNOS_NOT_SERVED - 1)

/*
 * All bios of all drives have room for it, used or not, so it is packed: 64
 * bits, and 16 in a hole of struct bio. 16383 pending pages and more are the
 * same to a network that sees no more than 999. A bio of 4 GiB has 2^20 pages.
 * A number is a probe's, or what any other bio has as @watched, and with it goes
 * @size: LINNOS_SIZES of the one and the other. What has been decided has no place
 * yet, and a 1 instead if it is trusted.
 *
 * The first parts of a bio may complete, on other CPUs, while its last one is
 * submitted. So what completions write, served_us, is a word of its own.
 */
#define LINNOS_BIO_PENDING GENMASK(13, 0)
#define LINNOS_BIO_VERDICT GENMASK(15, 14)
#define LINNOS_BIO_PAGES GENMASK(20, 0)
#define LINNOS_BIO_NUMBER GENMASK(29, 21)
#define LINNOS_BIO_STATE GENMASK(31, 30)
enum linnos_bio_state {
	LINNOS_BIO_ARRIVED,
	LINNOS_BIO_DECIDED,
	LINNOS_BIO_PART,
	LINNOS_BIO_TRUSTED, /* and arrived */
};

static inline enum linnos_bio_state linnos_bio_state(const struct bio *bio)
{
	return FIELD_GET(LINNOS_BIO_STATE, READ_ONCE(bio->bi_linnos));
}

static inline void linnos_pack(struct bio *bio, const struct bio_linnos *io)
{
	u32 pending = min_t(u32, io->pending, LINNOS_BIO_PENDING);
	enum linnos_bio_state state = io->part	  ? LINNOS_BIO_PART :
				      io->decided ? LINNOS_BIO_DECIDED :
				      io->trusted ? LINNOS_BIO_TRUSTED :
						    LINNOS_BIO_ARRIVED;
	u32 number = io->verdict == LINNOS_VERDICT_PROBE ? io->probe :
		     io->decided			 ? io->trusted :
							   io->watched;

	number = number * LINNOS_SIZES + io->size;

	bio->bi_linnos_load = FIELD_PREP(LINNOS_BIO_PENDING, pending) |
			      FIELD_PREP(LINNOS_BIO_VERDICT, io->verdict);
	bio->bi_linnos_served_us = io->served_us;
	bio->bi_linnos = FIELD_PREP(LINNOS_BIO_PAGES, io->pages) |
			 FIELD_PREP(LINNOS_BIO_NUMBER, number) |
			 FIELD_PREP(LINNOS_BIO_STATE, state);
}

static inline struct bio_linnos linnos_unpack(const struct bio *bio)
{
	u32 verdict = FIELD_GET(LINNOS_BIO_VERDICT, bio->bi_linnos_load);
	u32 number = FIELD_GET(LINNOS_BIO_NUMBER, bio->bi_linnos);
	enum linnos_bio_state state = linnos_bio_state(bio);
	bool decided = state == LINNOS_BIO_DECIDED;
	bool is_probe = verdict == LINNOS_VERDICT_PROBE;
	u32 size = number % LINNOS_SIZES;

	number /= LINNOS_SIZES;
	return (struct bio_linnos){
		.pending = FIELD_GET(LINNOS_BIO_PENDING, bio->bi_linnos_load),
		.verdict = verdict,
		.probe = is_probe ? number : 0,
		.watched = is_probe || decided ? 0 : number,
		.size = size,
		.pages = FIELD_GET(LINNOS_BIO_PAGES, bio->bi_linnos),
		.decided = decided,
		.part = state == LINNOS_BIO_PART,
		.trusted = state == LINNOS_BIO_TRUSTED ||
			   (decided && !is_probe && number),
		.served_us = READ_ONCE(bio->bi_linnos_served_us),
	};
}

/**
 * struct linnos_history - the last four completed reads
 * @pending: pages pending when they were counted in, oldest first
 * @latency_us: their latencies, oldest first
 * @generation: how many there have been, and changes with all that changes these
 * @cpu: where the last read completed, whatever its size
 */
struct linnos_history {
	u32 pending[LINNOS_HISTORY];
	u32 latency_us[LINNOS_HISTORY];
	u32 generation;
	u32 cpu;
};

/**
 * struct linnos_answered - what else a model of latencies sees of these reads
 * @pages: their own, oldest first
 * @end_ns: when they completed; 0 of one that is not known
 */
struct linnos_answered {
	u32 pages[LINNOS_HISTORY];
	u64 end_ns[LINNOS_HISTORY];
};

/*
 * So many reads in flight are watched, and the probes besides. A bio has 9 bits
 * for its place and the order of its size.
 */
#define LINNOS_WATCHED 128

/**
 * struct linnos_watch - since when the reads in flight are
 * @taken: a bit for each place in use
 * @start_ns: since when; 0 in a place that is free, and of a read that has no
 *	request yet
 * @pages: of the whole read, should it have been split
 *
 * The first places are the probes', one for each order of size. In use are the
 * lowest: with few reads in flight all that a decision looks at is in one line.
 * See blk-linnos-watch.c.
 */
struct linnos_watch {
	unsigned long taken[BITS_TO_LONGS(LINNOS_WATCHED)];
	atomic64_t start_ns[LINNOS_SIZES + LINNOS_WATCHED];
	u32 pages[LINNOS_SIZES + LINNOS_WATCHED];
};

/* Where @pages and @start_ns of a read are that has a place, or is the probe. */
static inline u32 linnos_place(const struct bio_linnos *io)
{
	return io->watched ? LINNOS_SIZES - 1 + io->watched : io->size;
}

/**
 * struct linnos_seen - what is in flight, as one CPU sees it
 * @pages: 4 KiB pages of all I/O
 * @reads: how many of it are reads
 * @write_pages: of the pages those of writes, while @watching
 */
struct linnos_seen {
	u32 pages;
	u32 reads;
	u64 write_pages;
};

/**
 * struct linnos_view - a drive as a read finds it
 * @now_ns: when
 * @pages: the read's own
 * @size: the order of its size
 * @pending: pages pending, these included
 * @seen: what is in flight, without it
 * @traced: the network's outputs are asked for
 * @history: the last completed reads that were not larger in order
 * @answered: the same, if the model is one of latencies
 * @n_features: how many @features there are: none, unless it is
 * @features: what a model of latencies sees
 * @out: outputs of the network for fast and for slow, if @traced; of a model of
 *	latencies what is worth waiting for and what it predicts, in us
 */
struct linnos_view {
	u64 now_ns;
	u32 pages;
	u32 size;
	u32 pending;
	struct linnos_seen seen;
	bool traced;
	struct linnos_history history;
	struct linnos_answered answered;
	u32 n_features;
	u32 features[LINNOS_N_FEATURES];
	s64 out[LINNOS_N_OUTPUTS];
};

/*
 * How long the drive took over its reads, counted in buckets that are wider the
 * longer it took, four to a doubling, so that a percentile read off them is
 * within an eighth of the truth. The first has all below 4 us, where the next
 * few are a microsecond wide; the last begins at 12.6 s.
 */
#define LINNOS_LATENCY_BUCKETS 88

static inline u32 linnos_latency_bucket(u32 us)
{
	u32 shift = fls(us | 4) - 3;

	/* the two bits below the highest, and how far that is up */
	return min((shift << 2) + (max(us, 3U) >> shift) - 3,
		   LINNOS_LATENCY_BUCKETS - 1U);
}

/*
 * Files of stats/, in the order in which they are listed, and behind them the
 * buckets of latencies, whose one file is beside it.
 */
enum linnos_stat {
	LINNOS_STAT_READS,
	LINNOS_STAT_LATENCY_CRITICAL,
	LINNOS_STAT_ADMITTED,
	LINNOS_STAT_REVOKED,
	LINNOS_STAT_STALLED,
	LINNOS_STAT_KEPT,
	LINNOS_STAT_EXPECTED_GAIN_US,
	LINNOS_STAT_PROBES,
	LINNOS_STAT_SLOW,
	LINNOS_STAT_FALSE_SUBMITS,
	LINNOS_STAT_FALSE_REVOKES,
	LINNOS_STAT_INFERENCES,
	LINNOS_STAT_INFERENCE_NS,
	LINNOS_STAT_LATENCY,
	LINNOS_NR_STATS = LINNOS_STAT_LATENCY + LINNOS_LATENCY_BUCKETS,
};

struct linnos_stats {
	u64 count[LINNOS_NR_STATS];
};

/**
 * struct linnos_active_model - what decides
 * @rcu: frees it when nobody uses it any more
 * @id: CRC-32 of its file
 * @threshold_us: a read slower than this is slow
 * @chooses: reads may be refused, or sent elsewhere, by it
 * @latency: the model, if it is one of latencies; otherwise NULL
 * @net: the network; not allocated if it is not one
 */
struct linnos_active_model {
	struct rcu_head rcu;
	u32 id;
	u32 threshold_us;
	bool chooses;
	struct linnos_latency *latency;
	struct linnos_net net;
};

/**
 * struct linnos_cpu - what a CPU keeps to itself while it is quiet
 * @in_flight: what it has counted and not yet added to that of the drive
 * @write_pages: the same
 * @quiet_until_ns: it is quiet if this is not 0: until a read ends or is decided
 *	after it
 * @left_out: reads that were not recorded
 * @met: how often, of late, it met others at the history
 * @asked_by: who was told last, on this CPU, that the drive is not slow: a task,
 *	never dereferenced; NULL once he has sent a read
 * @asked_ns: when
 * @asked_size: about a read of this order of size
 *
 * A line for each CPU. See "Many CPUs" in blk-linnos.c.
 */
struct linnos_cpu {
	atomic64_t in_flight;
	atomic64_t write_pages;
	u64 quiet_until_ns;
	u64 left_out;
	const void *asked_by;
	u64 asked_ns;
	u8 asked_size;
	u8 met;
} ____cacheline_aligned_in_smp;

/**
 * struct linnos_look - has the drive been looked at with reads of this order?
 * @chosen_ns: when the policy last had a read sent there that it expected to be
 *	fast, or a probe last returned; a little may be missing
 * @revokes: revocations since a probe last returned, and answers that it is slow
 * @in_flight: reads in flight; those of the smallest order are not counted here
 * @ended_ns: when one of these last ended; 0: none has
 * @trusted: of reads in flight those that were admitted on trust
 * @again: the last probe came in time: the next one is due at once
 * @trust: how far the last reads admitted against the model's word belie it
 * @grown: so many have come in time since @limit was last raised
 * @limit: reads of more pages have no share in @trust
 * @in_time: the pages of the smallest read that came in time; 0: there was none
 * @backoff: the last probes were slow, wait 2^this times as long
 * @against: the last probe went against the model's word: not one of a drive that
 *	was passed over, or only stalls
 * @prober: the process that was given the last probe
 *
 * A line for each order: large reads write nothing that small ones look at.
 */
struct linnos_look {
	u64 chosen_ns;
	u64 ended_ns;
	atomic_t revokes;
	atomic_t in_flight;
	atomic_t trusted;
	bool again;
	u8 trust;
	u8 grown;
	u8 backoff;
	bool against;
	u32 limit;
	u32 in_time;
	pid_t prober;
} ____cacheline_aligned_in_smp;

#define LINNOS_NO_LIMIT BIT(21) /* more than a bio has */

/* As many replicas as anybody has of his data, beside the drive's own. */
#define LINNOS_PEERS_MAX 7

/**
 * struct linnos_peers - drives with the same data
 * @at: which; NULL where there is none, or where it has gone
 */
struct linnos_peers {
	struct blk_linnos __rcu *at[LINNOS_PEERS_MAX];
};

/* A model file on its way in, chunk by chunk. */
struct linnos_upload {
	const void *writer; /* identity only, never dereferenced */
	size_t bytes;
	size_t total_bytes;
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
 * @probe_after_us: history older than this is stale; 0: never
 * @probe_after_revokes: so is one followed by so many revocations; 0: never
 * @stall_us: reads are stalled when none completes for so long; 0: never
 * @watching: the model is one of latencies: what only these see is kept
 * @watch: since when reads are in flight, allocated with the first such model
 * @cpus: what CPUs keep to themselves, allocated with @stats
 * @quiet_ns: for how long a CPU is quiet that meets others; 0: none is
 * @held_most: no CPU keeps so many pages or reads to itself
 * @held_back: some may have kept some since @collected_ns
 * @collected_ns: when somebody last added up what they keep
 * @probe: of each order of size, the probe in flight or the last one, see
 *	PROBE_IN_FLIGHT
 * @in_flight: pages, reads, and a reference of the disk, see blk-linnos.c
 * @write_pages: of the pages those of writes, while @watching
 * @history_lock: serialises writers of @history
 * @history_seq: lets a reader take @history without the lock
 * @history: the last four completed reads of each order of size or a smaller one,
 *	but for those smaller ones that came after the last of this order
 * @answered: the same reads, while @watching
 * @caught_up: the @generation of the next smaller order at that time
 * @last_read_ns: when the drive last answered a read, whoever sent it
 * @recorded_ns: when the last read of @history was
 * @look: of each order of size
 * @busy_since_ns: while @stall_us is set, when the number of reads in flight last
 *	left zero, or it was set
 * @rqos: our place among the queue's policies
 * @peers: drives with the same data, or NULL if none were named
 * @failover_us: what it costs to be refused here and to ask elsewhere
 * @drives: among all drives, see blk-linnos-peers.c
 * @attached: @rqos is in the queue's list: since @mode first left off
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
	/* read by every I/O, and seldom written: two lines */
	enum linnos_mode mode;
	bool awake;
	bool hinted;
	u32 threshold_us;
	struct linnos_active_model __rcu *model;
	struct linnos_stats __percpu *stats;
	u32 probe_after_us;
	u32 probe_after_revokes;
	u32 stall_us;
	bool watching;
	struct linnos_watch *watch;
	struct linnos_cpu __percpu *cpus;
	u32 quiet_ns;
	u32 held_most;
	bool held_back;
	atomic64_t probe[LINNOS_SIZES];
	u64 collected_ns;

	/* written when an I/O is counted or a read recorded: all that a network
	 * sees of a drive for a small read is in one line
	 */
	atomic64_t in_flight ____cacheline_aligned_in_smp;
	atomic64_t write_pages;
	raw_spinlock_t history_lock;
	seqcount_raw_spinlock_t history_seq;
	struct linnos_history history[LINNOS_SIZES];

	/* written when a read is recorded: one line, if it is small */
	u64 last_read_ns ____cacheline_aligned_in_smp;
	u64 recorded_ns;
	struct linnos_answered answered[LINNOS_SIZES];
	u32 caught_up[LINNOS_SIZES];

	/* written by reads that are refused, and by probes */
	struct linnos_look look[LINNOS_SIZES];
	u64 busy_since_ns;

	/* configuration */
	struct rq_qos rqos ____cacheline_aligned_in_smp;
	struct linnos_peers __rcu *peers; /* read when a read is slow */
	u32 failover_us;
	struct list_head drives;
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

static inline void linnos_count_latency(struct blk_linnos *linnos, u32 us)
{
	linnos_count(linnos, LINNOS_STAT_LATENCY + linnos_latency_bucket(us));
}

/* blk-linnos.c */
void linnos_history_read(struct blk_linnos *linnos, struct linnos_view *view,
			 bool answered);
struct blk_linnos *linnos_alloc(struct gendisk *disk);
void linnos_free(struct blk_linnos *linnos);
int linnos_alloc_percpu(struct blk_linnos *linnos);
void linnos_forget_past(struct blk_linnos *linnos, u64 now_ns);
int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode);
u64 linnos_stat(struct blk_linnos *linnos, enum linnos_stat stat);
u32 linnos_pending_pages(struct blk_linnos *linnos);
u32 linnos_reads_in_flight(struct blk_linnos *linnos);
void linnos_see(const struct blk_linnos *linnos, struct linnos_seen *seen);
void linnos_set_stall(struct blk_linnos *linnos, u32 stall_us);
bool linnos_decide(struct blk_linnos *linnos, struct bio *bio, u64 now_ns);
enum blk_linnos_expected linnos_expect(struct blk_linnos *linnos,
				       unsigned int bytes, u64 now_ns,
				       bool look,
				       struct blk_expect_drive *drive);
void linnos_arrive(struct blk_linnos *linnos, struct bio *bio);
void linnos_start(struct blk_linnos *linnos, struct bio *bio, u64 now_ns);
void linnos_issued(struct blk_linnos *linnos, const struct bio *bio);
void linnos_tried(struct bio *bio, u64 time_ns);
void linnos_served(struct blk_linnos *linnos, struct bio *bio, u64 latency_ns,
		   u64 now_ns);
void linnos_end(struct blk_linnos *linnos, struct bio *bio,
		blk_status_t status);
bool linnos_bio_counts(const struct bio *bio);

/* blk-linnos-watch.c */
u32 linnos_watch_take(struct linnos_watch *watch, u32 pages);
void linnos_watch_probe(struct linnos_watch *watch, u32 size, u32 pages);
u64 linnos_watch_probe_since(struct linnos_watch *watch, u32 size);
void linnos_watch_probe_gone(struct linnos_watch *watch, u32 size,
			     u64 since_ns);
void linnos_watch_start(struct linnos_watch *watch, u32 place, u64 now_ns);
u32 linnos_watch_end(struct linnos_watch *watch, u32 place);
void linnos_features(const struct linnos_watch *watch, struct linnos_view *view,
		     u32 overdue_us);

/* blk-linnos-model.c */
bool linnos_predict(struct blk_linnos *linnos,
		    const struct linnos_active_model *active,
		    struct linnos_view *view);
int linnos_set_model(struct blk_linnos *linnos, const void *file, size_t bytes,
		     const char **why);
int linnos_upload_chunk(struct blk_linnos *linnos, const void *writer,
			const void *chunk, size_t offset, size_t bytes);
size_t linnos_active_store(const struct linnos_active_model *active,
			   void *file);
void linnos_active_free(struct linnos_active_model *active);

/* blk-linnos-peers.c */
void linnos_join(struct blk_linnos *linnos);
void linnos_leave(struct blk_linnos *linnos);
int linnos_set_peers(struct blk_linnos *linnos, const char *names);
ssize_t linnos_show_peers(struct blk_linnos *linnos, char *page);

/* blk-linnos-sysfs.c */
extern const struct kobj_type linnos_ktype;

#endif /* _BLK_LINNOS_POLICY_H */
