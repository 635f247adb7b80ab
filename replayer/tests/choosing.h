/* SPDX-License-Identifier: MIT */
/* Test a policy in isolation: record what it sends, and simulate the answers. */
#ifndef REPLAYER_TESTS_CHOOSING_H
#define REPLAYER_TESTS_CHOOSING_H

#include "engine/attempts.h"
#include "policies/policy.h"

#include "test.h"

#include <stdlib.h>

#define N_DRIVES 3u

/* The replay of a test, with its policy. */
static struct replay *r;
static unsigned int sent_to;

/* Replaces the function of attempts.c. */
void attempt_send(struct replay *replay, struct io *io, unsigned int drive, unsigned int flags)
{
	assert(drive < replay->n_drives && flags == SEND_PLAIN);
	sent_to = drive;
}

static void end_replay(void)
{
	if (r)
		free(r->policy_state);
	free(r);
	r = NULL;
}

AFTER_EACH(end_replay)

/* Begin a replay, without the setup of its policy. */
static void begin_before_setup(const struct policy *policy)
{
	end_replay();
	r = calloc(1, sizeof(*r));
	r->n_drives = N_DRIVES;
	r->o.policy = policy;
	/* No read has completed on any drive for a second. */
	r->ring.now_ns = 1000000000;
}

static inline void begin(const struct policy *policy)
{
	begin_before_setup(policy);
	policy->setup(r);
}

/*
 * Return the drive that a read with this default drive is sent to; it is not in flight afterwards.
 */
static unsigned int chosen(unsigned int default_drive)
{
	struct io io = {.default_drive = default_drive, .size_bytes = BLOCK_BYTES};

	r->o.policy->read(r, &io);
	return sent_to;
}

/* Make this number of reads. */
static inline void read_often(unsigned int n)
{
	while (n--)
		chosen(0);
}

/* Return true if the reads of all default drives are sent to this drive. */
static inline bool all_go_to(unsigned int drive)
{
	for (unsigned int default_drive = 0; default_drive < N_DRIVES; default_drive++)
		if (chosen(default_drive) != drive)
			return false;
	return true;
}

/* Return true if all reads are sent to their default drives. */
static inline bool all_stay(void)
{
	for (unsigned int default_drive = 0; default_drive < N_DRIVES; default_drive++)
		if (chosen(default_drive) != default_drive)
			return false;
	return true;
}

/* Complete a read that met @met other I/Os at the drive. */
static void answer(unsigned int drive, uint32_t met, uint32_t latency_us)
{
	struct io io = {.size_bytes = BLOCK_BYTES};
	struct attempt a = {.io = &io,
			    .drive = drive,
			    .met = met,
			    .submit_ns = r->ring.now_ns - 1000ull * latency_us};

	r->done_ns = r->ring.now_ns;
	r->o.policy->answered(r, &io, &a);
}

/* Set the number of I/Os in flight at each drive. */
static inline void set_in_flight(unsigned int first, unsigned int second, unsigned int third)
{
	r->in_flight[0] = first;
	r->in_flight[1] = second;
	r->in_flight[2] = third;
}

static inline void wait_us(uint64_t us)
{
	r->ring.now_ns += 1000 * us;
}

#endif
