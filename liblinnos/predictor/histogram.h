/* SPDX-License-Identifier: MIT */
/*
 * A log-linear histogram of 64-bit values, with the layout of HdrHistogram: values below 2^(bits+1)
 * have a bucket each, above them every power of two has 2^bits buckets, so that a value is known
 * within 1/2^bits of itself.
 */
#ifndef LINNOS_HISTOGRAM_H
#define LINNOS_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

struct histogram {
	unsigned int bits;
	uint64_t *counts;
};

/* Return false if there is no memory. */
bool histogram_init(struct histogram *h, unsigned int bits);
void histogram_free(struct histogram *h);
/* Halve all counts. Return their sum. */
uint64_t histogram_fade(struct histogram *h);
/* Return the middle of the bucket that holds the rank-th smallest value, from 1; UINT64_MAX if
 * there are fewer values. */
uint64_t histogram_at_rank(const struct histogram *h, uint64_t rank);

static inline uint32_t histogram_bucket(const struct histogram *h, uint64_t value)
{
	unsigned int shift;

	if (value >> h->bits == 0)
		return value;
	shift = 63 - __builtin_clzll(value) - h->bits;
	return (shift << h->bits) + (uint32_t)(value >> shift);
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
	h->counts[histogram_bucket(h, value)]++;
}

/* Return the nearest rank, from 1, of a percentile (0 to 1) among this number of sorted values. */
uint64_t nearest_rank(uint64_t count, double fraction);

#endif
