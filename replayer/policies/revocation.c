// SPDX-License-Identifier: MIT
/*
 * The linnos policies: reads carry the latency-critical hint, and a revoked read fails over.
 *
 * default: hint ─EBUSY─► default + 1: hint ─EBUSY─► ... ─EBUSY─► last: plain, it cannot be revoked
 *
 * Between EBUSY and the next attempt lies --failover-us: the time that an application would spend
 * in its own stack, which virtual time does not include. With hedging, the read's timer serves both
 * purposes in turn: the failover while one is pending, otherwise the hedge.
 */
#include "engine/attempts.h"
#include "error.h"
#include "hedging.h"
#include "policy.h"

/*
 * Return true if this replica is the only one left that can answer, so that the read must not be
 * revoked.
 */
static bool is_last(const struct replay *r, const struct io *io, unsigned int drive)
{
	uint32_t all = (1u << r->n_drives) - 1;

	return !io->in_flight && (io->tried | 1u << drive) == all;
}

static void send_to(struct replay *r, struct io *io, unsigned int drive)
{
	/* If another attempt is in flight, this one continues a revoked hedge. */
	unsigned int hedge = io->in_flight ? SEND_HEDGE : 0;

	attempt_send(r, io, drive, hedge | (is_last(r, io, drive) ? SEND_PLAIN : SEND_HINT));
	hedging_arm(r, io);
}

static void revocation_read(struct replay *r, struct io *io)
{
	send_to(r, io, io->default_drive);
}

static void fail_over(struct replay *r, struct io *io)
{
	int drive = replica_after_default(r, io, io->tried);

	/* If another attempt is in flight (hedging), nothing more is to be done. */
	if (drive < 0 && io->in_flight)
		return;
	/*
	 * All drives were tried, and the last one revoked a hedge whose primary attempt failed:
	 * return to any drive that works.
	 */
	if (drive < 0) {
		drive = replica_after_default(r, io, io->failed);
		attempt_send(r, io, drive < 0 ? io->default_drive : (unsigned int)drive,
			     SEND_PLAIN);
		return;
	}
	send_to(r, io, drive);
}

static void revocation_revoked(struct replay *r, struct io *io, struct attempt *a)
{
	/* A revoked hedge has cost the array nothing, so the budget is refunded. */
	if (a->hedge)
		budget_refund(&r->hedge_budget);
	if (r->o.failover_us <= 0) {
		fail_over(r, io);
		return;
	}
	io->failing_over = true;
	timer_arm(&r->timers, &io->timer, r->ring.now_ns + (uint64_t)(r->o.failover_us * 1000));
}

static void revocation_timer(struct replay *r, struct io *io)
{
	if (io->failing_over) {
		io->failing_over = false;
		fail_over(r, io);
		return;
	}
	hedging_fire(r, io, SEND_HINT);
}

#define LINNOS(title, text, ...)                                                                   \
	{                                                                                          \
		.name = title, .help = text, .needs_linnos = true, .read = revocation_read,        \
		.revoked = revocation_revoked, .timer = revocation_timer, __VA_ARGS__              \
	}

const struct policy policy_linnos =
	LINNOS("linnos", "latency-critical reads; a revoked one goes to the next replica, the last "
			 "is never revoked");
/* Only for the rare false submit. */
const struct policy policy_linnos_h99 =
	LINNOS("linnos-h99", "linnos, and hedging at p99", .hedge_percentile = 99);

/*
 * linnos-hl hedges the reads that the network admits wrongly. These false submits are the remaining
 * slow reads, so a hedge need not wait longer than their fraction implies: the threshold is the
 * smaller of p95 and the percentile 1 - false-submit ratio of the latencies in the profile.
 */

/* Fewer decisions do not allow an estimate of the network's errors. */
#define DECISIONS_MIN 1000

/*
 * Return the option's value, otherwise the ratio of the kernel's counters, which are never reset,
 * otherwise 0, in which case the threshold is p95.
 */
static double false_submit_ratio(const struct replay *r)
{
	uint64_t decided = 0, wrong = 0;

	if (r->o.false_submit_ratio >= 0)
		return r->o.false_submit_ratio;
	for (unsigned int k = 0; k < r->n_drives; k++) {
		struct linnos_stats s;

		device_linnos_stats(&r->devices[k], &s);
		decided += s.latency_critical;
		wrong += s.false_submits;
	}
	return decided < DECISIONS_MIN ? 0 : (double)wrong / (double)decided;
}

static void linnos_hl_setup(struct replay *r)
{
	double ratio = false_submit_ratio(r), percentile = 100 * (1 - ratio);

	r->false_submit_ratio_used = ratio;
	hedging_setup_percentile(r, percentile < 95 ? percentile : 95);
}

const struct policy policy_linnos_hl =
	LINNOS("linnos-hl", "linnos, and hedging at the smaller of p95 and 1 - false-submit ratio",
	       .setup = linnos_hl_setup);
