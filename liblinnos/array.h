/* SPDX-License-Identifier: MIT */
/*
 * An array from within. The way of a read is one way down:
 *
 *   ring                the calls for a ring of the caller's ─┐
 *   queue               the calls for one of the library's   ─┤
 *   lanes               its attempts at a backend, and those that outlive it
 *   reads               which attempt next: begins a read, hears how an attempt ended
 *   choose              which replica (linnos_choose.h), from what is known
 *   uring_backend, bounce    what serves attempts, and memory for them
 *
 * An array is as it was opened, but for what is known and for what is under its lock; a queue is
 * its thread's.
 */
#ifndef LINNOS_ARRAY_H
#define LINNOS_ARRAY_H

#include "core.h"
#include "liblinnos.h"

#include <stdbool.h>

struct lanes;
struct io_uring_sqe;

/* For tests: what they put in the place of the clock and of what drives answer. */
struct hooks {
	uint64_t (*clock_ns)(void *context);
	/* An attempt's result, which it may change, of so many bytes at offset. */
	int (*answer)(void *context, unsigned int replica, uint64_t offset, int result);
	void (*prepared)(void *context, unsigned int replica, struct io_uring_sqe *sqe);
	void *context;
};

struct replica {
	char *name; /* for messages */
	int fd;
	bool is_ours; /* to close */
	/* What it wants of offsets and sizes, and of memory; 1: nothing. Powers of two. */
	uint32_t align_bytes, memory_align_bytes;
	uint64_t size_bytes;
};

/* What a queue has counted beside its chooser. */
struct queue_counts {
	uint64_t bytes, failed, sent, landed, copies, copies_landed, without_ring, late, cancelled;
};

struct linnos_array {
	unsigned int n;
	struct replica replicas[CHOOSER_DRIVES_MAX];
	bool is_files, asks;
	/* The program has closed descriptors of ours. A new one could have the number of a closed
	 * replica, so none is opened any more. */
	bool has_lost_descriptors;
	uint64_t size_bytes;
	struct linnos_backend backend;
	struct linnos_predictor *known;
	struct hooks hooks;

	pthread_mutex_t lock;
	struct linnos_queue *queues;
	struct queue_counts past;      /* of queues that are closed */
	struct linnos_chooser *writer; /* of linnos_array_write_start(), which only tells */
	struct lanes *lanes;	       /* for what has lost, and copies; NULL: none yet */
};

uint64_t array_clock_ns(const struct linnos_array *a);
/* How many bytes the largest replica holds now, as far as they tell. */
uint64_t array_size_now(const struct linnos_array *a);

void array_count(struct linnos_array *a, struct queue_counts *sum);

static inline void array_lock(struct linnos_array *a)
{
	pthread_mutex_lock(&a->lock);
}

static inline void array_unlock(struct linnos_array *a)
{
	pthread_mutex_unlock(&a->lock);
}

#endif
