// SPDX-License-Identifier: MIT
/* Tests of linnos: a revoked read fails over, and the last drive cannot revoke it. */
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

int replica_after_default(const struct replay *r, const struct io *io, uint32_t mask)
{
	for (unsigned int i = 1; i <= N_DRIVES; i++)
		if (!(mask & 1u << (io->default_drive + i) % N_DRIVES))
			return (io->default_drive + i) % N_DRIVES;
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

TEST(revoked_reads_fail_over_and_the_last_drive_cannot_revoke)
{
	struct replay *r = calloc(1, sizeof(*r));

	r->n_drives = N_DRIVES;
	r->o.policy = &policy_linnos;
	for (unsigned int first = 0; first < N_DRIVES; first++) {
		struct io io = {.default_drive = first};
		struct attempt a = {.io = &io, .drive = first, .hinted = true};

		n_sent = 0;
		policy_linnos.read(r, &io);
		assert(sent_to == first && sent_as == SEND_HINT);
		policy_linnos.revoked(r, &io, &a);
		assert(sent_to == (first + 1) % N_DRIVES && sent_as == SEND_HINT);
		a.drive = sent_to;
		policy_linnos.revoked(r, &io, &a);
		assert(sent_to == (first + 2) % N_DRIVES && sent_as == SEND_PLAIN);
		assert(n_sent == N_DRIVES);
	}
	free(r);
}
