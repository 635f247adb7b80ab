/* SPDX-License-Identifier: MIT */
/*
 * Heimdall's network: 11 features, two hidden layers of 128 and 16 (ReLU), one output, in whole
 * numbers. The policy (policies/heimdall.c) has the paper; eval/heimdall.py trains it and writes
 * the file.
 *
 * A feature is scaled to its range in training, 0 to 2^20, and cut off there. Weights and biases
 * carry 1024, so that a sum of products carries 2^30; what a hidden neuron gives carries 2^20
 * again. A read is slow when the output is above 0.
 */
#ifndef REPLAYER_HEIMDALL_NETWORK_H
#define REPLAYER_HEIMDALL_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#define HEIMDALL_HISTORY 3u
#define HEIMDALL_INPUTS (2 + 3 * HEIMDALL_HISTORY)
#define HEIMDALL_FIRST 128u
#define HEIMDALL_SECOND 16u

struct heimdall_network {
	int64_t low[HEIMDALL_INPUTS], high[HEIMDALL_INPUTS]; /* of each feature */
	int64_t first_bias[HEIMDALL_FIRST], first[HEIMDALL_FIRST][HEIMDALL_INPUTS];
	int64_t second_bias[HEIMDALL_SECOND], second[HEIMDALL_SECOND][HEIMDALL_FIRST];
	int64_t output_bias, output[HEIMDALL_SECOND];
};

/* Dies with a message that names the option when the file is missing or no network. */
struct heimdall_network *heimdall_network_read(const char *option, const char *path);
/* The output: slow when it is above 0. */
int64_t heimdall_network_logit(const struct heimdall_network *n,
			       const uint32_t features[HEIMDALL_INPUTS]);

#endif
