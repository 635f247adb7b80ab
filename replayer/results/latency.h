/* SPDX-License-Identifier: MIT */
/*
 * Latencies and their percentiles in bounded memory.
 *
 * Every value is counted in a logarithmic histogram with 2048 linear buckets per power of two, so
 * that the relative error of a percentile is at most 1/2048. The first LATENCY_EXACT_MAX values are
 * also stored individually. Percentiles are exact, and @exact is true, as long as there are no more
 * values and all fit 32 bits (4.29 s).
 */
#ifndef REPLAYER_LATENCY_H
#define REPLAYER_LATENCY_H

#include "histogram.h"

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_EXACT_MAX (16u << 20) /* at most 64 MiB of u32 */

struct latency {
	uint64_t count, sum_ns, min_ns, max_ns;
	struct histogram histogram;
	uint32_t *values; /* stored values, ns; the kernel provides memory as they are written */
	uint32_t exact_max;
	bool exact, is_sorted;
};

/* exact_max is 0 to store no values. */
void latency_init(struct latency *l, uint32_t exact_max);
void latency_free(struct latency *l);
void latency_add(struct latency *l, uint64_t ns);
/*
 * Return the smallest recorded value, in ns, that at least a fraction of all values does not exceed
 * (nearest rank).
 */
uint64_t latency_percentile(struct latency *l, double fraction);
/*
 * Return true if at least one value lies above the percentile; with fewer values it would equal the
 * maximum.
 */
static inline bool latency_is_enough(uint64_t count, double fraction)
{
	return (double)count * (1 - fraction) >= 1 - 1e-9;
}
double latency_mean(const struct latency *l);

#endif
