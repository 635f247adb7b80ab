// SPDX-License-Identifier: MIT
/*
 * Execute system calls, to count their instructions or measure their time: a
 * query about drives, a hinted read, and the cheapest calls.
 *
 *	ask_calls [--ticks] ask|hinted|getppid|clock N DEVICE...
 *
 * The program executes N calls: BLKEXPECT for all devices, 4 KiB reads of the
 * first device with RWF_LATCRIT, which may be refused, getppid(), or
 * clock_gettime(). Before that, it reads each device a few times. With --ticks it
 * prints the median and the quartiles of the time of a call, in ticks of the
 * processor's time stamp counter. With clock, it prints those of the difference
 * between a clock that reads the hardware and one that does not.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/blk-linnos.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

#define BLOCK 4096
#define READ_BEFORE 8

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct blk_expect *request;
	struct iovec block = { .iov_base = aligned_alloc(BLOCK, BLOCK), .iov_len = BLOCK };
	int want_ticks = argc > 1 && !strcmp(argv[1], "--ticks");
	int n_drives, k, first = -1;
	const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE };
	int64_t *ticks, begin, middle = 0;
	struct timespec now;
	long n, i;

	argc -= want_ticks;
	argv += want_ticks;
	n_drives = argc - 3;
	if (argc < 4 || n_drives > BLK_EXPECT_DRIVES_MAX || (n = atol(argv[2])) < 1) {
		fprintf(stderr, "usage: ask_calls [--ticks] "
				"ask|hinted|getppid|clock N DEVICE...\n");
		return 2;
	}
	ticks = calloc(n, sizeof(*ticks));
	request = calloc(1, BLK_EXPECT_BYTES(n_drives));
	if (!request || !block.iov_base || !ticks)
		err(1, "memory");
	request->n_drives = n_drives;
	request->bytes = BLOCK;
	for (k = n_drives - 1; k >= 0; k--) {
		first = open(argv[3 + k], O_RDONLY | O_DIRECT);
		if (first < 0)
			err(1, "%s", argv[3 + k]);
		request->drives[k].fd = first;
		for (i = 0; i < READ_BEFORE; i++)
			if (pread(first, block.iov_base, BLOCK, i * BLOCK) != BLOCK)
				err(1, "%s", argv[3 + k]);
	}
	for (i = 0; i < n; i++) {
		begin = __rdtsc();
		if (!strcmp(argv[1], "ask")) {
			if (ioctl(first, BLKEXPECT, request))
				err(1, "BLKEXPECT");
		} else if (!strcmp(argv[1], "hinted")) {
			if (preadv2(first, &block, 1, 0, RWF_LATCRIT) != BLOCK && errno != EBUSY)
				err(1, "hinted read");
		} else if (!strcmp(argv[1], "clock")) {
			/* alternate between the two clocks */
			syscall(SYS_clock_gettime, clocks[i % 2], &now);
			middle = __rdtsc();
			syscall(SYS_clock_gettime, clocks[!(i % 2)], &now);
		} else {
			syscall(SYS_getppid);
		}
		ticks[i] = __rdtsc() - begin;
		if (middle)
			ticks[i] = (2 * (middle - begin) - ticks[i]) * (i % 2 ? -1 : 1);
	}
	if (want_ticks) {
		qsort(ticks, n, sizeof(*ticks), by_value);
		printf("%lld %lld %lld\n", (long long)ticks[n / 2], (long long)ticks[n / 4],
		       (long long)ticks[n * 3 / 4]);
	}
	return 0;
}
