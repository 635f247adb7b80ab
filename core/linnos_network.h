/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* LinnOS: the network of the paper. See linnos_network.c. */
#ifndef _LINNOS_NETWORK_H
#define _LINNOS_NETWORK_H

#include "linnos_drive.h"

/*
 * The network, 31 -> 256 ReLU -> 2, classifies a read as fast or slow. Its inputs are decimal
 * digits, most significant digit first:
 *
 *	digit	 0 .. 11  pending pages when the last four reads arrived,
 *			  oldest first, three digits each (capped at 999)
 *		12 .. 14  pending pages now, this read included
 *		15 .. 30  latency_us of the last four reads, oldest first,
 *			  four digits each (capped at 9999)
 */
#define LINNOS_NETWORK_VERSION 1

#define LINNOS_PENDING_DIGITS 3
#define LINNOS_LATENCY_DIGITS 4
#define LINNOS_N_INPUTS                                 \
	((LINNOS_HISTORY + 1) * LINNOS_PENDING_DIGITS + \
	 LINNOS_HISTORY * LINNOS_LATENCY_DIGITS)
#define LINNOS_PENDING_MAX 999
#define LINNOS_LATENCY_MAX 9999
#define LINNOS_N_HIDDEN 256
#define LINNOS_N_OUTPUTS 2

#define LINNOS_NETWORK_BYTES                                              \
	(LINNOS_FILE_HEADER +                                             \
	 4 * LINNOS_N_HIDDEN * (LINNOS_N_INPUTS + 1 + LINNOS_N_OUTPUTS) + \
	 8 * LINNOS_N_OUTPUTS)

/* Four hidden units per 64-bit word: unit 4 n + k is in word n, from bit 16 k. */
#define LINNOS_LANES 4
#define LINNOS_WORDS (LINNOS_N_HIDDEN / LINNOS_LANES)

#define LINNOS_DIGIT_MAX 9

/* A checked network; output 0 is fast, output 1 is slow. */
struct linnos_net {
	u64 biases[LINNOS_WORDS]; /* with an offset that keeps the sums positive */
	/* the product of each digit with the weights of its input */
	u64 products[LINNOS_N_INPUTS][LINNOS_DIGIT_MAX + 1][LINNOS_WORDS];
	/*
	 * Differences of the output weights, slow minus fast: [0] has those of the even units of a
	 * word, [1] those of the odd units. The first unit of each pair is in the upper half.
	 */
	u64 margin_pairs[LINNOS_WORDS][2];
	s16 output_weights[LINNOS_N_OUTPUTS][LINNOS_N_HIDDEN];
	s64 output_bias[LINNOS_N_OUTPUTS];
	u8 header[LINNOS_FILE_HEADER]; /* header of the model file */
};

/* The hidden layer before its ReLU, with the offset. */
struct linnos_hidden {
	u64 sums[LINNOS_WORDS];
};

/* Check the header of a file. Return the first check that failed. */
enum linnos_model_error linnos_network_check_header(const void *file,
						    size_t bytes);
enum linnos_model_error linnos_network_parse(struct linnos_net *net,
					     const void *file, size_t bytes);
size_t linnos_network_store(const struct linnos_net *net, void *file);

void linnos_hidden_layer(const struct linnos_net *net,
			 const u8 digits[LINNOS_N_INPUTS],
			 struct linnos_hidden *hidden);
s64 linnos_margin(const struct linnos_net *net,
		  const struct linnos_hidden *hidden);
void linnos_outputs(const struct linnos_net *net,
		    const struct linnos_hidden *hidden,
		    s64 out[LINNOS_N_OUTPUTS]);

void linnos_encode_digits(const struct linnos_drive_snapshot *view,
			  u8 digits[LINNOS_N_INPUTS]);

#endif /* _LINNOS_NETWORK_H */
