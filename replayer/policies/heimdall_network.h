/* SPDX-License-Identifier: MIT */
/*
 * Heimdall's network: 11 features, two hidden layers of 128 and 16 neurons (ReLU), and one output,
 * in integer arithmetic. policies/heimdall.c cites the paper. eval/heimdall.py trains the network
 * and writes the file.
 *
 * Each feature is scaled from its range in training to 0 to 2^20, and clamped. Weights and biases
 * are scaled by 2^10, so that a sum of products is scaled by 2^30. The output of a hidden neuron is
 * scaled by 2^20 again. A read is predicted slow if the output is greater than 0.
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

/* Exit with a message that names the option if the file is missing or is not a network. */
struct heimdall_network *heimdall_network_read(const char *option, const char *path);
/* Return the output; greater than 0 means slow. */
int64_t heimdall_network_logit(const struct heimdall_network *n,
			       const uint32_t features[HEIMDALL_INPUTS]);

#endif
