// SPDX-License-Identifier: MIT
/* Tests of heimdall: the inputs of its network, and the choice by its output. */
#include "choosing.h"
#include "policies/heimdall_network.h"

#include <unistd.h>

#define IN_FLIGHT 0
#define MET(i) (1 + (i))
#define LATENCY(i) (4 + (i))
#define THROUGHPUT(i) (7 + (i))
#define SIZE 10

/* Weights and biases are scaled by 1024; features have a range of 1024 here. */
#define ONE 1024
#define RANGE 1024

static void neurons(FILE *f, unsigned int n, unsigned int inputs, int input, int bias)
{
	for (unsigned int k = 0; k < n; k++) {
		fprintf(f, "%d", k ? 0 : bias);
		for (unsigned int i = 0; i < inputs; i++)
			fprintf(f, " %d", !k && (int)i == input ? ONE : 0);
		fprintf(f, "\n");
	}
}

/*
 * Return a network for which a read is slow if this feature exceeds the limit, whatever the others
 * are.
 */
static char *network_of(int feature, int limit)
{
	char *path = strdup("/tmp/test_heimdall.XXXXXX");
	FILE *f = fdopen(mkstemp(path), "w");

	fprintf(f, "linnos heimdall network 1\n");
	for (unsigned int i = 0; i < HEIMDALL_INPUTS; i++)
		fprintf(f, "0 %d\n", RANGE);
	neurons(f, HEIMDALL_FIRST, HEIMDALL_INPUTS, feature, 0);
	neurons(f, HEIMDALL_SECOND, HEIMDALL_FIRST, 0, 0);
	neurons(f, 1, HEIMDALL_SECOND, 0, -limit);
	fclose(f);
	return path;
}

/* Set the limits of the first drive and of the others. */
static struct replay *replay_with_limits(int feature, int first, int others)
{
	struct replay *r = replay_before(&policy_heimdall);

	for (unsigned int k = 0; k < N_DRIVES; k++)
		r->o.heimdall_networks[k] = network_of(feature, k ? others : first);
	r->o.n_heimdall_networks = N_DRIVES;
	r->o.policy->setup(r);
	for (unsigned int k = 0; k < N_DRIVES; k++) {
		unlink(r->o.heimdall_networks[k]);
		free(r->o.heimdall_networks[k]);
	}
	return r;
}

static struct replay *replay_with(int feature, int limit)
{
	return replay_with_limits(feature, limit, limit);
}

/* Complete reads with ordinary values on all drives. */
static void hear_of_all(struct replay *r)
{
	for (unsigned int i = 0; i < HEIMDALL_HISTORY; i++)
		for (unsigned int k = 0; k < N_DRIVES; k++)
			answer(r, k, 0, BLOCK_BYTES);
}

TEST(a_read_that_is_predicted_fast_stays_at_home)
{
	struct replay *r = replay_with(IN_FLIGHT, 1);

	hear_of_all(r);
	for (unsigned int home = 0; home < N_DRIVES; home++) {
		r->in_flight[home] = 1;
		assert(chosen(r, home) == home);
	}
	replay_end(r);
}

TEST(a_read_that_is_predicted_slow_goes_to_the_next_that_is_not)
{
	struct replay *r = replay_with(IN_FLIGHT, 1);

	hear_of_all(r);
	r->in_flight[0] = 2;
	assert(chosen(r, 0) == 1);
	r->in_flight[1] = 2;
	assert(chosen(r, 0) == 2);
	assert(chosen(r, 1) == 2);
	replay_end(r);
}

TEST(a_read_that_is_predicted_slow_everywhere_stays_at_home)
{
	struct replay *r = replay_with(IN_FLIGHT, 1);

	r->in_flight[0] = r->in_flight[1] = r->in_flight[2] = 5;
	for (unsigned int home = 0; home < N_DRIVES; home++)
		assert(chosen(r, home) == home);
	replay_end(r);
}

TEST(each_drive_has_a_network_of_its_own_which_sees_the_size)
{
	/* 4096 bytes are beyond the range and clamped to its end. */
	for (int limit = RANGE - 1; limit <= RANGE; limit++) {
		struct replay *r = replay_with_limits(SIZE, limit, RANGE);

		hear_of_all(r);
		assert(chosen(r, 0) == (limit < RANGE ? 1 : 0));
		replay_end(r);
	}
}

/* Check that only the answer at this position, from the oldest on, changes the feature. */
static void remembers(int feature, unsigned int place, uint32_t met, uint32_t latency_us, int limit)
{
	struct replay *r = replay_with(feature, limit);

	hear_of_all(r);
	assert(chosen(r, 0) == 0);
	for (unsigned int i = 0; i < 2 * HEIMDALL_HISTORY; i++)
		if (i == HEIMDALL_HISTORY + place)
			answer(r, 0, met, latency_us);
		else
			answer(r, 0, 0, BLOCK_BYTES);
	assert(chosen(r, 0) == 1);
	answer(r, 0, 0, BLOCK_BYTES);
	assert(chosen(r, 0) == 0);
	replay_end(r);
}

TEST(of_the_last_three_answers_the_oldest_comes_first)
{
	for (unsigned int i = 0; i < HEIMDALL_HISTORY; i++) {
		remembers(MET(i), i, 9, BLOCK_BYTES, 8);
		/* Four bytes per us. */
		remembers(THROUGHPUT(i), i, 0, BLOCK_BYTES / 4, 3);
	}
}

TEST(latencies_are_remembered_in_us)
{
	for (unsigned int i = 0; i < HEIMDALL_HISTORY; i++) {
		struct replay *r = replay_with(LATENCY(i), 700);

		for (unsigned int k = 0; k < HEIMDALL_HISTORY; k++) {
			answer(r, 0, 0, k == i ? 701 : 700);
			answer(r, 1, 0, 700);
			answer(r, 2, 0, 700);
		}
		assert(chosen(r, 0) == 1);
		replay_end(r);
	}
}

TEST(a_drive_that_is_not_heard_of_is_asked_again_by_one_read)
{
	struct replay *r = replay_with(LATENCY(2), 700);

	hear_of_all(r);
	answer(r, 1, 0, 100);
	answer(r, 2, 0, 100);
	assert(chosen(r, 0) == 1);
	wait_us(r, 11000);
	assert(chosen(r, 0) == 0);
	r->in_flight[0] = 1;
	assert(chosen(r, 0) == 1);
	replay_end(r);
}
