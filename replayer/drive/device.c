// SPDX-License-Identifier: MIT
/* Drives of the array: see device.h. */
#include "device.h"
#include "error.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* A multiple of every drive's block size. */
#define ALIGNED_BYTES 65536u

#define BUSY_TRIES 20
#define BUSY_PAUSE_US 50000

/*
 * Return the kernel's name of the disk with this device number; for a partition, that of its disk.
 */
static char *disk_name(dev_t dev)
{
	char name[NAME_MAX];

	if (blkid_devno_to_wholedisk(dev, name, sizeof(name), NULL))
		return NULL;
	/* In /dev the name may be a path, such as cciss/c0d0; in /sys it has no slashes. */
	for (char *slash = name; (slash = strchr(slash, '/'));)
		*slash = '!';
	return xstrdup(name);
}

void device_open(struct device *d, const char *path, bool readonly)
{
	struct stat st;
	int flags = (readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_DIRECT;

	memset(d, 0, sizeof(*d));
	d->path = xstrdup(path);
	if (stat(path, &st))
		die("drive %s: %s", path, strerror(errno));
	/* Reading is harmless, so a mounted drive may be read. */
	if (S_ISBLK(st.st_mode) && !readonly)
		flags |= O_EXCL;
	d->direct = true;
	/*
	 * A program that has just ended may hold the drive a little longer, because io_uring closes
	 * it late.
	 */
	for (unsigned int i = 0; i < BUSY_TRIES; i++) {
		d->fd = open(path, flags);
		if (d->fd >= 0 || errno != EBUSY)
			break;
		usleep(BUSY_PAUSE_US);
	}
	if (d->fd < 0 && errno == EINVAL && S_ISREG(st.st_mode)) {
		d->direct = false;
		d->fd = open(path, flags & ~O_DIRECT);
	}
	if (d->fd < 0 && errno == EBUSY)
		die("drive %s: in use: it or a part of it is mounted, a member of RAID or LVM, "
		    "swap, or held by another program; a replay would overwrite it. --readonly "
		    "only reads it",
		    path);
	if (d->fd < 0)
		die("drive %s: %s", path, strerror(errno));
	if (S_ISREG(st.st_mode)) {
		d->size_bytes = st.st_size;
	} else {
		if (ioctl(d->fd, BLKGETSIZE64, &d->size_bytes))
			die("drive %s: its size cannot be read: %s", path, strerror(errno));
		d->disk = disk_name(st.st_rdev);
	}
	if (d->size_bytes < 4096)
		die("drive %s: holds less than one 4 KiB block", path);
}

bool first_line(char *text, size_t size, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	FILE *f;
	bool ok;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	f = fopen(path, "re");
	ok = f && fgets(text, size, f);
	if (f)
		fclose(f);
	if (ok)
		text[strcspn(text, "\n")] = 0;
	return ok;
}

static bool read_linnos(const struct device *d, const char *file, char *text, size_t size)
{
	return d->disk && first_line(text, size, "/sys/block/%s/linnos/%s", d->disk, file);
}

static bool read_counter(const struct device *d, const char *file, uint64_t *value)
{
	char text[64], *end;

	if (!read_linnos(d, file, text, sizeof(text)))
		return false;
	*value = strtoull(text, &end, 10);
	return end != text;
}

bool device_threshold_us(const struct device *d, uint64_t *threshold_us)
{
	return read_counter(d, "threshold_us", threshold_us) && *threshold_us;
}

uint64_t device_require_threshold_us(const struct device *d, const char *policy, const char *option)
{
	uint64_t us;

	if (!device_threshold_us(d, &us))
		die("policy %s: drive %s has no inflection point (no model uploaded?); upload "
		    "one with `linnapp upload`, or give the time with %s",
		    policy, d->path, option);
	return us;
}

void device_linnos_stats(const struct device *d, struct linnos_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->present = read_counter(d, "stats/latency_critical", &stats->latency_critical) &&
			 read_counter(d, "stats/false_submits", &stats->false_submits);
}

/*
 * Return true if the kernel supports the hint on this drive. A read past the end transfers nothing,
 * and the kernel checks its flags nevertheless.
 */
static bool takes_hints(const struct device *d)
{
	uint64_t end = (d->size_bytes + ALIGNED_BYTES - 1) & ~(uint64_t)(ALIGNED_BYTES - 1);
	struct iovec iov = {.iov_len = ALIGNED_BYTES};
	ssize_t n;
	int error;

	if (posix_memalign(&iov.iov_base, ALIGNED_BYTES, ALIGNED_BYTES))
		return false;
	n = preadv2(d->fd, &iov, 1, (off_t)end, RWF_LATCRIT);
	error = errno;
	free(iov.iov_base);
	return n >= 0 || error == EBUSY;
}

void device_require_linnos(const struct device *d, char mode[16], char model_id[16])
{
	if (!takes_hints(d))
		die("drive %s: this kernel lacks the LinnOS patch, or has no LinnOS policy for it "
		    "(a read with RWF_LATCRIT is not supported). Run inside the lab (`linnapp lab "
		    "run -- replayer ...`) or on a kernel built by `make kernel`; the policies "
		    "without \"linnos\" in their name run on any kernel",
		    d->path);
	if (!read_linnos(d, "mode", mode, 16) || !read_linnos(d, "model_id", model_id, 16))
		die("drive %s: the kernel offers no LinnOS policy for it (no "
		    "/sys/block/%s/linnos); only whole disks with a kernel built with "
		    "CONFIG_BLK_LINNOS have one",
		    d->path, d->disk ? d->disk : "?");
	/*
	 * Kernel files with several choices mark the active one with brackets; a plain word is
	 * accepted as well.
	 */
	if (strchr(mode, '[')) {
		char *from = strchr(mode, '[') + 1;

		memmove(mode, from, strlen(from) + 1);
		mode[strcspn(mode, "]")] = 0;
	}
	if (!strcmp(model_id, "none"))
		die("drive %s: no model is uploaded; run `linnapp upload --model M --device %s "
		    "--mode enforce`",
		    d->path, d->path);
	if (!strcmp(mode, "off"))
		die("drive %s: linnos mode is off; run `linnapp upload --model M --device %s "
		    "--mode enforce`, or write enforce to /sys/block/%s/linnos/mode",
		    d->path, d->path, d->disk);
	if (strcmp(mode, "enforce"))
		warn_user("drive %s: linnos mode is %s, so no read will be revoked", d->path, mode);
}
