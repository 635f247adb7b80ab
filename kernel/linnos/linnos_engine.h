/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS network: the model file and its integer arithmetic.
 *
 * One file pair, linnos_engine.[ch], compiled unchanged into the kernel, into
 * its KUnit suite and into a user-space shared library, so that there is only
 * one definition of what a model is and of what it decides.
 *
 * The network is 31 -> 256 ReLU -> 2. Its inputs are decimal digits:
 *
 *	digit	 0 .. 11  pending pages when the last four reads arrived,
 *			  oldest first, three digits each (capped at 999)
 *		12 .. 14  pending pages now, this read included
 *		15 .. 30  latency_us of the last four reads, oldest first,
 *			  four digits each (capped at 9999)
 *
 * most significant digit first.
 */
#ifndef _LINNOS_ENGINE_H
#define _LINNOS_ENGINE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;
#define __aligned(x) __attribute__((__aligned__(x)))
#endif

/* Where all of a variable is written anyway; old kernels and programs lack it. */
#ifndef __uninitialized
#define __uninitialized
#endif

/* The paper's network: so many reads, of so many decimal digits each. */
#define LINNOS_HISTORY 4
#define LINNOS_PENDING_DIGITS 3
#define LINNOS_LATENCY_DIGITS 4
/* What so many digits can say; more is as much. */
#define LINNOS_PENDING_MAX 999
#define LINNOS_LATENCY_MAX 9999

/* Where the digits of the three groups begin. */
#define LINNOS_NOW_DIGIT (LINNOS_HISTORY * LINNOS_PENDING_DIGITS)
#define LINNOS_LATENCY_DIGIT (LINNOS_NOW_DIGIT + LINNOS_PENDING_DIGITS)

#define LINNOS_N_INPUTS \
	(LINNOS_LATENCY_DIGIT + LINNOS_HISTORY * LINNOS_LATENCY_DIGITS)
/* The paper's: one hidden layer; fast and slow. */
#define LINNOS_N_HIDDEN 256
#define LINNOS_N_OUTPUTS 2

/*
 * Orders of size of a read, by its 4 KiB pages: up to 64 KiB, up to 1 MiB, and
 * more. A read that asks sees the last reads that were not larger in order than
 * itself: how long 1 MiB took tells nothing of 4 KiB, but small reads tell of all.
 */
#define LINNOS_SIZES 3
#define LINNOS_SMALL_PAGES 16
#define LINNOS_MEDIUM_PAGES 256

static inline u32 linnos_size_order(u32 pages)
{
	return (pages > LINNOS_SMALL_PAGES) + (pages > LINNOS_MEDIUM_PAGES);
}

/* Every kind of model file begins with magic, version, total_bytes and crc32. */
#define LINNOS_FILE_VERSION 8
#define LINNOS_FILE_TOTAL_BYTES 12
#define LINNOS_FILE_CRC32 16

/*
 * Model file, version 1; Documentation/ABI/testing/sysfs-block-linnos describes
 * it field by field.
 */
#define LINNOS_MODEL_VERSION 1
#define LINNOS_MODEL_HEADER 64
#define LINNOS_MODEL_BYTES                                                \
	(LINNOS_MODEL_HEADER +                                            \
	 4 * LINNOS_N_HIDDEN * (LINNOS_N_INPUTS + 1 + LINNOS_N_OUTPUTS) + \
	 8 * LINNOS_N_OUTPUTS)

/**
 * enum linnos_model_error - which check a model file failed
 * @LINNOS_MODEL_OK: none
 * @LINNOS_MODEL_TRUNCATED: fewer bytes than the header or total_bytes says
 * @LINNOS_MODEL_MAGIC: the file does not begin with LINNOSMD
 * @LINNOS_MODEL_UNKNOWN_VERSION: a version other than 1
 * @LINNOS_MODEL_SIZE: total_bytes is not that of the network, or more follow
 * @LINNOS_MODEL_SHAPE: inputs, hidden units, outputs or digits differ
 * @LINNOS_MODEL_RESERVED: a reserved field is not zero
 * @LINNOS_MODEL_SCALE: the scale is zero
 * @LINNOS_MODEL_CRC: the checksum does not match
 * @LINNOS_MODEL_HIDDEN_RANGE: some digits overflow a hidden sum (32 bits)
 * @LINNOS_MODEL_OUTPUT_RANGE: some digits overflow an output sum (64 bits)
 * @LINNOS_MODEL_ORDER: the pieces of an upload do not follow one another
 */
enum linnos_model_error {
	LINNOS_MODEL_OK = 0,
	LINNOS_MODEL_TRUNCATED,
	LINNOS_MODEL_MAGIC,
	LINNOS_MODEL_UNKNOWN_VERSION,
	LINNOS_MODEL_SIZE,
	LINNOS_MODEL_SHAPE,
	LINNOS_MODEL_RESERVED,
	LINNOS_MODEL_SCALE,
	LINNOS_MODEL_CRC,
	LINNOS_MODEL_HIDDEN_RANGE,
	LINNOS_MODEL_OUTPUT_RANGE,
	LINNOS_MODEL_ORDER,
};

/**
 * struct linnos_model - a checked model
 * @id: CRC-32 of the file
 * @scale: fixed-point scale of the weights
 * @threshold_us: a read slower than this is slow
 * @hidden_weights: [hidden unit][input], transposed for the reference engine
 * @hidden_bias: one per hidden unit
 * @output_weights: [hidden unit][output]
 * @output_bias: one per output; output 0 is fast, output 1 is slow
 */
struct linnos_model {
	u32 id;
	u32 scale;
	u32 threshold_us;
	s32 hidden_weights[LINNOS_N_HIDDEN][LINNOS_N_INPUTS];
	s32 hidden_bias[LINNOS_N_HIDDEN];
	s32 output_weights[LINNOS_N_HIDDEN][LINNOS_N_OUTPUTS];
	s64 output_bias[LINNOS_N_OUTPUTS];
};

enum linnos_model_error linnos_model_check_header(const void *file,
						  size_t bytes);
enum linnos_model_error linnos_model_parse(struct linnos_model *model,
					   const void *file, size_t bytes);
void linnos_model_store(const struct linnos_model *model, void *file);
const char *linnos_model_error_string(enum linnos_model_error error);
size_t linnos_model_sizeof(void);

void linnos_features_encode(const u32 hist_pending[LINNOS_HISTORY],
			    const u32 hist_latency_us[LINNOS_HISTORY],
			    u32 pending, u8 digits[LINNOS_N_INPUTS]);

bool linnos_infer(const struct linnos_model *model,
		  const u8 digits[LINNOS_N_INPUTS], s64 out[LINNOS_N_OUTPUTS]);
long linnos_infer_batch(const struct linnos_model *model, const u8 *digits,
			long n, s64 *out);

#endif /* _LINNOS_ENGINE_H */
