/* SPDX-License-Identifier: MIT */
/*
 * Learning for hedges from the reads of all threads: the percentile of the latencies, and the
 * distributions of hedging by gain.
 *
 * A thread keeps its observations to itself, and decides by its own copy of the distributions.
 * After every READS_SHARED reads it adds them to those of the other threads, and copies the result.
 * If another thread is doing so at that moment, it tries again after as many reads. It waits for
 * the lock only if it has OBSERVATIONS_MAX observations, or ends.
 */
#ifndef LINNOS_LEARNING_H
#define LINNOS_LEARNING_H

#include "hedge_gain.h"
#include "histogram.h"

#include <pthread.h>

#define READS_SHARED 64u
#define OBSERVATIONS_MAX 512

/* The statistics of all threads. */
struct learning {
	double percentile; /* fraction of the latencies below the threshold; 0 if not used */
	bool by_gain;
	/* Delay after which all reads are hedged; 0 for no such delay, or if it is not known yet.
	 * Read by all threads. */
	uint64_t hedge_ns;

	pthread_mutex_t lock __attribute__((aligned(64)));
	struct hedge_gain gain;
	struct histogram latencies; /* of first attempts, in ns; old ones fade */
	uint64_t n_latencies;
};

struct observation {
	enum observation_kind {
		LEARN_LATENCY, /* of a first attempt, for the percentile */
		LEARN_READ,    /* this and the next ones: calls of hedge_gain.h */
		LEARN_ATTEMPT,
		LEARN_HEDGE,
		LEARN_HEDGE_DUE,
	} kind;
	uint32_t predicted_us;
	union {
		uint64_t latency_ns;
		uint32_t n; /* reads or pages in flight */
		double claimed_us;
	};
	double us; /* latency, or gain */
};

/* The part of one thread. */
struct learner {
	struct learning *shared;
	struct gain_planner planner; /* with a copy of the shared distributions */
	unsigned int n;
	struct observation observations[OBSERVATIONS_MAX];
};

/* Return false if there is no memory. */
bool learning_init(struct learning *l, double percentile, bool by_gain, double share);
/* A learning of zeros is accepted. */
void learning_destroy(struct learning *l);

/* Return NULL if there is no memory. */
struct learner *learner_create(struct learning *shared);
/* Share the last observations, and free the learner. It may be NULL. */
void learner_free(struct learner *learner);

/* Record an observation of this thread. */
void learner_observe(struct learner *learner, struct observation o);

#endif
