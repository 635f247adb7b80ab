// SPDX-License-Identifier: MIT
/* The log-linear histogram. */
#include "histogram.h"

#include "test.h"

TEST(histogram_buckets_have_no_gaps_and_small_values_have_one_each)
{
	struct histogram h = {.bits = 6};

	for (uint64_t v = 0; v < 1 << 20; v++) {
		uint32_t bucket = histogram_bucket(&h, v);

		assert(v < 128 ? bucket == v : bucket - histogram_bucket(&h, v - 1) <= 1);
	}
	assert(histogram_bucket(&h, UINT64_MAX) == (65 - 6) * 64 - 1);
}

TEST(histogram_returns_value_within_its_bucket)
{
	for (unsigned int bits = 6; bits <= 11; bits += 5) {
		for (uint64_t v = 1; v < UINT64_MAX / 3; v = v * 3 + 1) {
			uint64_t found, error;
			struct histogram h;

			assert(histogram_init(&h, bits));
			histogram_add(&h, v);
			found = histogram_at_rank(&h, 1);
			error = found > v ? found - v : v - found;
			assert(error <= v >> bits);
			histogram_free(&h);
		}
	}
}

TEST(nearest_rank_is_between_one_and_the_count)
{
	struct histogram h;

	assert(histogram_init(&h, 11));
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

TEST(histogram_fade_halves_the_counts)
{
	struct histogram h;

	assert(histogram_init(&h, 5));
	for (unsigned int i = 0; i < 9; i++)
		histogram_add(&h, 3);
	histogram_add(&h, 1000);
	assert(histogram_fade(&h) == 4);
	assert(histogram_at_rank(&h, 4) == 3 && histogram_at_rank(&h, 5) == UINT64_MAX);
	histogram_free(&h);
}
