// SPDX-License-Identifier: MIT
/*
 * Tests of drives on kernels without LinnOS: one that is removed, and one whose host does not know
 * the ioctl.
 */
#include "../../../liblinnos/tests/test.h"
#include "drives.h"

#include <errno.h>
#include <linux/blk-linnos.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

/* Descriptors returned by the functions below. */
enum { DRIVE = 1000, MODULE, IN_FLIGHT, IO_STATS };

static bool is_removed, has_module, has_no_counts;
static int drives_error;

int __wrap_open(const char *path, int flags, ...);
int __wrap_ioctl(int fd, unsigned long command, ...);
int __wrap_fstat(int fd, struct stat *s);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at);

int __wrap_open(const char *path, int flags, ...)
{
	if (!strcmp(path, "/dev/drive") && !is_removed)
		return DRIVE;
	if (!strcmp(path, "/dev/linnos") && has_module)
		return MODULE;
	if (strstr(path, "/inflight") && !is_removed)
		return IN_FLIGHT;
	if (strstr(path, "/queue/iostats"))
		return IO_STATS;
	errno = ENOENT;
	return -1;
}

int __wrap_ioctl(int fd, unsigned long command, ...)
{
	struct blk_expect *query;
	va_list arguments;

	va_start(arguments, command);
	query = va_arg(arguments, struct blk_expect *);
	va_end(arguments);
	assert(command == BLKEXPECT);
	if (fd == MODULE) {
		query->drives[0].known = BLK_EXPECT_LATENCY;
		query->drives[0].latency_us = 90;
		return 0;
	}
	errno = drives_error;
	return -1;
}

int __wrap_fstat(int fd, struct stat *s)
{
	*s = (struct stat){.st_mode = S_IFBLK};
	return 0;
}

/* Behave like kernfs: reading an open file of a removed device fails. */
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at)
{
	if (fd == IO_STATS) {
		memcpy(to, has_no_counts ? "0\n" : "1\n", 2);
		return 2;
	}
	assert(fd == IN_FLIGHT && !at);
	if (is_removed) {
		errno = ENODEV;
		return -1;
	}
	memcpy(to, "3 1\n", 4);
	return 4;
}

static struct answer query_drive(struct drive *drive, uint64_t now_ns)
{
	struct query query = {.bytes = 4096};
	struct answer answer = {0};

	drive_query(drive, &query, now_ns, &answer);
	return answer;
}

/* This test comes first, because the module is opened only once. */
TEST(removed_drive_is_reported_gone_and_is_reopened)
{
	struct drive drive;
	struct answer answer;

	drives_error = ENOTTY;
	drive_open(&drive, "/dev/drive");
	answer = query_drive(&drive, 0);
	assert(answer.known == KNOWN_NO_KERNEL && answer.pending == 4);
	is_removed = true;
	answer = query_drive(&drive, SECOND_NS);
	assert(answer.known == BLK_EXPECT_GONE && !answer.state && drive.fd < 0);
	answer = query_drive(&drive, 3 * SECOND_NS);
	assert(answer.known == BLK_EXPECT_GONE);
	is_removed = false;
	answer = query_drive(&drive, 5 * SECOND_NS);
	assert(answer.known == KNOWN_NO_KERNEL && answer.state & STATE_PENDING_KNOWN);
	/* without I/O accounting, a count of 0 says nothing */
	has_no_counts = true;
	drive_open(&drive, "/dev/drive");
	assert(!(query_drive(&drive, 5 * SECOND_NS).state & STATE_PENDING_KNOWN));
}

TEST(module_is_queried_if_the_driver_does_not_know_the_ioctl)
{
	static const int errors[] = {ENOTTY, EINVAL};
	struct drive drive;

	has_module = true;
	drive_open(&drive, "/dev/drive");
	for (unsigned int k = 0; k < 2; k++) {
		struct answer answer;

		drives_error = errors[k];
		answer = query_drive(&drive, 0);
		assert(answer.known == BLK_EXPECT_LATENCY && answer.latency_us == 90);
	}
	drives_error = EBADF;
	assert(query_drive(&drive, 0).known == KNOWN_NO_KERNEL);
}
