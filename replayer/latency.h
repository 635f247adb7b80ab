/* SPDX-License-Identifier: MIT */
/*
 * Latencies and their percentiles in bounded memory.
 *
 * The first LATENCY_EXACT_MAX values are kept one by one and percentiles over them are exact.
 * Beyond that the values move into a log-linear histogram: 2048 buckets per power of two, so that a
 * percentile is off by at most 1/2048 of itself. latency_is_exact() tells which of the two a number
 * came from.
 */
#ifndef REPLAYER_LATENCY_H
#define REPLAYER_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_EXACT_MAX (16u << 20) /* 64 MiB of u32 at most */

struct latency {
	uint64_t count, sum_ns, min_ns, max_ns;
	uint32_t *values; /* ns; grown by doubling; NULL once the histogram took over */
	uint32_t allocated;
	uint32_t exact_max;
	bool sorted;
	uint64_t *buckets;
};

/* exact_max 0 starts with the histogram. */
void latency_init(struct latency *l, uint32_t exact_max);
void latency_free(struct latency *l);
void latency_add(struct latency *l, uint64_t ns);
bool latency_is_exact(const struct latency *l);
/* The smallest recorded value that is not exceeded by a share of `fraction` of all values (nearest
 * rank), in ns. */
uint64_t latency_percentile(struct latency *l, double fraction);
double latency_mean(const struct latency *l);

#endif
