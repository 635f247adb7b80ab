// SPDX-License-Identifier: MIT
/* The drives and files of the mirror: see replicas.h. */
#include "replicas.h"
#include "program/program.h"
#include "same_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define BLOCK_BYTES 4096u

/* Read an attribute of a device's queue; 0 if the kernel does not have it. A partition has no queue
 * of its own; that of its drive is one folder up. */
static unsigned long long queue_attribute(dev_t device, const char *name)
{
	static const char *const folders[] = {"", "../"};
	unsigned long long value = 0;
	char path[128];

	for (unsigned int i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		FILE *file;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%squeue/%s", major(device),
			 minor(device), folders[i], name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%llu", &value) != 1)
			value = 0;
		fclose(file);
		break;
	}
	return value;
}

static void read_drive_properties(struct replica *r)
{
	int logical_bytes;

	if (ioctl(r->fd, BLKGETSIZE64, &r->bytes) || ioctl(r->fd, BLKSSZGET, &logical_bytes) ||
	    ioctl(r->fd, BLKPBSZGET, &r->physical_bytes))
		die("cannot read the size of %s: %s", r->path, strerror(errno));
	r->logical_bytes = logical_bytes;
	r->can_zero = queue_attribute(r->device, "write_zeroes_max_bytes");
}

static void read_file_properties(struct replica *r, const struct stat *st)
{
	r->bytes = st->st_size;
	/* The largest alignment that O_DIRECT requires on any file system. */
	r->logical_bytes = r->physical_bytes = BLOCK_BYTES;
	/* Punch a hole beyond the end of the file to find out whether this is supported. */
	r->can_zero =
		!fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   (st->st_size + BLOCK_BYTES) & ~(off_t)(BLOCK_BYTES - 1), BLOCK_BYTES);
}

static const char *remedy(int error)
{
	switch (error) {
	case EBUSY:
		return "; it is in use by a mounted file system, md, LVM or another linnos-ublk";
	case EACCES:
	case EPERM:
		return "; run as root";
	case EROFS:
		return "; a mirror must be writable";
	default:
		return "";
	}
}

/* Open a replica that no other process uses. Wait up to @patience times for a killed server, which
 * releases it after its last I/O. */
static int open_alone(const char *path, int flags, bool is_block, unsigned int patience)
{
	for (;; patience--) {
		int fd = open(path, flags);

		/* Lock a file as O_EXCL locks a drive. */
		if (fd >= 0 && !is_block && flock(fd, LOCK_EX | LOCK_NB)) {
			close(fd);
			errno = errno == EWOULDBLOCK ? EBUSY : errno;
			fd = -1;
		}
		if (fd >= 0 || errno != EBUSY || !patience)
			return fd;
		wait_a_little();
	}
}

static void open_one(struct replica *r, unsigned int patience)
{
	int flags = O_RDWR | O_CLOEXEC | O_DIRECT;
	const char *path = r->path;
	struct stat st;

	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	r->is_block = S_ISBLK(st.st_mode);
	if (!r->is_block && !S_ISREG(st.st_mode))
		die("%s must be a block device or a regular file", path);
	r->device = st.st_rdev;
	if (r->is_block)
		flags |= O_EXCL;
	r->fd = open_alone(path, flags, r->is_block, patience);
	/* The file system does not support O_DIRECT. */
	if (r->fd < 0 && errno == EINVAL && !r->is_block)
		r->fd = open_alone(path, flags & ~O_DIRECT, r->is_block, patience);
	if (r->fd < 0 && errno == EBUSY && !r->is_block)
		die("%s is locked by another linnos-ublk or another program", path);
	if (r->fd < 0)
		die("%s: %s%s", path, strerror(errno), remedy(errno));
	if (r->is_block)
		read_drive_properties(r);
	else
		read_file_properties(r, &st);
}

/* Reject a drive that is given twice, because opening it again would fail with only EBUSY. */
static void reject_duplicates(const struct options *o)
{
	for (unsigned int k = 1; k < o->n; k++)
		for (unsigned int i = 0; i < k; i++) {
			struct stat a, b;

			if (!stat(o->paths[i], &a) && !stat(o->paths[k], &b) &&
			    is_same_file(&a, &b))
				die("%s and %s are the same drive; each replica must be a "
				    "different one",
				    o->paths[i], o->paths[k]);
		}
}

static void fit_size(const struct replica *replicas, struct geometry *g, const struct options *o,
		     uint32_t in)
{
	const struct replica *smallest = &replicas[__builtin_ctz(in)], *largest = smallest;

	for (unsigned int k = 0; k < o->n; k++) {
		if (!(in & 1u << k))
			continue;
		if (replicas[k].bytes < smallest->bytes)
			smallest = &replicas[k];
		if (replicas[k].bytes > largest->bytes)
			largest = &replicas[k];
	}
	g->bytes = o->bytes ? o->bytes : smallest->bytes;
	if (g->bytes > smallest->bytes)
		die("%s has %llu bytes, fewer than --size %llu", smallest->path,
		    (unsigned long long)smallest->bytes, (unsigned long long)g->bytes);
	if (!o->bytes && smallest->bytes != largest->bytes)
		die("%s has %llu bytes and %s has %llu; --size %llu uses this much of each",
		    smallest->path, (unsigned long long)smallest->bytes, largest->path,
		    (unsigned long long)largest->bytes, (unsigned long long)smallest->bytes);
	g->bytes -= g->bytes % g->logical_bytes;
	if (!g->bytes)
		die("%s has %llu bytes; a mirror needs at least one block of %u", smallest->path,
		    (unsigned long long)smallest->bytes, g->logical_bytes);
}

void replicas_open(struct replica *replicas, struct geometry *g, const struct options *o,
		   uint32_t in, bool is_ending)
{
	*g = (struct geometry){.can_zero = true};
	reject_duplicates(o);
	for (unsigned int k = 0; k < o->n; k++) {
		struct replica *r = &replicas[k];

		r->path = o->paths[k];
		if (!(in & 1u << k))
			continue;
		open_one(r, is_ending ? END_WAITS : 0);
		if (r->logical_bytes > g->logical_bytes)
			g->logical_bytes = r->logical_bytes;
		if (r->physical_bytes > g->physical_bytes)
			g->physical_bytes = r->physical_bytes;
		g->can_zero = g->can_zero && r->can_zero;
	}
	if (g->logical_bytes > BLOCK_BYTES)
		die("the replicas have blocks of %u bytes; ublk supports at most %u",
		    g->logical_bytes, BLOCK_BYTES);
	fit_size(replicas, g, o, in);
}
