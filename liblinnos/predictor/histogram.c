// SPDX-License-Identifier: MIT
/* A log-linear histogram: see histogram.h. */
#include "histogram.h"

#include <math.h>
#include <stdlib.h>

static uint32_t n_buckets(const struct histogram *h)
{
	return (64 - h->bits + 1) << h->bits;
}

static uint64_t middle(const struct histogram *h, uint32_t bucket)
{
	uint32_t per_power = 1u << h->bits;
	unsigned int shift;

	if (bucket < per_power)
		return bucket;
	shift = bucket / per_power - 1;
	return ((uint64_t)(bucket % per_power + per_power) << shift) + ((1ull << shift) >> 1);
}

bool histogram_init(struct histogram *h, unsigned int bits)
{
	h->bits = bits;
	h->counts = calloc(n_buckets(h), sizeof(*h->counts));
	return h->counts;
}

void histogram_free(struct histogram *h)
{
	free(h->counts);
	h->counts = NULL;
}

uint64_t histogram_fade(struct histogram *h)
{
	uint64_t sum = 0;

	for (uint32_t b = 0; b < n_buckets(h); b++)
		sum += h->counts[b] /= 2;
	return sum;
}

uint64_t histogram_at_rank(const struct histogram *h, uint64_t rank)
{
	uint64_t seen = 0;

	for (uint32_t b = 0; b < n_buckets(h); b++) {
		seen += h->counts[b];
		if (seen >= rank)
			return middle(h, b);
	}
	return UINT64_MAX;
}

uint64_t nearest_rank(uint64_t count, double fraction)
{
	/* The small subtraction keeps 0.95 * 100 from becoming rank 96. */
	uint64_t rank = (uint64_t)ceil(fraction * (double)count - 1e-9);

	return rank < 1 ? 1 : rank > count ? count : rank;
}
