/* SPDX-License-Identifier: MIT */
/* A queue from within: a thread's part of an array. */
#ifndef LINNOS_QUEUE_H
#define LINNOS_QUEUE_H

#include "array.h"
#include "bounce.h"

struct attempt;
struct lane;

/* Reads that wait for a hedge or a deadline, the next one at first. */
struct timed_reads {
	struct linnos_read *first, *last;
};

struct linnos_queue {
	struct linnos_array *array;
	struct linnos_chooser *chooser;
	struct linnos_queue *next; /* of the array's */
	struct linnos_queue_options o;
	int fixed_files[CHOOSER_DRIVES_MAX]; /* what o's are, if it has any */
	uint64_t now_ns;		     /* never goes back */
	struct bounces bounces;
	bool is_waiters; /* keeps nothing: what it hears of was others' */
	struct attempt *free_attempts;
	struct linnos_read *free_reads;
	struct attempt *ring_attempts; /* in the caller's ring */
	unsigned int n_lost;	       /* of them, those for linnos_queue_next_orphan() */
	struct timed_reads in_callers_ring, in_own;
	struct lane *lane;			    /* NULL: not needed yet */
	unsigned int n_live;			    /* reads in it */
	struct linnos_read *first_done, *last_done; /* of linnos_queue_submit_read() */
	struct queue_counts counts;
};

/* For the array's own thread, too. */
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
