/* SPDX-License-Identifier: MIT */
/* A backend whose replicas are in memory, with a clock of its own, for tests. */
#ifndef LINNOS_MEMORY_BACKEND_H
#define LINNOS_MEMORY_BACKEND_H

#include "liblinnos.h"

struct linnos_memory;

/**
 * linnos_memory_create() - create replicas in memory with their own clock, for tests and
 * simulations
 * @memory: set; NULL on failure
 * @n_replicas: number of replicas
 * @bytes: size of each, filled with zeros
 *
 * Time passes when a caller waits, and by linnos_memory_advance_clock(). It starts at 1 ms. Only
 * one thread at a time may use it.
 *
 * Return: 0 or a negative errno.
 */
int linnos_memory_create(struct linnos_memory **memory, unsigned int n_replicas, size_t bytes);

/**
 * linnos_memory_free() - free the replicas, after the arrays that use them
 * @memory: replicas, or NULL
 */
void linnos_memory_free(struct linnos_memory *memory);

/**
 * linnos_memory_backend() - get the backend for linnos_array_open_backend()
 * @memory: replicas
 *
 * Return: the backend that reads them.
 */
const struct linnos_backend *linnos_memory_backend(struct linnos_memory *memory);

/**
 * linnos_memory_data() - get the contents of a replica
 * @memory: replicas
 * @replica: from 0
 *
 * Return: its bytes, which may be written.
 */
void *linnos_memory_data(struct linnos_memory *memory, unsigned int replica);

/**
 * linnos_memory_set() - set how a replica answers from now on
 * @memory: replicas
 * @replica: from 0
 * @latency_ns: its latency; UINT64_MAX to hang until it is set again
 * @error: 0, or a negative errno
 */
void linnos_memory_set(struct linnos_memory *memory, unsigned int replica, uint64_t latency_ns,
		       int error);

/**
 * linnos_memory_now_ns() - get the current time
 * @memory: replicas
 *
 * Return: the time in ns.
 */
uint64_t linnos_memory_now_ns(const struct linnos_memory *memory);

/**
 * linnos_memory_advance_clock() - advance the clock
 * @memory: replicas
 * @ns: how far
 */
void linnos_memory_advance_clock(struct linnos_memory *memory, uint64_t ns);

#endif
