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
 * Four hidden units to a 64-bit word, unit 4 n + k in bits 16 k and up: as
 * 16-bit numbers in the order of the units where the least significant byte
 * comes first. Each number carries an offset that keeps it positive.
 */
#define LINNOS_LANES 4
#define LINNOS_WORDS (LINNOS_N_HIDDEN / LINNOS_LANES)
#define LINNOS_OFFSETS 0x8000800080008000ULL

/* Wide sums have 32 bits, and an offset as well. */
#define LINNOS_WIDE_OFFSET 0x80000000U

/**
 * struct linnos_net - a model whose weights fit 16 bits
 * @weights: [digit][word], with %LINNOS_OFFSETS
 * @narrow: no digits bring a hidden sum out of 16 bits, or the difference of
 *	the output sums out of 32
 * @bias: of a narrow model: hidden biases, with %LINNOS_OFFSETS
 * @margin_pairs: of a narrow model: output weights of slow less those of fast,
 *	of the units that are even and odd in a word, the second one first
 * @margin_weights: of any other model: the same, one per hidden unit
 * @hidden_bias: one per hidden unit
 * @output_weights: [output][hidden unit]
 * @output_bias: one per output
 * @margin_bias: output bias of slow less that of fast
 * @id: CRC-32 of the model file
 * @scale: fixed-point scale of the weights
 * @threshold_us: a read slower than this is slow
 */
struct linnos_net {
	u64 weights[LINNOS_N_INPUTS][LINNOS_WORDS];
	u64 bias[LINNOS_WORDS];
	union {
		u64 margin_pairs[LINNOS_WORDS][2];
		s32 margin_weights[LINNOS_N_HIDDEN];
	};
	s32 hidden_bias[LINNOS_N_HIDDEN];
	s16 output_weights[LINNOS_N_OUTPUTS][LINNOS_N_HIDDEN];
	s64 output_bias[LINNOS_N_OUTPUTS];
	s64 margin_bias;
	u32 id;
	u32 scale;
	u32 threshold_us;
	bool narrow;
} __aligned(32);

/**
 * struct linnos_past - what a history contributes, ready for a decision
 * @narrow: the hidden layer before its ReLU, without what is pending now and
 *	with %LINNOS_OFFSETS
 * @wide: the same of a model that is not narrow, with %LINNOS_WIDE_OFFSET
 * @known: bit n: the decision for n pending pages has been made before
 * @slow: bit n: and it was slow
 */
struct linnos_past {
	union {
		u64 narrow[LINNOS_WORDS];
		u32 wide[LINNOS_N_HIDDEN];
	};
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
 * An engine is two functions. history() computes the hidden layer's share from
 * a vector of digits, whose digits of what is pending now it ignores; margin()
 * returns a number that is greater than zero when the read is slow.
 */
void linnos_history_scalar(const struct linnos_net *net,
			   const u8 digits[LINNOS_N_INPUTS],
			   struct linnos_past *past);
s64 linnos_margin_scalar(const struct linnos_net *net,
			 const struct linnos_past *past, u32 pending);
void linnos_history_avx2(const struct linnos_net *net,
			 const u8 digits[LINNOS_N_INPUTS],
			 struct linnos_past *past);
s64 linnos_margin_avx2(const struct linnos_net *net,
		       const struct linnos_past *past, u32 pending);

/* Most digits of a history are zero, and need no multiplication. */
#define LINNOS_HISTORY_DIGITS (LINNOS_N_INPUTS - LINNOS_PENDING_DIGITS)

/**
 * struct linnos_used - the digits of a history that are not zero
 * @n: how many
 * @sum: of all of them
 * @digit: each
 * @weights: and its weights
 */
struct linnos_used {
	int n;
	u32 sum;
	u32 digit[LINNOS_HISTORY_DIGITS];
	const u64 *weights[LINNOS_HISTORY_DIGITS];
};

void linnos_use_digits(const struct linnos_net *net,
		       const u8 digits[LINNOS_N_INPUTS],
		       struct linnos_used *used);

/* Where the digits of what is pending now are. */
#define LINNOS_NOW_HUNDREDS LINNOS_NOW_DIGIT
#define LINNOS_NOW_TENS (LINNOS_NOW_DIGIT + 1)
#define LINNOS_NOW_ONES (LINNOS_NOW_DIGIT + 2)

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
