// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LinnOS network: reading a model file, proving that it cannot overflow, and
 * computing its decision.
 *
 * Everything is integer arithmetic. Hidden weights and biases carry the scale
 * s, output weights s and output biases s * s, so each output is s * s times
 * that of the rounded floating-point network, exactly.
 *
 * A model is accepted only when no vector of decimal digits can overflow: a
 * hidden sum stays within 32 bits, an output sum within 64. The arithmetic
 * relies on that and checks nothing at run time.
 */
#include "linnos_engine.h"
#include "linnos_file.h"

#ifdef __KERNEL__
#include <linux/limits.h>
#include <linux/string.h>
#else
#include <string.h>
#define S32_MAX __INT32_MAX__
#define S32_MIN (-S32_MAX - 1)
#endif

/* Digits are decimal. */
#define DIGIT_MAX 9

/* Byte offsets of the header's fields. */
#define AT_N_INPUTS 20
#define AT_N_HIDDEN 22
#define AT_N_OUTPUTS 24
#define AT_HISTORY 26
#define AT_PENDING_DIGITS 27
#define AT_LATENCY_DIGITS 28
#define AT_RESERVED_A 29
#define AT_SCALE 32
#define AT_THRESHOLD_US 36
#define AT_RESERVED_B 40

static s32 get_s32(const u8 *p)
{
	return (s32)get_u32(p);
}

static s64 get_s64(const u8 *p)
{
	return (s64)(get_u32(p) | (u64)get_u32(p + 4) << 32);
}

static u8 *put_u64(u8 *p, u64 value)
{
	return put_u32(put_u32(p, value), value >> 32);
}

/**
 * linnos_model_check_header() - can this be the beginning of a model file?
 * @file: the file's first bytes
 * @bytes: how many there are; more than the header is fine
 *
 * Looks at the header only, so that a wrong file is refused when its first
 * part arrives.
 *
 * Return: %LINNOS_MODEL_OK, or the first check that failed.
 */
enum linnos_model_error linnos_model_check_header(const void *file,
						  size_t bytes)
{
	const u8 *p = file;

	if (bytes < sizeof(linnos_magic))
		return LINNOS_MODEL_TRUNCATED;
	if (memcmp(p, linnos_magic, sizeof(linnos_magic)))
		return LINNOS_MODEL_MAGIC;
	if (bytes < LINNOS_MODEL_HEADER)
		return LINNOS_MODEL_TRUNCATED;
	if (get_u32(p + LINNOS_FILE_VERSION) != LINNOS_MODEL_VERSION)
		return LINNOS_MODEL_UNKNOWN_VERSION;
	if (get_u16(p + AT_N_INPUTS) != LINNOS_N_INPUTS ||
	    get_u16(p + AT_N_HIDDEN) != LINNOS_N_HIDDEN ||
	    get_u16(p + AT_N_OUTPUTS) != LINNOS_N_OUTPUTS ||
	    p[AT_HISTORY] != LINNOS_HISTORY ||
	    p[AT_PENDING_DIGITS] != LINNOS_PENDING_DIGITS ||
	    p[AT_LATENCY_DIGITS] != LINNOS_LATENCY_DIGITS)
		return LINNOS_MODEL_SHAPE;
	if (get_u32(p + LINNOS_FILE_TOTAL_BYTES) != LINNOS_MODEL_BYTES)
		return LINNOS_MODEL_SIZE;
	if (!all_zero(p + AT_RESERVED_A, AT_SCALE - AT_RESERVED_A) ||
	    !all_zero(p + AT_RESERVED_B, LINNOS_MODEL_HEADER - AT_RESERVED_B))
		return LINNOS_MODEL_RESERVED;
	if (!get_u32(p + AT_SCALE))
		return LINNOS_MODEL_SCALE;
	return LINNOS_MODEL_OK;
}

/*
 * The largest and smallest value of a sum over all digit vectors is reached
 * when each digit is 9 where its weight helps and 0 elsewhere. Any partial
 * sum that starts from the bias lies between the two as well, so the order of
 * the additions does not matter. Units outlive the ReLU at up to @hidden_max.
 */
static bool linnos_hidden_in_range(const struct linnos_model *model, int unit,
				   s64 *hidden_max)
{
	s64 low = model->hidden_bias[unit];
	s64 high = low;
	int i;

	for (i = 0; i < LINNOS_N_INPUTS; i++) {
		s64 most = (s64)model->hidden_weights[unit][i] * DIGIT_MAX;

		if (most < 0)
			low += most;
		else
			high += most;
	}
	*hidden_max = high > 0 ? high : 0;
	return low >= S32_MIN && high <= S32_MAX;
}

static enum linnos_model_error
linnos_check_ranges(const struct linnos_model *model)
{
	s64 low[LINNOS_N_OUTPUTS], high[LINNOS_N_OUTPUTS];
	bool fits = true;
	int unit, k;

	for (k = 0; k < LINNOS_N_OUTPUTS; k++) {
		low[k] = model->output_bias[k];
		high[k] = low[k];
	}

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		s64 hidden_max;

		if (!linnos_hidden_in_range(model, unit, &hidden_max))
			return LINNOS_MODEL_HIDDEN_RANGE;

		for (k = 0; k < LINNOS_N_OUTPUTS; k++) {
			/* 32 bits by 31: cannot overflow by itself */
			s64 most = model->output_weights[unit][k] * hidden_max;
			s64 *bound = most < 0 ? &low[k] : &high[k];

			if (__builtin_add_overflow(*bound, most, bound))
				fits = false;
		}
	}
	return fits ? LINNOS_MODEL_OK : LINNOS_MODEL_OUTPUT_RANGE;
}

/**
 * linnos_model_parse() - read a model file and check all of it
 * @model: filled in; its content is undefined when a check fails
 * @file: the whole file
 * @bytes: its size
 *
 * Return: %LINNOS_MODEL_OK, or the first check that failed.
 */
enum linnos_model_error linnos_model_parse(struct linnos_model *model,
					   const void *file, size_t bytes)
{
	const u8 *p = file;
	enum linnos_model_error error;
	int i, unit, k;

	error = linnos_model_check_header(file, bytes);
	if (error)
		return error;
	if (bytes < LINNOS_MODEL_BYTES)
		return LINNOS_MODEL_TRUNCATED;
	if (bytes > LINNOS_MODEL_BYTES)
		return LINNOS_MODEL_SIZE;

	model->id = get_u32(p + LINNOS_FILE_CRC32);
	if (model->id != linnos_file_crc32(p, bytes))
		return LINNOS_MODEL_CRC;
	model->scale = get_u32(p + AT_SCALE);
	model->threshold_us = get_u32(p + AT_THRESHOLD_US);

	p += LINNOS_MODEL_HEADER;
	for (i = 0; i < LINNOS_N_INPUTS; i++)
		for (unit = 0; unit < LINNOS_N_HIDDEN; unit++, p += 4)
			model->hidden_weights[unit][i] = get_s32(p);
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++, p += 4)
		model->hidden_bias[unit] = get_s32(p);
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
		for (k = 0; k < LINNOS_N_OUTPUTS; k++, p += 4)
			model->output_weights[unit][k] = get_s32(p);
	for (k = 0; k < LINNOS_N_OUTPUTS; k++, p += 8)
		model->output_bias[k] = get_s64(p);

	return linnos_check_ranges(model);
}

/**
 * linnos_model_store() - write a model back as the file it was read from
 * @model: a parsed model
 * @file: room for %LINNOS_MODEL_BYTES; byte for byte the file parsed
 */
void linnos_model_store(const struct linnos_model *model, void *file)
{
	u8 *p = file;
	int i, unit, k;

	memset(p, 0, LINNOS_MODEL_HEADER);
	memcpy(p, linnos_magic, sizeof(linnos_magic));
	put_u32(p + LINNOS_FILE_VERSION, LINNOS_MODEL_VERSION);
	put_u32(p + LINNOS_FILE_TOTAL_BYTES, LINNOS_MODEL_BYTES);
	put_u32(p + LINNOS_FILE_CRC32, model->id);
	put_u16(p + AT_N_INPUTS, LINNOS_N_INPUTS);
	put_u16(p + AT_N_HIDDEN, LINNOS_N_HIDDEN);
	put_u16(p + AT_N_OUTPUTS, LINNOS_N_OUTPUTS);
	p[AT_HISTORY] = LINNOS_HISTORY;
	p[AT_PENDING_DIGITS] = LINNOS_PENDING_DIGITS;
	p[AT_LATENCY_DIGITS] = LINNOS_LATENCY_DIGITS;
	put_u32(p + AT_SCALE, model->scale);
	put_u32(p + AT_THRESHOLD_US, model->threshold_us);

	p += LINNOS_MODEL_HEADER;
	for (i = 0; i < LINNOS_N_INPUTS; i++)
		for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
			p = put_u32(p, model->hidden_weights[unit][i]);
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
		p = put_u32(p, model->hidden_bias[unit]);
	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++)
		for (k = 0; k < LINNOS_N_OUTPUTS; k++)
			p = put_u32(p, model->output_weights[unit][k]);
	for (k = 0; k < LINNOS_N_OUTPUTS; k++)
		p = put_u64(p, model->output_bias[k]);
}

/**
 * linnos_model_error_string() - say which check failed
 * @error: what a check returned
 *
 * Return: a short phrase for a message.
 */
const char *linnos_model_error_string(enum linnos_model_error error)
{
	static const char *const strings[] = {
		[LINNOS_MODEL_OK] = "no error",
		[LINNOS_MODEL_TRUNCATED] = "truncated file",
		[LINNOS_MODEL_MAGIC] = "bad magic, not a model file",
		[LINNOS_MODEL_UNKNOWN_VERSION] = "unknown version",
		[LINNOS_MODEL_SIZE] = "wrong size",
		[LINNOS_MODEL_SHAPE] = "wrong network shape",
		[LINNOS_MODEL_RESERVED] = "reserved field not zero",
		[LINNOS_MODEL_SCALE] = "scale is zero",
		[LINNOS_MODEL_CRC] = "checksum mismatch",
		[LINNOS_MODEL_HIDDEN_RANGE] = "hidden sum may overflow",
		[LINNOS_MODEL_OUTPUT_RANGE] = "output sum may overflow",
		[LINNOS_MODEL_ORDER] = "written out of order",
	};

	if ((unsigned int)error > LINNOS_MODEL_ORDER)
		return "unknown error";
	return strings[error];
}

/**
 * linnos_model_sizeof() - bytes to allocate for a struct linnos_model
 *
 * For callers that cannot see the structure.
 *
 * Return: sizeof(struct linnos_model).
 */
size_t linnos_model_sizeof(void)
{
	return sizeof(struct linnos_model);
}

static u8 *linnos_put_digits(u8 *digit, int n, u32 value, u32 max)
{
	int i;

	if (value > max)
		value = max;
	for (i = n - 1; i >= 0; i--) {
		digit[i] = value % 10;
		value /= 10;
	}
	return digit + n;
}

/**
 * linnos_features_encode() - turn a read's features into digits
 * @hist_pending: pending pages when the last four reads arrived, oldest first
 * @hist_latency_us: latency of the same reads, oldest first
 * @pending: pending pages now, this read included
 * @digits: filled in
 */
void linnos_features_encode(const u32 hist_pending[LINNOS_HISTORY],
			    const u32 hist_latency_us[LINNOS_HISTORY],
			    u32 pending, u8 digits[LINNOS_N_INPUTS])
{
	int i;

	for (i = 0; i < LINNOS_HISTORY; i++)
		digits = linnos_put_digits(digits, LINNOS_PENDING_DIGITS,
					   hist_pending[i], LINNOS_PENDING_MAX);
	digits = linnos_put_digits(digits, LINNOS_PENDING_DIGITS, pending,
				   LINNOS_PENDING_MAX);
	for (i = 0; i < LINNOS_HISTORY; i++)
		digits = linnos_put_digits(digits, LINNOS_LATENCY_DIGITS,
					   hist_latency_us[i],
					   LINNOS_LATENCY_MAX);
}

/**
 * linnos_infer() - the reference engine: decide one read
 * @model: a parsed model
 * @digits: the read's features, each digit 0 to 9
 * @out: filled in: fast, slow
 *
 * Return: true when the network predicts a slow read.
 */
bool linnos_infer(const struct linnos_model *model,
		  const u8 digits[LINNOS_N_INPUTS], s64 out[LINNOS_N_OUTPUTS])
{
	s64 fast = model->output_bias[0];
	s64 slow = model->output_bias[1];
	int i, unit;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		/*
		 * The sum fits 32 bits although a single product may not, when
		 * the bias has the other sign: add modulo 2^32.
		 */
		u32 sum = model->hidden_bias[unit];
		s32 hidden;

		for (i = 0; i < LINNOS_N_INPUTS; i++)
			sum += (u32)model->hidden_weights[unit][i] * digits[i];
		hidden = sum;
		if (hidden <= 0)
			continue;
		fast += (s64)model->output_weights[unit][0] * hidden;
		slow += (s64)model->output_weights[unit][1] * hidden;
	}
	out[0] = fast;
	out[1] = slow;
	return slow > fast;
}

/**
 * linnos_infer_batch() - the reference engine over many feature vectors
 * @model: a parsed model
 * @digits: @n rows of %LINNOS_N_INPUTS
 * @n: number of rows
 * @out: filled in: @n rows of %LINNOS_N_OUTPUTS
 *
 * Return: @n, or -1 - row when a row holds a value that is not a digit.
 */
long linnos_infer_batch(const struct linnos_model *model, const u8 *digits,
			long n, s64 *out)
{
	long row;
	int i;

	for (row = 0; row < n; row++) {
		for (i = 0; i < LINNOS_N_INPUTS; i++)
			if (digits[i] > DIGIT_MAX)
				return -1 - row;
		linnos_infer(model, digits, out);
		digits += LINNOS_N_INPUTS;
		out += LINNOS_N_OUTPUTS;
	}
	return n;
}
