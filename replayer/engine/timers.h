/* SPDX-License-Identifier: MIT */
/*
 * Timers: a binary heap ordered by time, with ties in the order of arming, so that a run is exactly
 * repeatable.
 */
#ifndef REPLAYER_TIMERS_H
#define REPLAYER_TIMERS_H

#include <stdint.h>

struct timer {
	uint64_t at_ns, order;
	uint32_t place; /* index in the heap + 1; 0 if not armed */
};

struct timers {
	struct timer **heap;
	uint32_t count, allocated;
	uint64_t order;
};

/* Arm or move a timer. */
void timer_arm(struct timers *t, struct timer *timer, uint64_t at_ns);
void timer_disarm(struct timers *t, struct timer *timer);
/* Disarm and return the earliest timer that has expired, or NULL. */
struct timer *timer_expired(struct timers *t, uint64_t now_ns);
/* Return the time of the next timer; UINT64_MAX if there is none. */
uint64_t timer_next(const struct timers *t);

#endif
