// SPDX-License-Identifier: MIT
/* Timers: see timers.h. */
#include "timers.h"

#include <stddef.h>

void timer_arm(struct timers *t, struct timer *timer, uint64_t at_ns)
{
	struct timer *earlier;

	timer_disarm(t, timer);
	timer->at_ns = at_ns;
	timer->is_armed = true;
	earlier = TAILQ_LAST(t, timers);
	while (earlier && earlier->at_ns > at_ns)
		earlier = TAILQ_PREV(earlier, timers, link);
	if (earlier)
		TAILQ_INSERT_AFTER(t, earlier, timer, link);
	else
		TAILQ_INSERT_HEAD(t, timer, link);
}

void timer_disarm(struct timers *t, struct timer *timer)
{
	if (timer->is_armed)
		TAILQ_REMOVE(t, timer, link);
	timer->is_armed = false;
}

struct timer *timer_expired(struct timers *t, uint64_t now_ns)
{
	struct timer *first = TAILQ_FIRST(t);

	if (!first || first->at_ns > now_ns)
		return NULL;
	timer_disarm(t, first);
	return first;
}

uint64_t timer_next(const struct timers *t)
{
	return TAILQ_EMPTY(t) ? UINT64_MAX : TAILQ_FIRST(t)->at_ns;
}
