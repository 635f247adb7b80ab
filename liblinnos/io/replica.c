// SPDX-License-Identifier: MIT
/* Open, measure and check replicas: see replica.h. */
#include "replica.h"
#include "bounce.h"
#include "messages.h"
#include "same_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The largest alignment that any file system requires, used if the kernel does not report one. */
#define FILE_ALIGN_BYTES 4096u

uint64_t replica_set_clock_ns(const struct replica_set *set)
{
	struct timespec t;

	if (set->backend.now_ns)
		return set->backend.now_ns(set->backend.context);
	if (set->hooks.clock_ns)
		return set->hooks.clock_ns(set->hooks.context);
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t replica_set_size_now(const struct replica_set *set)
{
	uint64_t largest = 0;

	for (unsigned int k = 0; k < set->n; k++) {
		uint64_t bytes = set->replicas[k].size_bytes;
		struct stat st;

		if (set->is_files && !fstat(set->replicas[k].fd, &st) && S_ISREG(st.st_mode))
			bytes = st.st_size;
		if (bytes > largest)
			largest = bytes;
	}
	return largest;
}

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

void replica_direct_alignment(int fd, uint32_t *align_bytes, uint32_t *memory_align_bytes)
{
	int logical_bytes;
/* Since Linux 6.1; the headers may be older. */
#ifdef STATX_DIOALIGN
	struct statx st;

	/* The kernel reports zeros if O_DIRECT is not supported. */
	if (!syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) &&
	    st.stx_mask & STATX_DIOALIGN && is_power_of_two(st.stx_dio_offset_align) &&
	    is_power_of_two(st.stx_dio_mem_align)) {
		*align_bytes = st.stx_dio_offset_align;
		*memory_align_bytes = st.stx_dio_mem_align;
		return;
	}
#endif
	*align_bytes = *memory_align_bytes = FILE_ALIGN_BYTES;
	if (ioctl(fd, BLKSSZGET, &logical_bytes) || !is_power_of_two(logical_bytes))
		return;
	*align_bytes = logical_bytes;
	if (*memory_align_bytes > *align_bytes)
		*memory_align_bytes = *align_bytes;
}

static struct replica *add(struct replica_set *set, const char *name, const char *kind, int number)
{
	struct replica *r = &set->replicas[set->n++];
	char numbered[32];

	snprintf(numbered, sizeof(numbered), "%s %d", kind, number);
	*r = (struct replica){
		.name = strdup(name ? name : numbered),
		.fd = -1,
		.align_bytes = 1,
		.memory_align_bytes = 1,
	};
	return r->name ? r : NULL;
}

static int set_size(struct replica_set *set, struct replica *r, uint64_t bytes)
{
	r->size_bytes = bytes;
	if (bytes > set->size_bytes)
		set->size_bytes = bytes;
	return 0;
}

static int open_path(struct replica *r, const char *path, uint32_t flags, bool may_be_absent)
{
	const int plain = O_RDONLY | O_CLOEXEC;

	r->fd = open(path, flags & LINNOS_BUFFERED ? plain : plain | O_DIRECT);
	/* The file system does not support O_DIRECT. */
	if (r->fd < 0 && errno == EINVAL)
		r->fd = open(path, plain);
	r->is_ours = r->fd >= 0;
	if (r->is_ours)
		return 0;
	return format_error(
		-errno, "replica %s: %s%s", path, strerror(errno),
		errno == EACCES ? "; only root and members of the group disk can read drives"
		: errno == ENOENT && may_be_absent ? "; to open the array without this replica, "
						     "pass NULL (None in Python, Rust)"
						   : "");
}

static int measure(struct replica_set *set, struct replica *r)
{
	int flags = fcntl(r->fd, F_GETFL);
	uint64_t bytes;
	struct stat st;

	if (flags < 0 || fstat(r->fd, &st))
		return format_error(-errno, "replica %s: %s", r->name, strerror(errno));
	if ((flags & O_ACCMODE) == O_WRONLY)
		return format_error(-EBADF, "replica %s: not open for reading", r->name);
	if (S_ISREG(st.st_mode))
		bytes = st.st_size;
	else if (!S_ISBLK(st.st_mode))
		return format_error(
			-EINVAL, "replica %s: neither a block device nor a regular file", r->name);
	else if (ioctl(r->fd, BLKGETSIZE64, &bytes))
		return format_error(-errno, "replica %s: cannot get its size: %s", r->name,
				    strerror(errno));
	if (flags & O_DIRECT)
		replica_direct_alignment(r->fd, &r->align_bytes, &r->memory_align_bytes);
	/* No current drive requires more. All reads of such a drive would fail. */
	if (r->memory_align_bytes > BOUNCE_ALIGN)
		return format_error(-EINVAL,
				    "replica %s: O_DIRECT requires memory that is aligned to %u "
				    "bytes; at most %u are supported, so set LINNOS_BUFFERED",
				    r->name, r->memory_align_bytes, BOUNCE_ALIGN);
	return set_size(set, r, bytes);
}

int replica_add_file(struct replica_set *set, const char *path, int fd, uint32_t flags,
		     bool may_be_absent)
{
	struct replica *r = add(set, path, "descriptor", fd);
	int error = r ? 0 : error_memory();

	if (error)
		return error;
	r->fd = fd;
	if (path)
		error = open_path(r, path, flags, may_be_absent);
	return error || r->fd == -1 ? error : measure(set, r);
}

int replica_add(struct replica_set *set, const struct linnos_replica *replica)
{
	struct replica *r = add(set, replica->name, "replica", (int)set->n);

	if (!r)
		return error_memory();
	if (replica->align_bytes)
		r->align_bytes = replica->align_bytes;
	if (replica->memory_align_bytes)
		r->memory_align_bytes = replica->memory_align_bytes;
	if (!is_power_of_two(r->align_bytes) || !is_power_of_two(r->memory_align_bytes) ||
	    r->memory_align_bytes > BOUNCE_ALIGN)
		return format_error(-EINVAL,
				    "%s: align_bytes is %u and memory_align_bytes is %u; both must "
				    "be powers of two, and the second at most %u",
				    r->name, r->align_bytes, r->memory_align_bytes, BOUNCE_ALIGN);
	return set_size(set, r, replica->bytes);
}

int replica_set_check_files(struct replica_set *set)
{
	struct stat stats[CHOOSER_DRIVES_MAX];

	for (unsigned int k = 0; k < set->n; k++) {
		const struct replica *r = &set->replicas[k];

		if (r->fd == -1) {
			set->missing |= 1u << k;
			continue;
		}
		if (fstat(r->fd, &stats[k]))
			return format_error(-errno, "replica %s: %s", r->name, strerror(errno));
		for (unsigned int i = 0; i < k; i++)
			if (!(set->missing & 1u << i) && is_same_file(&stats[i], &stats[k]))
				return format_error(
					-EINVAL,
					"replica %s: the same file or device as replica %s; each "
					"replica must be a file or device of its own",
					r->name, set->replicas[i].name);
		if (!r->size_bytes && set->size_bytes)
			return format_error(
				-EINVAL,
				"replica %s: it is empty, but another replica holds %llu bytes; "
				"copy them there, or open the array without this replica",
				r->name, (unsigned long long)set->size_bytes);
	}
	if (set->missing == (1u << set->n) - 1)
		return format_error(-EINVAL,
				    "all %u replicas are absent; at least one must be present",
				    set->n);
	return 0;
}

void replica_set_close(struct replica_set *set)
{
	for (unsigned int k = 0; k < set->n; k++) {
		if (set->replicas[k].is_ours)
			close(set->replicas[k].fd);
		free(set->replicas[k].name);
	}
}
