/* SPDX-License-Identifier: MIT */
/*
 * A straightforward implementation of the network, for comparison with the
 * kernel's.
 */
#ifndef PLAIN_NETWORK_H
#define PLAIN_NETWORK_H

#include <string.h>

#include "linnos_model.h"

/*
 * As in the file, except that the weights of each hidden unit are consecutive.
 */
struct plain_network {
	s32 hidden_weights[LINNOS_N_HIDDEN][LINNOS_N_INPUTS];
	s32 hidden_bias[LINNOS_N_HIDDEN];
	s32 output_weights[LINNOS_N_HIDDEN][LINNOS_N_OUTPUTS];
	s64 output_bias[LINNOS_N_OUTPUTS];
};

/* Read a file that linnos_network_parse() accepts. */
static inline void plain_read(struct plain_network *net, const u8 *file)
{
	const u8 *p = file + LINNOS_FILE_HEADER;
	int i, unit;

	for (i = 0; i < LINNOS_N_INPUTS; i++)
		for (unit = 0; unit < LINNOS_N_HIDDEN; unit++, p += 4)
			net->hidden_weights[unit][i] = get_unaligned_le32(p);
	memcpy(net->hidden_bias, p, sizeof(net->hidden_bias));
	p += sizeof(net->hidden_bias);
	memcpy(net->output_weights, p, sizeof(net->output_weights));
	p += sizeof(net->output_weights);
	memcpy(net->output_bias, p, sizeof(net->output_bias));
}

static inline bool plain_infer(const struct plain_network *net, const u8 *digits)
{
	s64 fast = net->output_bias[0], slow = net->output_bias[1];
	int unit, i;

	for (unit = 0; unit < LINNOS_N_HIDDEN; unit++) {
		s32 sum = net->hidden_bias[unit];

		for (i = 0; i < LINNOS_N_INPUTS; i++)
			sum += net->hidden_weights[unit][i] * digits[i];
		if (sum <= 0)
			continue;
		fast += (s64)net->output_weights[unit][0] * sum;
		slow += (s64)net->output_weights[unit][1] * sum;
	}
	return slow > fast;
}

#endif
