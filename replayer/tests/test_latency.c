// SPDX-License-Identifier: MIT
/* Tests of latencies and their percentiles. */
#include "results/latency.h"

#include "test.h"

#include <stdlib.h>

TEST(percentiles_match_the_added_latencies)
{
	struct latency kept, counted;

	latency_init(&kept, 1000);
	latency_init(&counted, 0);
	for (uint64_t ns = 100000; ns; ns -= 1000) {
		latency_add(&kept, ns);
		latency_add(&counted, ns);
	}
	assert(kept.exact && !counted.exact);
	assert(latency_percentile(&kept, 0.99) == 99000);
	assert(llabs((long long)latency_percentile(&counted, 0.99) - 99000) <= 99000 / 2048);
	assert(latency_percentile(&counted, 0) == 1000);
	assert(latency_percentile(&counted, 1) == 100000);
	assert(latency_mean(&kept) == 50500 && latency_mean(&counted) == 50500);
	latency_free(&kept);
	latency_free(&counted);
}

/*
 * Compare two merged sets, some of whose values exceed what is stored, with one set of all values.
 */
static void merge(uint32_t exact_max, uint32_t other_exact_max)
{
	struct latency all, half, other;

	latency_init(&all, exact_max && other_exact_max ? 1u << 20 : 0);
	latency_init(&half, exact_max);
	latency_init(&other, other_exact_max);
	for (uint64_t i = 1; i <= 1000; i++) {
		uint64_t ns = i * 7919 % 1000 * 1000;

		latency_add(&all, ns);
		latency_add(i % 3 ? &half : &other, ns);
	}
	latency_merge(&half, &other);
	assert(half.count == 1000 && latency_mean(&half) == latency_mean(&all));
	assert(half.exact == all.exact);
	for (double f = 0; f <= 1; f += 0.01)
		assert(latency_percentile(&half, f) == latency_percentile(&all, f));
	latency_free(&all);
	latency_free(&half);
	latency_free(&other);
}

TEST(merged_sets_equal_one_set_of_all_latencies)
{
	merge(1000, 1000);
	merge(0, 1000);
	merge(1000, 0);
	merge(0, 0);
}

TEST(percentile_needs_a_value_beyond_it)
{
	assert(latency_is_enough(100, 0.99) && !latency_is_enough(99, 0.99));
	assert(latency_is_enough(10000, 0.9999) && !latency_is_enough(9999, 0.9999));
}
