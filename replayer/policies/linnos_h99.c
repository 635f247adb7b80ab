// SPDX-License-Identifier: MIT
/* linnos-h99: linnos, and hedging at p99 of the usual latency, for the rare false submit only. */
#include "engine/attempts.h"
#include "policy.h"
#include "hedging.h"
#include "revocation.h"

static void linnos_h99_setup(struct replay *r)
{
	hedging_setup_percentile(r, 99);
}

const struct policy policy_linnos_h99 = {
	.name = "linnos-h99",
	.help = "linnos, and hedging at p99",
	.needs_linnos = true,
	.setup = linnos_h99_setup,
	.read = revocation_read,
	.revoked = revocation_revoked,
	.timer = revocation_timer,
};
