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

/* Begin a replay with limits of the first drive and of the others. */
static void begin_with_limits(int feature, int first, int others)
{
	begin_before_setup(&policy_heimdall);
	for (unsigned int k = 0; k < N_DRIVES; k++)
		r->o.heimdall_networks[k] = network_of(feature, k ? others : first);
	r->o.n_heimdall_networks = N_DRIVES;
	r->o.policy->setup(r);
	for (unsigned int k = 0; k < N_DRIVES; k++) {
		unlink(r->o.heimdall_networks[k]);
		free(r->o.heimdall_networks[k]);
	}
}

static void begin_with(int feature, int limit)
{
	begin_with_limits(feature, limit, limit);
}

/* Complete reads with ordinary values on all drives. */
static void complete_on_all(void)
{
	for (unsigned int i = 0; i < HEIMDALL_HISTORY; i++)
		for (unsigned int k = 0; k < N_DRIVES; k++)
			answer(k, 0, BLOCK_BYTES);
}

TEST(heimdall_sends_a_read_predicted_slow_to_the_next_fast_drive)
{
	begin_with(IN_FLIGHT, 1);
	complete_on_all();
	r->in_flight[0] = 2;
	assert(chosen(0) == 1);
	r->in_flight[1] = 2;
	assert(chosen(0) == 2);
	assert(chosen(1) == 2);
}

TEST(heimdall_keeps_a_read_predicted_slow_on_all_drives)
{
	begin_with(IN_FLIGHT, 1);
	set_in_flight(5, 5, 5);
	assert(all_stay());
}

TEST(heimdall_has_a_network_for_each_drive_with_the_size_as_input)
{
	/* 4096 bytes are beyond the range and clamped to its end. */
	for (int limit = RANGE - 1; limit <= RANGE; limit++) {
		begin_with_limits(SIZE, limit, RANGE);
		complete_on_all();
		assert(chosen(0) == (limit < RANGE ? 1 : 0));
	}
}

/* Check that only the answer at this position, from the oldest on, changes the feature. */
static void remembers(int feature, unsigned int place, uint32_t met, uint32_t latency_us, int limit)
{
	begin_with(feature, limit);
	complete_on_all();
	assert(chosen(0) == 0);
	for (unsigned int i = 0; i < 2 * HEIMDALL_HISTORY; i++)
		if (i == HEIMDALL_HISTORY + place)
			answer(0, met, latency_us);
		else
			answer(0, 0, BLOCK_BYTES);
	assert(chosen(0) == 1);
	answer(0, 0, BLOCK_BYTES);
	assert(chosen(0) == 0);
}

TEST(heimdall_gets_the_last_three_reads_oldest_first)
{
	for (unsigned int i = 0; i < HEIMDALL_HISTORY; i++) {
		remembers(MET(i), i, 9, BLOCK_BYTES, 8);
		/* Four bytes per us. */
		remembers(THROUGHPUT(i), i, 0, BLOCK_BYTES / 4, 3);
	}
}

TEST(heimdall_gets_latencies_in_us)
{
	for (unsigned int i = 0; i < HEIMDALL_HISTORY; i++) {
		begin_with(LATENCY(i), 700);
		for (unsigned int k = 0; k < HEIMDALL_HISTORY; k++) {
			answer(0, 0, k == i ? 701 : 700);
			answer(1, 0, 700);
			answer(2, 0, 700);
		}
		assert(chosen(0) == 1);
	}
}

TEST(heimdall_probes_a_drive_without_recent_completions_by_one_read)
{
	begin_with(LATENCY(2), 700);
	complete_on_all();
	answer(1, 0, 100);
	answer(2, 0, 100);
	assert(chosen(0) == 1);
	wait_us(11000);
	assert(chosen(0) == 0);
	r->in_flight[0] = 1;
	assert(chosen(0) == 1);
}
