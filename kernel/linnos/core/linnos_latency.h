/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS latency model: how long a read would take, from integers.
 *
 * The second kind of model, beside the network of linnos_network.h. It is a sum
 * of small decision trees, trained by gradient boosting (Friedman, Annals of
 * Statistics 29, 2001). Each tree is complete: four splits lie between its root
 * and each of its leaves, so that a prediction takes the same steps whatever
 * the read, without a branch that could be mispredicted. A leaf is a logarithm
 * in fixed point; the sum over the trees is that of the expected latency.
 */
#ifndef _LINNOS_LATENCY_H
#define _LINNOS_LATENCY_H

#include "linnos_model.h"

#define LINNOS_LATENCY_VERSION 2

/*
 * Features, all at most %LINNOS_LATENCY_CAP; docs/formats.md defines them. Those
 * of the last four reads stand together, the read that completed last first.
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

#define LINNOS_N_FEATURES (LINNOS_PAST + LINNOS_HISTORY * LINNOS_N_PAST)

/* 16.8 s in us; what has never been is as old. */
#define LINNOS_LATENCY_CAP 0xffffff

#define LINNOS_TREE_DEPTH 4
#define LINNOS_TREE_LEAVES 16 /* 2^depth */
#define LINNOS_TREES_MAX 256
/* Fewer know bursts alone, not the drive: see linnos_latency_chooses(). */
#define LINNOS_TREES_TO_CHOOSE 16

/* In the file, a tree has its splits and its leaves, of 32 and 16 bits. */
#define LINNOS_TREE_BYTES \
	(4 * (LINNOS_TREE_LEAVES - 1) + 2 * LINNOS_TREE_LEAVES)
#define LINNOS_LATENCY_BYTES_MAX \
	(LINNOS_FILE_HEADER + LINNOS_TREES_MAX * LINNOS_TREE_BYTES)

/*
 * What is predicted was learnt from reads that stayed at home. How much longer they
 * all take when more come to a drive than it would have had is not in it, and readers
 * who choose by the same news would meet there. Every so many more make it overdue.
 */
#define LINNOS_CROWD 10

static inline u32 linnos_crowding_us(u32 reads, u32 overdue_us)
{
	return div_u64((u64)reads * overdue_us, LINNOS_CROWD);
}

/* Leaves are log2 of us, with so many bits behind the point. */
#define LINNOS_LOG_BITS 10

/**
 * struct linnos_tree - a complete tree
 * @split: from 1: the limit, and in the 8 bits below it the feature's number;
 *	those of n are 2 n and, where the feature is larger than the limit, 2 n + 1
 * @leaf: by what the last split leads to, less %LINNOS_TREE_LEAVES
 */
struct linnos_tree {
	u32 split[LINNOS_TREE_LEAVES];
	s16 leaf[LINNOS_TREE_LEAVES];
};

/**
 * struct linnos_latency - a checked model
 * @id: CRC-32 of the file
 * @threshold_us: a read slower than this is slow
 * @refuse_us: as a verdict: a read predicted to be slower than this is refused
 * @overdue_us: a read in flight for longer is overdue
 * @base: what the leaves are added to
 * @n_trees: number of trees; with none, the mean of the last latencies it is
 * @trees: the trees
 */
struct linnos_latency {
	u32 id;
	u32 threshold_us;
	u32 refuse_us;
	u32 overdue_us;
	s32 base;
	u32 n_trees;
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
