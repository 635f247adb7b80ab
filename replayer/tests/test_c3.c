// SPDX-License-Identifier: MIT
/* Tests of c3: the lowest score of response time, service time and cubed queue. */
#include "choosing.h"

/* Complete enough reads that earlier values no longer affect the averages. */
static void answers(struct replay *r, unsigned int drive, uint32_t latency_us)
{
	for (unsigned int i = 0; i < 200; i++) {
		wait_us(r, latency_us);
		answer(r, drive, 0, latency_us);
	}
}

/* Return a replay of idle drives with these latencies, all completed just now. */
static struct replay *heard_of(uint32_t us0, uint32_t us1, uint32_t us2)
{
	struct replay *r = replay_under(&policy_c3);

	answers(r, 0, us0);
	answers(r, 1, us1);
	answers(r, 2, us2);
	answer(r, 0, 0, us0);
	answer(r, 1, 0, us1);
	return r;
}

TEST(of_idle_drives_the_fastest_is_read)
{
	struct replay *r = heard_of(30, 10, 20);

	for (unsigned int home = 0; home < N_DRIVES; home++)
		assert(chosen(r, home) == 1);
	replay_end(r);
}

TEST(of_equal_scores_home_is_read)
{
	struct replay *r = replay_under(&policy_c3);

	for (unsigned int home = 0; home < N_DRIVES; home++)
		assert(chosen(r, home) == home);
	replay_end(r);
}

TEST(queues_are_as_different_as_the_cube_root_of_speeds)
{
	/* A drive about eight times as fast is chosen until its queue is twice as long. */
	struct replay *r = heard_of(79, 10, 100000);
	unsigned int n = 0;

	r->in_flight[0] = 9;
	while (chosen(r, 0) == 1)
		r->in_flight[1] = ++n;
	/* (1 + n)^3 * 10 against (1 + 9)^3 * 79 */
	assert(n == 19);
	replay_end(r);
}

TEST(of_a_drive_that_does_many_at_once_service_is_the_time_between_answers)
{
	struct replay *r = heard_of(200, 200, 8000);

	/* Each read took 200 us, and one completed every 50 us. */
	for (unsigned int i = 0; i < 200; i++) {
		wait_us(r, 50);
		answer(r, 1, 3, 200);
	}
	answer(r, 0, 0, 200);
	r->in_flight[0] = 1;
	r->in_flight[1] = 2;
	/* 200 - 50 + 3^3 * 50 against 200 - 200 + 2^3 * 200 */
	assert(chosen(r, 0) == 1);
	r->in_flight[1] = 3;
	assert(chosen(r, 1) == 0);
	replay_end(r);
}

TEST(what_answers_leave_behind_counts_as_queue)
{
	struct replay *r = heard_of(11, 10, 8000);

	r->in_flight[1] = 4;
	answers(r, 1, 10);
	r->in_flight[1] = 0;
	/* Drive 0 would become stale after a thousand us more of the others' answers. */
	answer(r, 0, 0, 11);
	assert(chosen(r, 1) == 0);
	replay_end(r);
}

TEST(a_drive_that_is_not_heard_of_is_asked_again_by_one_read)
{
	struct replay *r = heard_of(10, 10, 9000);

	wait_us(r, 9000);
	answer(r, 0, 0, 10);
	answer(r, 1, 0, 10);
	assert(chosen(r, 2) != 2);
	wait_us(r, 2000);
	assert(chosen(r, 0) == 2);
	r->in_flight[2] = 1;
	assert(chosen(r, 2) != 2);
	replay_end(r);
}
