// SPDX-License-Identifier: MIT
/* The state of the replicas, which choosers share, and its statistics: see linnos_choose.h. */
#include "predictor.h"
#include "messages.h"
#include "model_file.h"
#include "options.h"
#include "random_bytes.h"
#include "versioned_struct.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Overdue time of a replica without a model. No read of a healthy drive takes longer. */
#define OVERDUE_US 10000
/* At most this many reads in a row stay at an idle default replica without predictions for the
 * others. */
#define UNPREDICTED_MAX 32

/* --- Predictors ------------------------------------------------------------------------------- */

static struct linnos_latency *model_new(unsigned int replica, const char *path, int *error)
{
	char why[MODEL_WHY_BYTES];
	struct linnos_latency *model =
		path ? model_file_read(path, error, why) : model_mean_of_last(OVERDUE_US);

	if (!model)
		*error = path ? format_error(*error, "model of replica %u: %s", replica, why)
			      : error_memory();
	return model;
}

static int set_up(struct linnos_predictor *p, const char *const *models)
{
	const struct linnos_options *o = &p->o;
	double share = o->max_duplicates / 100;
	int error = 0;

	for (unsigned int k = 0; !error && k < p->n; k++)
		p->models[k] = model_new(k, models ? models[k] : NULL, &error);
	if (error)
		return error;
	p->duplicates = o->flags & LINNOS_DUPLICATES;
	p->hedging =
		p->n > 1 && share > 0 && (o->hedge_us || o->hedge_percentile > 0 || p->duplicates);
	p->duplicates = p->duplicates && p->hedging;
	p->learns = p->duplicates || o->hedge_percentile > 0;
	p->learning.hedge_ns = o->hedge_us * 1000ull;
	chooser_init(&p->first, &p->common, p->n, p->drives, p->models,
		     o->probe_after_ms * 1000000ull, o->margin_percent,
		     !(o->flags & LINNOS_UNGUARDED));
	p->first.max_unpredicted_reads = o->flags & LINNOS_PREDICT_ALL ? 0 : UNPREDICTED_MAX;
	p->past_replicas = calloc(p->n, sizeof(*p->past_replicas));
	if (!p->past_replicas ||
	    !learning_init(&p->learning, o->hedge_percentile / 100, p->duplicates, share))
		return error_memory();
	return 0;
}

/* Initialize the random generator, so that processes which read in lock-step make different
 * choices. */
static int init_random(struct linnos_predictor *p)
{
	int error = random_u64(&p->common.guard.random);

	p->next_default = p->common.guard.random >> 32;
	return error ? format_error(error, "getrandom: %s", strerror(-error)) : 0;
}

int linnos_predictor_create(struct linnos_predictor **p, unsigned int n, const char *const *models,
			    const struct linnos_options *options)
{
	struct linnos_options o;
	struct linnos_predictor *k;
	int error = options_copy_in(&o, options, n);

	*p = NULL;
	if (error)
		return error;
	k = aligned_alloc(64, (sizeof(*k) + 63) / 64 * 64);
	if (!k)
		return error_memory();
	memset(k, 0, sizeof(*k));
	k->n = n;
	k->o = o;
	pthread_mutex_init(&k->lock, NULL);
	error = set_up(k, models);
	if (!error)
		error = init_random(k);
	if (error)
		linnos_predictor_free(k);
	else
		*p = k;
	return error;
}

void linnos_predictor_free(struct linnos_predictor *p)
{
	if (!p)
		return;
	for (unsigned int k = 0; k < p->n; k++)
		free(p->models[k]);
	free(p->past_replicas);
	learning_destroy(&p->learning);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int no_such_replica(const struct linnos_predictor *p, unsigned int replica)
{
	if (!p)
		return error_null("array or predictor");
	return replica < p->n ? 0
			      : format_error(-EINVAL, "replica is %u; it must be between 0 and %u",
					     replica, p->n - 1);
}

int linnos_predictor_drop_replica(struct linnos_predictor *p, unsigned int replica)
{
	int error = no_such_replica(p, replica);
	uint32_t dropped;

	if (error)
		return error;
	pthread_mutex_lock(&p->lock);
	dropped = p->common.dropped | 1u << replica;
	if (dropped == (1u << p->n) - 1)
		error = format_error(-EBUSY,
				     "replica %u cannot be dropped, because it is the last one",
				     replica);
	else
		WRITE_ONCE(p->common.dropped, dropped);
	pthread_mutex_unlock(&p->lock);
	return error;
}

int linnos_predictor_restore_replica(struct linnos_predictor *p, unsigned int replica)
{
	int error = no_such_replica(p, replica);

	if (error)
		return error;
	if (p->missing & 1u << replica)
		return format_error(-ENODEV,
				    "replica %u was absent when the array was opened; to use it, "
				    "open another array",
				    replica);
	pthread_mutex_lock(&p->lock);
	if (p->common.dropped & 1u << replica)
		observer_reset(&p->drives[replica]);
	WRITE_ONCE(p->common.dropped, p->common.dropped & ~(1u << replica));
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void predictor_set_missing(struct linnos_predictor *p, uint32_t missing)
{
	p->missing = p->common.dropped = missing;
}

/* Wait until no thread uses a model that it may have loaded before now. The caller holds the
 * lock. */
static void wait_for_choosers(const struct linnos_predictor *p)
{
	for (const struct linnos_chooser *ch = p->choosers; ch; ch = ch->next) {
		uint32_t choosing = __atomic_load_n(&ch->choosing, __ATOMIC_SEQ_CST);

		while (choosing & 1 && __atomic_load_n(&ch->choosing, __ATOMIC_SEQ_CST) == choosing)
			sched_yield();
	}
}

int linnos_predictor_set_model(struct linnos_predictor *p, unsigned int replica, const char *path)
{
	int error = no_such_replica(p, replica);
	struct linnos_latency *model = error ? NULL : model_new(replica, path, &error);

	if (!model)
		return error;
	pthread_mutex_lock(&p->lock);
	model = __atomic_exchange_n(&p->models[replica], model, __ATOMIC_SEQ_CST);
	chooser_model_changed(&p->first, replica);
	wait_for_choosers(p);
	pthread_mutex_unlock(&p->lock);
	free(model);
	return 0;
}

/* --- Counting ------------------------------------------------------------------------------ */

void predictor_count(struct linnos_predictor *p, struct linnos_stats *counts)
{
	pthread_mutex_lock(&p->lock);
	*counts = p->past;
	for (const struct linnos_chooser *ch = p->choosers; ch; ch = ch->next)
		counters_add(counts, &ch->counts, sizeof(*counts));
	pthread_mutex_unlock(&p->lock);
}

static void count_replica(struct linnos_predictor *p, unsigned int replica,
			  struct replica_counts *sum)
{
	pthread_mutex_lock(&p->lock);
	*sum = p->past_replicas[replica];
	for (const struct linnos_chooser *ch = p->choosers; ch; ch = ch->next)
		counters_add(sum, &ch->replicas[replica], sizeof(*sum));
	pthread_mutex_unlock(&p->lock);
}

static enum linnos_state state_of(const struct linnos_predictor *p, unsigned int replica,
				  uint64_t now_ns)
{
	const struct observer *o = &p->drives[replica];
	uint64_t last_completion_ns = READ_ONCE(o->last_completion_ns);

	if (READ_ONCE(p->common.dropped) & 1u << replica)
		return LINNOS_DROPPED;
	if (READ_ONCE(o->failing))
		return LINNOS_FAILING;
	if (READ_ONCE(o->slow) || observer_has_late_read(o, now_ns))
		return LINNOS_SLOW;
	if (!last_completion_ns || now_ns > last_completion_ns + p->o.probe_after_ms * 1000000ull)
		return LINNOS_SILENT;
	return LINNOS_HEALTHY;
}

int linnos_predictor_get_replica_stats(struct linnos_predictor *p, unsigned int replica,
				       uint64_t now_ns, struct linnos_replica_stats *stats,
				       size_t bytes)
{
	struct linnos_replica_stats s = {0};
	struct replica_counts sum;
	struct linnos_load load;

	if (no_such_replica(p, replica))
		return -EINVAL;
	count_replica(p, replica, &sum);
	linnos_load_snapshot(&p->drives[replica].drive, &load);
	s.state = state_of(p, replica, now_ns);
	s.chooses = READ_ONCE(p->common.chooses) >> replica & 1;
	s.served = sum.served;
	s.errors = sum.errors;
	s.answered = sum.answered;
	s.in_flight = load.reads;
	s.predicted_us = sum.predicted_us;
	s.took_us = sum.took_us;
	s.near = sum.near;
	pthread_mutex_lock(&p->lock);
	s.model_id = get_unaligned_le32(p->models[replica]->header + LINNOS_FILE_CRC32);
	pthread_mutex_unlock(&p->lock);
	versioned_struct_copy_out(stats, bytes, &s, sizeof(s));
	return 0;
}

int linnos_predictor_get_histogram(struct linnos_predictor *p, unsigned int replica,
				   uint64_t *counts, unsigned int n_counts)
{
	struct replica_counts sum;

	if (no_such_replica(p, replica))
		return -EINVAL;
	count_replica(p, replica, &sum);
	for (unsigned int i = 0; counts && i < n_counts; i++)
		counts[i] = i < N_BUCKETS ? sum.buckets[i] : 0;
	return N_BUCKETS;
}

uint64_t linnos_bucket_ns(unsigned int bucket)
{
	const unsigned int per_power = 1u << BUCKET_BITS;

	if (bucket >= N_BUCKETS)
		return UINT64_MAX;
	if (bucket < per_power)
		return bucket;
	return (uint64_t)(bucket % per_power + per_power) << (bucket / per_power - 1);
}
