// SPDX-License-Identifier: MIT
/* Statistics of the reads of all threads for hedging: see learning.h. */
#include "learning.h"

#include <stdlib.h>
#include <string.h>

/* The error of a hedging percentile is at most 1/64. */
#define HISTOGRAM_BITS 6
/* A percentile is used only if at least BEYOND_MIN of the observed latencies are longer. It is
 * computed after every COMPUTE_EVERY latencies. The counts are halved when there are LATENCIES_MAX
 * latencies. */
#define BEYOND_MIN 10
#define COMPUTE_EVERY 64
#define LATENCIES_MAX 20000

_Static_assert(OBSERVATIONS_MAX % (2 * READS_SHARED) == 0,
	       "a thread with a full buffer must try to merge it");

bool learning_init(struct learning *l, double percentile, bool by_gain, double share)
{
	pthread_mutex_init(&l->lock, NULL);
	l->percentile = percentile;
	l->by_gain = by_gain;
	hedge_gain_init(&l->gain, share);
	return histogram_init(&l->latencies, HISTOGRAM_BITS);
}

void learning_destroy(struct learning *l)
{
	histogram_free(&l->latencies);
	pthread_mutex_destroy(&l->lock);
}

/* --- Shared statistics; the caller holds the lock --------------------------------------------- */

static void add_latency(struct learning *l, uint64_t ns)
{
	histogram_add(&l->latencies, ns);
	if (++l->n_latencies >= LATENCIES_MAX)
		l->n_latencies = histogram_fade(&l->latencies);
	if (l->n_latencies % COMPUTE_EVERY == 0 &&
	    (double)l->n_latencies * (1 - l->percentile) >= BEYOND_MIN) {
		uint64_t rank = nearest_rank(l->n_latencies, l->percentile);
		uint64_t at_ns = histogram_at_rank(&l->latencies, rank);

		__atomic_store_n(&l->hedge_ns, at_ns + !at_ns, __ATOMIC_RELAXED);
	}
}

static void add_gain(struct hedge_gain *g, const struct observation *o)
{
	switch (o->kind) {
	case LEARN_READ:
		hedge_gain_begin(g, o->n);
		break;
	case LEARN_ATTEMPT:
		hedge_gain_record_attempt(g, o->predicted_us, o->n, o->us);
		break;
	case LEARN_HEDGE:
		hedge_gain_record_hedge(g, o->claimed_us, o->us);
		break;
	case LEARN_HEDGE_DUE:
		hedge_gain_hedge_due(g);
		break;
	case LEARN_LATENCY:
		break;
	}
}

/* --- Observations of one thread --------------------------------------------------------------- */

/* The caller holds the lock. */
static void merge_observations(struct learner *learner)
{
	struct learning *l = learner->shared;

	for (unsigned int i = 0; i < learner->n; i++) {
		const struct observation *o = &learner->observations[i];

		if (o->kind == LEARN_LATENCY)
			add_latency(l, o->latency_ns);
		else
			add_gain(&l->gain, o);
	}
	learner->n = 0;
	if (l->by_gain)
		gain_planner_update(&learner->planner, &l->gain);
}

void learner_observe(struct learner *learner, struct observation o)
{
	struct learning *l = learner->shared;

	/* These change the price. The thread applies them at once, so that it does not send too
	 * many hedges before the next update. */
	if (o.kind == LEARN_READ || o.kind == LEARN_HEDGE_DUE)
		add_gain(&learner->planner.gain, &o);
	learner->observations[learner->n++] = o;
	/* With by_gain, the start and the completion of a read are two observations. */
	if (learner->n % ((l->by_gain ? 2 : 1) * READS_SHARED))
		return;
	if (learner->n == OBSERVATIONS_MAX)
		pthread_mutex_lock(&l->lock);
	else if (pthread_mutex_trylock(&l->lock))
		return;
	merge_observations(learner);
	pthread_mutex_unlock(&l->lock);
}

struct learner *learner_create(struct learning *shared)
{
	struct learner *learner = calloc(1, sizeof(*learner));

	if (!learner)
		return NULL;
	learner->shared = shared;
	pthread_mutex_lock(&shared->lock);
	merge_observations(learner);
	pthread_mutex_unlock(&shared->lock);
	return learner;
}

void learner_free(struct learner *learner)
{
	if (!learner)
		return;
	pthread_mutex_lock(&learner->shared->lock);
	merge_observations(learner);
	pthread_mutex_unlock(&learner->shared->lock);
	free(learner);
}
