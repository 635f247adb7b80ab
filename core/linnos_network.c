// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LinnOS network: its file format, and inference in integer arithmetic.
 *
 * Hidden weights and biases are scaled by s, output weights by s, and output biases by s * s.
 * Each output is therefore exactly s * s times that of the rounded floating-point network.
 *
 * Vector registers are not used, because a kernel has to save them first. Instead, a 64-bit word
 * holds four 16-bit lanes, one for each of four hidden units. Multiplying the word multiplies
 * all four, and adding to it adds to all four. Intermediate results carry over from one lane to
 * the next, but the word is correct modulo 2^64. If each of the final sums, with its offset, is
 * between 0 and 65535, there is only one way to split the word into four sums. The weights are
 * multiplied with all digits when the network is loaded, so that inference only adds.
 *
 * A network is therefore accepted only if its weights fit 16 bits, and if no decimal digits can
 * make a hidden sum exceed 16 bits or the difference of the output sums exceed 32 bits. Inference
 * checks nothing.
 */
#include "linnos_network.h"

#define AT_SHAPE 20
#define AT_RESERVED_A 29
#define AT_SCALE 32
#define AT_RESERVED_B 40

/* Number of inputs, hidden units and outputs, past reads, and digits of their values. */
static const u8 linnos_shape[AT_RESERVED_A - AT_SHAPE] = {
	LINNOS_N_INPUTS,       0, LINNOS_N_HIDDEN & 0xff, LINNOS_N_HIDDEN >> 8,
	LINNOS_N_OUTPUTS,      0, LINNOS_HISTORY,	  LINNOS_PENDING_DIGITS,
	LINNOS_LATENCY_DIGITS,
};

/* The lanes of a word, and a mask of every other lane. */
#define LANE_BITS 16
#define EVEN_LANES 0x0000ffff0000ffffULL
#define OFFSETS 0x8000800080008000ULL
#define BIT_31 0x80000000ULL

/* With this limit, both outputs and their difference fit 64 bits. */
#define OUTPUT_BIAS_LIMIT 0x2000000000000000LL /* 2^61 */

enum linnos_model_error linnos_network_check_header(const void *file,
						    size_t bytes)
{
	enum linnos_model_error error;
	const u8 *p = file;

	error = linnos_file_check_start(p, bytes, LINNOS_NETWORK_VERSION);
	if (error)
		return error;
	if (memcmp(p + AT_SHAPE, linnos_shape, sizeof(linnos_shape)))
		return LINNOS_MODEL_SHAPE;
	if (get_unaligned_le32(p + LINNOS_FILE_TOTAL_BYTES) !=
	    LINNOS_NETWORK_BYTES)
		return LINNOS_MODEL_SIZE;
	if (memchr_inv(p + AT_RESERVED_A, 0, AT_SCALE - AT_RESERVED_A) ||
	    memchr_inv(p + AT_RESERVED_B, 0,
		       LINNOS_FILE_HEADER - AT_RESERVED_B))
		return LINNOS_MODEL_RESERVED;
	return get_unaligned_le32(p + AT_SCALE) ? LINNOS_MODEL_OK :
						  LINNOS_MODEL_RANGE;
}

static bool fits_16_bits(s32 value)
{
	return value >= S16_MIN && value <= S16_MAX;
}

/* Return a lane of a word with the offset. */
static s32 linnos_lane(u64 word, int unit)
{
	return (s16)((word ^ OFFSETS) >> unit % LINNOS_LANES * LANE_BITS);
}

/* Return the weight of an input, or the bias if @input is %LINNOS_N_INPUTS. */
static s32 linnos_weight(const struct linnos_net *net, int input, int unit)
{
	int word = unit / LINNOS_LANES;

	if (input == LINNOS_N_INPUTS)
		return linnos_lane(net->biases[word], unit);
	return linnos_lane(net->products[input][1][word] + OFFSETS, unit);
}

/* Get the range of a hidden sum: it is largest if all digits with positive weights are 9. */
static void linnos_hidden_range(const struct linnos_net *net, int unit,
				s32 *low, s32 *high)
{
	int i;

	*low = linnos_weight(net, LINNOS_N_INPUTS, unit);
	*high = *low;
	for (i = 0; i < LINNOS_N_INPUTS; i++) {
		s32 most = linnos_weight(net, i, unit) * LINNOS_DIGIT_MAX;

		*(most < 0 ? low : high) += most;
	}
}

/*
 * Prepare the weights of linnos_margin(), which multiplies two hidden sums by two weights at once.
 * The upper half of the total is the margin. The lower half contains the unwanted products, and
 * must not overflow into the upper half. Return false if it might.
 */
static bool linnos_pair_margins(struct linnos_net *net)
{
	s64 wanted = 0, unwanted = 0;
	s32 low, high[LINNOS_LANES];
	int unit;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		int word = unit / LINNOS_LANES, lane = unit % LINNOS_LANES;
		s64 margin = net->output_weights[1][unit] -
			     net->output_weights[0][unit];
		s64 size = margin < 0 ? -margin : margin;

		linnos_hidden_range(net, unit, &low, &high[lane]);
		if (!fits_16_bits(low) || !fits_16_bits(high[lane]) ||
		    !fits_16_bits(margin))
			return false;
		high[lane] = max_t(s32, high[lane], 0);
		wanted += high[lane] * size;
		if (lane >= 2)
			unwanted += high[lane - 2] * size;
		net->margin_pairs[word][lane % 2] += (u64)margin
						     << (lane < 2 ? 32 : 0);
	}
	/* less than S32_MAX: leave room for the rounding of the lower half */
	return wanted < S32_MAX && unwanted < S32_MAX;
}

/*
 * Add the weights of an input, or the biases, to words that are 0 or contain only the offset.
 * Return false if one of them does not fit 16 bits.
 */
static bool linnos_parse_row(u64 words[LINNOS_WORDS], const u8 *p)
{
	bool fits = true;
	int unit;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++, p += 4) {
		s32 value = get_unaligned_le32(p);

		fits &= fits_16_bits(value);
		words[unit / LINNOS_LANES] +=
			(u64)(s64)value << unit % LINNOS_LANES * LANE_BITS;
	}
	return fits;
}

/* Check and load a file. Return the first check that failed; @net is undefined then. */
enum linnos_model_error linnos_network_parse(struct linnos_net *net,
					     const void *file, size_t bytes)
{
	enum linnos_model_error error;
	const u8 *p = file;
	bool fits = true;
	int i, unit, word, k;

	error = linnos_network_check_header(p, bytes);
	if (!error)
		error = linnos_file_check_whole(p, bytes);
	if (error)
		return error;

	memset(net, 0, sizeof(*net));
	memcpy(net->header, p, LINNOS_FILE_HEADER);
	p += LINNOS_FILE_HEADER;
	for (i = 0; i < LINNOS_N_INPUTS; i++, p += 4 * LINNOS_N_HIDDEN) {
		fits &= linnos_parse_row(net->products[i][1], p);
		for (k = 2; k <= LINNOS_DIGIT_MAX; k++)
			for (word = 0; word < LINNOS_WORDS; word++)
				net->products[i][k][word] =
					net->products[i][1][word] * k;
	}
	for (i = 0; i < LINNOS_WORDS; i++)
		net->biases[i] = OFFSETS;
	fits &= linnos_parse_row(net->biases, p);
	p += 4 * LINNOS_N_HIDDEN;
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
		for (k = 0; k < LINNOS_N_OUTPUTS; k++, p += 4) {
			fits &= fits_16_bits(get_unaligned_le32(p));
			net->output_weights[k][unit] = get_unaligned_le32(p);
		}
	for (k = 0; k < LINNOS_N_OUTPUTS; k++, p += 8) {
		s64 bias = get_unaligned_le64(p);

		fits &= bias < OUTPUT_BIAS_LIMIT && bias > -OUTPUT_BIAS_LIMIT;
		net->output_bias[k] = bias;
	}
	return fits && linnos_pair_margins(net) ? LINNOS_MODEL_OK :
						  LINNOS_MODEL_NOT_NARROW;
}

/* Store a network as a file of %LINNOS_NETWORK_BYTES. Return the size of the file. */
size_t linnos_network_store(const struct linnos_net *net, void *file)
{
	int i, unit, k;
	u8 *p = file;

	memcpy(p, net->header, LINNOS_FILE_HEADER);
	p += LINNOS_FILE_HEADER;
	for (i = 0; i <= LINNOS_N_INPUTS; i++)
		for (unit = 0; unit < LINNOS_N_HIDDEN; unit++, p += 4)
			put_unaligned_le32(linnos_weight(net, i, unit), p);
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
		for (k = 0; k < LINNOS_N_OUTPUTS; k++, p += 4)
			put_unaligned_le32(net->output_weights[k][unit], p);
	for (k = 0; k < LINNOS_N_OUTPUTS; k++, p += 8)
		put_unaligned_le64(net->output_bias[k], p);
	return p - (u8 *)file;
}

/* Eight words are computed at once, because their sums fit in registers. */
#define AT_ONCE 8

void linnos_hidden_layer(const struct linnos_net *net,
			 const u8 digits[LINNOS_N_INPUTS],
			 struct linnos_hidden *hidden)
{
	const u64 *products[LINNOS_N_INPUTS] __uninitialized;
	u64 sums[AT_ONCE] __uninitialized;
	int n = 0, i, word, k;

	/*
	 * Skip zeros. Each row is written, and overwritten by the next one if its digit is zero,
	 * so that there is no branch that could be mispredicted.
	 */
	for (i = 0; i < LINNOS_N_INPUTS; i++) {
		products[n] = net->products[i][digits[i]];
		n += digits[i] != 0;
	}
	for (word = 0; word < LINNOS_WORDS; word += AT_ONCE) {
#pragma GCC unroll 8
		for (k = 0; k < AT_ONCE; k++)
			sums[k] = net->biases[word + k];
		for (i = 0; i < n; i++) {
			const u64 *adds = products[i];

#pragma GCC unroll 8
			for (k = 0; k < AT_ONCE; k++)
				sums[k] += adds[k];
			products[i] = adds + AT_ONCE;
		}
#pragma GCC unroll 8
		for (k = 0; k < AT_ONCE; k++)
			hidden->sums[word + k] = sums[k];
	}
}

/* Return the output for slow minus that for fast. The read is slow if this is positive. */
s64 linnos_margin(const struct linnos_net *net,
		  const struct linnos_hidden *hidden)
{
	/* round the lower half, which may be negative */
	u64 total = BIT_31;
	int word;

#pragma GCC unroll 2
	for (word = 0; word < LINNOS_WORDS; word++) {
		u64 sums = hidden->sums[word];
		/* ReLU: the bit of the offset is set if a sum is not negative */
		u64 positive = sums & OFFSETS;

		sums &= positive - (positive >> 15);
		total += (sums & EVEN_LANES) * net->margin_pairs[word][0];
		total += (sums >> LANE_BITS & EVEN_LANES) *
			 net->margin_pairs[word][1];
	}
	return net->output_bias[1] - net->output_bias[0] + ((s64)total >> 32);
}

void linnos_outputs(const struct linnos_net *net,
		    const struct linnos_hidden *hidden,
		    s64 out[LINNOS_N_OUTPUTS])
{
	int unit, k;

	for (k = 0; k < LINNOS_N_OUTPUTS; k++)
		out[k] = net->output_bias[k];
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		s32 sum = linnos_lane(hidden->sums[unit / LINNOS_LANES], unit);

		for (k = 0; k < LINNOS_N_OUTPUTS && sum > 0; k++)
			out[k] += net->output_weights[k][unit] * sum;
	}
}

static u8 *linnos_put_digits(u8 *digit, int n, u32 value, u32 max)
{
	int i;

	value = min_t(u32, value, max);
	for (i = n - 1; i >= 0; i--) {
		digit[i] = value % 10;
		value /= 10;
	}
	return digit + n;
}

void linnos_encode_digits(const struct linnos_drive_snapshot *view,
			  u8 digits[LINNOS_N_INPUTS])
{
	int i;

	for (i = 0; i < LINNOS_HISTORY; i++)
		digits = linnos_put_digits(digits, LINNOS_PENDING_DIGITS,
					   view->past[i].pending,
					   LINNOS_PENDING_MAX);
	digits = linnos_put_digits(digits, LINNOS_PENDING_DIGITS,
				   linnos_pending(view), LINNOS_PENDING_MAX);
	for (i = 0; i < LINNOS_HISTORY; i++)
		digits = linnos_put_digits(digits, LINNOS_LATENCY_DIGITS,
					   view->past[i].latency_us,
					   LINNOS_LATENCY_MAX);
}
