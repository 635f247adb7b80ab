/* SPDX-License-Identifier: MIT */
/*
 * An array from within.
 *
 * The way of a read:
 *
 *   pread, uring        take it from the caller, bring attempts to the kernel and back
 *   reads               which replica next: begins a read, hears how an attempt ended
 *   chooser, observer   what is predicted, from what was seen (the replayer has them too)
 *   bounce, lanes       memory and rings that outlive a read: of races not over yet, and of copies
 *
 * All that an array holds is under its lock, but for what is set when it is opened.
 */
#ifndef LINNOS_ARRAY_H
#define LINNOS_ARRAY_H

#include "bounce.h"
#include "budget.h"
#include "chooser.h"
#include "hedge_table.h"
#include "histogram.h"
#include "liblinnos.h"
#include "race.h"

#include <pthread.h>
#include <stdbool.h>

#define ERROR_BYTES 512

struct attempt;
struct io_uring_sqe;
struct lanes;
struct linnos_read;

/* For tests: what they put in the place of the clock and of what drives answer. */
struct hooks {
	uint64_t (*clock_ns)(void *context);
	/* An attempt's result, which it may change, of so many bytes at offset. */
	int (*answer)(void *context, unsigned int replica, uint64_t offset, int result);
	void (*prepared)(void *context, unsigned int replica, struct io_uring_sqe *sqe);
	void *context;
};

struct replica {
	char *name; /* for messages */
	int fd;
	bool is_ours; /* to close */
	/* What it wants of offsets and sizes, and of memory; 1: nothing. Powers of two. */
	uint32_t align_bytes, memory_align_bytes;
	uint64_t size_bytes;
};

struct linnos_array {
	pthread_mutex_t lock;
	unsigned int n; /* 0: it could not be opened */
	struct replica replicas[LINNOS_REPLICAS_MAX];
	struct linnos_latency *models[LINNOS_REPLICAS_MAX];
	struct linnos_options o;
	bool hint, asks, hedging;
	uint64_t size_bytes;
	struct hooks hooks;

	struct observer drives[LINNOS_REPLICAS_MAX];
	struct chooser chooser;
	uint64_t now_ns; /* never goes back */
	unsigned int next_home;
	struct linnos_stats stats;
	char error[ERROR_BYTES];

	struct budget hedge_budget;
	struct hedge_table *hedge_tables; /* by replica; NULL: not hedged by prediction */
	uint64_t hedge_ns;		  /* 0: not hedged, not enough seen yet, or by prediction */
	bool races;			  /* hedged by what that gains */
	struct race race;
	struct histogram latencies; /* of first attempts, in ns; fades */
	uint64_t n_latencies;

	struct bounces bounces;
	struct attempt *free_attempts;
	struct linnos_read *free_reads;	     /* of linnos_prep_read() */
	struct linnos_read *oldest, *newest; /* of these, those that may be hedged */
	struct attempt *ring_attempts;	     /* of linnos_prep_read(), under way */
	uint64_t n_copies;		     /* at replicas */
	struct lanes *lanes; /* of hedged linnos_pread() and of copies; NULL: none yet */
};

/* The time now; under the lock array_time() makes it one that does not go back. */
uint64_t array_clock_ns(const struct linnos_array *a);
uint64_t array_time(struct linnos_array *a, uint64_t clock_ns);
/* Keeps a message for linnos_error() and returns error. Under the lock. */
int array_fail(struct linnos_array *a, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* How many bytes the largest replica holds now, as far as they tell. */
uint64_t array_size_now(const struct linnos_array *a);

static inline void array_lock(struct linnos_array *a)
{
	pthread_mutex_lock(&a->lock);
}

static inline void array_unlock(struct linnos_array *a)
{
	pthread_mutex_unlock(&a->lock);
}

#endif
