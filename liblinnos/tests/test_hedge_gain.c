// SPDX-License-Identifier: MIT
/* Hedging by gain, with simulated drives whose latencies are given. */
#include "hedge_gain.h"

#include "test.h"

#include <math.h>
#include <stdbool.h>

#define FAST_US 100
#define SLOW_US 3000
#define FREE INFINITY

/* One in `every` reads whose prediction is FAST_US takes SLOW_US; none if `every` is 0. */
static struct hedge_gain gain_after_reads(double share, unsigned int n, unsigned int every)
{
	struct hedge_gain gain;

	hedge_gain_init(&gain, share);
	for (unsigned int i = 1; i <= n; i++)
		hedge_gain_record_attempt(&gain, FAST_US, 0,
					  every && i % every == 0 ? SLOW_US : FAST_US);
	return gain;
}

static const struct hedge_candidate fast = {.first_us = FAST_US, .second_us = FAST_US, .pages = 1};

TEST(prior_hedges_late_reads_before_there_are_latencies)
{
	struct hedge_gain gain = gain_after_reads(FREE, 0, 0);
	struct hedge_candidate read = fast;
	double sum = 0;

	for (unsigned int i = 0; i < GAIN_BINS; i++)
		sum += gain.all.bins[i];
	assert(fabs(sum - gain.all.n) < 1e-9 && sum > 198 && sum < 202);
	/* A new read is not sent twice at once if others wait. */
	read.reads = 64;
	assert(hedge_plan(&gain, &read).wait_us > 0);
	read.waited_us = 4 * FAST_US;
	assert(hedge_plan(&gain, &read).wait_us == 0);
	/* Without a prediction there is no plan. */
	read.first_us = 0;
	assert(isinf(hedge_plan(&gain, &read).wait_us));
}

TEST(late_read_is_hedged_as_soon_as_it_is_late)
{
	struct hedge_gain gain = gain_after_reads(0.05, 2000, 50),
			  without_late = gain_after_reads(0.05, 3000, 0);
	struct hedge_plan plan = hedge_plan(&gain, &fast);
	struct hedge_candidate late = fast;

	/* Nearly all are answered within the bin that contains FAST_US. */
	assert(plan.wait_us > 0.8 * FAST_US && plan.wait_us < 1.5 * FAST_US);
	/* By then nearly all remaining reads are slow, and the second replica answers in
	 * FAST_US. */
	assert(plan.gain_us > 0.75 * (SLOW_US - 2 * FAST_US) && plan.gain_us < 1.25 * SLOW_US);
	late.waited_us = plan.wait_us;
	assert(hedge_plan(&gain, &late).wait_us == 0);
	/* A read that has waited longer than any other read took must not be expected to complete
	 * soon. */
	assert(hedge_plan(&without_late, &fast).wait_us > FAST_US);
	late.waited_us = 10 * FAST_US;
	assert(hedge_plan(&without_late, &late).wait_us == 0);
	/* At a high price no read is hedged. */
	gain.price_us = 100 * SLOW_US;
	assert(isinf(hedge_plan(&gain, &fast).wait_us));
}

TEST(read_with_slow_prediction_is_hedged_at_once)
{
	struct hedge_gain gain = gain_after_reads(0.05, 2000, 0);
	struct hedge_candidate slow = {.first_us = SLOW_US, .second_us = FAST_US, .pages = 1};

	for (unsigned int i = 0; i < 1000; i++)
		hedge_gain_record_attempt(&gain, SLOW_US, 0, SLOW_US);
	assert(hedge_plan(&gain, &slow).wait_us == 0);
	slow.second_us = SLOW_US;
	assert(hedge_plan(&gain, &slow).wait_us > 0.8 * SLOW_US);
}

/* Every read would gain from a hedge. The price determines how many are hedged. */
TEST(hedges_converge_to_the_allowed_fraction)
{
	static const double shares[] = {0.05, 0.1};

	for (unsigned int s = 0; s < 2; s++) {
		struct hedge_gain gain = gain_after_reads(shares[s], 2000, 50);
		unsigned int n = 0, n_hedged = 0, random = 1;

		for (unsigned int i = 0; i < 60000; i++) {
			struct hedge_candidate read = fast;
			bool is_hedged;

			random = random * 1103515245 + 12345;
			read.waited_us = FAST_US * (random >> 16) / 16384.0;
			hedge_gain_begin(&gain, 0);
			is_hedged = hedge_plan(&gain, &read).wait_us == 0;
			if (is_hedged)
				hedge_gain_hedge_due(&gain);
			n += i >= 30000;
			n_hedged += i >= 30000 && is_hedged;
		}
		assert(fabs((double)n_hedged / n - shares[s]) < 0.3 * shares[s]);
	}
}

TEST(price_is_zero_without_a_limit)
{
	struct hedge_gain gain = gain_after_reads(FREE, 2000, 50);

	hedge_gain_begin(&gain, 0);
	hedge_gain_hedge_due(&gain);
	assert(gain.price_us == 0);
}

/* Each pending page makes a read take 10 us longer. */
static struct hedge_gain gain_with_pending_pages(void)
{
	struct hedge_gain gain;

	hedge_gain_init(&gain, 0.05);
	for (unsigned int i = 0; i < 4000; i++)
		hedge_gain_record_attempt(&gain, FAST_US, i % 8,
					  i % 50 ? FAST_US + 10 * (i % 8) : SLOW_US);
	return gain;
}

TEST(measured_delay_of_other_reads_prevents_hedges)
{
	struct hedge_gain gain = gain_with_pending_pages();
	struct hedge_candidate read = fast;

	assert(hedge_plan(&gain, &read).wait_us < 3 * FAST_US);
	/* 64 pages delay 100 reads by more than any read takes. */
	read.pages = 64;
	read.reads = 100;
	assert(isinf(hedge_plan(&gain, &read).wait_us));
	/* As many pages, with no other reads in flight. */
	read.reads = 0;
	assert(hedge_plan(&gain, &read).wait_us < 3 * FAST_US);
	/* No reads are in flight now, but there usually are. */
	for (unsigned int i = 0; i < 1000; i++)
		hedge_gain_begin(&gain, 100);
	gain.price_us = 1;
	assert(isinf(hedge_plan(&gain, &read).wait_us));
}

TEST(delay_of_other_reads_has_a_lower_bound)
{
	struct hedge_gain gain = gain_after_reads(0.05, 2000, 50);
	struct hedge_candidate slow = fast;

	slow.second_us = SLOW_US / 2;
	assert(isfinite(hedge_plan(&gain, &slow).wait_us));
	/* No attempt has met pending pages, so there is no slope. */
	slow.reads = 100000;
	assert(isinf(hedge_plan(&gain, &slow).wait_us));
}

TEST(expected_gain_is_reduced_after_hedges_without_gain)
{
	struct hedge_gain gain = gain_after_reads(0.05, 2000, 50);

	gain.price_us = 500;
	assert(isfinite(hedge_plan(&gain, &fast).wait_us));
	for (unsigned int i = 0; i < 2000; i++)
		hedge_gain_record_hedge(&gain, 2000, 0);
	assert(isinf(hedge_plan(&gain, &fast).wait_us));
	for (unsigned int i = 0; i < 2000; i++)
		hedge_gain_record_hedge(&gain, 2000, 2000);
	assert(isfinite(hedge_plan(&gain, &fast).wait_us));
}

TEST(change_of_load_is_noticed)
{
	struct hedge_gain gain = gain_after_reads(0.05, 100000, 50);

	assert(hedge_plan(&gain, &fast).wait_us < 1.5 * FAST_US);
	/* Latencies that were late are normal now. */
	for (unsigned int i = 0; i < 10000; i++)
		hedge_gain_record_attempt(&gain, FAST_US, 0, 2 * FAST_US);
	assert(hedge_plan(&gain, &fast).wait_us > 2 * FAST_US);
}

static bool are_equal(struct hedge_plan a, struct hedge_plan b)
{
	return (isinf(a.wait_us) && isinf(b.wait_us)) ||
	       (fabs(a.wait_us - b.wait_us) < 1e-6 && fabs(a.gain_us - b.gain_us) < 1e-6);
}

TEST(planner_plans_alike_if_predictions_need_no_rounding)
{
	static struct gain_planner planner;
	struct hedge_gain gain = gain_after_reads(0.05, 3000, 20);
	unsigned int n_hedged = 0, n_never = 0;

	gain_planner_update(&planner, &gain);
	for (unsigned int i = 0; i < 1000; i++) {
		struct hedge_candidate read = {1u << i % 10, 1u << i / 10 % 10, 0, 1, i / 100};
		struct hedge_plan plan = hedge_plan(&gain, &read);

		assert(are_equal(plan, gain_planner_plan(&planner, &read)));
		n_hedged += isfinite(plan.wait_us);
		n_never += isinf(plan.wait_us);
	}
	assert(n_hedged > 100 && n_never > 100);
}

TEST(planner_uses_new_distributions_when_a_quarter_of_them_is_new)
{
	static struct gain_planner planner;
	struct hedge_gain gain = gain_after_reads(FREE, 800, 0);
	struct hedge_plan before;

	gain_planner_update(&planner, &gain);
	before = gain_planner_plan(&planner, &fast);
	for (unsigned int i = 1; i <= 400; i++) {
		hedge_gain_record_attempt(&gain, FAST_US, 0, 4 * FAST_US);
		gain_planner_update(&planner, &gain);
		assert(are_equal(before, gain_planner_plan(&planner, &fast)) == (i < 334));
	}
}

TEST(extreme_values_are_accepted)
{
	static const uint32_t odd[] = {0, 1, 3, 1u << 23, UINT32_MAX};
	struct hedge_gain gain = gain_after_reads(0.05, 2000, 50);

	for (unsigned int i = 0; i < 5; i++) {
		hedge_gain_record_attempt(&gain, odd[i], UINT32_MAX, 0);
		hedge_gain_record_attempt(&gain, odd[i], UINT32_MAX, 1e-3);
		hedge_gain_record_attempt(&gain, odd[i], 0, 1e12);
		for (unsigned int j = 0; j < 5; j++) {
			struct hedge_candidate read = {odd[i], odd[j], 1e9, UINT32_MAX, UINT32_MAX};

			assert(hedge_plan(&gain, &read).wait_us >= 0);
		}
	}
	assert(isfinite(gain.us) && isfinite(gain.pages_us) && gain.all.n > 0);
}
