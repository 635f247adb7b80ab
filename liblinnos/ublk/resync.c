// SPDX-License-Identifier: MIT
/* Make the replicas equal before the mirror is served: see resync.h. */
#include "resync.h"
#include "program/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_ALIGNMENT 4096u	  /* for O_DIRECT */
#define COMPARED_BYTES (1u << 20) /* at a time */

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

	if (posix_memalign((void **)&buffer, BUFFER_ALIGNMENT, COMPARED_BYTES))
		die("out of memory");
	return buffer;
}

static void read_to_compare(const struct replica *r, char *buf, size_t bytes, uint64_t offset)
{
	int error = transfer(r, buf, bytes, offset, false);

	if (error)
		die("--compare: cannot read %zu bytes at %llu of %s: %s", bytes,
		    (unsigned long long)offset, r->path, strerror(-error));
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
			    "use --resync; otherwise copy the correct replica over the other one, "
			    "for example with dd if=CORRECT of=OTHER bs=1M oflag=direct",
			    replicas[0].path, replicas[k].path, (unsigned long long)(at + i));
		}
	}
	free(first);
	free(other);
}

static void report_dropped(const struct replica *r, unsigned int left, char why[WHY_BYTES],
			   const char *what, int error)
{
	snprintf(why, WHY_BYTES, "%s: %s", what, strerror(-error));
	warn("%s DROPPED: %s; it is out of date until --resync has copied the missing data to it; "
	     "%d replicas left",
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
		die("resync: cannot read %zu bytes at %llu of %s: %s; no other replica holds the "
		    "current data",
		    bytes, (unsigned long long)at, replicas[source].path, strerror(-error));
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
		report_dropped(&replicas[k], opened, why[k], "write during the resync", error);
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
		warn("resync of %llu bytes: read %llu MiB that could differ, and copied %llu MiB",
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
			die("cannot flush %s: %s; no other replica is left", replicas[k].path,
			    strerror(errno));
		report_dropped(&replicas[k], left, why[k], "flush", -errno);
		opened = left;
	}
	return opened;
}
