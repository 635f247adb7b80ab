// SPDX-License-Identifier: MIT
/* The table of policies. */
#include "policy.h"

#include <string.h>

const struct policy *const policies[] = {
	&policy_baseline,
	&policy_clone,
	&policy_random,
	&policy_shortest_queue,
	&policy_shortest_queue_h95,
	&policy_prequal,
	&policy_c3,
	&policy_heimdall,
	&policy_hedge,
	&policy_hedge_ip,
	&policy_heuristic,
	&policy_heuristic_adv,
	&policy_linnos,
	&policy_linnos_hl,
	&policy_linnos_h99,
	&policy_lowest,
	&policy_lowest_h95,
	&policy_lowest_p99,
	&policy_lowest_two,
	&policy_oracle,
	&policy_verdict,
	0,
};

const struct policy *policy_find(const char *name)
{
	for (const struct policy *const *p = policies; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}
