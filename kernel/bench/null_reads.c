// SPDX-License-Identifier: MIT
/*
 * Send reads of 4 KiB to a drive without a medium (null_blk), to measure the cost
 * of the block layer itself.
 *
 *	null_reads DEVICE --batches N M [--hint] [--write] [--sector] [--sequential]
 *		measure the time: submit M at a time, and print the median and the
 *		lower and upper quartile of N batches, in ticks of the processor's
 *		time stamp counter per I/O; with --write these are writes, with
 *		--sector of 512 bytes, with --sequential one after the other
 *	null_reads DEVICE --plain N [--hint]	N reads, one after the other, for
 *		counting instructions
 *	null_reads --ticks			print ticks per nanosecond
 *
 * In a guest in virtual time, the clock does not include the time of computations,
 * but the time stamp counter is that of the host.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#ifndef RWF_LATCRIT
#define RWF_LATCRIT 0x00008000
#endif

#define BLOCK 4096
#define BATCH_MAX 64
#define SPREAD 4096 /* number of blocks that are read */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void timed(int fd, char *buffer, long batches, long batch, int hint, int writes, long size,
		  int sequential)
{
	static struct iocb iocbs[BATCH_MAX], *list[BATCH_MAX];
	static struct io_event events[BATCH_MAX];
	uint64_t *ticks = calloc(batches, sizeof(*ticks));
	aio_context_t context = 0;
	long i, k, block = 0;

	if (!ticks || syscall(SYS_io_setup, BATCH_MAX, &context))
		err(1, "io_setup");
	for (i = 0; i < batches; i++) {
		uint64_t begin;

		for (k = 0; k < batch; k++) {
			iocbs[k] = (struct iocb){
				.aio_fildes = fd,
				.aio_lio_opcode = writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
				.aio_buf = (uintptr_t)(buffer + k * BLOCK),
				.aio_nbytes = size,
				.aio_offset = block * size,
				.aio_rw_flags = hint ? RWF_LATCRIT : 0,
			};
			list[k] = &iocbs[k];
			/* by default not the next block, which could be merged */
			block = (block + (sequential ? 1 : 1037)) % SPREAD;
		}
		begin = __rdtsc();
		if (syscall(SYS_io_submit, context, batch, list) != batch)
			err(1, "io_submit");
		if (syscall(SYS_io_getevents, context, batch, batch, events, NULL) != batch)
			err(1, "io_getevents");
		ticks[i] = __rdtsc() - begin;
		for (k = 0; k < batch; k++)
			if (events[k].res != size && !(hint && events[k].res == -EBUSY))
				err(1, writes ? "write" : "read");
	}
	qsort(ticks, batches, sizeof(*ticks), by_value);
	printf("%.2f %.2f %.2f\n", (double)ticks[batches / 2] / batch,
	       (double)ticks[batches / 4] / batch, (double)ticks[batches * 3 / 4] / batch);
}

static ssize_t plain(int fd, char *buffer, long offset)
{
	return pread(fd, buffer, BLOCK, offset);
}

static ssize_t hinted(int fd, char *buffer, long offset)
{
	struct iovec block = { .iov_base = buffer, .iov_len = BLOCK };
	ssize_t n = preadv2(fd, &block, 1, offset, RWF_LATCRIT);

	return n < 0 && errno == EBUSY ? BLOCK : n;
}

static double ticks_per_ns(void)
{
	struct timespec a, b;
	uint64_t begin, end;

	clock_gettime(CLOCK_MONOTONIC, &a);
	begin = __rdtsc();
	usleep(200000);
	clock_gettime(CLOCK_MONOTONIC, &b);
	end = __rdtsc();
	return (end - begin) / ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec));
}

int main(int argc, char **argv)
{
	ssize_t (*one)(int fd, char *buffer, long offset) = plain;
	int fd, hint = 0, writes = 0, sequential = 0;
	long size = BLOCK;
	char *buffer;
	long n, i;

	if (argc == 2 && !strcmp(argv[1], "--ticks")) {
		printf("%.6f\n", ticks_per_ns());
		return 0;
	}
	if (argc < 4 || (n = atol(argv[3])) < 1) {
		fprintf(stderr, "usage: null_reads DEVICE --batches N M [--hint|--write] | "
				"--plain N [--hint]\n");
		return 2;
	}
	for (i = 5; i < argc; i++) {
		hint |= !strcmp(argv[i], "--hint");
		writes |= !strcmp(argv[i], "--write");
		sequential |= !strcmp(argv[i], "--sequential");
		if (!strcmp(argv[i], "--sector"))
			size = 512;
	}
	fd = open(argv[1], (writes ? O_RDWR : O_RDONLY) | O_DIRECT);
	if (fd < 0)
		err(1, "%s", argv[1]);
	buffer = aligned_alloc(BLOCK, BATCH_MAX * BLOCK);
	if (!buffer)
		err(1, "memory");
	memset(buffer, 0, BATCH_MAX * BLOCK);
	if (!strcmp(argv[2], "--batches")) {
		long batch = argc > 4 ? atol(argv[4]) : 0;

		if (batch < 1 || batch > BATCH_MAX) {
			fprintf(stderr, "null_reads: M must be between 1 and %d\n", BATCH_MAX);
			return 2;
		}
		timed(fd, buffer, n, batch, hint, writes, size, sequential);
		return 0;
	}
	if (argc > 4 && !strcmp(argv[4], "--hint"))
		one = hinted;
	for (i = 0; i < n; i++)
		if (one(fd, buffer, i * 1037 % SPREAD * BLOCK) != BLOCK)
			err(1, "read");
	return 0;
}
