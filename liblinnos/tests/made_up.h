/* SPDX-License-Identifier: MIT */
/* Replicas made of memory, in which each eight bytes say where they are; a clock that stands still;
 * and answers that tests bend. */
#ifndef LINNOS_MADE_UP_H
#define LINNOS_MADE_UP_H

#include "reads.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define US 1000ull
#define MS 1000000ull

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

static inline int made_up_replica(size_t bytes)
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

/* n replicas of so many bytes, and an array of them. */
static inline struct linnos_array *made_up_array(unsigned int n, size_t bytes, int *fds,
						 const struct linnos_options *options)
{
	struct linnos_array *a;
	int error;

	for (unsigned int k = 0; k < n; k++)
		fds[k] = made_up_replica(bytes);
	error = linnos_open_fds(&a, n, fds, NULL, options);
	if (error)
		fprintf(stderr, "%s\n", a->error);
	assert(!error);
	/* As if there were models with trees: of the mean it is plain what is predicted. */
	a->chooser.chooses = (1u << n) - 1;
	return a;
}

/* Until every copy has been answered, by whichever thread hears of it. */
static inline void settle(struct linnos_array *a)
{
	uint64_t n;

	do {
		sched_yield();
		array_lock(a);
		n = a->n_copies;
		array_unlock(a);
	} while (n);
}

static inline void put_away(struct linnos_array *a, unsigned int n, const int *fds)
{
	assert(linnos_close(a) == 0);
	for (unsigned int k = 0; k < n; k++)
		close(fds[k]);
}

static inline struct linnos_stats stats_of(struct linnos_array *a)
{
	struct linnos_stats stats;

	linnos_get_stats(a, &stats, sizeof(stats));
	return stats;
}

static inline bool says(struct linnos_array *a, const char *part)
{
	char text[ERROR_BYTES];

	linnos_error(a, text, sizeof(text));
	if (!strstr(text, part))
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, text);
	return strstr(text, part);
}

/* The next of a row of numbers that a seed has begun. */
static inline uint64_t chance(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

#endif
