// SPDX-License-Identifier: MIT
/* Tests of timers: a heap ordered by time, with ties in the order of arming. */
#include "engine/timers.h"

#include "test.h"

#include <stdlib.h>

TEST(no_timer_expires_if_none_is_armed)
{
	struct timers t = {0};

	assert(timer_next(&t) == UINT64_MAX);
	assert(!timer_expired(&t, UINT64_MAX));
}

TEST(timers_expire_in_the_order_of_their_times)
{
	enum { N = 1000 };
	struct timers t = {0};
	struct timer *all = calloc(N, sizeof(*all)), *first;
	uint64_t last_ns = 0;
	unsigned int n = 0;

	for (unsigned int i = 0; i < N; i++)
		timer_arm(&t, &all[i], (i * 7919ull) % N);
	while ((first = timer_expired(&t, N))) {
		assert(first->at_ns >= last_ns && !first->place);
		last_ns = first->at_ns;
		n++;
	}
	assert(n == N && !t.count);
	free(all);
	free(t.heap);
}

TEST(timers_of_one_time_expire_in_the_order_of_arming)
{
	struct timers t = {0};
	struct timer a = {0}, b = {0}, c = {0};

	timer_arm(&t, &b, 5);
	timer_arm(&t, &a, 5);
	timer_arm(&t, &c, 5);
	timer_arm(&t, &b, 5); /* armed again: after the others */
	assert(timer_expired(&t, 5) == &a);
	assert(timer_expired(&t, 5) == &c);
	assert(timer_expired(&t, 5) == &b);
	free(t.heap);
}

TEST(timer_expires_at_its_time_and_not_earlier)
{
	struct timers t = {0};
	struct timer a = {0};

	timer_arm(&t, &a, 100);
	assert(timer_next(&t) == 100);
	assert(!timer_expired(&t, 99));
	assert(timer_expired(&t, 100) == &a);
	assert(!timer_expired(&t, 100));
	free(t.heap);
}

TEST(disarmed_and_moved_timers_leave_the_heap_in_order)
{
	enum { N = 101 };
	struct timers t = {0};
	struct timer all[N] = {0}, *first;
	uint64_t last_ns = 0;
	unsigned int n = 0;

	for (unsigned int i = 0; i < N; i++)
		timer_arm(&t, &all[i], (i * 37) % N);
	for (unsigned int i = 0; i < N; i += 3)
		timer_disarm(&t, &all[i]);
	timer_disarm(&t, &all[0]); /* a second time has no effect */
	timer_arm(&t, &all[1], 0);
	assert(timer_expired(&t, 0) == &all[1]);
	while ((first = timer_expired(&t, N))) {
		assert((first - all) % 3 && first->at_ns >= last_ns);
		last_ns = first->at_ns;
		n++;
	}
	assert(n == N - (N + 2) / 3 - 1);
	free(t.heap);
}
