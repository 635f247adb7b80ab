// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LinnOS network, fast: packing a model, and the engine in plain C.
 *
 * Without vector registers (a kernel has none to spare) a 64-bit word still
 * holds two 32-bit sums. With an offset of 2^15 a weight is an unsigned 16-bit
 * number; four of them, of two hidden units and two digits, are one word of the
 * packed model, and
 *
 *	(word & 0x0000ffff0000ffff) * digit
 *
 * multiplies two of them at once: 65535 * 9 * 31 needs 25 of 32 bits, so one
 * sum never disturbs the other. What the offsets add up to is known from the
 * digits alone and is taken off again.
 */
#include "linnos_fast.h"

#ifdef __KERNEL__
#include <linux/limits.h>
#include <linux/string.h>
#else
#include <string.h>
#define S16_MAX 32767
#define S16_MIN (-32768)
#endif

/*
 * Rarely more than 9 pages are pending or 999 us are taken: pairs of leading
 * digits are zero most of the time, those of last digits are not.
 */
const struct linnos_pair linnos_pairs[LINNOS_N_PAIRS] = {
	/* pending at arrival of the four last reads */
	{ 0, 1 },
	{ 3, 4 },
	{ 6, 7 },
	{ 9, 10 },
	{ 2, 5 },
	{ 8, 11 },
	/* their latencies */
	{ 15, 19 },
	{ 23, 27 },
	{ 16, 17 },
	{ 20, 21 },
	{ 24, 25 },
	{ 28, 29 },
	{ 18, 22 },
	{ 26, 30 },
	/* pending now */
	{ 12, 13 },
	{ 14, LINNOS_NO_DIGIT },
};

#define NOW_HIGH 14 /* hundreds and tens of what is pending now */
#define NOW_LOW 15 /* its ones */

static bool fits_weight(s32 value)
{
	return value >= S16_MIN && value <= S16_MAX;
}

/* The difference of the output sums must not overflow either. */
#define BIAS_LIMIT 0x2000000000000000LL
#define HIDDEN_BIAS_LIMIT 0x40000000

/**
 * linnos_net_pack() - bring a model into the form that the engines use
 * @net: filled in; undefined when the model does not fit
 * @model: a checked model
 *
 * Return: true if all weights fit 16 bits and the biases are sane.
 */
bool linnos_net_pack(struct linnos_net *net, const struct linnos_model *model)
{
	int i, pair, unit, k;

	memset(net, 0, sizeof(*net));
	for (i = 0; i < LINNOS_N_INPUTS; i++)
		for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
			if (!fits_weight(model->hidden_weights[unit][i]))
				return false;
	for (pair = 0; pair < LINNOS_N_PAIRS; pair++) {
		int first = linnos_pairs[pair].first;
		int second = linnos_pairs[pair].second;

		for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
			net->weights[pair][unit][0] =
				model->hidden_weights[unit][first];
			if (second != LINNOS_NO_DIGIT)
				net->weights[pair][unit][1] =
					model->hidden_weights[unit][second];
		}
	}
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		const s32 *w = model->output_weights[unit];

		if (!fits_weight(w[0]) || !fits_weight(w[1]))
			return false;
		if (model->hidden_bias[unit] >= HIDDEN_BIAS_LIMIT ||
		    model->hidden_bias[unit] <= -HIDDEN_BIAS_LIMIT)
			return false;
		net->hidden_bias[unit] =
			model->hidden_bias[unit] + LINNOS_HIDDEN_OFFSET;
		net->margin_weights[unit] = (s64)w[1] - w[0];
		net->fast_weights[unit] = w[0];
	}
	for (k = 0; k < LINNOS_N_OUTPUTS; k++) {
		if (model->output_bias[k] >= BIAS_LIMIT ||
		    model->output_bias[k] <= -BIAS_LIMIT)
			return false;
		net->output_bias[k] = model->output_bias[k];
	}
	net->margin_bias = model->output_bias[1] - model->output_bias[0];
	net->id = model->id;
	net->scale = model->scale;
	net->threshold_us = model->threshold_us;
	return true;
}

/**
 * linnos_net_unpack() - the model that was packed
 * @net: a packed model
 * @model: filled in
 */
void linnos_net_unpack(const struct linnos_net *net, struct linnos_model *model)
{
	int pair, unit, k;

	for (pair = 0; pair < LINNOS_N_PAIRS; pair++) {
		int first = linnos_pairs[pair].first;
		int second = linnos_pairs[pair].second;

		for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
			model->hidden_weights[unit][first] =
				net->weights[pair][unit][0];
			if (second != LINNOS_NO_DIGIT)
				model->hidden_weights[unit][second] =
					net->weights[pair][unit][1];
		}
	}
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		model->hidden_bias[unit] =
			net->hidden_bias[unit] - LINNOS_HIDDEN_OFFSET;
		model->output_weights[unit][0] = net->fast_weights[unit];
		model->output_weights[unit][1] =
			net->fast_weights[unit] + net->margin_weights[unit];
	}
	for (k = 0; k < LINNOS_N_OUTPUTS; k++)
		model->output_bias[k] = net->output_bias[k];
	model->id = net->id;
	model->scale = net->scale;
	model->threshold_us = net->threshold_us;
}

/**
 * linnos_net_outputs() - both outputs, for those who want to see them
 * @net: a packed model
 * @past: the history's share
 * @pending: pending pages now
 * @out: filled in: fast, slow
 */
void linnos_net_outputs(const struct linnos_net *net,
			const struct linnos_past *past, u32 pending,
			s64 out[LINNOS_N_OUTPUTS])
{
	struct linnos_now now = linnos_now(pending);
	int unit;

	out[0] = net->output_bias[0];
	out[1] = net->output_bias[1];
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		s64 hidden = (s64)past->hidden[unit] - LINNOS_HIDDEN_OFFSET;
		s64 fast = net->fast_weights[unit];

		hidden += net->weights[NOW_HIGH][unit][0] * (s64)now.hundreds;
		hidden += net->weights[NOW_HIGH][unit][1] * (s64)now.tens;
		hidden += net->weights[NOW_LOW][unit][0] * (s64)now.ones;
		if (hidden <= 0)
			continue;
		out[0] += fast * hidden;
		out[1] += (fast + net->margin_weights[unit]) * hidden;
	}
}

#define WORDS (LINNOS_N_HIDDEN / 2)
#define OFFSETS 0x8000800080008000ULL
#define LANES 0x0000ffff0000ffffULL
#define ONE_EACH 0x0000000100000001ULL
#define SIGNS 0x8000000080000000ULL

/* Two sums. memcpy() is a load, and may alias. */
static inline u64 two_sums(const u32 *sums, int word)
{
	u64 w;

	memcpy(&w, &sums[2 * word], sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = w >> 32 | w << 32;
#endif
	return w;
}

/* The weights of two hidden units for two digits. */
static inline u64 four_weights(const struct linnos_net *net, int pair, int word)
{
	u64 w;

	memcpy(&w, net->weights[pair][2 * word], sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = w >> 48 | (w >> 16 & 0xffff0000) | (w & 0xffff0000) << 16 | w << 48;
#endif
	return w ^ OFFSETS;
}

/* The last pair has no second digit, and its two weights a word to themselves. */
static inline u64 low_weights(const struct linnos_net *net, int word)
{
	return four_weights(net, NOW_LOW, word) ^ (OFFSETS & ~LANES);
}

static inline u64 weigh(u64 four, u64 first, u64 second)
{
	return (four & LANES) * first + (four >> 16 & LANES) * second;
}

/* What the offsets of the weights have added to both sums. */
static inline u64 offsets_of(u64 digit_sum)
{
	return (digit_sum << 15) * ONE_EACH;
}

/**
 * linnos_history_scalar() - the history's share of the hidden layer, plain C
 * @net: a packed model
 * @digits: a feature vector; what is pending now is ignored
 * @hidden: filled in: %LINNOS_N_HIDDEN sums, with their offset
 */
void linnos_history_scalar(const struct linnos_net *net,
			   const u8 digits[LINNOS_N_INPUTS], u32 *hidden)
{
	u8 used[LINNOS_HISTORY_PAIRS + 1];
	u8 first[LINNOS_HISTORY_PAIRS + 1];
	u8 second[LINNOS_HISTORY_PAIRS + 1];
	u64 sum[WORDS];
	u64 offsets = 0;
	int n = 0, i, word;

	for (i = 0; i < LINNOS_HISTORY_PAIRS; i++) {
		u8 a = digits[linnos_pairs[i].first];
		u8 b = digits[linnos_pairs[i].second];

		used[n] = i;
		first[n] = a;
		second[n] = b;
		n += (a | b) != 0;
		offsets += a + b;
	}
	/* an odd one out multiplies by zero */
	if (n & 1) {
		used[n] = LINNOS_HISTORY_PAIRS - 1;
		first[n] = 0;
		second[n] = 0;
	}

	/* A sum may be too low for a while; the last addition sets it right. */
	offsets = offsets_of(offsets);
	for (word = 0; word < WORDS; word++)
		sum[word] = two_sums(net->hidden_bias, word) - offsets;
	for (i = 0; i < n; i += 2) {
		u64 a = first[i], b = second[i];
		u64 c = first[i + 1], d = second[i + 1];
		int p = used[i], q = used[i + 1];

#pragma GCC unroll 2
		for (word = 0; word < WORDS; word++)
			sum[word] += weigh(four_weights(net, p, word), a, b) +
				     weigh(four_weights(net, q, word), c, d);
	}
	for (word = 0; word < WORDS; word++) {
		hidden[2 * word] = sum[word];
		hidden[2 * word + 1] = sum[word] >> 32;
	}
}

/* ReLU of two sums with their offset: the sign bit says "positive" here. */
static inline u64 two_relu(u64 sums)
{
	u64 positive = (sums & SIGNS) >> 31;

	return sums & positive * (LINNOS_HIDDEN_OFFSET - 1);
}

static inline s64 margin_of(const struct linnos_net *net, const u32 *hidden,
			    struct linnos_now now, bool is_high)
{
	u64 offsets = offsets_of(now.hundreds + now.tens + now.ones);
	const s64 *weight = net->margin_weights;
	s64 margin = net->margin_bias;
	int word;

#pragma GCC unroll 2
	for (word = 0; word < WORDS; word++, weight += 2) {
		u64 sums = two_sums(hidden, word) - offsets;

		sums += low_weights(net, word) * now.ones;
		if (is_high)
			sums += weigh(four_weights(net, NOW_HIGH, word),
				      now.hundreds, now.tens);
		sums = two_relu(sums);
		margin += (s64)(u32)sums * weight[0];
		margin += (s64)(sums >> 32) * weight[1];
	}
	return margin;
}

/**
 * linnos_margin_scalar() - decide a read, plain C
 * @net: a packed model
 * @hidden: the history's share of the hidden layer
 * @pending: pending pages now
 *
 * Return: output of slow less output of fast; the read is slow when it is
 * greater than zero.
 */
s64 linnos_margin_scalar(const struct linnos_net *net, const u32 *hidden,
			 u32 pending)
{
	struct linnos_now now = linnos_now(pending);

	if (now.hundreds | now.tens)
		return margin_of(net, hidden, now, true);
	return margin_of(net, hidden, now, false);
}
