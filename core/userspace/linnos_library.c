// SPDX-License-Identifier: MIT
/* Functions of the user-space library only: apply both kinds of model to many reads. */
#include "linnos_network.h"

/* Return the size of a network, for callers that do not know the structure. */
size_t linnos_network_sizeof(void)
{
	return sizeof(struct linnos_net);
}

/**
 * linnos_features_batch() - compute the inputs of the network for many reads
 * @pending: pages pending now, one per row
 * @hist_pending: @n rows of %LINNOS_HISTORY
 * @hist_latency_us: @n rows of %LINNOS_HISTORY
 * @digits: filled in: @n rows of %LINNOS_N_INPUTS
 * @n: number of rows
 */
void linnos_features_batch(const u32 *pending, const u32 *hist_pending,
			   const u32 *hist_latency_us, u8 *digits, long n)
{
	struct linnos_drive_snapshot view = {};
	int i;

	for (; n--; digits += LINNOS_N_INPUTS) {
		view.pages = *pending++;
		for (i = 0; i < LINNOS_HISTORY; i++) {
			view.past[i].pending =
				min_t(u32, hist_pending[i], LINNOS_PENDING_MAX);
			view.past[i].latency_us = hist_latency_us[i];
		}
		hist_pending += LINNOS_HISTORY;
		hist_latency_us += LINNOS_HISTORY;
		linnos_encode_digits(&view, digits);
	}
}

/**
 * linnos_network_batch() - classify many reads
 * @net: a parsed network
 * @digits: @n rows of %LINNOS_N_INPUTS
 * @n: number of rows
 * @out: filled in: @n rows of both outputs, fast and slow
 * @margin: filled in: the output for slow minus that for fast, one per row
 *
 * Return: @n, or -1 - row if a row contains a value that is not a digit.
 */
long linnos_network_batch(const struct linnos_net *net, const u8 *digits,
			  long n, s64 *out, s64 *margin)
{
	struct linnos_hidden hidden;
	long row;
	int i;

	for (row = 0; row < n; row++) {
		for (i = 0; i < LINNOS_N_INPUTS; i++)
			if (digits[i] > LINNOS_DIGIT_MAX)
				return -1 - row;
		linnos_hidden_layer(net, digits, &hidden);
		linnos_outputs(net, &hidden, out);
		margin[row] = linnos_margin(net, &hidden);
		digits += LINNOS_N_INPUTS;
		out += LINNOS_N_OUTPUTS;
	}
	return n;
}

/**
 * linnos_latency_batch() - predict the latencies of many reads
 * @model: a parsed model
 * @features: @n rows of %LINNOS_N_FEATURES
 * @n: number of rows
 * @us: filled in: one prediction per row
 *
 * Return: @n, or -1 - row if a row contains a number higher than %LINNOS_LATENCY_CAP.
 */
long linnos_latency_batch(const struct linnos_latency *model,
			  const u32 *features, long n, u32 *us)
{
	long row;
	int i;

	for (row = 0; row < n; row++, features += LINNOS_N_FEATURES) {
		for (i = 0; i < LINNOS_N_FEATURES; i++)
			if (features[i] > LINNOS_LATENCY_CAP)
				return -1 - row;
		us[row] = linnos_latency_us(model, features);
	}
	return n;
}
