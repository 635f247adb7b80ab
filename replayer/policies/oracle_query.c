// SPDX-License-Identifier: MIT
/* What flashsim drives know of themselves: see oracle_query.h. */
#include "oracle_query.h"
#include "engine/attempts.h"
#include "error.h"
#include "flashsim_ioctl.h"
#include "policy.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

bool oracle_ask(const struct device *d, const struct io *io, uint64_t *latency_ns)
{
	struct flashsim_oracle q = {.sector = io->offset_bytes / 512,
				    .nr_sectors = io->size_bytes / 512,
				    .op = FLASHSIM_ORACLE_READ};

	if (ioctl(d->fd, FLASHSIM_IOC_ORACLE, &q))
		return false;
	*latency_ns = q.latency_ns;
	return true;
}

void oracle_require(struct replay *r)
{
	struct io probe = {.size_bytes = BLOCK_BYTES};
	uint64_t ns;

	for (unsigned int k = 0; k < r->n_drives; k++)
		if (!oracle_ask(&r->devices[k], &probe, &ns))
			die("policy %s: drive %s answers no oracle question (%s); only flashsim "
			    "drives do",
			    r->o.policy->name, r->devices[k].path, strerror(errno));
}
