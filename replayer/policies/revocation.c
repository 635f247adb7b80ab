// SPDX-License-Identifier: MIT
/*
 * Failover on revocation.
 *
 * home: hint ──EBUSY──► home + 1: hint ──EBUSY──► ... ──EBUSY──► last: plain, it cannot be revoked
 *
 * Between EBUSY and the next attempt lies --failover-us: the time that an application would spend
 * on the way back through its stack, which virtual time does not see. With hedging set up the
 * read's timer serves both, in turn: the failover while one is due, else the hedge.
 */
#include "revocation.h"
#include "engine/attempts.h"
#include "hedging.h"

/* Is this replica the only one left that could still answer? Then the read must not be revoked. */
static bool is_last(const struct replay *r, const struct io *io, unsigned int drive)
{
	uint32_t all = (1u << r->n_drives) - 1;

	return !io->in_flight && (io->tried | 1u << drive) == all;
}

static void send_to(struct replay *r, struct io *io, unsigned int drive)
{
	/* With another attempt at work this one continues a revoked hedge. */
	unsigned int hedge = io->in_flight ? SEND_HEDGE : 0;

	attempt_send(r, io, drive, hedge | (is_last(r, io, drive) ? SEND_PLAIN : SEND_HINT));
	hedging_arm(r, io);
}

void revocation_read(struct replay *r, struct io *io)
{
	send_to(r, io, io->home);
}

static void fail_over(struct replay *r, struct io *io)
{
	int drive = replica_after_home(r, io, io->tried);

	/* While another attempt runs (a hedge race), nothing more is owed. */
	if (drive < 0 && io->in_flight)
		return;
	/* All were asked, and the last revoked one was a hedge whose rival failed: back to any that
	 * works. */
	if (drive < 0) {
		drive = replica_after_home(r, io, io->failed);
		attempt_send(r, io, drive < 0 ? io->home : (unsigned int)drive, SEND_PLAIN);
		return;
	}
	send_to(r, io, drive);
}

void revocation_revoked(struct replay *r, struct io *io, struct attempt *a)
{
	/* A revoked hedge has cost the array nothing: the budget gets it back. */
	if (a->hedge)
		budget_refund(&r->hedge_budget);
	if (r->o.failover_us <= 0) {
		fail_over(r, io);
		return;
	}
	io->failing_over = true;
	timer_arm(&r->timers, &io->timer, r->ring.now_ns + (uint64_t)(r->o.failover_us * 1000));
}

void revocation_timer(struct replay *r, struct io *io)
{
	if (io->failing_over) {
		io->failing_over = false;
		fail_over(r, io);
		return;
	}
	hedging_fire(r, io, SEND_HINT);
}
