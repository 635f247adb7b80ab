/* SPDX-License-Identifier: MIT */
/* A backend whose replicas are in memory, with a clock of its own, for tests. */
#ifndef LINNOS_MEMORY_BACKEND_H
#define LINNOS_MEMORY_BACKEND_H

#include "liblinnos.h"

struct linnos_memory;

/**
 * linnos_memory_create() - replicas in memory, with a clock of their own, for tests and simulations
 * @memory: set; NULL on failure
 * @n_replicas: how many
 * @bytes: of each, zeros
 *
 * Time passes there when somebody waits, and by linnos_memory_advance_clock(); it begins at 1 ms.
 * One thread at a time uses it.
 *
 * Return: 0 or a negative errno.
 */
int linnos_memory_create(struct linnos_memory **memory, unsigned int n_replicas, size_t bytes);

/**
 * linnos_memory_free() - give it back, after its arrays
 * @memory: or NULL
 */
void linnos_memory_free(struct linnos_memory *memory);

/**
 * linnos_memory_backend() - for linnos_array_open_backend()
 * @memory: replicas
 *
 * Return: what reads them.
 */
const struct linnos_backend *linnos_memory_backend(struct linnos_memory *memory);

/**
 * linnos_memory_data() - what a replica holds
 * @memory: replicas
 * @replica: from 0
 *
 * Return: its bytes, to be written.
 */
void *linnos_memory_data(struct linnos_memory *memory, unsigned int replica);

/**
 * linnos_memory_set() - how a replica answers from now on
 * @memory: replicas
 * @replica: from 0
 * @latency_ns: after so long; UINT64_MAX: never, until it is set anew
 * @error: 0, or a negative errno
 */
void linnos_memory_set(struct linnos_memory *memory, unsigned int replica, uint64_t latency_ns,
		       int error);

/**
 * linnos_memory_now_ns() - what time it is there
 * @memory: replicas
 *
 * Return: ns.
 */
uint64_t linnos_memory_now_ns(const struct linnos_memory *memory);

/**
 * linnos_memory_advance_clock() - time passes
 * @memory: replicas
 * @ns: so much
 */
void linnos_memory_advance_clock(struct linnos_memory *memory, uint64_t ns);

#endif
