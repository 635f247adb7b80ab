/* SPDX-License-Identifier: MIT */
/* An array for each test, which is closed after the test. */
#ifndef LINNOS_ONE_ARRAY_H
#define LINNOS_ONE_ARRAY_H

#include "memfd_array.h"

#include "test.h"

#define N 3
#define BYTES (1u << 20)
#define READ_BYTES 4096

static struct linnos_array *array;
/* The last completion that a test has received. */
static struct linnos_completion completion __attribute__((unused));
static char buf[READ_BYTES];

/* Called after the array has been closed. */
static void (*after_array)(void);

static inline void close_array(void)
{
	if (array)
		close_memfd_array(array);
	array = NULL;
	if (after_array)
		after_array();
}

AFTER_EACH(close_array)

static inline void open_array(const struct linnos_options *o)
{
	close_array();
	array = open_memfd_array(N, BYTES, o);
}

static inline struct linnos_stats stats(void)
{
	return stats_of(array);
}

static inline struct linnos_replica_stats replica(unsigned int k)
{
	return replica_of(array, k);
}

static inline struct linnos_queue *queue(void)
{
	return only_queue(array);
}

/* Return true if a read of a block returns the whole block. */
static inline bool reads_at(uint64_t offset)
{
	return linnos_pread(queue(), buf, sizeof(buf), offset) == sizeof(buf) &&
	       is_right(buf, sizeof(buf), offset);
}

#endif
