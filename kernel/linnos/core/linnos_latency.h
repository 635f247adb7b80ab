/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS latency model: how long a read would take, from integers.
 *
 * A sum of small decision trees, trained by gradient boosting (Friedman, Annals of
 * Statistics 29, 2001). Each has four splits between its root and each leaf, so that
 * no branch can be mispredicted. The sum of the leaves is the logarithm of the
 * expected latency, in fixed point.
 */
#ifndef _LINNOS_LATENCY_H
#define _LINNOS_LATENCY_H

#include "linnos_model.h"

#define LINNOS_LATENCY_VERSION 2

/*
 * Features, all at most %LINNOS_LATENCY_CAP; docs/formats.md defines them. Those
 * of the last four reads stand together, the read that completed last first; what
 * came later stands behind them.
 */
enum linnos_latency_feature {
	LINNOS_OWN_PAGES,
	LINNOS_READ_PAGES,
	LINNOS_WRITE_PAGES,
	LINNOS_READS_IN_FLIGHT,
	LINNOS_OLDEST_US,
	LINNOS_OVERDUE,
	LINNOS_PAST,
};

enum linnos_latency_past {
	LINNOS_PAST_LATENCY_US,
	LINNOS_PAST_PENDING,
	LINNOS_PAST_PAGES,
	LINNOS_PAST_AGE_US,
	LINNOS_N_PAST,
};

#define LINNOS_IN_REGION (LINNOS_PAST + LINNOS_HISTORY * LINNOS_N_PAST)
#define LINNOS_N_FEATURES (LINNOS_IN_REGION + 1)
/* A model may know only the first ones: those trained before there were more do. */
#define LINNOS_N_FEATURES_MIN LINNOS_IN_REGION

/* 16.8 s in us; what has never been is as old. */
#define LINNOS_LATENCY_CAP 0xffffff

#define LINNOS_TREE_DEPTH 4
#define LINNOS_TREE_LEAVES 16 /* 2^depth */
#define LINNOS_TREES_MAX 256
/* Fewer know bursts alone: see linnos_latency_chooses(). */
#define LINNOS_TREES_TO_CHOOSE 16

/* In the file, a tree has its splits and its leaves, of 32 and 16 bits. */
#define LINNOS_TREE_BYTES \
	(4 * (LINNOS_TREE_LEAVES - 1) + 2 * LINNOS_TREE_LEAVES)
#define LINNOS_LATENCY_BYTES_MAX \
	(LINNOS_FILE_HEADER + LINNOS_TREES_MAX * LINNOS_TREE_BYTES)

/*
 * Models learn from reads that stayed at home. Readers who choose by the same news
 * meet on one drive: each so many reads in flight add @overdue_us.
 */
#define LINNOS_CROWD 40

static inline u32 linnos_crowding_us(u32 reads, u32 overdue_us)
{
	u64 us = div_u64((u64)reads * overdue_us, LINNOS_CROWD);

	return min_t(u64, us, LINNOS_LATENCY_CAP);
}

/* Leaves are log2 of us, with so many bits behind the point. */
#define LINNOS_LOG_BITS 10

/*
 * A complete tree. From 1, a split is a limit above 8 bits of a feature's number; those
 * of n are 2 n and, where the feature is larger than the limit, 2 n + 1. Beyond the
 * last ones are the leaves.
 */
struct linnos_tree {
	u32 split[LINNOS_TREE_LEAVES];
	s16 leaf[LINNOS_TREE_LEAVES];
};

/* A checked model. */
struct linnos_latency {
	u32 refuse_us; /* a read predicted to be slower than this is refused */
	u32 overdue_us; /* a read in flight for longer is overdue */
	s32 base; /* what the leaves are added to */
	u32 n_trees; /* 0: it is the mean of the last latencies */
	u8 header[LINNOS_FILE_HEADER]; /* of its file */
	struct linnos_tree trees[];
};

enum linnos_model_error linnos_latency_check_header(const void *file,
						    size_t bytes);
size_t linnos_latency_sizeof(size_t file_bytes);
enum linnos_model_error linnos_latency_parse(struct linnos_latency *model,
					     const void *file, size_t bytes);
size_t linnos_latency_store(const struct linnos_latency *model, void *file);

u32 linnos_latency_us(const struct linnos_latency *model,
		      const u32 features[LINNOS_N_FEATURES]);
bool linnos_latency_chooses(const struct linnos_latency *model);

#endif /* _LINNOS_LATENCY_H */
