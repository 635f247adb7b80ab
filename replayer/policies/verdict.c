// SPDX-License-Identifier: MIT
/*
 * verdict: linnos with a network that is never wrong, at no cost. A bound: what its protocol could
 * reach at best.
 *
 * home: slow? ──yes──► home + 1: slow? ──yes──► ... ──yes──► last: takes the read unasked
 *
 * Slow is what linnos counts as such: more whole us than the drive's inflection point. Whether this
 * read would be, the emulator says at the moment of the choice. Between a verdict and the next
 * drive lies --failover-us, as after a revocation, and a drive passed over is counted as one. It
 * tells fast from slow, not fast from faster: a slow read on the last drive, and a fast one on a
 * drive that is not the fastest, are part of the protocol.
 */
#include "engine/attempts.h"
#include "error.h"
#include "oracle_query.h"
#include "policy.h"

static void verdict_setup(struct replay *r)
{
	oracle_require(r);
	for (unsigned int k = 0; k < r->n_drives; k++)
		r->threshold_us[k] =
			r->o.threshold_us
				? r->o.threshold_us
				: device_require_threshold_us(&r->devices[k], r->o.policy->name,
							      "--threshold-us");
}

static bool would_be_slow(const struct replay *r, const struct io *io, unsigned int drive)
{
	uint64_t ns;

	return oracle_ask(&r->devices[drive], io, &ns) && ns / 1000 > r->threshold_us[drive];
}

static void walk(struct replay *r, struct io *io)
{
	for (;;) {
		unsigned int drive = (io->home + io->revocations) % r->n_drives;
		bool last = io->revocations + 1u == r->n_drives;

		if (last || !would_be_slow(r, io, drive)) {
			attempt_send(r, io, drive, SEND_PLAIN);
			return;
		}
		/* The way through the replicas is part of the read's time. */
		io->submitted = true;
		io->revocations++;
		if (r->o.failover_us > 0)
			break;
	}
	io->failing_over = true;
	timer_arm(&r->timers, &io->timer, r->ring.now_ns + (uint64_t)(r->o.failover_us * 1000));
}

static void verdict_timer(struct replay *r, struct io *io)
{
	io->failing_over = false;
	walk(r, io);
}

const struct policy policy_verdict = {
	.name = "verdict",
	.help = "linnos with a network that is never wrong, from the emulator (sysfs threshold_us, "
		"or --threshold-us): a bound as the oracle is, flashsim drives only",
	.is_bound = true,
	.setup = verdict_setup,
	.read = walk,
	.timer = verdict_timer,
};
