// SPDX-License-Identifier: MIT
/* Tests of fewest, shortest-queue and ewma-inflight. */
#include "choosing.h"

#include "policies/hedging.h"

/* Only the hedged policy in the same file calls these functions of hedging.c. */
void hedging_arm(struct replay *replay, struct io *io)
{
}

void hedging_fire(struct replay *replay, struct io *io, unsigned int send_flags)
{
}

void hedging_send(struct replay *replay, struct io *io, unsigned int drive, unsigned int send_flags)
{
}

TEST(fewest_counts_ios_and_shortest_queue_counts_pages)
{
	static const struct {
		const struct policy *policy;
		unsigned int chosen;
	} cases[] = {{&policy_fewest, 1}, {&policy_shortest_queue, 2}};

	for (unsigned int i = 0; i < 2; i++) {
		begin_before_setup(cases[i].policy);
		set_in_flight(2, 1, 3);
		r->pending_pages[0] = 9;
		r->pending_pages[1] = 64;
		r->pending_pages[2] = 3;
		assert(all_go_to(cases[i].chosen));
	}
}

TEST(default_drive_is_read_if_counts_are_equal)
{
	begin_before_setup(&policy_fewest);
	set_in_flight(4, 4, 4);
	assert(all_stay());
}

TEST(ewma_inflight_multiplies_mean_latency_and_ios_in_flight)
{
	begin(&policy_ewma_inflight);
	for (unsigned int i = 0; i < 100; i++) {
		answer(0, 0, 100);
		answer(1, 0, 25);
		answer(2, 0, 1000);
	}
	assert(chosen(0) == 1);
	/* 25 us * (1 + 2) is less than 100 us * (1 + 0), and 25 us * (1 + 4) is more. */
	r->in_flight[1] = 2;
	assert(chosen(0) == 1);
	r->in_flight[1] = 4;
	assert(chosen(1) == 0);
}

TEST(ewma_inflight_forgets_old_latencies)
{
	begin(&policy_ewma_inflight);
	for (unsigned int k = 0; k < N_DRIVES; k++)
		answer(k, 0, k ? 100 : 1000);
	assert(chosen(0) == 1);
	for (unsigned int i = 0; i < 50; i++)
		answer(0, 0, 10);
	assert(chosen(1) == 0);
}

TEST(ewma_inflight_reads_a_drive_without_recent_completions)
{
	begin(&policy_ewma_inflight);
	for (unsigned int k = 0; k < N_DRIVES; k++)
		answer(k, 0, k == 2 ? 9000 : 10);
	assert(chosen(0) == 0);
	wait_us(11000);
	answer(0, 0, 10);
	answer(1, 0, 10);
	assert(chosen(0) == 2);
}
