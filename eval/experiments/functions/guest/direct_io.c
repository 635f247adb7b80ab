/* SPDX-License-Identifier: MIT */
/*
 * direct_io read|write FILE BYTES CALLS: reads or writes a file without the page cache, BYTES in
 * each call, one call after the other. Linked statically, so that it makes no other reads.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNED 4096

int main(int argc, char **argv)
{
	int is_write, fd;
	size_t bytes;
	char *data;
	long calls;

	if (argc != 5) {
		fprintf(stderr, "direct_io read|write FILE BYTES CALLS\n");
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
	while (calls--) {
		ssize_t n = is_write ? write(fd, data, bytes) : read(fd, data, bytes);

		if (n != (ssize_t)bytes) {
			perror(argv[2]);
			return 1;
		}
	}
	return 0;
}
