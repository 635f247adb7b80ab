// SPDX-License-Identifier: MIT
/* Bounds: policies that query flashsim drives about their internal state. */
#include "drive/device.h"
#include "engine/attempts.h"
#include "error.h"
#include "flashsim_ioctl.h"
#include "policy.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

/*
 * Query how long the drive would take for this whole read if it were submitted now and no other I/O
 * came, including injected delays and, if the kernel splits the read, all of its parts. Return
 * false, with errno set, if the drive is not a flashsim drive.
 */
static bool oracle_query(const struct device *d, const struct io *io, uint64_t *latency_ns)
{
	struct flashsim_oracle q = {.sector = io->offset_bytes / 512,
				    .nr_sectors = io->size_bytes / 512,
				    .op = FLASHSIM_ORACLE_READ};

	if (ioctl(d->fd, FLASHSIM_IOC_ORACLE, &q))
		return false;
	*latency_ns = q.latency_ns;
	return true;
}

static void oracle_require(struct replay *r)
{
	struct io probe = {.size_bytes = BLOCK_BYTES};
	uint64_t ns;

	for (unsigned int k = 0; k < r->n_drives; k++)
		if (!oracle_query(&r->devices[k], &probe, &ns))
			die("policy %s: drive %s does not support oracle queries (%s); only "
			    "flashsim drives do",
			    r->o.policy->name, r->devices[k].path, strerror(errno));
}

/*
 * oracle: query the emulator which replica would answer first, including injected delays, and read
 * from it.
 *
 * This is a bound for policies that see the drives from outside and send a read once: for a single
 * read no choice is better. It does not consider later reads. It is not a bound if injection
 * selects reads by count or at random: an avoided drive then still has its slow reads to come, and
 * a policy that meets them earlier may be faster.
 */
static void oracle_read(struct replay *r, struct io *io)
{
	uint64_t best_ns = UINT64_MAX, ns;
	unsigned int best = io->default_drive;

	/* Start with the default drive, so that it wins a tie. */
	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = drive_after_default(r, io, i);

		if (oracle_query(&r->devices[drive], io, &ns) && ns < best_ns) {
			best_ns = ns;
			best = drive;
		}
	}
	attempt_send(r, io, best, SEND_PLAIN);
}

const struct policy policy_oracle = {
	.name = "oracle",
	.help = "the replica that would complete the read first according to the emulator: a "
		"bound, unless injection selects reads by count or at random; flashsim drives only",
	.is_bound = true,
	.setup = oracle_require,
	.read = oracle_read,
};

/*
 * verdict: linnos with a network that is never wrong and costs nothing. It is an upper bound of
 * what the protocol of linnos can gain.
 *
 * default: slow? ──yes──► default + 1: slow? ──yes──► ... ──yes──► last: takes the read
 *
 * Slow has the same meaning as for linnos: a latency, in whole us, that exceeds the drive's
 * inflection point. The emulator reports at the time of the decision whether this read would be
 * slow. Between a classification and the next drive lies --failover-us, as after a revocation, and
 * an avoided drive counts as a revocation. The policy distinguishes fast from slow, but not degrees
 * of fast: a slow read on the last drive, and a fast one on a drive that is not the fastest, are
 * part of the protocol.
 */
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

	return oracle_query(&r->devices[drive], io, &ns) && ns / 1000 > r->threshold_us[drive];
}

static void try_replicas(struct replay *r, struct io *io)
{
	for (;;) {
		unsigned int drive = drive_after_default(r, io, io->revocations);
		bool last = io->revocations + 1u == r->n_drives;

		if (last || !would_be_slow(r, io, drive)) {
			attempt_send(r, io, drive, SEND_PLAIN);
			return;
		}
		/* The time for the avoided replicas is part of the read's latency. */
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
	try_replicas(r, io);
}

const struct policy policy_verdict = {
	.name = "verdict",
	.help = "linnos with perfect predictions from the emulator (sysfs threshold_us, or "
		"--threshold-us): a bound as oracle is; flashsim drives only",
	.is_bound = true,
	.setup = verdict_setup,
	.read = try_replicas,
	.timer = verdict_timer,
};
