// SPDX-License-Identifier: MIT
/* Tests of fewest, shortest-queue and ewma-inflight. */
#include "choosing.h"

#include "policies/hedging.h"

/* Only the hedged policy in the same file calls these functions of hedging.c. */
void hedging_arm(struct replay *r, struct io *io)
{
}

void hedging_fire(struct replay *r, struct io *io, unsigned int send_flags)
{
}

void hedging_send(struct replay *r, struct io *io, unsigned int drive, unsigned int send_flags)
{
}

TEST(fewest_counts_ios_and_shortest_queue_counts_pages)
{
	struct replay *fewest = replay_before(&policy_fewest);
	struct replay *shortest = replay_before(&policy_shortest_queue);

	for (unsigned int k = 0; k < N_DRIVES; k++) {
		fewest->in_flight[k] = shortest->in_flight[k] = (unsigned int[]){2, 1, 3}[k];
		fewest->pending_pages[k] = shortest->pending_pages[k] =
			(unsigned int[]){9, 64, 3}[k];
	}
	for (unsigned int home = 0; home < N_DRIVES; home++) {
		assert(chosen(fewest, home) == 1);
		assert(chosen(shortest, home) == 2);
	}
	replay_end(fewest);
	replay_end(shortest);
}

TEST(default_drive_is_read_if_counts_are_equal)
{
	struct replay *r = replay_before(&policy_fewest);

	for (unsigned int k = 0; k < N_DRIVES; k++)
		r->in_flight[k] = 4;
	for (unsigned int home = 0; home < N_DRIVES; home++)
		assert(chosen(r, home) == home);
	replay_end(r);
}

TEST(ewma_inflight_multiplies_mean_latency_and_ios_in_flight)
{
	struct replay *r = replay_under(&policy_ewma_inflight);

	for (unsigned int i = 0; i < 100; i++) {
		answer(r, 0, 0, 100);
		answer(r, 1, 0, 25);
		answer(r, 2, 0, 1000);
	}
	assert(chosen(r, 0) == 1);
	/* 25 us * (1 + 2) is less than 100 us * (1 + 0), and 25 us * (1 + 4) is more. */
	r->in_flight[1] = 2;
	assert(chosen(r, 0) == 1);
	r->in_flight[1] = 4;
	assert(chosen(r, 1) == 0);
	replay_end(r);
}

TEST(ewma_inflight_forgets_old_latencies)
{
	struct replay *r = replay_under(&policy_ewma_inflight);

	for (unsigned int k = 0; k < N_DRIVES; k++)
		answer(r, k, 0, k ? 100 : 1000);
	assert(chosen(r, 0) == 1);
	for (unsigned int i = 0; i < 50; i++)
		answer(r, 0, 0, 10);
	assert(chosen(r, 1) == 0);
	replay_end(r);
}

TEST(ewma_inflight_reads_a_drive_without_recent_completions)
{
	struct replay *r = replay_under(&policy_ewma_inflight);

	for (unsigned int k = 0; k < N_DRIVES; k++)
		answer(r, k, 0, k == 2 ? 9000 : 10);
	assert(chosen(r, 0) == 0);
	wait_us(r, 11000);
	answer(r, 0, 0, 10);
	answer(r, 1, 0, 10);
	assert(chosen(r, 0) == 2);
	replay_end(r);
}
