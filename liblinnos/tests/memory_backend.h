/* SPDX-License-Identifier: MIT */
/* A backend whose replicas are in memory, with a clock of its own, for tests. */
#ifndef LINNOS_MEMORY_BACKEND_H
#define LINNOS_MEMORY_BACKEND_H

#include "liblinnos.h"

struct linnos_memory;

/* Create replicas of this size, filled with zeros. Time begins at 1 ms, and passes when a caller
 * waits and by linnos_memory_advance_clock(). Only one thread at a time may use them. Return 0 or a
 * negative errno. */
int linnos_memory_create(struct linnos_memory **memory, unsigned int n_replicas, size_t bytes);
/* Free the replicas, after the arrays that use them. */
void linnos_memory_free(struct linnos_memory *memory);
/* Return the backend for linnos_array_open_backend(). */
const struct linnos_backend *linnos_memory_backend(struct linnos_memory *memory);
/* Return the contents of a replica, which may be written. */
void *linnos_memory_data(struct linnos_memory *memory, unsigned int replica);
/* Set how a replica answers from now on: its latency, UINT64_MAX to hang until it is set again, and
 * 0 or a negative errno. */
void linnos_memory_set(struct linnos_memory *memory, unsigned int replica, uint64_t latency_ns,
		       int error);
uint64_t linnos_memory_now_ns(const struct linnos_memory *memory);
void linnos_memory_advance_clock(struct linnos_memory *memory, uint64_t ns);

#endif
