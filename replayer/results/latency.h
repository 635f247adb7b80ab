/* SPDX-License-Identifier: MIT */
/*
 * Latencies and their percentiles in bounded memory.
 *
 * Every value is counted in a log-linear histogram: 2048 buckets per power of two, so that a
 * percentile is off by at most 1/2048 of itself. The first LATENCY_EXACT_MAX values are kept one by
 * one as well, and as long as there are no more, percentiles are exact. latency_is_exact() tells
 * which of the two a number came from. No value takes notably longer than others to add: the kept
 * ones lie in chunks, and what is no longer of use is given back a chunk at a time.
 */
#ifndef REPLAYER_LATENCY_H
#define REPLAYER_LATENCY_H

#include "histogram.h"

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_EXACT_MAX (16u << 20) /* 64 MiB of u32 at most */

struct latency {
	uint64_t count, sum_ns, min_ns, max_ns;
	struct histogram histogram;
	uint32_t **chunks; /* of kept values, ns */
	uint32_t n_chunks, exact_max;
	bool exact;
	uint32_t *sorted; /* all kept values, once a percentile was asked for */
	uint64_t n_sorted;
};

/* exact_max 0 keeps no values. */
void latency_init(struct latency *l, uint32_t exact_max);
void latency_free(struct latency *l);
void latency_add(struct latency *l, uint64_t ns);
/* Another's values as well. */
void latency_merge(struct latency *l, const struct latency *other);
bool latency_is_exact(const struct latency *l);
/* The smallest recorded value that is not exceeded by a share of `fraction` of all values (nearest
 * rank), in ns. */
uint64_t latency_percentile(struct latency *l, double fraction);
/* Whether so many values have one beyond the percentile: of fewer, it would be the maximum by
 * another name. */
static inline bool latency_is_enough(uint64_t count, double fraction)
{
	return (double)count * (1 - fraction) >= 1 - 1e-9;
}
double latency_mean(const struct latency *l);

#endif
