// SPDX-License-Identifier: MIT
/* Timers: see timers.h. */
#include "timers.h"
#include "error.h"

#include <stdbool.h>
#include <stdlib.h>

static bool before(const struct timer *a, const struct timer *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void put(struct timers *t, uint32_t i, struct timer *timer)
{
	t->heap[i] = timer;
	timer->place = i + 1;
}

static void sift(struct timers *t, uint32_t i)
{
	struct timer *timer = t->heap[i];

	while (i && before(timer, t->heap[(i - 1) / 2])) {
		put(t, i, t->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= t->count)
			break;
		if (child + 1 < t->count && before(t->heap[child + 1], t->heap[child]))
			child++;
		if (!before(t->heap[child], timer))
			break;
		put(t, i, t->heap[child]);
		i = child;
	}
	put(t, i, timer);
}

void timer_arm(struct timers *t, struct timer *timer, uint64_t at_ns)
{
	timer_disarm(t, timer);
	timer->at_ns = at_ns;
	timer->order = t->order++;
	if (t->count == t->allocated) {
		t->allocated = t->allocated ? t->allocated * 2 : 256;
		t->heap = realloc(t->heap, t->allocated * sizeof(*t->heap));
		if (!t->heap)
			die("out of memory for %u timers", t->allocated);
	}
	t->heap[t->count] = timer;
	sift(t, t->count++);
}

void timer_disarm(struct timers *t, struct timer *timer)
{
	uint32_t i = timer->place - 1;

	if (!timer->place)
		return;
	timer->place = 0;
	if (i == --t->count)
		return;
	t->heap[i] = t->heap[t->count];
	sift(t, i);
}

struct timer *timer_expired(struct timers *t, uint64_t now_ns)
{
	struct timer *first;

	if (!t->count || t->heap[0]->at_ns > now_ns)
		return NULL;
	first = t->heap[0];
	timer_disarm(t, first);
	return first;
}

uint64_t timer_next(const struct timers *t)
{
	return t->count ? t->heap[0]->at_ns : UINT64_MAX;
}
