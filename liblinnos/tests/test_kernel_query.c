// SPDX-License-Identifier: MIT
/* linnos_kernel_best_drives() on kernels without the patch: which device is queried, and the errors
 * if none supports the query. */
#include "kernel_query.h"
#include "test.h"

#include <errno.h>
#include <linux/blk-linnos.h>
#include <stdarg.h>
#include <sys/stat.h>

enum { DRIVE = 1000, MODULE };

static bool has_module;
static int drives_error;
/* The answers of the drives if drives_error is 0. */
static struct blk_expect_drive answers[2];

int __wrap_open(const char *path, int flags, ...);
int __wrap_ioctl(int fd, unsigned long command, ...);
int __wrap_fstat(int fd, struct stat *s);

int __wrap_open(const char *path, int flags, ...)
{
	(void)flags;
	if (!strcmp(path, "/dev/linnos") && has_module)
		return MODULE;
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
		query->best = 1;
		return 0;
	}
	if (!drives_error) {
		for (unsigned int k = 0; k < query->n_drives; k++) {
			query->drives[k].known = answers[k].known;
			query->drives[k].flags = answers[k].flags;
			query->drives[k].latency_us = answers[k].latency_us;
		}
		return 0;
	}
	errno = drives_error;
	return -1;
}

int __wrap_fstat(int fd, struct stat *s)
{
	(void)fd;
	*s = (struct stat){.st_mode = S_IFBLK};
	return 0;
}

/* The module's device is opened only once, so this test comes first. */
TEST(kernel_query_returns_enotty_when_unsupported)
{
	static const int fds[] = {DRIVE};

	drives_error = ENOTTY;
	assert(linnos_kernel_best_drives(1, fds, 4096, NULL) == -ENOTTY);
	/* as some SCSI hosts do */
	drives_error = EINVAL;
	assert(linnos_kernel_best_drives(1, fds, 4096, NULL) == -ENOTTY);
	drives_error = EBADF;
	assert(linnos_kernel_best_drives(1, fds, 4096, NULL) == -EBADF);
	assert(linnos_kernel_best_drives(1, fds, 0, NULL) == -EINVAL);
	assert(linnos_kernel_best_drives(0, fds, 4096, NULL) == -EINVAL);
	assert(linnos_kernel_best_drives(17, fds, 4096, NULL) == -EINVAL);
}

TEST(kernel_query_falls_back_to_the_module)
{
	static const int fds[] = {DRIVE};

	has_module = true;
	drives_error = ENOTTY;
	assert(linnos_kernel_best_drives(1, fds, 4096, NULL) == 1);
	drives_error = EINVAL;
	assert(linnos_kernel_best_drives(1, fds, 4096, NULL) == 1);
}

TEST(prediction_reports_gone_drives_and_probes_when_no_drive_has_a_latency)
{
	static struct replica_set set = {.n = 2};
	struct external_predictions external;

	drives_error = 0;
	answers[0].known = BLK_EXPECT_GONE;
	answers[1].known = BLK_EXPECT_FAST_OR_SLOW;
	assert(kernel_predict(&set, 0, 4096, &external));
	assert(external.last == 1 && !external.known && !external.probe);

	answers[0].known = BLK_EXPECT_FAST_OR_SLOW;
	answers[1].flags = BLK_EXPECT_PROBE;
	assert(kernel_predict(&set, 0, 4096, &external));
	assert(external.probe == 2 && !external.known && !external.last);

	answers[1].flags = 0;
	assert(!kernel_predict(&set, 0, 4096, &external));

	answers[1].known = BLK_EXPECT_LATENCY;
	answers[1].latency_us = 70;
	assert(kernel_predict(&set, 0, 4096, &external));
	assert(external.known == 2 && external.us[1] == 70);
}
