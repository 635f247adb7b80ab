/* SPDX-License-Identifier: MIT */
/*
 * traced_calls fileserver|reads FOLDER LOOPS: makes system calls, and prints their number and the ns
 * of processor time that the process needed for them.
 *
 * `fileserver` does the operations of Filebench's personality of this name: create and write a file
 * of 128 KiB, append 16 KiB, read all of it, stat, and delete. `reads` reads 4 KiB of a cached file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WHOLE (128 << 10)
#define APPENDED (16 << 10)

static char data[WHOLE + APPENDED];

static void check(int is_right, const char *what)
{
	if (!is_right) {
		perror(what);
		exit(1);
	}
}

static int opened(int flags)
{
	int fd = open("file", flags, 0600);

	check(fd >= 0, "open");
	return fd;
}

/* Return the number of calls. */
static int serve(void)
{
	struct stat found;
	int fd = opened(O_WRONLY | O_CREAT | O_EXCL);

	check(write(fd, data, WHOLE) == WHOLE, "write");
	close(fd);
	fd = opened(O_WRONLY | O_APPEND);
	check(write(fd, data, APPENDED) == APPENDED, "append");
	close(fd);
	fd = opened(O_RDONLY);
	check(read(fd, data, sizeof(data)) == sizeof(data), "read");
	close(fd);
	check(!stat("file", &found), "stat");
	check(!unlink("file"), "unlink");
	return 11;
}

static long long used_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000LL + used.tv_nsec;
}

int main(int argc, char **argv)
{
	long loops, calls = 0;
	long long begin_ns;
	int is_server, fd = -1;

	if (argc != 4 || chdir(argv[2])) {
		fprintf(stderr, "traced_calls fileserver|reads FOLDER LOOPS\n");
		return 2;
	}
	is_server = !strcmp(argv[1], "fileserver");
	loops = atol(argv[3]);
	if (!is_server) {
		fd = opened(O_RDWR | O_CREAT);
		check(write(fd, data, WHOLE) == WHOLE, "write");
	}
	begin_ns = used_ns();
	while (loops--) {
		if (is_server) {
			calls += serve();
		} else {
			check(pread(fd, data, 4096, 4096) == 4096, "pread");
			calls++;
		}
	}
	printf("%ld %lld\n", calls, used_ns() - begin_ns);
	return 0;
}
