// SPDX-License-Identifier: MIT
/* oracle: asks the emulator which replica would answer first, injection included, and reads there.
 * The bound that no policy which sees the drives from outside can beat; works on flashsim drives
 * only. */
#include "attempts.h"
#include "policy.h"
#include "error.h"
#include "flashsim_ioctl.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

/* One question covers at most this much; the kernel splits larger reads anyway. */
#define SECTORS_MAX 256u

static bool ask(const struct device *d, const struct io *io, uint64_t *latency_ns)
{
	struct flashsim_oracle q = {.sector = io->offset_bytes / 512,
				    .nr_sectors = io->size_bytes / 512,
				    .op = FLASHSIM_ORACLE_READ};

	if (q.nr_sectors > SECTORS_MAX)
		q.nr_sectors = SECTORS_MAX;
	if (ioctl(d->fd, FLASHSIM_IOC_ORACLE, &q))
		return false;
	*latency_ns = q.latency_ns;
	return true;
}

static void oracle_setup(struct replay *r)
{
	struct io probe = {.size_bytes = 4096};
	uint64_t ns;

	for (unsigned int k = 0; k < r->n_drives; k++)
		if (!ask(&r->devices[k], &probe, &ns))
			die("policy oracle: drive %s answers no oracle question (%s); only "
			    "flashsim drives do",
			    r->devices[k].path, strerror(errno));
}

static void oracle_read(struct replay *r, struct io *io)
{
	uint64_t best_ns = UINT64_MAX, ns;
	unsigned int best = io->home;

	/* From the home drive on, so that a tie stays at home. */
	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (ask(&r->devices[drive], io, &ns) && ns < best_ns) {
			best_ns = ns;
			best = drive;
		}
	}
	attempt_send(r, io, best, SEND_PLAIN);
}

const struct policy policy_oracle = {
	.name = "oracle",
	.help = "the replica that the emulator says would be fastest: a bound, for flashsim drives "
		"only",
	.setup = oracle_setup,
	.read = oracle_read,
};
