/* SPDX-License-Identifier: MIT */
/* A policy by itself: what it would send is noted, and the test says what was answered. */
#ifndef REPLAYER_TESTS_CHOOSING_H
#define REPLAYER_TESTS_CHOOSING_H

#include "engine/attempts.h"
#include "policies/policy.h"

#include "test.h"

#include <stdlib.h>

#define N_DRIVES 3u

static unsigned int sent_to;

/* Its place in the replayer is attempts.c. */
void attempt_send(struct replay *r, struct io *io, unsigned int drive, unsigned int flags)
{
	assert(drive < r->n_drives && flags == SEND_PLAIN);
	sent_to = drive;
}

/* Its setup is still to come. */
static struct replay *replay_before(const struct policy *policy)
{
	struct replay *r = calloc(1, sizeof(*r));

	r->n_drives = N_DRIVES;
	r->o.policy = policy;
	/* No drive was heard of for a second. */
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

/* Where a read of this home goes; it is not in flight afterwards. */
static unsigned int chosen(struct replay *r, unsigned int home)
{
	struct io io = {.home = home, .size_bytes = BLOCK_BYTES};

	r->o.policy->read(r, &io);
	return sent_to;
}

/* A read ends now that met so many others at the drive. */
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
