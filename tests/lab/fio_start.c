// SPDX-License-Identifier: MIT
/*
 * Preloaded into fio, which when it starts looks at the clock until 1.28 ms are
 * over, 51 times, to learn how fast the processor counts. In the lab a look takes
 * 256 ns of the guest's time: a quarter of a million system calls, four seconds
 * of the host's processor. Here the second look of each pair sleeps instead,
 * which takes the guest as long and the host nothing.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 51
#define ROUND_NS 1281000

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static unsigned int looks;

	/* There is but one thread yet. */
	if (looks < 2 * ROUNDS && looks++ % 2)
		nanosleep(&(struct timespec){ .tv_nsec = ROUND_NS }, NULL);
	return (int)syscall(SYS_clock_gettime, clock, now);
}
