// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LinnOS latency model: parse a model file, and predict latencies.
 *
 * A file is accepted only if no prediction from it can overflow or access memory outside the model:
 * all splits refer to existing features, all trees are complete, and the sum of 256 leaves of
 * 16 bits fits in 32 bits. Predictions therefore check nothing.
 */
#include "linnos_model.h"

#define AT_N_FEATURES 20
#define AT_N_TREES 22
#define AT_SHAPE 24
#define AT_RESERVED_A 27
#define AT_OVERDUE_US 28
#define AT_REFUSE_US 32
#define AT_BASE 40
#define AT_RESERVED_B 44

/* Depth of a tree, number of past reads, and fractional bits of leaves. */
static const u8 linnos_shape[AT_RESERVED_A - AT_SHAPE] = {
	LINNOS_TREE_DEPTH,
	LINNOS_HISTORY,
	LINNOS_LOG_BITS,
};

/* Range of the sum of all leaves: 0 is 1 us, LOG_END is the cap of the features. */
#define LOG_END (24 << LINNOS_LOG_BITS)

/* In the file, the high bits of a split are its feature, the low bits its threshold. */
#define THRESHOLD_BITS 24
#define THRESHOLD_MASK ((1 << THRESHOLD_BITS) - 1)

/* Interpolate linearly between two entries of the table of powers. */
#define STEP_BITS 5
#define POWER_BITS 16

enum linnos_model_error linnos_latency_check_header(const void *file,
						    size_t bytes)
{
	u32 n_features, n_trees, overdue_us, base;
	enum linnos_model_error error;
	const u8 *p = file;

	error = linnos_file_check_start(p, bytes, LINNOS_LATENCY_VERSION);
	if (error)
		return error;
	n_features = get_unaligned_le16(p + AT_N_FEATURES);
	n_trees = get_unaligned_le16(p + AT_N_TREES);
	if (n_features < LINNOS_N_FEATURES_MIN ||
	    n_features > LINNOS_N_FEATURES ||
	    memcmp(p + AT_SHAPE, linnos_shape, sizeof(linnos_shape)) ||
	    n_trees < LINNOS_TREES_MIN || n_trees > LINNOS_TREES_MAX)
		return LINNOS_MODEL_SHAPE;
	if (get_unaligned_le32(p + LINNOS_FILE_TOTAL_BYTES) !=
	    LINNOS_FILE_HEADER + n_trees * LINNOS_TREE_BYTES)
		return LINNOS_MODEL_SIZE;
	if (p[AT_RESERVED_A] || memchr_inv(p + AT_RESERVED_B, 0,
					   LINNOS_FILE_HEADER - AT_RESERVED_B))
		return LINNOS_MODEL_RESERVED;
	overdue_us = get_unaligned_le32(p + AT_OVERDUE_US);
	base = get_unaligned_le32(p + AT_BASE);
	if (!overdue_us || overdue_us > LINNOS_LATENCY_CAP ||
	    !get_unaligned_le32(p + AT_REFUSE_US) ||
	    !get_unaligned_le32(p + LINNOS_FILE_THRESHOLD_US) ||
	    base + 0x8000 > 0xffff)
		return LINNOS_MODEL_RANGE;
	return LINNOS_MODEL_OK;
}

/* Return the number of bytes to allocate for the model in a file of @file_bytes. */
size_t linnos_latency_sizeof(size_t file_bytes)
{
	return sizeof(struct linnos_latency) +
	       file_bytes / LINNOS_TREE_BYTES * sizeof(struct linnos_tree);
}

/*
 * Check and load a complete file. @model has linnos_latency_sizeof() bytes. Return the first check
 * that failed; @model is undefined then.
 */
enum linnos_model_error linnos_latency_parse(struct linnos_latency *model,
					     const void *file, size_t bytes)
{
	enum linnos_model_error error;
	struct linnos_tree *tree, *end;
	const u8 *p = file;
	u32 n_features, i;

	error = linnos_latency_check_header(p, bytes);
	if (!error)
		error = linnos_file_check_whole(p, bytes);
	if (error)
		return error;

	memcpy(model->header, p, LINNOS_FILE_HEADER);
	model->refuse_us = get_unaligned_le32(p + AT_REFUSE_US);
	model->overdue_us = get_unaligned_le32(p + AT_OVERDUE_US);
	model->base = (s32)get_unaligned_le32(p + AT_BASE);
	model->n_trees = get_unaligned_le16(p + AT_N_TREES);
	n_features = get_unaligned_le16(p + AT_N_FEATURES);

	p += LINNOS_FILE_HEADER;
	end = model->trees + model->n_trees;
	model->uses_region = false;
	for (tree = model->trees; tree < end; tree++) {
		for (i = 1; i < LINNOS_TREE_LEAVES; i++, p += 4) {
			u32 split = get_unaligned_le32(p);

			if (split >> THRESHOLD_BITS >= n_features)
				return LINNOS_MODEL_SPLIT;
			tree->threshold[i] = split & THRESHOLD_MASK;
			tree->feature[i] = split >> THRESHOLD_BITS;
			if (tree->feature[i] == LINNOS_IN_REGION)
				model->uses_region = true;
		}
	}
	for (tree = model->trees; tree < end; tree++)
		for (i = 0; i < LINNOS_TREE_LEAVES; i++, p += 2)
			tree->leaf[i] = (s16)get_unaligned_le16(p);
	return LINNOS_MODEL_OK;
}

/* Store a model as a file of at most %LINNOS_LATENCY_BYTES_MAX. Return the size of the file. */
size_t linnos_latency_store(const struct linnos_latency *model, void *file)
{
	const struct linnos_tree *end = model->trees + model->n_trees, *tree;
	u8 *p = file;
	u32 i;

	memcpy(p, model->header, LINNOS_FILE_HEADER);
	p += LINNOS_FILE_HEADER;
	for (tree = model->trees; tree < end; tree++)
		for (i = 1; i < LINNOS_TREE_LEAVES; i++, p += 4)
			put_unaligned_le32(tree->feature[i] << THRESHOLD_BITS |
						   tree->threshold[i],
					   p);
	for (tree = model->trees; tree < end; tree++)
		for (i = 0; i < LINNOS_TREE_LEAVES; i++, p += 2)
			put_unaligned_le16(tree->leaf[i], p);
	return p - (u8 *)file;
}

/* Return the child of a split: 2 @at, plus 1 if the feature is larger than the threshold. */
static inline u64 linnos_tree_step(const struct linnos_tree *tree,
				   const u32 *features, u64 at)
{
	u32 value = features[tree->feature[at]];

#ifdef __x86_64__
	/* add the carry flag of the comparison; compilers need two more instructions */
	asm("cmp %1, %2\n\tadc %0, %0"
	    : "+r"(at)
	    : "r"(value), "m"(tree->threshold[at])
	    : "cc");
	return at;
#else
	return 2 * at + (tree->threshold[at] < value);
#endif
}

/* Trees do not depend on each other, so the CPU can evaluate several in parallel. */
static s32 linnos_trees_sum(const struct linnos_latency *model,
			    const u32 *features)
{
	const struct linnos_tree *tree = model->trees;
	const struct linnos_tree *end = tree + model->n_trees;
	s32 sum = model->base;

#pragma GCC unroll 2
	for (; tree < end; tree++) {
		u64 at = 1;

		at = linnos_tree_step(tree, features, at);
		at = linnos_tree_step(tree, features, at);
		at = linnos_tree_step(tree, features, at);
		at = linnos_tree_step(tree, features, at);
		sum += tree->leaf[at - LINNOS_TREE_LEAVES];
	}
	return sum;
}

/* Return the latency in us for a logarithm: 2^(@log / 2^LINNOS_LOG_BITS), rounded. */
static u32 linnos_latency_power(s32 log)
{
	/* 2^(k / 32) with POWER_BITS fractional bits, rounded */
	static const u32 power[(1 << STEP_BITS) + 1] = {
		65536,	66971,	68438,	69936,	71468,	73032,	74632,
		76266,	77936,	79642,	81386,	83169,	84990,	86851,
		88752,	90696,	92682,	94711,	96785,	98905,	101070,
		103283, 105545, 107856, 110218, 112631, 115098, 117618,
		120194, 122825, 125515, 128263, 131072,
	};
	const u32 within = LINNOS_LOG_BITS - STEP_BITS;
	u32 whole, fraction, low, high;
	u64 us;

	log = max_t(s32, log, 0);
	if (log >= LOG_END)
		return LINNOS_LATENCY_CAP;
	whole = log >> LINNOS_LOG_BITS;
	fraction = log & ((1 << LINNOS_LOG_BITS) - 1);
	low = power[fraction >> within];
	high = power[(fraction >> within) + 1];
	us = low + ((high - low) * (fraction & ((1 << within) - 1)) >> within);
	us = ((us << whole) + (1 << (POWER_BITS - 1))) >> POWER_BITS;
	return min_t(u64, us, LINNOS_LATENCY_CAP);
}

/*
 * Return the predicted latency, from 1 us to %LINNOS_LATENCY_CAP. If a read in flight is overdue,
 * it is at least the time by which that read is overdue. Each of the @features must be at most
 * %LINNOS_LATENCY_CAP.
 */
u32 linnos_latency_us(const struct linnos_latency *model,
		      const u32 features[LINNOS_N_FEATURES])
{
	u32 oldest_us = features[LINNOS_OLDEST_US];
	u32 us = 0;
	int ago;

	if (!model->n_trees) {
		for (ago = 0; ago < LINNOS_HISTORY; ago++)
			us += features[LINNOS_PAST + ago * LINNOS_N_PAST +
				       LINNOS_PAST_LATENCY_US];
		us = max_t(u32, us / LINNOS_HISTORY, 1);
	} else {
		us = linnos_latency_power(linnos_trees_sum(model, features));
	}
	if (oldest_us > model->overdue_us)
		us = max_t(u32, us, oldest_us - model->overdue_us);
	return us;
}
