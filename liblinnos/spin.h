/* SPDX-License-Identifier: MIT */
/* A word that is taken for some tens of ns, unless its thread has lost the processor. */
#ifndef LINNOS_SPIN_H
#define LINNOS_SPIN_H

#include "linnos_shim.h"

#include <sched.h>

static inline void spin_take(unsigned long *word)
{
	while (test_and_set_bit_lock(0, word))
		sched_yield();
}

/* Nobody else writes to it while it is taken. */
static inline void spin_leave(unsigned long *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

#endif
