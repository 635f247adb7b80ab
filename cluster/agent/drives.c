// SPDX-License-Identifier: MIT
/*
 * A kernel with LinnOS is queried through the drive's own descriptor. If linnos.ko observes the
 * drive, it is queried through /dev/linnos. The agent reads no data from a drive, and opens it only
 * because the kernel requires an open descriptor as a permission to query.
 */
#include "drives.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blk-linnos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

_Static_assert(QUERY_ONLY == BLK_EXPECT_QUERY_ONLY && QUERY_HAS_PAGE == BLK_EXPECT_HAS_PAGE,
	       "the flags of a datagram must be those of the kernel");

#define RETRY_NS UINT64_C(1000000000)

union expect {
	struct blk_expect query;
	char room[BLK_EXPECT_BYTES(1)];
};

static int module_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/linnos", O_RDONLY | O_CLOEXEC);
	return fd;
}

/* Open a sysfs file of the drive. */
static int open_attribute(const struct drive *drive, const char *what)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(drive->number),
		 minor(drive->number), what);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Return @otherwise if the file cannot be read. */
static unsigned long read_number(const struct drive *drive, const char *what,
				 unsigned long otherwise)
{
	int fd = open_attribute(drive, what);
	char text[32];
	ssize_t bytes = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (fd >= 0)
		close(fd);
	if (bytes <= 0)
		return otherwise;
	text[bytes] = 0;
	return strtoul(text, NULL, 10);
}

/*
 * Open LinnOS' file with the pages in flight, which only root may read. Otherwise open the file
 * with the requests in flight that each block device has.
 */
static void open_pending(struct drive *drive)
{
	char path[128], disk[64], link[256];
	ssize_t bytes;

	if (drive->pending_fd >= 0)
		close(drive->pending_fd);
	drive->pending_fd = -1;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(drive->number),
		 minor(drive->number));
	bytes = readlink(path, link, sizeof(link) - 1);
	link[bytes < 0 ? 0 : bytes] = 0;
	snprintf(disk, sizeof(disk), "%.60s", strrchr(link, '/') ? strrchr(link, '/') + 1 : "");
	drive->pending_is_pages = drive->pending_is_counted = true;
	snprintf(path, sizeof(path), "/sys/kernel/debug/block/%.60s/rqos/linnos/in_flight", disk);
	drive->pending_fd = *disk ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (drive->pending_fd < 0) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/linnos/%.60s/in_flight", disk);
		drive->pending_fd = *disk ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	}
	if (drive->pending_fd >= 0)
		return;
	drive->pending_is_pages = false;
	drive->pending_is_counted = read_number(drive, "queue/iostats", 1);
	drive->pending_fd = open_attribute(drive, "inflight");
}

static void close_both(struct drive *drive)
{
	if (drive->fd >= 0)
		close(drive->fd);
	if (drive->pending_fd >= 0)
		close(drive->pending_fd);
	drive->fd = drive->pending_fd = -1;
}

void drive_open(struct drive *drive, const char *path)
{
	struct stat s;

	*drive = (struct drive){.path = path, .fd = -1, .pending_fd = -1};
	drive->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (drive->fd < 0)
		return;
	if (fstat(drive->fd, &s) || !S_ISBLK(s.st_mode)) {
		close_both(drive);
		errno = ENOTBLK;
		return;
	}
	drive->number = s.st_rdev;
	open_pending(drive);
}

/* Read the number of I/Os in flight. Return false if the drive no longer exists. */
static bool read_pending(const struct drive *drive, struct answer *answer)
{
	char text[64], *second;
	ssize_t bytes;

	if (drive->pending_fd < 0)
		return true;
	bytes = pread(drive->pending_fd, text, sizeof(text) - 1, 0);
	if (bytes <= 0)
		return bytes == 0 || errno != ENODEV;
	text[bytes] = 0;
	/* The format is "N pages, M reads" with LinnOS, otherwise "READS WRITES". */
	answer->pending = strtoul(text, &second, 10);
	if (drive->pending_is_counted)
		answer->state |= STATE_PENDING_KNOWN;
	if (drive->pending_is_pages)
		answer->state |= STATE_PENDING_PAGES;
	else
		answer->pending += strtoul(second, NULL, 10);
	return true;
}

/* A driver that does not know the ioctl returns ENOTTY, but some SCSI hosts return EINVAL. */
static bool query_kernel(const struct drive *drive, union expect *e)
{
	if (!ioctl(drive->fd, BLKEXPECT, &e->query))
		return true;
	return (errno == ENOTTY || errno == EINVAL) && module_fd() >= 0 &&
	       !ioctl(module_fd(), BLKEXPECT, &e->query);
}

void drive_query(struct drive *drive, const struct query *query, uint64_t now_ns,
		 struct answer *answer)
{
	union expect e = {.query = {
				  .flags = query->flags,
				  .n_drives = 1,
				  .bytes = query->bytes,
			  }};

	if (drive->fd < 0 && now_ns >= drive->retry_ns) {
		drive_open(drive, drive->path);
		drive->retry_ns = now_ns + RETRY_NS;
	}
	if (drive->fd < 0) {
		answer->known = BLK_EXPECT_GONE;
		return;
	}
	e.query.drives[0] = (struct blk_expect_drive){.fd = drive->fd, .page = query->page};
	if (query_kernel(drive, &e)) {
		answer->known = e.query.drives[0].known;
		answer->state = e.query.drives[0].flags;
		answer->latency_us = e.query.drives[0].latency_us;
	} else {
		answer->known = KNOWN_NO_KERNEL;
	}
	if (answer->known == BLK_EXPECT_GONE) {
		close_both(drive);
		return;
	}
	/* LinnOS' file exists only while LinnOS is enabled. */
	if (answer->known != drive->known)
		open_pending(drive);
	drive->known = answer->known;
	if (read_pending(drive, answer))
		return;
	/* A kernel without LinnOS does not report that a drive is gone, but reading its sysfs file
	 * fails. */
	close_both(drive);
	answer->known = BLK_EXPECT_GONE;
	answer->state = 0;
	answer->latency_us = 0;
}
