/* SPDX-License-Identifier: MIT */
/* Test a policy in isolation: record what it sends, and simulate the answers. */
#ifndef REPLAYER_TESTS_CHOOSING_H
#define REPLAYER_TESTS_CHOOSING_H

#include "engine/attempts.h"
#include "policies/policy.h"

#include "test.h"

#include <stdlib.h>

#define N_DRIVES 3u

static unsigned int sent_to;

/* Replaces the function of attempts.c. */
void attempt_send(struct replay *r, struct io *io, unsigned int drive, unsigned int flags)
{
	assert(drive < r->n_drives && flags == SEND_PLAIN);
	sent_to = drive;
}

/* Return a replay before the setup of its policy. */
static struct replay *replay_before(const struct policy *policy)
{
	struct replay *r = calloc(1, sizeof(*r));

	r->n_drives = N_DRIVES;
	r->o.policy = policy;
	/* No read has completed on any drive for a second. */
	r->ring.now_ns = 1000000000;
	return r;
}

static inline struct replay *replay_under(const struct policy *policy)
{
	struct replay *r = replay_before(policy);

	policy->setup(r);
	return r;
}

static void replay_end(struct replay *r)
{
	free(r->policy_state);
	free(r);
}

/*
 * Return the drive that a read with this default drive is sent to; it is not in flight afterwards.
 */
static unsigned int chosen(struct replay *r, unsigned int home)
{
	struct io io = {.home = home, .size_bytes = BLOCK_BYTES};

	r->o.policy->read(r, &io);
	return sent_to;
}

/* Complete a read that met @met other I/Os at the drive. */
static void answer(struct replay *r, unsigned int drive, uint32_t met, uint32_t latency_us)
{
	struct io io = {.size_bytes = BLOCK_BYTES};
	struct attempt a = {.io = &io,
			    .drive = drive,
			    .met = met,
			    .submit_ns = r->ring.now_ns - 1000ull * latency_us};

	r->done_ns = r->ring.now_ns;
	r->o.policy->answered(r, &io, &a);
}

static void wait_us(struct replay *r, uint64_t us)
{
	r->ring.now_ns += 1000 * us;
}

#endif
