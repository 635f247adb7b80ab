/* SPDX-License-Identifier: MIT */
/*
 * Statistics of the reads of all threads for hedging: the percentile of the latencies, and the
 * distributions for hedging by gain.
 *
 * Each thread buffers its observations, and decides with its own copy of the distributions. After
 * every READS_SHARED reads it merges the observations into the shared statistics and copies the
 * result. If another thread holds the lock at that moment, it tries again after READS_SHARED more
 * reads. It waits for the lock only when its buffer is full, and when its learner is freed.
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
	double percentile; /* as a fraction; 0 if it is not used */
	bool by_gain;
	/* Delay after which all reads are hedged; 0 if there is none, or if it is not known yet.
	 * All threads read it without the lock. */
	uint64_t hedge_ns;

	pthread_mutex_t lock __attribute__((aligned(64)));
	struct hedge_gain gain;
	struct histogram latencies; /* of first attempts, in ns; older ones have less weight */
	uint64_t n_latencies;
};

struct observation {
	enum observation_kind {
		LEARN_LATENCY, /* of a first attempt, for the percentile */
		LEARN_READ,    /* this kind and the following ones are for hedge_gain.h */
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

/* The state of one thread. */
struct learner {
	struct learning *shared;
	struct gain_planner planner; /* with a copy of the shared distributions */
	unsigned int n;
	struct observation observations[OBSERVATIONS_MAX];
};

/* @share is the fraction of the reads that may be hedged. Return false if there is no memory. */
bool learning_init(struct learning *l, double percentile, bool by_gain, double share);
/* A zeroed structure is accepted. */
void learning_destroy(struct learning *l);

/* Return NULL if there is no memory. */
struct learner *learner_create(struct learning *shared);
/* Merge the remaining observations, and free the learner. It may be NULL. */
void learner_free(struct learner *learner);

/* Record an observation of this thread. */
void learner_observe(struct learner *learner, struct observation o);

#endif
