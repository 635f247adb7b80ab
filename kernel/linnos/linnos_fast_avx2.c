// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LinnOS network, fast: the engine for x86-64 processors with AVX2.
 *
 * Sixteen hidden sums of a narrow model to a register, modulo 2^16 each, which
 * is exact because the final sums are known to fit; eight wide sums of any other
 * model. Written with the compiler's vector types, since the headers of the
 * intrinsics are not for kernels.
 *
 * The caller owns the vector registers (kernel_fpu_begin()).
 */
#include "linnos_fast.h"

typedef unsigned short v16hu __attribute__((vector_size(32), may_alias));
typedef short v16hi __attribute__((vector_size(32), may_alias));
typedef unsigned short v8hu __attribute__((vector_size(16), may_alias));
typedef int v8si __attribute__((vector_size(32), may_alias));
typedef unsigned int v8su __attribute__((vector_size(32), may_alias));
typedef long long v4di __attribute__((vector_size(32), may_alias));
typedef unsigned long long v4du __attribute__((vector_size(32), may_alias));

/* Registers that hold the hidden layer. */
#define REGISTERS (LINNOS_N_HIDDEN / 16)
#define WIDE_REGISTERS (LINNOS_N_HIDDEN / 8)
/* Digits are taken by fours: as many weights and digits fit the registers. */
#define AT_ONCE 4

static inline v16hu all(u16 value)
{
	v16hu v = { value, value, value, value, value, value, value, value,
		    value, value, value, value, value, value, value, value };

	return v;
}

/* What the offsets of the weights have added, modulo 2^16. */
static inline v16hu offsets_of(u32 digit_sum)
{
	return all(digit_sum << 15);
}

static void linnos_history_narrow_avx2(const struct linnos_net *net,
				       const struct linnos_used *used,
				       v16hu *sums)
{
	const v16hu *bias = (const v16hu *)net->bias;
	v16hu less = offsets_of(used->sum);
	int at, i;

	for (at = 0; at < REGISTERS; at += AT_ONCE) {
		v16hu s0 = bias[at] - less;
		v16hu s1 = bias[at + 1] - less;
		v16hu s2 = bias[at + 2] - less;
		v16hu s3 = bias[at + 3] - less;

		for (i = 0; i < used->n; i++) {
			const v16hu *w = (const v16hu *)used->weights[i] + at;
			v16hu digit = all(used->digit[i]);

			s0 += w[0] * digit;
			s1 += w[1] * digit;
			s2 += w[2] * digit;
			s3 += w[3] * digit;
		}
		sums[at] = s0;
		sums[at + 1] = s1;
		sums[at + 2] = s2;
		sums[at + 3] = s3;
	}
}

/* Weights of one digit and eight units, with their offset. */
static inline v8su widen(const u64 *weights, int at)
{
	return __builtin_convertvector(((const v8hu *)weights)[at], v8su);
}

static inline v8su all_wide(u32 value)
{
	v8su v = { value, value, value, value, value, value, value, value };

	return v;
}

static void linnos_history_wide_avx2(const struct linnos_net *net,
				     const struct linnos_used *used, v8su *sums)
{
	const v8su *bias = (const v8su *)net->hidden_bias;
	v8su more = all_wide(LINNOS_WIDE_OFFSET - (used->sum << 15));
	int at, i;

	for (at = 0; at < WIDE_REGISTERS; at += AT_ONCE) {
		v8su s0 = bias[at] + more;
		v8su s1 = bias[at + 1] + more;
		v8su s2 = bias[at + 2] + more;
		v8su s3 = bias[at + 3] + more;

		for (i = 0; i < used->n; i++) {
			const u64 *w = used->weights[i];
			v8su digit = all_wide(used->digit[i]);

			s0 += widen(w, at) * digit;
			s1 += widen(w, at + 1) * digit;
			s2 += widen(w, at + 2) * digit;
			s3 += widen(w, at + 3) * digit;
		}
		sums[at] = s0;
		sums[at + 1] = s1;
		sums[at + 2] = s2;
		sums[at + 3] = s3;
	}
}

/**
 * linnos_history_avx2() - the history's share of the hidden layer, with AVX2
 * @net: a packed model
 * @digits: a feature vector; what is pending now is ignored
 * @past: filled in: the hidden sums
 */
void linnos_history_avx2(const struct linnos_net *net,
			 const u8 digits[LINNOS_N_INPUTS],
			 struct linnos_past *past)
{
	struct linnos_used used;

	linnos_use_digits(net, digits, &used);
	if (net->narrow)
		linnos_history_narrow_avx2(net, &used, (v16hu *)past->narrow);
	else
		linnos_history_wide_avx2(net, &used, (v8su *)past->wide);
}

static inline v16hu weights(const struct linnos_net *net, int digit, int at)
{
	return ((const v16hu *)net->weights[digit])[at];
}

static s64 linnos_margin_narrow_avx2(const struct linnos_net *net,
				     const struct linnos_past *past,
				     struct linnos_now now)
{
	const v16hi *fast = (const v16hi *)net->output_weights[0];
	const v16hi *slow = (const v16hi *)net->output_weights[1];
	const v16hu *before = (const v16hu *)past->narrow;
	bool is_high = now.hundreds | now.tens;
	v16hu hundreds = all(now.hundreds), tens = all(now.tens);
	v16hu ones = all(now.ones);
	/* the offsets of the weights, and that of the sums */
	v16hu less = offsets_of(now.hundreds + now.tens + now.ones + 1);
	v8si total = { 0 };
	int at;

	for (at = 0; at < REGISTERS; at++) {
		v16hu sums = before[at] - less;
		v16hi hidden;

		sums += weights(net, LINNOS_NOW_ONES, at) * ones;
		if (is_high)
			sums += weights(net, LINNOS_NOW_HUNDREDS, at) *
					hundreds +
				weights(net, LINNOS_NOW_TENS, at) * tens;
		hidden = (v16hi)sums;
		hidden &= hidden > 0;
		total += (v8si)__builtin_ia32_pmaddwd256(hidden,
							 slow[at] - fast[at]);
	}
	return net->margin_bias + total[0] + total[1] + total[2] + total[3] +
	       total[4] + total[5] + total[6] + total[7];
}

/* Of every two 32-bit numbers the lower one: the others are shifted there. */
static inline v4di multiply(v8si a, v8si b)
{
	return (v4di)__builtin_ia32_pmuldq256(a, b);
}

static inline v8si shift(v8si v)
{
	return (v8si)((v4du)v >> 32);
}

static s64 linnos_margin_wide_avx2(const struct linnos_net *net,
				   const struct linnos_past *past,
				   struct linnos_now now)
{
	const v8si *margin = (const v8si *)net->margin_weights;
	const v8su *before = (const v8su *)past->wide;
	u32 digit_sum = now.hundreds + now.tens + now.ones;
	v8su less = all_wide(LINNOS_WIDE_OFFSET + (digit_sum << 15));
	v8su hundreds = all_wide(now.hundreds), tens = all_wide(now.tens);
	v8su ones = all_wide(now.ones);
	v4di even = { 0 }, odd = { 0 };
	int at;

	for (at = 0; at < WIDE_REGISTERS; at++) {
		v8su sums = before[at] - less;
		v8si hidden;

		sums += widen(net->weights[LINNOS_NOW_HUNDREDS], at) *
				hundreds +
			widen(net->weights[LINNOS_NOW_TENS], at) * tens +
			widen(net->weights[LINNOS_NOW_ONES], at) * ones;
		hidden = (v8si)sums;
		hidden &= hidden > 0;
		even += multiply(hidden, margin[at]);
		odd += multiply(shift(hidden), shift(margin[at]));
	}
	even += odd;
	return net->margin_bias + even[0] + even[1] + even[2] + even[3];
}

/**
 * linnos_margin_avx2() - decide a read, with AVX2
 * @net: a packed model
 * @past: the history's share of the hidden layer
 * @pending: pending pages now
 *
 * Return: output of slow less output of fast; the read is slow when it is
 * greater than zero.
 */
s64 linnos_margin_avx2(const struct linnos_net *net,
		       const struct linnos_past *past, u32 pending)
{
	struct linnos_now now = linnos_now(pending);

	if (net->narrow)
		return linnos_margin_narrow_avx2(net, past, now);
	return linnos_margin_wide_avx2(net, past, now);
}
