// SPDX-License-Identifier: MIT
/* Tests of c3: the lowest score of response time, service time and cubed queue. */
#include "choosing.h"

/* Complete enough reads that earlier values no longer affect the averages. */
static void answers(unsigned int drive, uint32_t latency_us)
{
	for (unsigned int i = 0; i < 200; i++) {
		wait_us(latency_us);
		answer(drive, 0, latency_us);
	}
}

/* Begin a replay of idle drives with these latencies, all completed just now. */
static void begin_with(uint32_t us0, uint32_t us1, uint32_t us2)
{
	begin(&policy_c3);
	answers(0, us0);
	answers(1, us1);
	answers(2, us2);
	answer(0, 0, us0);
	answer(1, 0, us1);
}

TEST(c3_reads_the_fastest_of_idle_drives)
{
	begin_with(30, 10, 20);
	assert(all_go_to(1));
}

TEST(c3_reads_the_default_drive_if_scores_are_equal)
{
	begin(&policy_c3);
	assert(all_stay());
}

TEST(c3_cubes_the_queue)
{
	/* A drive about eight times as fast is chosen until its queue is twice as long. */
	unsigned int n = 0;

	begin_with(79, 10, 100000);
	r->in_flight[0] = 9;
	while (chosen(0) == 1)
		r->in_flight[1] = ++n;
	/* (1 + n)^3 * 10 against (1 + 9)^3 * 79 */
	assert(n == 19);
}

TEST(c3_takes_the_time_between_completions_as_service_time)
{
	begin_with(200, 200, 8000);
	/* Each read took 200 us, and one completed every 50 us. */
	for (unsigned int i = 0; i < 200; i++) {
		wait_us(50);
		answer(1, 3, 200);
	}
	answer(0, 0, 200);
	r->in_flight[0] = 1;
	r->in_flight[1] = 2;
	/* 200 - 50 + 3^3 * 50 against 200 - 200 + 2^3 * 200 */
	assert(chosen(0) == 1);
	r->in_flight[1] = 3;
	assert(chosen(1) == 0);
}

TEST(c3_counts_the_queue_that_completed_reads_leave)
{
	begin_with(11, 10, 8000);
	r->in_flight[1] = 4;
	answers(1, 10);
	r->in_flight[1] = 0;
	/* Drive 0 would become stale after a thousand us more of the others' answers. */
	answer(0, 0, 11);
	assert(chosen(1) == 0);
}

TEST(c3_probes_a_drive_without_recent_completions_by_one_read)
{
	begin_with(10, 10, 9000);
	wait_us(9000);
	answer(0, 0, 10);
	answer(1, 0, 10);
	assert(chosen(2) != 2);
	wait_us(2000);
	assert(chosen(0) == 2);
	r->in_flight[2] = 1;
	assert(chosen(2) != 2);
}
