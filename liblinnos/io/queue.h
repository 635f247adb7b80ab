/* SPDX-License-Identifier: MIT */
/* Internals of a queue, which is one thread's part of an array. */
#ifndef LINNOS_QUEUE_H
#define LINNOS_QUEUE_H

#include "array.h"
#include "bounce.h"

struct attempt;
struct lane;

/* Reads that wait for a hedge or a deadline, ordered by time. */
struct timed_reads {
	struct linnos_read *first, *last;
};

struct linnos_queue {
	struct linnos_array *array;
	struct linnos_chooser *chooser;
	struct linnos_queue *next; /* next queue of the array */
	struct linnos_queue_options o;
	int fixed_files[CHOOSER_DRIVES_MAX]; /* copy for o, if it has any */
	uint64_t now_ns;		     /* never goes back */
	struct bounces bounces;
	bool is_waiters; /* the reaper's: keeps nothing for reuse */
	struct attempt *free_attempts;
	struct linnos_read *free_reads;
	struct attempt *ring_attempts; /* in the caller's ring */
	unsigned int n_lost;	       /* of them, not yet returned by linnos_queue_next_orphan() */
	struct timed_reads in_callers_ring, in_own;
	struct lane *lane;			    /* NULL: not needed yet */
	unsigned int n_live;			    /* reads in the channel */
	struct linnos_read *first_done, *last_done; /* for linnos_queue_wait() */
	struct queue_counts counts;
};

/* Also used for the reaper's own queue. */
int queue_new(struct linnos_queue **queue, struct linnos_array *a,
	      const struct linnos_queue_options *o);
void queue_free(struct linnos_queue *q);

static inline uint64_t queue_time(struct linnos_queue *q)
{
	uint64_t clock_ns = array_clock_ns(q->array);

	if (clock_ns > q->now_ns)
		q->now_ns = clock_ns;
	return q->now_ns;
}

#endif
