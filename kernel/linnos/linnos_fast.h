/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS network, fast: the same decisions as linnos_infer(), bit for bit, from
 * a packed form of the model.
 *
 * Only 3 of the 31 digits belong to the read that arrives. The others are the
 * history's, known since the last read completed, and their share of the
 * hidden layer can be computed then. What is left when a read arrives is one
 * pass over 256 hidden units.
 */
#ifndef _LINNOS_FAST_H
#define _LINNOS_FAST_H

#include "linnos_engine.h"

/*
 * Digits are taken in pairs, because a multiplication of 16-bit weights adds
 * two products anyway. Digits that tend to be zero together are paired, so
 * that the pair can be skipped.
 */
#define LINNOS_N_PAIRS 16
#define LINNOS_HISTORY_PAIRS 14 /* the last two are for what is pending now */

/*
 * Hidden sums carry an offset that keeps them positive, so that two of them in
 * one word do not disturb each other. Biases of a packed model are limited to
 * 30 bits; the weights add less than 24.
 */
#define LINNOS_HIDDEN_OFFSET 0x80000000U

/**
 * struct linnos_net - a model whose weights fit 16 bits
 * @weights: [pair of digits][hidden unit][digit of the pair]
 * @margin_weights: output weight of slow less that of fast
 * @hidden_bias: one per hidden unit, plus LINNOS_HIDDEN_OFFSET
 * @fast_weights: output weight of fast
 * @output_bias: one per output
 * @margin_bias: output bias of slow less that of fast
 * @id: CRC-32 of the model file
 * @scale: fixed-point scale of the weights
 * @threshold_us: a read slower than this is slow
 */
struct linnos_net {
	s16 weights[LINNOS_N_PAIRS][LINNOS_N_HIDDEN][2];
	s64 margin_weights[LINNOS_N_HIDDEN];
	u32 hidden_bias[LINNOS_N_HIDDEN];
	s16 fast_weights[LINNOS_N_HIDDEN];
	s64 output_bias[LINNOS_N_OUTPUTS];
	s64 margin_bias;
	u32 id;
	u32 scale;
	u32 threshold_us;
} __aligned(32);

/**
 * struct linnos_past - what a history contributes, ready for a decision
 * @hidden: the hidden layer before its ReLU, without what is pending now and
 *	with LINNOS_HIDDEN_OFFSET
 * @known: bit n: the decision for n pending pages has been made before
 * @slow: bit n: and it was slow
 */
struct linnos_past {
	u32 hidden[LINNOS_N_HIDDEN];
	u64 known;
	u64 slow;
} __aligned(32);

bool linnos_net_pack(struct linnos_net *net, const struct linnos_model *model);
void linnos_net_unpack(const struct linnos_net *net,
		       struct linnos_model *model);
void linnos_net_outputs(const struct linnos_net *net,
			const struct linnos_past *past, u32 pending,
			s64 out[LINNOS_N_OUTPUTS]);

/*
 * An engine is two functions. history() computes @hidden from a vector of
 * digits, whose digits of what is pending now it ignores; margin() returns a
 * number that is greater than zero when the read is slow.
 */
void linnos_history_scalar(const struct linnos_net *net,
			   const u8 digits[LINNOS_N_INPUTS], u32 *hidden);
s64 linnos_margin_scalar(const struct linnos_net *net, const u32 *hidden,
			 u32 pending);
void linnos_history_avx2(const struct linnos_net *net,
			 const u8 digits[LINNOS_N_INPUTS], u32 *hidden);
s64 linnos_margin_avx2(const struct linnos_net *net, const u32 *hidden,
		       u32 pending);

struct linnos_pair {
	u8 first;
	u8 second;
};

extern const struct linnos_pair linnos_pairs[LINNOS_N_PAIRS];

/* The digit beyond the last: always zero, and so is its weight. */
#define LINNOS_NO_DIGIT LINNOS_N_INPUTS

/**
 * struct linnos_now - the digits of what is pending now
 * @hundreds: most significant
 * @tens: ...
 * @ones: least significant
 */
struct linnos_now {
	u32 hundreds;
	u32 tens;
	u32 ones;
};

static inline struct linnos_now linnos_now(u32 pending)
{
	struct linnos_now now;

	if (pending > LINNOS_PENDING_MAX)
		pending = LINNOS_PENDING_MAX;
	now.hundreds = pending / 100;
	pending -= now.hundreds * 100;
	now.tens = pending / 10;
	now.ones = pending - now.tens * 10;
	return now;
}

#endif /* _LINNOS_FAST_H */
