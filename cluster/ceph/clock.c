// SPDX-License-Identifier: MIT
/* The clock: see clock.h. It is a separate module so that tests can replace it. */
#include "clock.h"

#include <time.h>

uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}
