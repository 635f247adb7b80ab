/* SPDX-License-Identifier: MIT */
/*
 * direct_io read|write FILE BYTES CALLS [time]: reads or writes a file without the page cache, BYTES
 * in each call, one call after the other; `time` prints the ns of all calls. Linked statically, so
 * that it makes no other reads.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ALIGNED 4096

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	int is_write, fd;
	size_t bytes;
	char *data;
	long long begin_ns;
	long calls;

	if (argc < 5) {
		fprintf(stderr, "direct_io read|write FILE BYTES CALLS [time]\n");
		return 2;
	}
	is_write = !strcmp(argv[1], "write");
	bytes = strtoul(argv[3], NULL, 10);
	calls = strtol(argv[4], NULL, 10);
	fd = open(argv[2], (is_write ? O_WRONLY | O_CREAT : O_RDONLY) | O_DIRECT, 0600);
	data = aligned_alloc(ALIGNED, bytes);
	if (fd < 0 || !data) {
		perror(argv[2]);
		return 1;
	}
	/* All pages are there before the first call. */
	memset(data, 1, bytes);
	begin_ns = now_ns();
	while (calls--) {
		ssize_t n = is_write ? write(fd, data, bytes) : read(fd, data, bytes);

		if (n != (ssize_t)bytes) {
			perror(argv[2]);
			return 1;
		}
	}
	if (argc > 5)
		printf("%lld\n", now_ns() - begin_ns);
	return 0;
}
