/* SPDX-License-Identifier: MIT */
/*
 * Timers: a list ordered by time, with ties in the order of arming, so that a run is exactly
 * repeatable. Most timers are armed for a later time than all others.
 */
#ifndef REPLAYER_TIMERS_H
#define REPLAYER_TIMERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct timer {
	TAILQ_ENTRY(timer) link;
	uint64_t at_ns;
	bool is_armed;
};

/* TAILQ_INIT() makes an empty list. */
TAILQ_HEAD(timers, timer);

/* Arm or move a timer. */
void timer_arm(struct timers *t, struct timer *timer, uint64_t at_ns);
void timer_disarm(struct timers *t, struct timer *timer);
/* Disarm and return the earliest timer that has expired, or NULL. */
struct timer *timer_expired(struct timers *t, uint64_t now_ns);
/* Return the time of the next timer; UINT64_MAX if there is none. */
uint64_t timer_next(const struct timers *t);

#endif
