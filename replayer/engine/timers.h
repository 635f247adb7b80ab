/* SPDX-License-Identifier: MIT */
/* Timers: a binary heap by time, ties in the order of arming, so that a run
 * repeats exactly. */
#ifndef REPLAYER_TIMERS_H
#define REPLAYER_TIMERS_H

#include <stdint.h>

struct timer {
	uint64_t at_ns, order;
	uint32_t place; /* index in the heap + 1; 0: not armed */
	/* What its owner does then; whoever takes it off the heap calls it. */
	void (*expired)(void *context, struct timer *timer);
};

struct timers {
	struct timer **heap;
	uint32_t count, allocated;
	uint64_t order;
};

/* Arms or moves a timer. */
void timer_arm(struct timers *t, struct timer *timer, uint64_t at_ns);
void timer_disarm(struct timers *t, struct timer *timer);
/* The earliest timer at or before now, disarmed, or NULL. */
struct timer *timer_expired(struct timers *t, uint64_t now_ns);
/* When the next one is due; UINT64_MAX without any. */
uint64_t timer_next(const struct timers *t);

#endif
