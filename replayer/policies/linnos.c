// SPDX-License-Identifier: MIT
/* linnos: reads carry the latency-critical hint; a revoked one goes to the next replica, the last
 * one plain. */
#include "engine/attempts.h"
#include "policy.h"
#include "revocation.h"

const struct policy policy_linnos = {
	.name = "linnos",
	.help = "latency-critical reads; a revoked one goes to the next replica, the last is never "
		"revoked",
	.needs_linnos = true,
	.read = revocation_read,
	.revoked = revocation_revoked,
	.timer = revocation_timer,
};
