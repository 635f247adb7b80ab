/* SPDX-License-Identifier: MIT */
/*
 * Internals of an array. Each of these layers uses only the layers below it:
 *
 *   caller_ring         calls for a ring of the caller
 *   queue               one thread's part of an array: calls for the library's own ring
 *   array               open and close; statistics
 *   reaper              a thread for orphaned attempts and copies
 *   io_channel          submit attempts to a backend, wait for them, and submit the next ones
 *   uring, read         the backend for files; the state machine of a read
 *   attempt             one replica's part of a read
 *   account             the resources of attempts in flight
 *   replica, bounce, kernel_query
 *
 * After an array was opened, only its predictor, its reaper and the members that its lock protects
 * change.
 */
#ifndef LINNOS_ARRAY_H
#define LINNOS_ARRAY_H

#include "reaper.h"
#include "uring.h"

struct linnos_array {
	struct replica_set set;
	struct uring_context uring;
	struct linnos_predictor *predictor;
	struct linnos_chooser *writer; /* reports writes, and chooses nothing */
	struct reaper reaper;

	pthread_mutex_t lock;
	struct account *queues;
	struct linnos_stats closed; /* sum over the closed queues */
};

/* Add or remove the account of a queue. */
void array_add_queue(struct linnos_array *a, struct account *queue);
void array_remove_queue(struct linnos_array *a, struct account *queue);

#endif
