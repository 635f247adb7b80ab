/* SPDX-License-Identifier: MIT */
/* A spin lock that is held for some tens of ns, unless its thread is preempted. */
#ifndef LINNOS_SPIN_H
#define LINNOS_SPIN_H

#include "linnos_shim.h"

#include <sched.h>

static inline void spin_take(unsigned long *word)
{
	while (test_and_set_bit_lock(0, word))
		sched_yield();
}

/* No other thread writes to the word while it is locked. */
static inline void spin_leave(unsigned long *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

#endif
