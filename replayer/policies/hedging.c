// SPDX-License-Identifier: MIT
/*
 * Hedging: see hedging.h.
 *
 * A read that is not answered in time is also sent to the next replica, and the first answer wins.
 * Without the budget, every read would be sent twice when a whole array is slow, which would make
 * it even slower.
 */
#include "hedging.h"
#include "engine/attempts.h"
#include "error.h"
#include "policy.h"
#include "profile.h"

static void set_all(struct replay *r, double us)
{
	for (unsigned int k = 0; k < r->n_drives; k++)
		r->hedge_ns[k] = us * 1000 + 0.5;
}

void hedging_setup_percentile(struct replay *r, double percentile)
{
	if (r->o.hedge_percentile >= 0)
		percentile = r->o.hedge_percentile;
	if (r->o.hedge_us >= 0) {
		set_all(r, r->o.hedge_us);
		return;
	}
	if (!r->o.profile_path)
		die("policy %s: hedging at p%g needs to know the latencies: run once with --policy "
		    "baseline --log L, then give --profile L here (or give the time itself with "
		    "--hedge-us)",
		    r->o.policy->name, percentile);
	r->hedge_percentile_used = percentile;
	set_all(r, profile_percentile_us(r->o.profile_path, percentile / 100));
}

void hedging_arm(struct replay *r, struct io *io)
{
	uint64_t after_ns = r->hedge_ns[io->default_drive];

	if (r->n_drives > 1 && after_ns && !(io->flags & IO_HEDGED))
		timer_arm(&r->timers, &io->timer, io->submit_ns + after_ns);
}

/*
 * Return true if a drive of this read has too many orphaned reads: one attempt becomes another
 * orphan there.
 */
static bool would_exceed_max_orphans(const struct replay *r, const struct io *io,
				     unsigned int drive)
{
	for (const struct attempt *a = io->in_flight; a; a = a->next)
		if (orphans_full(r, a->drive))
			return true;
	return orphans_full(r, drive);
}

void hedging_send(struct replay *r, struct io *io, unsigned int drive, unsigned int send_flags)
{
	if (would_exceed_max_orphans(r, io, drive)) {
		r->c.copies_denied++;
		return;
	}
	if (!budget_allows(&r->hedge_budget)) {
		r->c.hedges_denied++;
		return;
	}
	attempt_send(r, io, drive, send_flags | SEND_HEDGE);
}

void hedging_fire(struct replay *r, struct io *io, unsigned int send_flags)
{
	int drive = replica_after_default(r, io, io->tried);

	/*
	 * All drives have been tried: use the next one that has no attempt of this read in flight.
	 */
	if (drive < 0) {
		uint32_t busy = io->failed;

		for (struct attempt *a = io->in_flight; a; a = a->next)
			busy |= 1u << a->drive;
		drive = replica_after_default(r, io, busy);
		if (drive < 0 && !(busy & 1u << io->default_drive))
			drive = io->default_drive;
		send_flags = SEND_PLAIN;
	}
	if (drive < 0)
		return;
	hedging_send(r, io, drive, send_flags);
}

static void hedging_read(struct replay *r, struct io *io)
{
	attempt_send(r, io, io->default_drive, SEND_PLAIN);
	hedging_arm(r, io);
}

static void hedging_timer(struct replay *r, struct io *io)
{
	hedging_fire(r, io, SEND_PLAIN);
}

const struct policy policy_hedge = {
	.name = "hedge",
	.help = "a second replica when the first has not answered by p95 (--hedge-percentile, "
		"--hedge-us)",
	.hedge_percentile = 95,
	.read = hedging_read,
	.timer = hedging_timer,
};

/* A read that takes longer than the model's inflection point is slow. */
static void hedge_ip_setup(struct replay *r)
{
	if (r->o.hedge_percentile >= 0)
		die("policy hedge-ip: it hedges at the inflection point, not at a percentile; "
		    "leave --hedge-percentile out, or use --policy hedge");
	if (r->o.hedge_us >= 0)
		set_all(r, r->o.hedge_us);
	for (unsigned int k = 0; k < r->n_drives && r->o.hedge_us < 0; k++)
		r->hedge_ns[k] = 1000 * device_require_threshold_us(
						&r->devices[k], r->o.policy->name, "--hedge-us");
}

const struct policy policy_hedge_ip = {
	.name = "hedge-ip",
	.help = "hedging at the model's inflection point (sysfs threshold_us, or --hedge-us)",
	.setup = hedge_ip_setup,
	.read = hedging_read,
	.timer = hedging_timer,
};
