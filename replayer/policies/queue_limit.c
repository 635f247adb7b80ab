// SPDX-License-Identifier: MIT
/* The queue length from which the heuristic policies take a drive to be slow: see queue_limit.h. */
#include "queue_limit.h"
#include "engine/attempts.h"
#include "error.h"
#include "policy.h"
#include "profile.h"

#define QUEUE_PERCENTILE 0.95

void queue_limit_setup(struct replay *r)
{
	if (!r->o.heuristic_queue_pages) {
		if (!r->o.profile_path)
			die("policy %s: needs to know which queue is long: --heuristic-queue "
			    "PAGES, or --profile L of a "
			    "run with --policy baseline --log L",
			    r->o.policy->name);
		r->o.heuristic_queue_pages =
			profile_pending_pages(r->o.profile_path, QUEUE_PERCENTILE);
	}
}

bool queue_is_long(const struct replay *r, const struct io *io, unsigned int drive)
{
	return r->pending_pages[drive] + io_pages(io) > r->o.heuristic_queue_pages;
}
