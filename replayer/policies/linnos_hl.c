// SPDX-License-Identifier: MIT
/*
 * linnos-hl: linnos, and hedging for what the network lets through wrongly. Its false submits are
 * the slow reads that remain, so a hedge need not wait longer than their share says: the threshold
 * is the smaller of p95 and the percentile 1 - false-submit ratio of the usual latency.
 */
#include "engine/attempts.h"
#include "error.h"
#include "hedging.h"
#include "policy.h"
#include "revocation.h"

/* Fewer decisions than this say nothing about the network's errors. */
#define DECISIONS_MIN 1000

/* Given, else from what the kernel has counted since the models were uploaded, else 0: the
 * threshold is then p95. */
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

const struct policy policy_linnos_hl = {
	.name = "linnos-hl",
	.help = "linnos, and hedging at the smaller of p95 and 1 - false-submit ratio",
	.needs_linnos = true,
	.setup = linnos_hl_setup,
	.read = revocation_read,
	.revoked = revocation_revoked,
	.timer = revocation_timer,
};
