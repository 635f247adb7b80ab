// SPDX-License-Identifier: MIT
/* Tests of linnos with --guarded: a revoked read fails over or returns to its default drive. */
#include "engine/attempts.h"
#include "policies/hedging.h"
#include "policies/policy.h"

#include "test.h"

#include <stdlib.h>

#define N_DRIVES 3u

static unsigned int sent_to, sent_as, n_sent;

void attempt_send(struct replay *r, struct io *io, unsigned int drive, unsigned int flags)
{
	sent_to = drive;
	sent_as = flags;
	n_sent++;
	io->tried |= 1u << drive;
}

int replica_after_home(const struct replay *r, const struct io *io, uint32_t mask)
{
	for (unsigned int i = 1; i <= N_DRIVES; i++)
		if (!(mask & 1u << (io->home + i) % N_DRIVES))
			return (io->home + i) % N_DRIVES;
	return -1;
}

/* There is no hedging, and a failover takes no time. */
void hedging_arm(struct replay *r, struct io *io)
{
}

void hedging_fire(struct replay *r, struct io *io, unsigned int send_flags)
{
	abort();
}

void hedging_setup_percentile(struct replay *r, double percentile)
{
}

void timer_arm(struct timers *timers, struct timer *t, uint64_t at_ns)
{
	abort();
}

void device_linnos_stats(const struct device *d, struct linnos_stats *stats)
{
}

static struct replay *replay_of(bool guarded)
{
	struct replay *r = calloc(1, sizeof(*r));

	r->n_drives = N_DRIVES;
	r->o.policy = &policy_linnos;
	r->o.guarded = guarded;
	r->ring.now_ns = 1000000000;
	policy_linnos.setup(r);
	return r;
}

static void replay_end(struct replay *r)
{
	free(r->policy_state);
	free(r);
}

struct outcome {
	unsigned int hinted, stayed, left;
};

/*
 * Send a read with default drive 0, which revokes it; the latencies of that drive and of the next
 * one are given.
 */
static void one_read(struct replay *r, uint64_t home_us, uint64_t next_us, struct outcome *seen)
{
	struct io io = {.home = 0, .submit_ns = r->ring.now_ns};
	struct attempt a = {.io = &io, .hinted = true};

	policy_linnos.read(r, &io);
	assert(sent_to == 0);
	if (sent_as == SEND_HINT) {
		seen->hinted++;
		policy_linnos.revoked(r, &io, &a);
		/* A read that stays cannot be revoked again. */
		assert(sent_to == 0 ? sent_as == SEND_PLAIN : sent_to == 1 && sent_as == SEND_HINT);
		*(sent_to ? &seen->left : &seen->stayed) += 1;
	}
	a.drive = sent_to;
	a.submit_ns = r->ring.now_ns;
	r->ring.now_ns += (sent_to ? next_us : home_us) * 1000;
	r->done_ns = r->ring.now_ns;
	policy_linnos.answered(r, &io, &a);
}

static struct outcome reads(struct replay *r, unsigned int n, uint64_t home_us, uint64_t next_us)
{
	struct outcome seen = {0};

	while (n--)
		one_read(r, home_us, next_us, &seen);
	return seen;
}

TEST(as_published_every_revoked_read_leaves)
{
	struct replay *r = replay_of(false);
	struct outcome seen = reads(r, 1000, 100, 900);

	assert(!r->policy_state && seen.hinted == 1000 && seen.left == 1000);
	replay_end(r);
}

TEST(guarded_reads_leave_where_that_gains)
{
	struct replay *r = replay_of(true);
	struct outcome seen;

	reads(r, 1000, 900, 100);
	seen = reads(r, 1000, 900, 100);
	assert(seen.hinted > 980 && seen.left > 960);
	replay_end(r);
}

TEST(guarded_reads_are_not_hinted_where_that_loses)
{
	struct replay *r = replay_of(true);
	struct outcome seen;

	reads(r, 1000, 100, 900);
	seen = reads(r, 2000, 100, 900);
	assert(seen.hinted > 30 && seen.hinted < 110);
	assert(seen.left > 10 && seen.stayed > 10);
	assert(r->guard == (void *)r->policy_state);
	replay_end(r);
}

TEST(the_second_that_revokes_it_has_no_say)
{
	struct replay *r = replay_of(true);

	for (unsigned int i = 0; i < 200; i++) {
		struct io io = {.home = 0, .submit_ns = r->ring.now_ns};
		struct attempt first = {.io = &io, .hinted = true}, second = first;

		policy_linnos.read(r, &io);
		if (sent_as != SEND_HINT)
			continue;
		policy_linnos.revoked(r, &io, &first);
		if (sent_to == 0)
			continue;
		second.drive = 1;
		policy_linnos.revoked(r, &io, &second);
		assert(sent_to == 2 && sent_as == SEND_PLAIN);
	}
	replay_end(r);
}
