// SPDX-License-Identifier: MIT
/* The drives and files of the mirror: see replicas.h. */
#include "replicas.h"
#include "die.h"
#include "state.h"

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
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 4096u
#define COMPARED_BYTES (1u << 20) /* at a time */
#define WAIT_MS 10

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

static void look_at_drive(struct replica *r)
{
	int logical_bytes;

	if (ioctl(r->fd, BLKGETSIZE64, &r->bytes) || ioctl(r->fd, BLKSSZGET, &logical_bytes) ||
	    ioctl(r->fd, BLKPBSZGET, &r->physical_bytes))
		die("%s: its size cannot be had: %s", r->path, strerror(errno));
	r->logical_bytes = logical_bytes;
	r->can_zero = queue_attribute(r->device, "write_zeroes_max_bytes");
}

static void look_at_file(struct replica *r, const struct stat *st)
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
		return "; something else has it: a mounted file system, md, LVM, or another "
		       "linnos-ublk";
	case EACCES:
	case EPERM:
		return "; run as root";
	case EROFS:
		return "; a mirror is written to";
	default:
		return "";
	}
}

void wait_a_little(void)
{
	struct timespec pause = {.tv_nsec = WAIT_MS * 1000000};

	nanosleep(&pause, NULL);
}

/* Wait for another owner to release it: a killed server does after its last I/O. */
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

static void open_one(struct replica *r, const char *path, unsigned int patience)
{
	int flags = O_RDWR | O_CLOEXEC | O_DIRECT;
	struct stat st;

	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	r->is_block = S_ISBLK(st.st_mode);
	if (!r->is_block && !S_ISREG(st.st_mode))
		die("%s: neither a block device nor a regular file", path);
	r->device = st.st_rdev;
	if (r->is_block)
		flags |= O_EXCL;
	r->fd = open_alone(path, flags, r->is_block, patience);
	/* The file system does not support O_DIRECT. */
	if (r->fd < 0 && errno == EINVAL && !r->is_block)
		r->fd = open_alone(path, flags & ~O_DIRECT, r->is_block, patience);
	if (r->fd < 0 && errno == EBUSY && !r->is_block)
		die("%s: another linnos-ublk, or another program with a lock, has it", path);
	if (r->fd < 0)
		die("%s: %s%s", path, strerror(errno), remedy(errno));
	if (r->is_block)
		look_at_drive(r);
	else
		look_at_file(r, &st);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) || S_ISBLK(b->st_mode))
		return S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Check before opening, when the second of two would be reported as busy. */
static void reject_duplicates(const struct options *o)
{
	for (unsigned int k = 1; k < o->n; k++)
		for (unsigned int i = 0; i < k; i++) {
			struct stat a, b;

			if (!stat(o->paths[i], &a) && !stat(o->paths[k], &b) && is_same(&a, &b))
				die("%s and %s are the same; each replica needs a drive of its own",
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
		die("%s: %llu bytes, too small for --size %llu", smallest->path,
		    (unsigned long long)smallest->bytes, (unsigned long long)g->bytes);
	if (!o->bytes && smallest->bytes != largest->bytes)
		die("%s has %llu bytes, %s %llu; replicas hold the same: --size %llu uses so much "
		    "of each",
		    smallest->path, (unsigned long long)smallest->bytes, largest->path,
		    (unsigned long long)largest->bytes, (unsigned long long)smallest->bytes);
	g->bytes -= g->bytes % g->logical_bytes;
	if (!g->bytes)
		die("%s: %llu bytes; a mirror has at least one block of %u", smallest->path,
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
		open_one(r, r->path, is_ending ? END_WAITS : 0);
		if (r->logical_bytes > g->logical_bytes)
			g->logical_bytes = r->logical_bytes;
		if (r->physical_bytes > g->physical_bytes)
			g->physical_bytes = r->physical_bytes;
		g->can_zero = g->can_zero && r->can_zero;
	}
	if (g->logical_bytes > BLOCK_BYTES)
		die("blocks of %u bytes; ublk has at most %u", g->logical_bytes, BLOCK_BYTES);
	fit_size(replicas, g, o, in);
}

/* Read or write a whole range. Return 0 or a negative errno. */
static int transfer(const struct replica *r, char *buf, size_t bytes, uint64_t offset, bool writes)
{
	for (size_t done = 0; done < bytes;) {
		const off_t at = (off_t)(offset + done);
		ssize_t n = writes ? pwrite(r->fd, buf + done, bytes - done, at)
				   : pread(r->fd, buf + done, bytes - done, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENODATA;
		done += n;
	}
	return 0;
}

static char *allocate_buffer(void)
{
	char *buffer;

	if (posix_memalign((void **)&buffer, BLOCK_BYTES, COMPARED_BYTES))
		die("out of memory");
	return buffer;
}

static void read_to_compare(const struct replica *r, char *buf, size_t bytes, uint64_t offset)
{
	int error = transfer(r, buf, bytes, offset, false);

	if (error)
		die("--compare: read of %s, %zu bytes at %llu: %s", r->path, bytes,
		    (unsigned long long)offset, strerror(-error));
}

void replicas_compare(const struct replica *replicas, unsigned int n, uint64_t bytes)
{
	char *first = allocate_buffer(), *other = allocate_buffer();

	for (uint64_t at = 0; at < bytes; at += COMPARED_BYTES) {
		size_t now = bytes - at < COMPARED_BYTES ? bytes - at : COMPARED_BYTES;

		read_to_compare(&replicas[0], first, now, at);
		for (unsigned int k = 1; k < n; k++) {
			size_t i = 0;

			read_to_compare(&replicas[k], other, now, at);
			if (!memcmp(first, other, now))
				continue;
			while (first[i] == other[i])
				i++;
			die("--compare: %s and %s differ at byte %llu; if the mirror has a record, "
			    "--resync repairs it; otherwise copy the one that is right over the "
			    "other, for instance: dd if=RIGHT of=OTHER bs=1M oflag=direct",
			    replicas[0].path, replicas[k].path, (unsigned long long)(at + i));
		}
	}
	free(first);
	free(other);
}

static void lose(const struct replica *r, unsigned int left, char why[WHY_BYTES], const char *what,
		 int error)
{
	snprintf(why, WHY_BYTES, "%s: %s", what, strerror(-error));
	complain("%s DROPPED: %s; it is out of date until --resync has copied to it; %d replicas "
		 "left",
		 r->path, why, __builtin_popcount(left));
}

/* Make one range of a region equal. Return the replicas that are equal there. */
static uint32_t resync_range(const struct replica *replicas, char *buffers[2], size_t bytes,
			     uint64_t at, uint32_t opened, uint32_t current, uint64_t *copied,
			     char why[][WHY_BYTES])
{
	unsigned int source = 0;
	int error = -EIO;

	/* A current replica that cannot be read here is overwritten with another one's data, and
	 * may be readable after that. */
	for (unsigned int k = 0; error && k < REPLICAS_MAX; k++)
		if (current & 1u << k) {
			source = k;
			error = transfer(&replicas[k], buffers[0], bytes, at, false);
		}
	if (error)
		die("resync: read of %s, %zu bytes at %llu: %s; no other replica holds the current "
		    "data",
		    replicas[source].path, bytes, (unsigned long long)at, strerror(-error));
	for (unsigned int k = 0; k < REPLICAS_MAX; k++) {
		if (!(opened & 1u << k) || k == source)
			continue;
		if (!transfer(&replicas[k], buffers[1], bytes, at, false) &&
		    !memcmp(buffers[0], buffers[1], bytes))
			continue;
		*copied += bytes;
		error = transfer(&replicas[k], buffers[0], bytes, at, true);
		if (!error)
			continue;
		opened &= ~(1u << k);
		lose(&replicas[k], opened, why[k], "write while it was resynced", error);
	}
	return opened;
}

uint32_t replicas_resync(const struct replica *replicas, const struct mirror_state *s,
			 uint64_t bytes, uint32_t opened, uint32_t current, char why[][WHY_BYTES])
{
	char *buffers[] = {allocate_buffer(), allocate_buffer()};
	uint64_t copied = 0, n_read = 0, end;

	for (uint64_t at = 0; at < bytes && (end = state_may_differ(s, &at));)
		for (; at < end && at < bytes; at += COMPARED_BYTES) {
			size_t now = bytes - at < COMPARED_BYTES ? bytes - at : COMPARED_BYTES;

			opened = resync_range(replicas, buffers, now, at, opened, current & opened,
					      &copied, why);
			n_read += now;
		}
	if (n_read)
		complain("resync: of %llu bytes, %llu MiB could differ and were read; %llu MiB "
			 "were copied",
			 (unsigned long long)bytes, (unsigned long long)(n_read + 0xfffff) >> 20,
			 (unsigned long long)(copied + 0xfffff) >> 20);
	free(buffers[0]);
	free(buffers[1]);
	return opened;
}

uint32_t replicas_flush(const struct replica *replicas, uint32_t opened, char why[][WHY_BYTES])
{
	for (unsigned int k = 0; k < REPLICAS_MAX; k++) {
		const uint32_t left = opened & ~(1u << k);

		if (!(opened & 1u << k) || !fsync(replicas[k].fd))
			continue;
		if (!left)
			die("flush of %s: %s; no other replica is left", replicas[k].path,
			    strerror(errno));
		lose(&replicas[k], left, why[k], "flush", -errno);
		opened = left;
	}
	return opened;
}
