// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LinnOS network, fast: the engine for x86-64 processors with AVX2.
 *
 * Eight hidden units to a register. One multiplication takes two digits by two
 * weights of each and adds the products: two instructions for a pair of digits
 * and eight units. Written with the compiler's vector types, since the headers
 * of the intrinsics are not for kernels.
 *
 * The caller owns the vector registers (kernel_fpu_begin()).
 */
#include "linnos_fast.h"

typedef short v16hi __attribute__((vector_size(32), may_alias));
typedef int v4si __attribute__((vector_size(16), may_alias));
typedef int v8si __attribute__((vector_size(32), may_alias));
typedef unsigned int v8su __attribute__((vector_size(32), may_alias));
typedef long long v4di __attribute__((vector_size(32), may_alias));

#define UNITS 8
#define BLOCK (4 * UNITS)

static inline v8si both_digits(u32 first, u32 second)
{
	s32 pair = first | second << 16;
	v8si all = { pair, pair, pair, pair, pair, pair, pair, pair };

	return all;
}

static inline v8si multiply(const s16 (*weights)[2], v8si digits)
{
	return (v8si)__builtin_ia32_pmaddwd256(*(const v16hi *)weights,
					       (v16hi)digits);
}

/**
 * linnos_history_avx2() - the history's share of the hidden layer, with AVX2
 * @net: a packed model
 * @digits: a feature vector; what is pending now is ignored
 * @hidden: filled in: %LINNOS_N_HIDDEN sums, aligned to 32 bytes
 */
void linnos_history_avx2(const struct linnos_net *net,
			 const u8 digits[LINNOS_N_INPUTS], u32 *hidden)
{
	const s16(*weights[LINNOS_HISTORY_PAIRS])[2];
	v8si pair[LINNOS_HISTORY_PAIRS];
	int n = 0, i, unit;

	for (i = 0; i < LINNOS_HISTORY_PAIRS; i++) {
		u32 a = digits[linnos_pairs[i].first];
		u32 b = digits[linnos_pairs[i].second];

		if (!(a | b))
			continue;
		weights[n] = net->weights[i];
		pair[n++] = both_digits(a, b);
	}
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit += BLOCK) {
		const v8su *bias = (const v8su *)&net->hidden_bias[unit];
		v8su *sum = (v8su *)&hidden[unit];
		v8su s0 = bias[0], s1 = bias[1], s2 = bias[2], s3 = bias[3];

		for (i = 0; i < n; i++) {
			const s16(*w)[2] = weights[i] + unit;

			s0 += (v8su)multiply(w, pair[i]);
			s1 += (v8su)multiply(w + UNITS, pair[i]);
			s2 += (v8su)multiply(w + 2 * UNITS, pair[i]);
			s3 += (v8su)multiply(w + 3 * UNITS, pair[i]);
		}
		sum[0] = s0;
		sum[1] = s1;
		sum[2] = s2;
		sum[3] = s3;
	}
}

/* Four 32-bit numbers in the lower halves of 64-bit ones. */
static inline v4di widen_lower(v8si v)
{
	v4si half = { v[0], v[1], v[2], v[3] };

	return __builtin_ia32_pmovsxdq256(half);
}

static inline v4di widen_upper(v8si v)
{
	v4si half = { v[4], v[5], v[6], v[7] };

	return __builtin_ia32_pmovsxdq256(half);
}

static inline v4di multiply_wide(v4di a, v4di b)
{
	return (v4di)__builtin_ia32_pmuldq256((v8si)a, (v8si)b);
}

/**
 * linnos_margin_avx2() - decide a read, with AVX2
 * @net: a packed model
 * @hidden: the history's share of the hidden layer, aligned to 32 bytes
 * @pending: pending pages now
 *
 * Return: output of slow less output of fast; the read is slow when it is
 * greater than zero.
 */
s64 linnos_margin_avx2(const struct linnos_net *net, const u32 *hidden,
		       u32 pending)
{
	struct linnos_now now = linnos_now(pending);
	const s16(*high)[2] = net->weights[LINNOS_HISTORY_PAIRS];
	const s16(*low)[2] = net->weights[LINNOS_HISTORY_PAIRS + 1];
	v8si high_digits = both_digits(now.hundreds, now.tens);
	v8si low_digits = both_digits(now.ones, 0);
	bool is_high = now.hundreds | now.tens;
	u32 one = LINNOS_HIDDEN_OFFSET;
	v8su offset = { one, one, one, one, one, one, one, one };
	v4di lower = { 0 }, upper = { 0 };
	int unit;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit += UNITS) {
		v8si h = (v8si)(*(const v8su *)&hidden[unit] - offset);
		const v4di *w = (const v4di *)&net->margin_weights[unit];

		h += multiply(low + unit, low_digits);
		if (is_high)
			h += multiply(high + unit, high_digits);
		h &= h > 0;
		lower += multiply_wide(widen_lower(h), w[0]);
		upper += multiply_wide(widen_upper(h), w[1]);
	}
	lower += upper;
	return net->margin_bias + lower[0] + lower[1] + lower[2] + lower[3];
}
