/* SPDX-License-Identifier: MIT */
/*
 * Internals of predictors and choosers: the data that choosers share, and the counters of each
 * chooser.
 *
 * Words that several threads write are atomic, or protected by `lock` (the list of choosers, model
 * replacement) or by the lock of `learning`. The members of a chooser are written by its thread
 * only. Any thread that sums the counters reads them.
 */
#ifndef LINNOS_PREDICTOR_H
#define LINNOS_PREDICTOR_H

#include "budget.h"
#include "chooser.h"
#include "learning.h"
#include "liblinnos.h"

#include <pthread.h>

/* Larger reads are not hedged, because their data would have to be copied. */
#define HEDGED_BYTES_MAX (1u << 20)

#define BUCKET_BITS 2
#define N_BUCKETS ((64 - BUCKET_BITS + 1) << BUCKET_BITS)

struct replica_counts {
	uint64_t served, errors, answered, predicted_us, took_us, near;
	uint64_t buckets[N_BUCKETS];
};

struct linnos_predictor {
	struct chooser first; /* template for the choosers of threads */
	struct chooser_common common;
	struct observer drives[CHOOSER_DRIVES_MAX];
	struct linnos_latency *models[CHOOSER_DRIVES_MAX];
	unsigned int n;
	unsigned int next_default; /* where the next chooser starts its round robin; initially
				    * random */
	struct linnos_options o;
	uint32_t missing; /* bitmap: absent when the array was opened, and therefore never used */
	bool hedging, duplicates, learns;

	pthread_mutex_t lock;
	struct linnos_chooser *choosers;
	struct linnos_stats past; /* sum over the freed choosers */
	struct replica_counts *past_replicas;

	struct learning learning;
};

struct linnos_chooser {
	struct chooser c;
	struct linnos_predictor *predictor;
	struct linnos_chooser *next;
	unsigned int next_default;
	struct learner *learner; /* NULL if hedges need no statistics */
	struct budget hedges;
	uint32_t choosing; /* odd between begin_choosing() and end_choosing(): models are in use */
	struct linnos_stats counts; /* only the members that do not depend on how reads are sent */
	struct replica_counts *replicas;
};

/* The private part of struct linnos_attempt. */
struct attempt_data {
	struct linnos_io io;
	uint32_t predicted_us, pages_ahead;
	uint64_t beaten_ns; /* when the other attempt was answered; 0 if this one was first */
	double expected_gain_us;
	uint8_t replica, kind;
	bool beaten_by_hedge;
};

_Static_assert(sizeof(struct attempt_data) <= sizeof(struct linnos_attempt),
	       "struct linnos_attempt is too small");

static inline struct attempt_data *attempt_data_of(const struct linnos_attempt *attempt)
{
	return (struct attempt_data *)attempt;
}

static inline uint32_t pages_of(uint64_t bytes)
{
	return (bytes + LINNOS_PAGE_BYTES - 1) / LINNOS_PAGE_BYTES;
}

/* Add to a counter that one thread writes and any thread reads. */
static inline void count(uint64_t *counter, uint64_t more)
{
	WRITE_ONCE(*counter, *counter + more);
}

/* Add a structure of 64-bit counters, which another thread may be counting, to a sum. */
static inline void counters_add(void *sum, const void *counters, size_t bytes)
{
	uint64_t *to = sum;
	const uint64_t *from = counters;

	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += READ_ONCE(from[i]);
}

/* Provide external predictions for the next linnos_choose(). */
void chooser_use_external(struct linnos_chooser *ch, const struct external_predictions *external);
/* Record that a copy could not be sent for lack of resources. @permanent means that later copies
 * cannot be sent either. */
void chooser_copy_not_sent(struct linnos_chooser *ch, bool permanent);
/* Record which replicas were absent when the array was opened. They are never used. */
void predictor_set_missing(struct linnos_predictor *p, uint32_t missing);
/* Sum the counters of all choosers so far. */
void predictor_count(struct linnos_predictor *p, struct linnos_stats *counts);

#endif
