/* SPDX-License-Identifier: MIT */
/*
 * Internals of an array. Each layer uses only those below it:
 *
 *   caller_ring         calls for a ring of the caller
 *   queue               one thread's part of an array: calls for the library's own ring
 *   array               open and close; statistics
 *   reaper              a thread for orphaned attempts and copies
 *   io_channel          submit attempts to a backend, wait for them, and submit the next ones
 *   uring, read         the backend for files; the state machine of a read
 *   attempt             one replica's part of a read
 *   account             what attempts need while they are in flight
 *   replica, bounce, kernel_query
 *
 * An array does not change after it was opened, except for the predictor, the reaper and the
 * members under its lock.
 */
#ifndef LINNOS_ARRAY_H
#define LINNOS_ARRAY_H

#include "reaper.h"
#include "uring.h"

struct linnos_array {
	struct replica_set set;
	struct uring_context uring;
	struct linnos_predictor *predictor;
	struct linnos_chooser *writer; /* for linnos_array_write_start(), only reports */
	struct reaper reaper;

	pthread_mutex_t lock;
	struct account *queues;
	struct linnos_stats closed; /* sum over the closed queues */
};

/* Add or remove the account of a queue. */
void array_add_queue(struct linnos_array *a, struct account *queue);
void array_remove_queue(struct linnos_array *a, struct account *queue);

#endif
