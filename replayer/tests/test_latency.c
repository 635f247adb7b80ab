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

TEST(percentile_needs_a_value_beyond_it)
{
	assert(latency_is_enough(100, 0.99) && !latency_is_enough(99, 0.99));
	assert(latency_is_enough(10000, 0.9999) && !latency_is_enough(9999, 0.9999));
}
