// SPDX-License-Identifier: MIT
/*
 * Feed I/Os to an observer and print the features after each of them, for tests that compute them
 * independently. Input on stdin, in order of time: "s NUMBER NOW_NS OFFSET PAGES IS_READ" sends an
 * I/O; "e NUMBER NOW_NS IS_ANSWERED" completes it. Each "s" prints a line of features, computed
 * before it is counted.
 */
#include "observer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define N_IOS 100000u

int main(int argc, char **argv)
{
	static struct linnos_io ios[N_IOS];
	unsigned int number, pages, flag;
	struct observer o;
	uint64_t now_ns, offset;
	char event;

	observer_init(&o, argc > 1 ? atoi(argv[1]) : 0);
	while (scanf(" %c %u %" SCNu64, &event, &number, &now_ns) == 3 && number < N_IOS) {
		/* no clock shows 0 */
		now_ns++;
		uint32_t features[LINNOS_N_FEATURES];

		if (event == 'e' && scanf("%u", &flag) == 1) {
			observer_ended(&o, &ios[number], now_ns,
				       flag ? OBSERVED_ANSWERED : OBSERVED_FAILED);
			continue;
		}
		if (event != 's' || scanf("%" SCNu64 " %u %u", &offset, &pages, &flag) != 3)
			return 1;
		observer_features(&o, offset, pages, now_ns, features);
		for (unsigned int i = 0; i < LINNOS_N_FEATURES; i++)
			printf("%" PRIu32 "%c", features[i],
			       i + 1 < LINNOS_N_FEATURES ? ' ' : '\n');
		observer_sent(&o, &ios[number], now_ns, offset, pages, flag);
	}
	return !feof(stdin);
}
