/* SPDX-License-Identifier: MIT */
/*
 * Internals of an array. A read passes through these layers from top to bottom:
 *
 *   ring                calls for a ring of the caller ─────────┐
 *   queue               calls for the library's own ring ───────┤
 *   io_channels         attempts at a backend, and orphaned attempts
 *   reads               begin a read, process completions, choose the next attempt
 *   choose              choose a replica (linnos_choose.h) from the state of the replicas
 *   uring_backend, bounce    serve attempts, and memory for them
 *
 * An array does not change after it was opened, except for the predictor and the members under its
 * lock. A queue is used by its thread only.
 */
#ifndef LINNOS_ARRAY_H
#define LINNOS_ARRAY_H

#include "core.h"
#include "liblinnos.h"

#include <stdbool.h>

struct lanes;
struct io_uring_sqe;

/* For tests: replacements for the clock and for results of drives. */
struct hooks {
	uint64_t (*clock_ns)(void *context);
	/* May change an attempt's result, which is for a read at this offset. */
	int (*answer)(void *context, unsigned int replica, uint64_t offset, int result);
	void (*prepared)(void *context, unsigned int replica, struct io_uring_sqe *sqe);
	void *context;
};

struct replica {
	char *name; /* for messages */
	int fd;
	bool is_ours; /* true: close it with the array */
	/* Required alignment of offsets and sizes, and of memory; powers of two, 1 for none. */
	uint32_t align_bytes, memory_align_bytes;
	uint64_t size_bytes;
};

/* Counters of a queue in addition to those of its chooser. */
struct queue_counts {
	uint64_t bytes, failed, sent, landed, copies, copies_landed, without_ring, late, cancelled;
};

struct linnos_array {
	unsigned int n;
	struct replica replicas[CHOOSER_DRIVES_MAX];
	bool is_files, asks;
	/* The program has closed descriptors of the library. The number of a closed replica could
	 * be reused for a new descriptor, so no new ring is opened. */
	bool has_lost_descriptors;
	uint64_t size_bytes;
	struct linnos_backend backend;
	struct linnos_predictor *known;
	struct hooks hooks;

	pthread_mutex_t lock;
	struct linnos_queue *queues;
	struct queue_counts past;      /* sum over the closed queues */
	struct linnos_chooser *writer; /* for linnos_array_write_start(), only reports */
	struct lanes *lanes;	       /* for orphaned attempts and copies; NULL: none yet */
};

uint64_t array_clock_ns(const struct linnos_array *a);
/* Return the current size of the largest replica in bytes. */
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
