// SPDX-License-Identifier: MIT
/*
 * Tests of prequal: hot and cold drives by requests in flight, and the lowest estimate of the cold
 * ones.
 */
#include "choosing.h"

static void answers(unsigned int drive, uint32_t met, uint32_t latency_us)
{
	for (unsigned int i = 0; i < 5; i++)
		answer(drive, met, latency_us);
}

static void begin_with(uint32_t us0, uint32_t us1, uint32_t us2)
{
	begin(&policy_prequal);
	answers(0, 0, us0);
	answers(1, 0, us1);
	answers(2, 0, us2);
}

TEST(prequal_reads_the_idle_drive_with_the_lowest_estimate)
{
	begin_with(300, 100, 200);
	assert(all_go_to(1));
}

TEST(prequal_reads_the_default_drive_if_estimates_are_equal)
{
	begin_with(100, 100, 100);
	assert(all_stay());
}

TEST(prequal_avoids_a_hot_drive_however_fast_it_is)
{
	begin_with(300, 100, 200);
	/* Mostly no request is in flight, so one request exceeds the quantile. */
	read_often(100);
	r->in_flight[1] = 1;
	assert(chosen(1) == 2);
	/*
	 * For one read in three, one of three drives has a request in flight, which still exceeds
	 * the quantile.
	 */
	for (unsigned int i = 0; i < 100; i++) {
		r->in_flight[1] = i % 3 == 0;
		assert(chosen(0) == (i % 3 ? 1 : 2));
	}
}

TEST(prequal_does_not_call_a_usual_number_in_flight_hot)
{
	begin_with(300, 100, 200);
	/* One drive of three always has a request, and so does a third of all samples. */
	r->in_flight[1] = 1;
	read_often(100);
	assert(chosen(0) == 1);
}

TEST(prequal_reads_the_drive_with_the_fewest_in_flight_if_all_are_hot)
{
	begin_with(100, 200, 300);
	read_often(100);
	set_in_flight(9, 7, 8);
	assert(chosen(0) == 1);
	/* In a tie, the first drive from the default drive on is chosen. */
	r->in_flight[0] = r->in_flight[2] = 7;
	assert(chosen(2) == 2);
}

TEST(prequal_estimates_from_reads_that_met_as_many_others)
{
	begin_with(100, 100, 100);
	answers(0, 8, 1000);
	answers(1, 8, 800);
	answers(2, 8, 900);
	answers(2, 0, 50);
	assert(chosen(0) == 2);
	set_in_flight(7, 7, 7);
	read_often(100);
	assert(chosen(0) == 1);
}

TEST(prequal_ignores_two_outliers_of_five)
{
	begin_with(110, 100, 200);
	answer(1, 0, 90000);
	answer(1, 0, 90000);
	assert(chosen(0) == 1);
}

TEST(prequal_probes_a_drive_without_recent_completions_by_one_read)
{
	begin_with(100, 100, 5000);
	wait_us(9000);
	answers(0, 0, 100);
	answers(1, 0, 100);
	assert(chosen(0) == 0);
	wait_us(2000);
	assert(chosen(0) == 2);
	/*
	 * While that read is in flight, no other read waits for it, even if one request does not
	 * make a drive hot.
	 */
	set_in_flight(1, 1, 1);
	read_often(100);
	r->in_flight[0] = r->in_flight[1] = 0;
	assert(chosen(2) != 2);
}

TEST(prequal_reads_all_drives_at_the_start)
{
	begin(&policy_prequal);
	for (unsigned int k = 0; k < N_DRIVES; k++) {
		assert(chosen(0) == k);
		r->in_flight[k]++;
	}
	assert(chosen(1) == 1);
}

TEST(prequal_supports_any_number_in_flight)
{
	begin_with(100, 100, 100);
	set_in_flight(100000, 99999, 100001);
	answer(0, 100000, 100);
	for (unsigned int i = 0; i < 1000; i++)
		assert(chosen(0) < N_DRIVES);
}
