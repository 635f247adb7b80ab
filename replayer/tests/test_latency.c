// SPDX-License-Identifier: MIT
/* Latencies, their histogram and their percentiles. */
#include "histogram.h"
#include "latency.h"

#include "test.h"

#include <stdlib.h>

TEST(small_values_have_a_bucket_each)
{
	struct histogram h = {.bits = 6};

	for (uint64_t v = 0; v < 128; v++)
		assert(histogram_bucket(&h, v) == v);
}

TEST(buckets_follow_each_other_without_a_gap)
{
	struct histogram h = {.bits = 6};

	for (uint64_t v = 1; v < 1 << 20; v++) {
		uint32_t step = histogram_bucket(&h, v) - histogram_bucket(&h, v - 1);

		assert(step <= 1);
	}
	assert(histogram_bucket(&h, UINT64_MAX) == (65 - 6) * 64 - 1);
}

TEST(a_value_comes_back_within_its_bucket)
{
	for (unsigned int bits = 6; bits <= 11; bits += 5) {
		struct histogram h;

		histogram_init(&h, bits);
		for (uint64_t v = 1; v < UINT64_MAX / 3; v = v * 3 + 1) {
			uint64_t found, error;

			histogram_clear(&h);
			histogram_add(&h, v);
			found = histogram_at_rank(&h, 1);
			error = found > v ? found - v : v - found;
			assert(error <= v >> bits);
		}
		histogram_free(&h);
	}
}

TEST(ranks_count_from_one_and_end_at_the_last)
{
	struct histogram h;

	histogram_init(&h, 11);
	for (uint64_t v = 1; v <= 100; v++)
		histogram_add(&h, v);
	assert(histogram_at_rank(&h, 1) == 1);
	assert(histogram_at_rank(&h, 100) == 100);
	assert(histogram_at_rank(&h, 101) == UINT64_MAX);
	histogram_free(&h);
	assert(nearest_rank(100, 0) == 1);
	assert(nearest_rank(100, 0.95) == 95);
	assert(nearest_rank(100, 0.951) == 96);
	assert(nearest_rank(100, 1) == 100);
}

TEST(percentiles_are_of_what_was_added)
{
	struct latency kept, counted;

	latency_init(&kept, 1000);
	latency_init(&counted, 0);
	for (uint64_t ns = 100000; ns; ns -= 1000) {
		latency_add(&kept, ns);
		latency_add(&counted, ns);
	}
	assert(latency_is_exact(&kept) && !latency_is_exact(&counted));
	assert(latency_percentile(&kept, 0.99) == 99000);
	assert(llabs((long long)latency_percentile(&counted, 0.99) - 99000) <= 99000 / 2048);
	assert(latency_percentile(&counted, 0) == 1000);
	assert(latency_percentile(&counted, 1) == 100000);
	assert(latency_mean(&kept) == 50500 && latency_mean(&counted) == 50500);
	latency_free(&kept);
	latency_free(&counted);
}

TEST(a_percentile_needs_a_value_beyond_it)
{
	assert(latency_is_enough(100, 0.99) && !latency_is_enough(99, 0.99));
	assert(latency_is_enough(10000, 0.9999) && !latency_is_enough(9999, 0.9999));
}
