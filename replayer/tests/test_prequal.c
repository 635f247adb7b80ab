// SPDX-License-Identifier: MIT
/*
 * Tests of prequal: hot and cold drives by requests in flight, and the lowest estimate of the cold
 * ones.
 */
#include "choosing.h"

static void answers(struct replay *r, unsigned int drive, uint32_t met, uint32_t latency_us)
{
	for (unsigned int i = 0; i < 5; i++)
		answer(r, drive, met, latency_us);
}

static struct replay *heard_of(uint32_t us0, uint32_t us1, uint32_t us2)
{
	struct replay *r = replay_under(&policy_prequal);

	answers(r, 0, 0, us0);
	answers(r, 1, 0, us1);
	answers(r, 2, 0, us2);
	return r;
}

TEST(of_idle_drives_the_lowest_estimate_is_read)
{
	struct replay *r = heard_of(300, 100, 200);

	for (unsigned int home = 0; home < N_DRIVES; home++)
		assert(chosen(r, home) == 1);
	replay_end(r);
}

TEST(of_equal_estimates_home_is_read)
{
	struct replay *r = heard_of(100, 100, 100);

	for (unsigned int home = 0; home < N_DRIVES; home++)
		assert(chosen(r, home) == home);
	replay_end(r);
}

TEST(a_hot_drive_is_passed_over_however_fast)
{
	struct replay *r = heard_of(300, 100, 200);

	/* Mostly no request is in flight, so one request exceeds the quantile. */
	for (unsigned int i = 0; i < 100; i++)
		chosen(r, 0);
	r->in_flight[1] = 1;
	assert(chosen(r, 1) == 2);
	/*
	 * For one read in three, one of three drives has a request in flight, which still exceeds
	 * the quantile.
	 */
	for (unsigned int i = 0; i < 100; i++) {
		r->in_flight[1] = i % 3 == 0;
		assert(chosen(r, 0) == (i % 3 ? 1 : 2));
	}
	replay_end(r);
}

TEST(what_is_often_in_flight_is_not_hot)
{
	struct replay *r = heard_of(300, 100, 200);

	/* One drive of three always has a request, and so does a third of all samples. */
	r->in_flight[1] = 1;
	for (unsigned int i = 0; i < 100; i++)
		chosen(r, 0);
	assert(chosen(r, 0) == 1);
	replay_end(r);
}

TEST(with_all_hot_the_fewest_in_flight_are_read)
{
	struct replay *r = heard_of(100, 200, 300);

	for (unsigned int i = 0; i < 100; i++)
		chosen(r, 0);
	r->in_flight[0] = 9;
	r->in_flight[1] = 7;
	r->in_flight[2] = 8;
	assert(chosen(r, 0) == 1);
	/* In a tie, the first drive from the default drive on is chosen. */
	r->in_flight[0] = r->in_flight[2] = 7;
	assert(chosen(r, 2) == 2);
	replay_end(r);
}

TEST(estimates_are_of_reads_that_met_as_many)
{
	struct replay *r = heard_of(100, 100, 100);

	answers(r, 0, 8, 1000);
	answers(r, 1, 8, 800);
	answers(r, 2, 8, 900);
	answers(r, 2, 0, 50);
	assert(chosen(r, 0) == 2);
	for (unsigned int k = 0; k < N_DRIVES; k++)
		r->in_flight[k] = 7;
	for (unsigned int i = 0; i < 100; i++)
		chosen(r, 0);
	assert(chosen(r, 0) == 1);
	replay_end(r);
}

TEST(two_outliers_of_five_are_none)
{
	struct replay *r = heard_of(110, 100, 200);

	answer(r, 1, 0, 90000);
	answer(r, 1, 0, 90000);
	assert(chosen(r, 0) == 1);
	replay_end(r);
}

TEST(old_latencies_are_forgotten)
{
	struct replay *r = heard_of(300, 100, 200);

	for (unsigned int i = 0; i < 100; i++)
		answer(r, 1, 0, 400);
	assert(chosen(r, 0) == 2);
	replay_end(r);
}

TEST(a_drive_that_is_not_heard_of_is_asked_again_by_one_read)
{
	struct replay *r = heard_of(100, 100, 5000);

	wait_us(r, 9000);
	answers(r, 0, 0, 100);
	answers(r, 1, 0, 100);
	assert(chosen(r, 0) == 0);
	wait_us(r, 2000);
	assert(chosen(r, 0) == 2);
	/*
	 * While that read is in flight, no other read waits for it, even if one request does not
	 * make a drive hot.
	 */
	r->in_flight[0] = r->in_flight[1] = r->in_flight[2] = 1;
	for (unsigned int i = 0; i < 100; i++)
		chosen(r, 0);
	r->in_flight[0] = r->in_flight[1] = 0;
	assert(chosen(r, 2) != 2);
	replay_end(r);
}

TEST(at_the_start_all_are_asked)
{
	struct replay *r = replay_under(&policy_prequal);

	for (unsigned int k = 0; k < N_DRIVES; k++) {
		assert(chosen(r, 0) == k);
		r->in_flight[k]++;
	}
	assert(chosen(r, 1) == 1);
	replay_end(r);
}

TEST(any_number_may_be_in_flight)
{
	struct replay *r = heard_of(100, 100, 100);

	r->in_flight[0] = 100000;
	r->in_flight[1] = 99999;
	r->in_flight[2] = 100001;
	answer(r, 0, 100000, 100);
	for (unsigned int i = 0; i < 1000; i++)
		assert(chosen(r, 0) < N_DRIVES);
	replay_end(r);
}
