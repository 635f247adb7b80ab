// SPDX-License-Identifier: MIT
/* The table of policies. */
#include "policy.h"

#include <string.h>

#define POINTER(name) &policy_##name,
const struct policy *const policies[] = {EACH_POLICY(POINTER) NULL};

const struct policy *policy_find(const char *name)
{
	for (const struct policy *const *p = policies; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}
