/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* LinnOS models: the format that all kinds share, and latency models. */
#ifndef _LINNOS_MODEL_H
#define _LINNOS_MODEL_H

#include "linnos_shim.h"

#define LINNOS_HISTORY 4 /* number of completed reads that a model uses */

/*
 * Size classes of a read: up to 64 KiB, up to 1 MiB, and larger. The latency of a read of 1 MiB
 * does not help to predict one of 4 KiB, but the latencies of small reads help to predict all.
 */
#define LINNOS_SIZE_CLASSES 3
#define LINNOS_SMALL_PAGES 16
#define LINNOS_MEDIUM_PAGES 256

static inline u32 linnos_size_class(u32 pages)
{
	return (pages > LINNOS_SMALL_PAGES) + (pages > LINNOS_MEDIUM_PAGES);
}

/* Offsets in the header of all model files (see Documentation/ABI). The version gives the kind. */
#define LINNOS_FILE_VERSION 8
#define LINNOS_FILE_TOTAL_BYTES 12
#define LINNOS_FILE_CRC32 16
#define LINNOS_FILE_THRESHOLD_US 36
#define LINNOS_FILE_HEADER 64

/* The check that a model file failed; linnos_model_error_string() describes it. */
enum linnos_model_error {
	LINNOS_MODEL_OK = 0,
	LINNOS_MODEL_TRUNCATED,
	LINNOS_MODEL_MAGIC,
	LINNOS_MODEL_UNKNOWN_VERSION,
	LINNOS_MODEL_SIZE,
	LINNOS_MODEL_SHAPE,
	LINNOS_MODEL_RESERVED,
	LINNOS_MODEL_RANGE,
	LINNOS_MODEL_CRC,
	LINNOS_MODEL_NOT_NARROW,
	LINNOS_MODEL_SPLIT,
	LINNOS_MODEL_ORDER,
};

const char *linnos_model_error_string(enum linnos_model_error error);

enum linnos_model_error linnos_file_check_start(const u8 *file, size_t bytes,
						u32 version);
enum linnos_model_error linnos_file_check_whole(const u8 *file, size_t bytes);

/*
 * A latency model predicts the latency of a read. It is a sum of small decision trees, trained
 * by gradient boosting (Friedman, Annals of Statistics 29, 2001). Each tree has four splits
 * between its root and each leaf, so that its evaluation needs no branch that could be
 * mispredicted. The sum of the leaves is the logarithm of the expected latency, in fixed point.
 */
#define LINNOS_LATENCY_VERSION 2

/* See docs/formats.md. The features of each past read are adjacent, the latest read first. */
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
/* Models that were trained before LINNOS_IN_REGION was added use one feature less. */
#define LINNOS_N_FEATURES_MIN LINNOS_IN_REGION

#define LINNOS_LATENCY_CAP 0xffffff /* us; also the age of missing reads */

#define LINNOS_TREE_DEPTH 4
#define LINNOS_TREE_LEAVES 16 /* 2^depth */
/* A file with fewer trees is refused: they would not distinguish fast from slow reads. */
#define LINNOS_TREES_MIN 16
#define LINNOS_TREES_MAX 256

/* In the file, a tree consists of splits of 32 bits and leaves of 16 bits. */
#define LINNOS_TREE_BYTES \
	(4 * (LINNOS_TREE_LEAVES - 1) + 2 * LINNOS_TREE_LEAVES)
#define LINNOS_LATENCY_BYTES_MAX \
	(LINNOS_FILE_HEADER + LINNOS_TREES_MAX * LINNOS_TREE_BYTES)

/*
 * Models are trained on reads that were not redirected. They do not predict that clients with the
 * same information may all choose the same drive. Every %LINNOS_CROWD reads in flight therefore add
 * @overdue_us to a predicted latency.
 */
#define LINNOS_CROWD 40

static inline u32 linnos_queueing_penalty_us(u32 reads, u32 overdue_us)
{
	u64 us = div_u64((u64)reads * overdue_us, LINNOS_CROWD);

	return min_t(u64, us, LINNOS_LATENCY_CAP);
}

#define LINNOS_LOG_BITS 10 /* fractional bits of leaves, log2 of us */

/*
 * Splits are numbered from 1. The next node after split n is 2 n + 1 if the feature is larger than
 * the threshold, and 2 n otherwise. The leaves follow the last split.
 */
struct linnos_tree {
	u32 threshold[LINNOS_TREE_LEAVES];
	s16 leaf[LINNOS_TREE_LEAVES];
	u8 feature[LINNOS_TREE_LEAVES];
};

struct linnos_latency {
	u32 refuse_us; /* a read predicted to be slower than this is refused */
	u32 overdue_us; /* a read in flight for longer is overdue */
	s32 base; /* initial value of the sum of leaves */
	/* 0 only in programs, for a drive without a model: predict the mean of the last reads */
	u32 n_trees;
	bool uses_region; /* a split depends on %LINNOS_IN_REGION */
	u8 header[LINNOS_FILE_HEADER]; /* header of the model file */
	struct linnos_tree trees[];
};

/* Check the header of a file. Return the first check that failed. */
enum linnos_model_error linnos_latency_check_header(const void *file,
						    size_t bytes);
size_t linnos_latency_sizeof(size_t file_bytes);
enum linnos_model_error linnos_latency_parse(struct linnos_latency *model,
					     const void *file, size_t bytes);
size_t linnos_latency_store(const struct linnos_latency *model, void *file);

u32 linnos_latency_us(const struct linnos_latency *model,
		      const u32 features[LINNOS_N_FEATURES]);

#endif /* _LINNOS_MODEL_H */
