/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* LinnOS models of both kinds: their files, and what they make of a read. */
#ifndef _LINNOS_MODEL_H
#define _LINNOS_MODEL_H

#include "linnos_shim.h"

#define LINNOS_HISTORY 4 /* so many completed reads are looked at */

/*
 * Orders of size of a read: up to 64 KiB, up to 1 MiB, and more. How long 1 MiB took
 * tells nothing of 4 KiB, but small reads tell of all.
 */
#define LINNOS_SIZE_CLASSES 3
#define LINNOS_SMALL_PAGES 16
#define LINNOS_MEDIUM_PAGES 256

static inline u32 linnos_size_class(u32 pages)
{
	return (pages > LINNOS_SMALL_PAGES) + (pages > LINNOS_MEDIUM_PAGES);
}

/* Model files begin alike (see Documentation/ABI); the version says which kind it is. */
#define LINNOS_FILE_VERSION 8
#define LINNOS_FILE_TOTAL_BYTES 12
#define LINNOS_FILE_CRC32 16
#define LINNOS_FILE_THRESHOLD_US 36
#define LINNOS_FILE_HEADER 64

/* Which check a model file failed; linnos_model_error_string() says it. */
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
 * The network says fast or slow: 31 -> 256 ReLU -> 2. Its inputs are decimal digits:
 *
 *	digit	 0 .. 11  pending pages when the last four reads arrived,
 *			  oldest first, three digits each (capped at 999)
 *		12 .. 14  pending pages now, this read included
 *		15 .. 30  latency_us of the last four reads, oldest first,
 *			  four digits each (capped at 9999)
 *
 * most significant digit first.
 */
#define LINNOS_NETWORK_VERSION 1

#define LINNOS_PENDING_DIGITS 3
#define LINNOS_LATENCY_DIGITS 4
#define LINNOS_N_INPUTS                                 \
	((LINNOS_HISTORY + 1) * LINNOS_PENDING_DIGITS + \
	 LINNOS_HISTORY * LINNOS_LATENCY_DIGITS)
#define LINNOS_PENDING_MAX 999
#define LINNOS_LATENCY_MAX 9999
#define LINNOS_N_HIDDEN 256
#define LINNOS_N_OUTPUTS 2

#define LINNOS_NETWORK_BYTES                                              \
	(LINNOS_FILE_HEADER +                                             \
	 4 * LINNOS_N_HIDDEN * (LINNOS_N_INPUTS + 1 + LINNOS_N_OUTPUTS) + \
	 8 * LINNOS_N_OUTPUTS)

/* Four hidden units to a 64-bit word, unit 4 n + k in bits 16 k and up. */
#define LINNOS_LANES 4
#define LINNOS_WORDS (LINNOS_N_HIDDEN / LINNOS_LANES)

/* A checked network; output 0 is fast, output 1 is slow. */
struct linnos_net {
	/* with an offset that keeps them positive; the last ones are the biases */
	u64 weights[LINNOS_N_INPUTS + 1][LINNOS_WORDS];
	/* slow less fast, of even and odd units in a word, the second one first */
	u64 margin_pairs[LINNOS_WORDS][2];
	s16 output_weights[LINNOS_N_OUTPUTS][LINNOS_N_HIDDEN];
	s64 output_bias[LINNOS_N_OUTPUTS];
	u8 header[LINNOS_FILE_HEADER]; /* of its file */
};

/* The hidden layer before its ReLU, with the offset. */
struct linnos_hidden {
	u64 sums[LINNOS_WORDS];
};

/* Can this be the beginning of a file? Return: the first check that failed. */
enum linnos_model_error linnos_network_check_header(const void *file,
						    size_t bytes);
enum linnos_model_error linnos_network_parse(struct linnos_net *net,
					     const void *file, size_t bytes);
size_t linnos_network_store(const struct linnos_net *net, void *file);

void linnos_hidden_layer(const struct linnos_net *net,
			 const u8 digits[LINNOS_N_INPUTS],
			 struct linnos_hidden *hidden);
s64 linnos_margin(const struct linnos_net *net,
		  const struct linnos_hidden *hidden);
void linnos_outputs(const struct linnos_net *net,
		    const struct linnos_hidden *hidden,
		    s64 out[LINNOS_N_OUTPUTS]);

/*
 * A model of latencies says how long: a sum of small decision trees, trained by gradient
 * boosting (Friedman, Annals of Statistics 29, 2001). Each has four splits between its
 * root and each leaf, so that no branch can be mispredicted. The sum of the leaves is
 * the logarithm of the expected latency, in fixed point.
 */
#define LINNOS_LATENCY_VERSION 2

/* See docs/formats.md. Those of the last reads stand together, the latest first. */
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

#define LINNOS_LATENCY_CAP 0xffffff /* us; what has never been is as old */

#define LINNOS_TREE_DEPTH 4
#define LINNOS_TREE_LEAVES 16 /* 2^depth */
#define LINNOS_TREES_MAX 256
/* Fewer know bursts alone: see linnos_latency_is_validated(). */
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

static inline u32 linnos_queueing_penalty_us(u32 reads, u32 overdue_us)
{
	u64 us = div_u64((u64)reads * overdue_us, LINNOS_CROWD);

	return min_t(u64, us, LINNOS_LATENCY_CAP);
}

#define LINNOS_LOG_BITS 10 /* behind the point of leaves, log2 of us */

/*
 * From 1, a split is a limit above 8 bits of a feature's number; those of n are 2 n and,
 * where the feature is larger than the limit, 2 n + 1. Beyond the last are the leaves.
 */
struct linnos_tree {
	u32 split[LINNOS_TREE_LEAVES];
	s16 leaf[LINNOS_TREE_LEAVES];
};

struct linnos_latency {
	u32 refuse_us; /* a read predicted to be slower than this is refused */
	u32 overdue_us; /* a read in flight for longer is overdue */
	s32 base; /* what the leaves are added to */
	u32 n_trees; /* 0: it is the mean of the last latencies */
	u8 header[LINNOS_FILE_HEADER]; /* of its file */
	struct linnos_tree trees[];
};

/* As those of a network. */
enum linnos_model_error linnos_latency_check_header(const void *file,
						    size_t bytes);
size_t linnos_latency_sizeof(size_t file_bytes);
enum linnos_model_error linnos_latency_parse(struct linnos_latency *model,
					     const void *file, size_t bytes);
size_t linnos_latency_store(const struct linnos_latency *model, void *file);

u32 linnos_latency_us(const struct linnos_latency *model,
		      const u32 features[LINNOS_N_FEATURES]);
bool linnos_latency_is_validated(const struct linnos_latency *model);

#endif /* _LINNOS_MODEL_H */
