/* SPDX-License-Identifier: MIT */
/*
 * Feature vectors: counts and latencies as decimal digits, most significant first.
 *
 * The order is the one of docs/formats.md: pending of the past reads, pending now, latency of the
 * past reads; each capped at what its digits can hold.
 */
#include <stdint.h>

static uint32_t cap_of(int digits)
{
	uint32_t cap = 1;

	while (digits--)
		cap *= 10;
	return cap - 1;
}

static uint8_t *put(uint8_t *out, uint32_t value, int digits, uint32_t cap)
{
	if (value > cap)
		value = cap;
	for (int i = digits - 1; i >= 0; i--) {
		out[i] = value % 10;
		value /= 10;
	}
	return out + digits;
}

/* Write rows * ((history + 1) * pending_digits + history * latency_digits) digits to @out. */
void lt_digits(int64_t rows, int history, int pending_digits, int latency_digits,
	       const uint32_t *pending, const uint32_t *hist_pending,
	       const uint32_t *hist_latency_us, uint8_t *out)
{
	uint32_t pending_cap = cap_of(pending_digits);
	uint32_t latency_cap = cap_of(latency_digits);

	for (int64_t row = 0; row < rows; row++) {
		const uint32_t *past_pending = hist_pending + row * history;
		const uint32_t *past_latency = hist_latency_us + row * history;

		for (int i = 0; i < history; i++)
			out = put(out, past_pending[i], pending_digits, pending_cap);
		out = put(out, pending[row], pending_digits, pending_cap);
		for (int i = 0; i < history; i++)
			out = put(out, past_latency[i], latency_digits, latency_cap);
	}
}
