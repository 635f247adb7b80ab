/* SPDX-License-Identifier: MIT */
/* Fixtures: arrays of files in memory (memfd_create(2)), in which each group of eight bytes depends
 * on its offset. Tests can replace the clock and the results of reads (struct hooks). */
#ifndef LINNOS_MEMFD_ARRAY_H
#define LINNOS_MEMFD_ARRAY_H

#include "messages.h"
#include "queue.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define US 1000ull
#define MS 1000000ull

static bool random_is_fixed = true;

/* Replaces the function of the C library, so that each run makes the same random choices. */
ssize_t getrandom(void *buf, size_t bytes, unsigned int flags)
{
	if (!random_is_fixed)
		return syscall(SYS_getrandom, buf, bytes, flags);
	memset(buf, 0, bytes);
	return (ssize_t)bytes;
}

static inline uint8_t byte_at(uint64_t offset)
{
	uint64_t word = (offset / 8 + 1) * 0x9e3779b97f4a7c15;

	return word >> 8 * (offset % 8);
}

static inline bool is_right(const void *buf, size_t bytes, uint64_t offset)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < bytes; i++)
		if (p[i] != byte_at(offset + i))
			return false;
	return true;
}

static inline int create_replica(size_t bytes)
{
	int fd = memfd_create("replica", MFD_CLOEXEC);
	uint8_t *content = malloc(bytes);

	assert(fd >= 0 && content);
	for (size_t i = 0; i < bytes; i++)
		content[i] = byte_at(i);
	assert(write(fd, content, bytes) == (ssize_t)bytes);
	free(content);
	return fd;
}

/* The defaults, except for the given members. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define OPTIONS(...)                                                                               \
	((struct linnos_options){.size = sizeof(struct linnos_options),                            \
				 .home = LINNOS_DEFAULT_ROUND_ROBIN,                               \
				 .margin_percent = 25,                                             \
				 .probe_after_ms = 20,                                             \
				 .duplicates_burst = 100,                                          \
				 .max_duplicates = LINNOS_MAX_DUPLICATES_DEFAULT,                  \
				 __VA_ARGS__})
#define READ_OPTIONS(...)                                                                          \
	((struct linnos_read_options){.size = sizeof(struct linnos_read_options),                  \
				      .home = LINNOS_DEFAULT_ROUND_ROBIN,                          \
				      __VA_ARGS__})
#define QUEUE_OPTIONS(...)                                                                         \
	((struct linnos_queue_options){.size = sizeof(struct linnos_queue_options), __VA_ARGS__})

/* Return the queue of an array that has one, or the one that was created last. */
static inline struct linnos_queue *only_queue(const struct linnos_array *a)
{
	return queue_of(a->queues);
}

/* Create n replicas of this size, and an array of them that has one queue. */
static inline struct linnos_array *open_memfd_array(unsigned int n, size_t bytes,
						    const struct linnos_options *options)
{
	int error, fds[CHOOSER_DRIVES_MAX];
	struct linnos_queue *queue;
	struct linnos_array *a;

	for (unsigned int k = 0; k < n; k++)
		fds[k] = create_replica(bytes);
	error = linnos_array_open_fds(&a, n, fds, NULL, options);
	if (!error)
		error = linnos_queue_create(&queue, a, NULL);
	if (error)
		fprintf(stderr, "%s\n", linnos_error());
	assert(!error);
	/* Redirect reads as with models that have trees. The predictions remain means, which are
	 * known exactly. */
	a->predictor->common.chooses = (1u << n) - 1;
	return a;
}

static inline uint32_t reads_in_flight(const struct linnos_array *a, unsigned int replica)
{
	struct linnos_load load;

	linnos_load_snapshot(&a->predictor->drives[replica].drive, &load);
	return load.reads;
}

static inline int fd_of(const struct linnos_array *a, unsigned int replica)
{
	return a->set.replicas[replica].fd;
}

/* Let all replicas require this alignment. */
static inline void align_replicas(struct linnos_array *a, uint32_t bytes, uint32_t memory_bytes)
{
	for (unsigned int k = 0; k < a->set.n; k++) {
		a->set.replicas[k].align_bytes = bytes;
		a->set.replicas[k].memory_align_bytes = memory_bytes;
	}
}

static inline void close_fds(unsigned int n, const int *fds)
{
	for (unsigned int k = 0; k < n; k++)
		close(fds[k]);
}

static inline struct linnos_stats stats_of(struct linnos_array *a)
{
	struct linnos_stats stats;

	linnos_array_get_stats(a, &stats, sizeof(stats));
	return stats;
}

/* Wait until no read or copy is in flight in any thread. */
static inline void settle(struct linnos_array *a)
{
	for (unsigned int k = 0; k < a->set.n; k++)
		while (reads_in_flight(a, k) || stats_of(a).in_flight)
			sched_yield();
}

/* Close an array of open_memfd_array() and its replicas. */
static inline void close_memfd_array(struct linnos_array *a)
{
	unsigned int n = a->set.n;
	int fds[CHOOSER_DRIVES_MAX];

	for (unsigned int k = 0; k < n; k++)
		fds[k] = fd_of(a, k);
	assert(linnos_queue_close(only_queue(a)) == 0);
	/* Attempts in files may still be in flight. */
	assert(fds[0] >= 0 || !stats_of(a).in_flight);
	assert(linnos_array_close(a) == 0);
	close_fds(n, fds);
}

static inline struct linnos_replica_stats replica_of(struct linnos_array *a, unsigned int k)
{
	struct linnos_replica_stats stats;

	assert(!linnos_array_get_replica_stats(a, k, &stats, sizeof(stats)));
	return stats;
}

static inline bool says(const char *part)
{
	if (!strstr(linnos_error(), part))
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, linnos_error());
	return strstr(linnos_error(), part);
}

static inline int prep_read(struct linnos_array *a, struct io_uring_sqe *sqe, void *buf,
			    size_t bytes, off_t offset, void *user)
{
	struct iovec one = {.iov_base = buf, .iov_len = bytes};

	return linnos_queue_prep_read(only_queue(a), sqe, &one, 1, offset, NULL, user);
}

/* Let a request wait for a byte of a pipe instead of a drive. */
static inline void hold_request(struct io_uring_sqe *sqe, int fd)
{
	uint64_t user_data = sqe->user_data;

	io_uring_prep_read(sqe, fd, (void *)(uintptr_t)sqe->addr, 1, 0);
	sqe->user_data = user_data;
}

/* Return a read that is to be hedged now, or NULL. */
static inline struct linnos_read *hedge_due(struct linnos_array *a)
{
	struct linnos_completion c;
	enum linnos_outcome outcome = linnos_queue_next_expired(only_queue(a), &c);

	assert(outcome != LINNOS_READ_DONE);
	return outcome == LINNOS_READ_RESUBMIT ? c.read : NULL;
}

#endif
