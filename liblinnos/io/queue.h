/* SPDX-License-Identifier: MIT */
/* Internals of a queue, which is one thread's part of an array. Only this thread uses it. */
#ifndef LINNOS_QUEUE_H
#define LINNOS_QUEUE_H

#include "array.h"

struct linnos_queue {
	struct account account; /* the first member, because the array has a list of accounts */
	struct linnos_array *array;
	struct linnos_queue_options o;
	int fixed_files[CHOOSER_DRIVES_MAX]; /* copy for o, if it has any */
	struct linnos_read *free_reads;
	struct io_channel *channel; /* NULL until it is needed */
	struct reads in_channel, in_callers_ring;
};

/* Attempts in a caller's ring have the account of a queue. */
static inline struct linnos_queue *queue_of(struct account *account)
{
	return (struct linnos_queue *)account;
}

/* Begin a read that the caller completes later. Return NULL and set *error on failure. */
struct linnos_read *queue_begin_read(struct linnos_queue *q, const struct iovec *iov, int n_iov,
				     off_t offset, const struct linnos_read_options *options,
				     void *user, struct reads *reads, int *error);
/* Keep the memory of a read for reuse. */
void queue_put_read(struct linnos_queue *q, struct linnos_read *r);

#endif
