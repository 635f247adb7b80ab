// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LinnOS network, fast: packing a model, and the engine in plain C.
 *
 * Without vector registers (a kernel has none to spare) a 64-bit word still
 * holds four 16-bit numbers, one for each of four hidden units. Multiplying the
 * word multiplies all four, adding adds all four. The numbers disturb each
 * other on the way, but the word as a whole is right modulo 2^64: when each of
 * the final sums, with its offset, lies between 0 and 65535, there is only one
 * way to split the word into four of them. That is so for a narrow model, one
 * whose weights prove that no digits bring a sum out of range. With the weights
 * that training leaves, nearly all are.
 *
 * Other models whose weights fit 16 bits take two 32-bit sums to a word:
 *
 *	(word & 0x0000ffff0000ffff) * digit
 *
 * multiplies two weights at once: 65535 * 9 * 31 needs 25 of 32 bits. The
 * biases are limited to 30.
 */
#include "linnos_fast.h"

#ifdef __KERNEL__
#include <linux/limits.h>
#include <linux/string.h>
#else
#include <string.h>
#define S16_MAX 32767
#define S16_MIN (-32768)
#define S32_MAX __INT32_MAX__
#endif

/* Digits are decimal. */
#define DIGIT_MAX 9

/* A word's lanes, see LINNOS_LANES, and what takes every other of them. */
#define LANE_BITS 16
#define EVEN_LANES 0x0000ffff0000ffffULL
#define ONE_IN_EACH 0x0000000100000001ULL
#define BIT_31 0x80000000ULL

static bool fits_16_bits(s32 value)
{
	return value >= S16_MIN && value <= S16_MAX;
}

static u64 in_lane(u16 value, int unit)
{
	return (u64)value << (unit % LINNOS_LANES * LANE_BITS);
}

static s32 linnos_weight_of(const struct linnos_net *net, int digit, int unit)
{
	u64 word = net->weights[digit][unit / LINNOS_LANES] ^ LINNOS_OFFSETS;

	return (s16)(word >> (unit % LINNOS_LANES * LANE_BITS));
}

static s32 linnos_margin_weight(const struct linnos_net *net, int unit)
{
	return net->output_weights[1][unit] - net->output_weights[0][unit];
}

/*
 * The margin of a narrow model is the upper half of a sum of products of two
 * hidden sums with two weights. Its lower half has the products that nobody
 * wants, and must not run over into the upper one.
 */
static bool linnos_is_narrow(const struct linnos_net *net)
{
	s64 wanted = 0, unwanted = 0;
	s32 peak[LINNOS_LANES];
	int unit, i;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		s64 low = net->hidden_bias[unit], high = low;
		s32 margin = linnos_margin_weight(net, unit);

		for (i = 0; i < LINNOS_N_INPUTS; i++) {
			s32 most = linnos_weight_of(net, i, unit) * DIGIT_MAX;

			if (most < 0)
				low += most;
			else
				high += most;
		}
		if (low < S16_MIN || high > S16_MAX || !fits_16_bits(margin))
			return false;
		if (high < 0)
			high = 0;
		wanted += high * (margin < 0 ? -margin : margin);
		peak[unit % LINNOS_LANES] = high;
		if (unit % LINNOS_LANES < 2)
			continue;
		unwanted += (s64)peak[unit % LINNOS_LANES - 2] *
			    (margin < 0 ? -margin : margin);
	}
	/* leaves room for the rounding of the lower half */
	return wanted < S32_MAX && unwanted < S32_MAX;
}

static void linnos_prepare_narrow(struct linnos_net *net)
{
	int unit;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		int word = unit / LINNOS_LANES, lane = unit % LINNOS_LANES;
		u64 margin = (s64)linnos_margin_weight(net, unit);

		net->bias[word] +=
			in_lane(net->hidden_bias[unit] ^ 0x8000, unit);
		net->margin_pairs[word][lane % 2] += lane < 2 ? margin << 32 :
								margin;
	}
}

static void linnos_prepare_wide(struct linnos_net *net)
{
	int unit;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
		net->margin_weights[unit] = linnos_margin_weight(net, unit);
}

/*
 * With weights of 16 bits a hidden sum is less than 2^24 and its bias: 31 bits
 * and a sign. The difference of the output sums is less than 2^8 units times
 * 2^31 times 2^16, and the two biases: it must not overflow either.
 */
#define HIDDEN_BIAS_LIMIT 0x40000000 /* 2^30 */
#define BIAS_LIMIT 0x2000000000000000LL /* 2^61 */

/**
 * linnos_net_pack() - bring a model into the form that the engines use
 * @net: filled in; undefined when the model does not fit
 * @model: a checked model
 *
 * Return: true if all weights fit 16 bits and the biases are sane.
 */
bool linnos_net_pack(struct linnos_net *net, const struct linnos_model *model)
{
	int i, unit, k;

	memset(net, 0, sizeof(*net));
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		for (i = 0; i < LINNOS_N_INPUTS; i++) {
			s32 weight = model->hidden_weights[unit][i];

			if (!fits_16_bits(weight))
				return false;
			net->weights[i][unit / LINNOS_LANES] |=
				in_lane(weight ^ 0x8000, unit);
		}
		for (k = 0; k < LINNOS_N_OUTPUTS; k++) {
			s32 weight = model->output_weights[unit][k];

			if (!fits_16_bits(weight))
				return false;
			net->output_weights[k][unit] = weight;
		}
		if (model->hidden_bias[unit] >= HIDDEN_BIAS_LIMIT ||
		    model->hidden_bias[unit] <= -HIDDEN_BIAS_LIMIT)
			return false;
		net->hidden_bias[unit] = model->hidden_bias[unit];
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
	net->narrow = linnos_is_narrow(net);
	if (net->narrow)
		linnos_prepare_narrow(net);
	else
		linnos_prepare_wide(net);
	return true;
}

/**
 * linnos_net_unpack() - the model that was packed
 * @net: a packed model
 * @model: filled in
 */
void linnos_net_unpack(const struct linnos_net *net, struct linnos_model *model)
{
	int i, unit, k;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		for (i = 0; i < LINNOS_N_INPUTS; i++)
			model->hidden_weights[unit][i] =
				linnos_weight_of(net, i, unit);
		for (k = 0; k < LINNOS_N_OUTPUTS; k++)
			model->output_weights[unit][k] =
				net->output_weights[k][unit];
		model->hidden_bias[unit] = net->hidden_bias[unit];
	}
	for (k = 0; k < LINNOS_N_OUTPUTS; k++)
		model->output_bias[k] = net->output_bias[k];
	model->id = net->id;
	model->scale = net->scale;
	model->threshold_us = net->threshold_us;
}

static s64 linnos_hidden_sum(const struct linnos_net *net,
			     const struct linnos_past *past, int unit)
{
	u64 word;

	if (!net->narrow)
		return (s64)past->wide[unit] - LINNOS_WIDE_OFFSET;
	word = past->narrow[unit / LINNOS_LANES] ^ LINNOS_OFFSETS;
	return (s16)(word >> (unit % LINNOS_LANES * LANE_BITS));
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
	int unit, k;

	for (k = 0; k < LINNOS_N_OUTPUTS; k++)
		out[k] = net->output_bias[k];
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		s64 hidden = linnos_hidden_sum(net, past, unit);

		hidden += linnos_weight_of(net, LINNOS_NOW_HUNDREDS, unit) *
			  (s64)now.hundreds;
		hidden += linnos_weight_of(net, LINNOS_NOW_TENS, unit) *
			  (s64)now.tens;
		hidden += linnos_weight_of(net, LINNOS_NOW_ONES, unit) *
			  (s64)now.ones;
		if (hidden <= 0)
			continue;
		for (k = 0; k < LINNOS_N_OUTPUTS; k++)
			out[k] += net->output_weights[k][unit] * hidden;
	}
}

/* Written in any case, kept if it is not zero: no branch to mispredict. */
static void linnos_use_range(const struct linnos_net *net, const u8 *digits,
			     int from, int to, struct linnos_used *used)
{
	int n = used->n, i;
	u32 sum = used->sum;

	for (i = from; i < to; i++) {
		used->digit[n] = digits[i];
		used->weights[n] = net->weights[i];
		n += digits[i] != 0;
		sum += digits[i];
	}
	used->n = n;
	used->sum = sum;
}

/**
 * linnos_use_digits() - leave out the zeros of a history
 * @net: a packed model
 * @digits: a feature vector; what is pending now is left out as well
 * @used: filled in
 */
void linnos_use_digits(const struct linnos_net *net,
		       const u8 digits[LINNOS_N_INPUTS],
		       struct linnos_used *used)
{
	used->n = 0;
	used->sum = 0;
	linnos_use_range(net, digits, 0, LINNOS_NOW_DIGIT, used);
	linnos_use_range(net, digits, LINNOS_LATENCY_DIGIT, LINNOS_N_INPUTS,
			 used);
}

/* Digits are taken by fours: as many weights and digits fit the registers. */
#define AT_ONCE 4

static void linnos_history_narrow(const struct linnos_net *net,
				  struct linnos_used *used, u64 *sums)
{
	const u64 *before = net->bias;
	/* what the offsets of the weights will add */
	u64 less = LINNOS_OFFSETS * used->sum;
	int n = used->n, i, word;

	/* odd ones out multiply by zero */
	while (n % AT_ONCE || !n) {
		used->digit[n] = 0;
		used->weights[n] = net->weights[0];
		n++;
	}
	for (i = 0; i < n; i += AT_ONCE) {
		const u64 *p = used->weights[i], *q = used->weights[i + 1];
		const u64 *r = used->weights[i + 2], *s = used->weights[i + 3];
		u64 a = used->digit[i], b = used->digit[i + 1];
		u64 c = used->digit[i + 2], d = used->digit[i + 3];

#pragma GCC unroll 2
		for (word = 0; word < LINNOS_WORDS; word++)
			sums[word] = before[word] - less + p[word] * a +
				     q[word] * b + r[word] * c + s[word] * d;
		before = sums;
		less = 0;
	}
}

/* What the offsets of weights have added to two wide sums. */
static u64 wide_offsets(u64 digit_sum)
{
	return (digit_sum << 15) * ONE_IN_EACH;
}

static u64 two_wide(u32 low, u32 high)
{
	return low | (u64)high << 32;
}

static u64 two_biases(s32 low, s32 high)
{
	return two_wide(low + LINNOS_WIDE_OFFSET, high + LINNOS_WIDE_OFFSET);
}

static void linnos_history_wide(const struct linnos_net *net,
				const struct linnos_used *used, u32 *sums)
{
	const s32 *bias = net->hidden_bias;
	u64 less = wide_offsets(used->sum);
	int word, i;

	for (word = 0; word < LINNOS_WORDS; word++) {
		u64 even = two_biases(bias[0], bias[2]) - less;
		u64 odd = two_biases(bias[1], bias[3]) - less;

		for (i = 0; i < used->n; i++) {
			u64 weights = used->weights[i][word];
			u64 digit = used->digit[i];

			even += (weights & EVEN_LANES) * digit;
			odd += (weights >> LANE_BITS & EVEN_LANES) * digit;
		}
		sums[0] = even;
		sums[1] = odd;
		sums[2] = even >> 32;
		sums[3] = odd >> 32;
		bias += LINNOS_LANES;
		sums += LINNOS_LANES;
	}
}

/**
 * linnos_history_scalar() - the history's share of the hidden layer, plain C
 * @net: a packed model
 * @digits: a feature vector; what is pending now is ignored
 * @past: filled in: the hidden sums
 */
void linnos_history_scalar(const struct linnos_net *net,
			   const u8 digits[LINNOS_N_INPUTS],
			   struct linnos_past *past)
{
	struct linnos_used used;

	linnos_use_digits(net, digits, &used);
	if (net->narrow)
		linnos_history_narrow(net, &used, past->narrow);
	else
		linnos_history_wide(net, &used, past->wide);
}

static inline s64 linnos_margin_narrow(const struct linnos_net *net,
				       const struct linnos_past *past,
				       struct linnos_now now, int n_digits)
{
	u64 less = LINNOS_OFFSETS * (now.hundreds + now.tens + now.ones);
	/* rounds the lower half, which may be negative */
	u64 total = BIT_31;
	int word;

#pragma GCC unroll 2
	for (word = 0; word < LINNOS_WORDS; word++) {
		u64 sums = past->narrow[word] - less, positive;

		sums += net->weights[LINNOS_NOW_ONES][word] * now.ones;
		if (n_digits > 1)
			sums += net->weights[LINNOS_NOW_TENS][word] * now.tens;
		if (n_digits > 2)
			sums += net->weights[LINNOS_NOW_HUNDREDS][word] *
				now.hundreds;
		/* ReLU: the offset's bit is set where a sum is not negative */
		positive = sums & LINNOS_OFFSETS;
		sums &= positive - (positive >> 15);
		total += (sums & EVEN_LANES) * net->margin_pairs[word][0];
		total += (sums >> LANE_BITS & EVEN_LANES) *
			 net->margin_pairs[word][1];
	}
	return net->margin_bias + ((s64)total >> 32);
}

/* ReLU of two sums with their offset, which is taken off. */
static inline u64 wide_relu(u64 sums)
{
	u64 positive = (sums >> 31 & ONE_IN_EACH);

	return sums & positive * (LINNOS_WIDE_OFFSET - 1);
}

static s64 linnos_margin_wide(const struct linnos_net *net,
			      const struct linnos_past *past,
			      struct linnos_now now)
{
	u64 less = wide_offsets(now.hundreds + now.tens + now.ones);
	s64 margin = net->margin_bias;
	int word;

	for (word = 0; word < LINNOS_WORDS; word++) {
		const u32 *sums = &past->wide[word * LINNOS_LANES];
		u64 ones = net->weights[LINNOS_NOW_ONES][word];
		u64 even = two_wide(sums[0], sums[2]) - less;
		u64 odd = two_wide(sums[1], sums[3]) - less;
		const s32 *weight = &net->margin_weights[word * LINNOS_LANES];

		even += (ones & EVEN_LANES) * now.ones;
		odd += (ones >> LANE_BITS & EVEN_LANES) * now.ones;
		if (now.hundreds | now.tens) {
			u64 hundreds = net->weights[LINNOS_NOW_HUNDREDS][word];
			u64 tens = net->weights[LINNOS_NOW_TENS][word];

			even += (hundreds & EVEN_LANES) * now.hundreds +
				(tens & EVEN_LANES) * now.tens;
			odd += (hundreds >> LANE_BITS & EVEN_LANES) *
				       now.hundreds +
			       (tens >> LANE_BITS & EVEN_LANES) * now.tens;
		}
		even = wide_relu(even);
		odd = wide_relu(odd);
		margin += (s64)(u32)even * weight[0];
		margin += (s64)(u32)odd * weight[1];
		margin += (s64)(even >> 32) * weight[2];
		margin += (s64)(odd >> 32) * weight[3];
	}
	return margin;
}

/**
 * linnos_margin_scalar() - decide a read, plain C
 * @net: a packed model
 * @past: the history's share of the hidden layer
 * @pending: pending pages now
 *
 * Return: output of slow less output of fast; the read is slow when it is
 * greater than zero.
 */
s64 linnos_margin_scalar(const struct linnos_net *net,
			 const struct linnos_past *past, u32 pending)
{
	struct linnos_now now = linnos_now(pending);

	if (!net->narrow)
		return linnos_margin_wide(net, past, now);
	if (now.hundreds)
		return linnos_margin_narrow(net, past, now, 3);
	if (now.tens)
		return linnos_margin_narrow(net, past, now, 2);
	return linnos_margin_narrow(net, past, now, 1);
}
