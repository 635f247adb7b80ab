/* SPDX-License-Identifier: MIT */
/*
 * A log-linear histogram of 64-bit values, with the layout of HdrHistogram. Each value less than
 * 2^(bits+1) has its own bucket. The range from each larger power of two to the next is divided
 * into 2^bits buckets, so the relative error of a value is at most 1/2^bits.
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
/* Return the middle of the bucket that contains the value with this rank, where the smallest value
 * has rank 1; UINT64_MAX if there are fewer values. */
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

/* Return the nearest rank of a percentile, a fraction from 0 to 1, among this number of values. The
 * smallest value has rank 1. */
uint64_t nearest_rank(uint64_t count, double fraction);

#endif
