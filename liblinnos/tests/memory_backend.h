/* SPDX-License-Identifier: MIT */
/*
 * A backend with a simulated clock, whose replicas are in memory. A request completes when the
 * latency of its replica has passed since it was submitted. The clock advances when a caller waits.
 * Only one thread at a time may use the backend.
 */
#ifndef LINNOS_MEMORY_BACKEND_H
#define LINNOS_MEMORY_BACKEND_H

#include "liblinnos.h"

#define MEMORY_REPLICAS_MAX 3

struct memory_queue;

struct linnos_memory {
	struct linnos_backend backend;
	size_t bytes;
	uint64_t now_ns;
	char *content;
	struct memory_queue *queues;
	struct {
		uint64_t latency_ns; /* UINT64_MAX if it hangs */
		int error;	     /* 0 or a negative errno */
	} replicas[MEMORY_REPLICAS_MAX];
	unsigned int room; /* requests that a queue holds; 0 for no limit */
	int submit_error;  /* of all submissions; 0 to reject only those without room */
	unsigned int n_rejected, n_unknown_cancelled;
	const void *last_buf; /* of the last request */
};

struct linnos_memory *linnos_memory_create(size_t bytes, uint64_t latency_ns);
/* Free the replicas, after the arrays that use them. */
void linnos_memory_free(struct linnos_memory *memory);
/* Set how a replica answers from now on: its latency, UINT64_MAX to hang until it is set again, and
 * 0 or a negative errno. Requests that hung there complete with it. */
void linnos_memory_set(struct linnos_memory *memory, unsigned int replica, uint64_t latency_ns,
		       int error);
/* Open an array of these replicas, which require this alignment, and create a queue for it. */
struct linnos_array *linnos_memory_open_array(struct linnos_memory *memory, uint32_t align,
					      const struct linnos_options *options);

#endif
