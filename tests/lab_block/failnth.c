// SPDX-License-Identifier: MIT
/*
 * failnth: write to a file of the kernel, while the nth allocation of the kernel
 * fails. Needs fault injection.
 *
 *	failnth N SOURCE FILE
 *
 * Prints the result of the write, and "struck" if the nth allocation was reached.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char content[1 << 16];
	ssize_t bytes, written = 0;
	int source, file, faults, error = 0;
	char left[24] = "";

	if (argc != 4)
		return 2;
	source = open(argv[2], O_RDONLY);
	file = open(argv[3], O_WRONLY);
	faults = open("/proc/thread-self/fail-nth", O_RDWR);
	if (source < 0 || file < 0 || faults < 0) {
		perror("failnth");
		return 1;
	}
	bytes = read(source, content, sizeof(content));
	if (pwrite(faults, argv[1], strlen(argv[1]), 0) < 0) {
		perror("failnth: fail-nth");
		return 1;
	}
	/* sysfs takes a page at a time */
	while (written < bytes && !error) {
		ssize_t n = write(file, content + written, bytes - written);

		if (n < 0)
			error = errno;
		else
			written += n;
	}
	if (pread(faults, left, sizeof(left) - 1, 0) <= 0) {
		perror("failnth: fail-nth");
		return 1;
	}
	if (pwrite(faults, "0", 1, 0) < 0)
		return 1;
	printf("%s%s\n", error ? strerrorname_np(error) : "ok",
	       atol(left) ? "" : " struck");
	return 0;
}
