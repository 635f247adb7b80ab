/* SPDX-License-Identifier: GPL-2.0-only */
/* LinnOS: the state of a drive, private to the policy and its tests. */
#ifndef _BLK_LINNOS_POLICY_H
#define _BLK_LINNOS_POLICY_H

#include <linux/blk-linnos.h>
#include <linux/blk_types.h>
#include <linux/cleanup.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>

#include "blk-linnos.h"
#include "linnos_drive.h"
#ifdef CONFIG_BLK_LINNOS_NETWORK
#include "linnos_network.h"
#endif
/* Trace points call the module, rq_qos calls the built-in policy. */
#ifdef MODULE
#include "linnos_tap.h"
#else
#include "blk-rq-qos.h"
#endif

enum linnos_mode {
	LINNOS_OFF,
	LINNOS_OBSERVE,
	LINNOS_ENFORCE,
};

/* The slow threshold if there is no model: no read is slow. */
#define LINNOS_NO_THRESHOLD U32_MAX

struct linnos_prediction {
	struct linnos_drive_snapshot view;
	u32 size; /* size class of the requests that the read will be split into */
	enum linnos_reason reason;
	u32 overdue_us;
	u32 n_features; /* 0 if the model is a network */
	u32 features[LINNOS_N_FEATURES];
	/*
	 * Network: both outputs, if traced. Trees: the latency above which a read is refused,
	 * and the predicted latency, in us.
	 */
	s64 out[2];
};

/*
 * Latencies are counted in a histogram with four buckets per power of two, so that a percentile is
 * accurate to within an eighth. The first bucket ends at 4 us, the last one begins at 12.6 s.
 */
#define LINNOS_LATENCY_BUCKETS 88

static inline u32 linnos_latency_bucket(u32 us)
{
	u32 shift = fls(us | 4) - 3;

	/* the position of the highest set bit, and the two bits below it */
	return min((shift << 2) + (max(us, 3U) >> shift) - 3,
		   LINNOS_LATENCY_BUCKETS - 1U);
}

/* Counters: the files of stats/, followed by the buckets of the latency histogram. */
enum linnos_stat {
	LINNOS_STAT_READS,
	LINNOS_STAT_LATENCY_CRITICAL,
	LINNOS_STAT_ADMITTED,
	LINNOS_STAT_REVOKED,
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

/* The maximum size of a model file. */
#ifdef CONFIG_BLK_LINNOS_NETWORK
#define LINNOS_MODEL_BYTES_MAX LINNOS_NETWORK_BYTES
#else
#define LINNOS_MODEL_BYTES_MAX LINNOS_LATENCY_BYTES_MAX
#endif

struct linnos_model {
	struct rcu_head rcu;
	u32 id; /* CRC-32 of the model file */
	u32 threshold_us; /* a read slower than this is slow */
	struct linnos_latency *latency; /* &trees, or NULL for a network */
	union {
#ifdef CONFIG_BLK_LINNOS_NETWORK
		struct linnos_net net;
#endif
		struct linnos_latency trees;
	};
};

/* A model file that is being written to sysfs, chunk by chunk. */
struct linnos_upload {
	const void *writer; /* identity only, never dereferenced */
	size_t bytes;
	size_t total_bytes;
	u8 *file;
};

struct blk_linnos {
	/* read by every I/O, rarely written */
	enum linnos_mode mode;
	u32 threshold_us; /* of the active model, or LINNOS_NO_THRESHOLD */
	struct linnos_model __rcu *model;
	struct linnos_stats __percpu *stats; /* NULL if the policy was never on */
	u32 failover_us;

	struct linnos_drive drive;

	/* configuration */
#ifdef MODULE
	struct linnos_tap tap ____cacheline_aligned_in_smp;
	struct list_head
		drives; /* entry in the module's list of observed drives */
#else
	struct rq_qos rqos ____cacheline_aligned_in_smp;
	bool attached; /* rqos is in the queue's list, because the policy has been on */
#endif
	struct mutex lock; /* protects mode, model and upload */
	struct linnos_upload upload;
	struct gendisk *disk;
	struct kobject kobj;
};

static inline bool linnos_is_on(const struct blk_linnos *linnos)
{
	/* pairs with linnos_set_mode() */
	return smp_load_acquire(&linnos->mode) != LINNOS_OFF;
}

static inline bool linnos_is_slow(const struct linnos_prediction *found)
{
	return found->reason == LINNOS_PREDICTED_SLOW;
}

/* Return the predicted latency in us; 0 if the model is a network. */
static inline u32 linnos_predicted_us(const struct linnos_prediction *found)
{
	return found->n_features ? found->out[1] : 0;
}

/* @sector: on the disk, not on a partition */
static inline u8 linnos_region_at(sector_t sector)
{
	return linnos_region_of((u64)sector << SECTOR_SHIFT);
}

/* Return true for the operations that are counted. */
static inline bool linnos_is_load(const struct bio *bio)
{
	return bio->bi_iter.bi_size &&
	       (bio_op(bio) == REQ_OP_READ || bio_op(bio) == REQ_OP_WRITE ||
		bio_op(bio) == REQ_OP_ZONE_APPEND);
}

static inline void linnos_count(struct blk_linnos *linnos,
				enum linnos_stat stat)
{
	this_cpu_inc(linnos->stats->count[stat]);
}

/* blk-linnos.c; in the module linnos_tap.c */
#ifdef MODULE
struct blk_linnos *linnos_of_disk(const struct gendisk *disk);
#else
extern const struct rq_qos_ops blk_linnos_ops;

static inline struct blk_linnos *linnos_of_disk(const struct gendisk *disk)
{
	return disk->linnos;
}
#endif

int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode);

/* blk-linnos-expect.c */
struct blk_linnos *linnos_alloc(struct gendisk *disk);
void linnos_free(struct blk_linnos *linnos);
int linnos_alloc_stats(struct blk_linnos *linnos);
void linnos_reset_history(struct blk_linnos *linnos);
u64 linnos_stat(struct blk_linnos *linnos, enum linnos_stat stat);
void linnos_predict_read(struct blk_linnos *linnos, u8 region,
			 unsigned int bytes, u64 now_ns,
			 struct linnos_prediction *found);
enum blk_linnos_expected linnos_expect_read(struct blk_linnos *linnos,
					    u8 region, unsigned int bytes,
					    u64 now_ns, bool will_send,
					    struct linnos_prediction *found);
void linnos_request_done(struct blk_linnos *linnos, struct linnos_io *io,
			 u64 now_ns);

/* blk-linnos-model.c */
bool linnos_predict(struct blk_linnos *linnos,
		    const struct linnos_model *active,
		    struct linnos_prediction *found);
int linnos_set_model(struct blk_linnos *linnos, const void *file, size_t bytes);
int linnos_upload_chunk(struct blk_linnos *linnos, const void *writer,
			const void *chunk, size_t offset, size_t bytes);
size_t linnos_model_store(const struct linnos_model *active, void *file);

/* blk-linnos-sysfs.c */
extern const struct kobj_type linnos_ktype;

#endif /* _BLK_LINNOS_POLICY_H */
