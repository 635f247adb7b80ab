// SPDX-License-Identifier: MIT
/* Choose between replicas, in any number of threads: see linnos_choose.h. */
#include "core.h"
#include "messages.h"
#include "model_file.h"
#include "options.h"
#include "random_bytes.h"
#include "versioned_struct.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Overdue time without a model: no read of a healthy drive takes longer. */
#define OVERDUE_US 10000
/* The error of a hedging percentile is at most 1/64. */
#define HISTOGRAM_BITS 6
/* At most this many reads in a row stay at an idle default replica without predictions for the
 * others. */
#define LOOK_EVERY 32

/* Thresholds from a percentile: at least BEYOND_MIN of the observed latencies must be longer. The
 * percentile is computed again every LOOK_UP_EVERY latencies, and the counts are halved when there
 * are LATENCIES_MAX of them. */
#define BEYOND_MIN 10
#define LOOK_UP_EVERY 64
#define LATENCIES_MAX 20000

/* The private part of struct linnos_choice. */
struct choice_own {
	uint64_t start_ns;
	uint64_t sent_ns;  /* submission of the last attempt, except hedges */
	double claimed_us; /* expected gain of its hedge; 0 if there is no hedge or the gain is
			      unknown */
	struct linnos_assignment lot;
	uint32_t home_us;
	bool moved;
};

_Static_assert(sizeof(struct choice_own) <= sizeof(((struct linnos_choice *)0)->own),
	       "it has room");

static struct choice_own *own_of(const struct linnos_choice *c)
{
	return (struct choice_own *)c->own;
}

unsigned int linnos_version(void)
{
	return LIBLINNOS_VERSION;
}

unsigned int linnos_replicas_max(void)
{
	return CHOOSER_DRIVES_MAX;
}

/* --- Predictors ------------------------------------------------------------------------------- */

static struct linnos_latency *model_new(unsigned int replica, const char *path, int *error)
{
	char why[MODEL_WHY_BYTES];
	struct linnos_latency *model =
		path ? model_file_read(path, error, why) : model_mean_of_last(OVERDUE_US);

	if (!model)
		*error = path ? error_say(*error, "model of replica %u: %s", replica, why)
			      : error_say(-ENOMEM, "out of memory");
	return model;
}

static int read_hedge_tables(struct linnos_predictor *known)
{
	char why[HEDGE_TABLE_WHY_BYTES];
	int error = 0;

	known->hedge_tables = calloc(known->n, sizeof(*known->hedge_tables));
	if (!known->hedge_tables)
		return error_say(-ENOMEM, "out of memory");
	for (unsigned int k = 0; !error && k < known->n; k++) {
		if (!known->o.hedge_tables[k])
			return error_say(-EINVAL, "no hedge table for replica %u", k);
		error = hedge_table_read(&known->hedge_tables[k], known->o.hedge_tables[k], why);
	}
	/* The caller may free the array of paths. */
	known->o.hedge_tables = NULL;
	return error ? error_say(error, "hedge table %s", why) : 0;
}

static int set_up(struct linnos_predictor *known, const char *const *models)
{
	const struct linnos_options *o = &known->o;
	double share = o->extra_io_percent / 100;
	int error = o->hedge_tables ? read_hedge_tables(known) : 0;

	for (unsigned int k = 0; !error && k < known->n; k++)
		known->models[k] = model_new(k, models ? models[k] : NULL, &error);
	if (error)
		return error;
	known->races = o->flags & LINNOS_HEDGE_BY_GAIN;
	known->hedging =
		known->n > 1 && share > 0 &&
		(o->hedge_us || o->hedge_percentile > 0 || known->hedge_tables || known->races);
	known->races = known->races && known->hedging;
	known->hedge_ns = o->hedge_us * 1000ull;
	race_init(&known->race, share);
	chooser_init(&known->first, &known->common, known->n, known->drives, known->models,
		     o->explore_ms * 1000000ull, o->home_margin_percent,
		     !(o->flags & LINNOS_UNGUARDED));
	known->first.look_every = o->flags & LINNOS_PREDICT_ALL ? 0 : LOOK_EVERY;
	known->past_replicas = calloc(known->n, sizeof(*known->past_replicas));
	if (!known->past_replicas || !histogram_init(&known->latencies, HISTOGRAM_BITS))
		return error_say(-ENOMEM, "out of memory");
	return 0;
}

/* Initialize the random generator, so that processes that read in lock-step do not choose alike. */
static int draw_at_random(struct linnos_predictor *known)
{
	int error = random_u64(&known->common.guard.random);

	known->next_home = known->common.guard.random >> 32;
	return error ? error_say(error, "getrandom: %s", strerror(-error)) : 0;
}

int linnos_predictor_create(struct linnos_predictor **known, unsigned int n,
			    const char *const *models, const struct linnos_options *options)
{
	struct linnos_options o;
	struct linnos_predictor *k;
	int error = options_copy_in(&o, options);

	*known = NULL;
	if (!error)
		error = options_check(&o, n);
	if (error)
		return error;
	k = aligned_alloc(64, (sizeof(*k) + 63) / 64 * 64);
	if (!k)
		return error_say(-ENOMEM, "out of memory");
	memset(k, 0, sizeof(*k));
	k->n = n;
	k->o = o;
	pthread_mutex_init(&k->lock, NULL);
	pthread_mutex_init(&k->learning, NULL);
	error = set_up(k, models);
	if (!error)
		error = draw_at_random(k);
	if (error)
		linnos_predictor_free(k);
	else
		*known = k;
	return error;
}

void linnos_predictor_free(struct linnos_predictor *known)
{
	if (!known)
		return;
	for (unsigned int k = 0; k < known->n; k++)
		free(known->models[k]);
	free(known->hedge_tables);
	free(known->past_replicas);
	histogram_free(&known->latencies);
	pthread_mutex_destroy(&known->lock);
	pthread_mutex_destroy(&known->learning);
	free(known);
}

static int no_such_replica(const struct linnos_predictor *known, unsigned int replica)
{
	if (!known)
		return error_null("array, or what is known of one");
	return replica < known->n
		       ? 0
		       : error_say(-EINVAL, "replica %u; there are 0 to %u", replica, known->n - 1);
}

int linnos_predictor_drop_replica(struct linnos_predictor *known, unsigned int replica)
{
	int error = no_such_replica(known, replica);
	uint32_t gone;

	if (error)
		return error;
	pthread_mutex_lock(&known->lock);
	gone = known->common.gone | 1u << replica;
	if (gone == (1u << known->n) - 1)
		error = error_say(-EBUSY, "replica %u: the last one, it cannot be dropped",
				  replica);
	else
		WRITE_ONCE(known->common.gone, gone);
	pthread_mutex_unlock(&known->lock);
	return error;
}

int linnos_predictor_restore_replica(struct linnos_predictor *known, unsigned int replica)
{
	int error = no_such_replica(known, replica);

	if (error)
		return error;
	if (known->missing & 1u << replica)
		return error_say(-ENODEV,
				 "replica %u was not there when the array was opened; open another "
				 "array with it",
				 replica);
	pthread_mutex_lock(&known->lock);
	if (known->common.gone & 1u << replica)
		observer_reset(&known->drives[replica]);
	WRITE_ONCE(known->common.gone, known->common.gone & ~(1u << replica));
	pthread_mutex_unlock(&known->lock);
	return 0;
}

/* Wait until no thread uses a model that it may have loaded before now. The caller holds the
 * lock. */
static void wait_for_choosers(const struct linnos_predictor *known)
{
	for (const struct linnos_chooser *ch = known->choosers; ch; ch = ch->next) {
		uint32_t choosing = __atomic_load_n(&ch->choosing, __ATOMIC_SEQ_CST);

		while (choosing & 1 && __atomic_load_n(&ch->choosing, __ATOMIC_SEQ_CST) == choosing)
			sched_yield();
	}
}

int linnos_predictor_set_model(struct linnos_predictor *known, unsigned int replica,
			       const char *path)
{
	int error = no_such_replica(known, replica);
	struct linnos_latency *model = error ? NULL : model_new(replica, path, &error);

	if (!model)
		return error;
	pthread_mutex_lock(&known->lock);
	model = __atomic_exchange_n(&known->models[replica], model, __ATOMIC_SEQ_CST);
	chooser_model_changed(&known->first, replica);
	wait_for_choosers(known);
	pthread_mutex_unlock(&known->lock);
	free(model);
	return 0;
}

/* --- Counting ------------------------------------------------------------------------------ */

/* All members of both structures are 64 bits wide. */
static void add_up(void *sum, const void *of, size_t bytes)
{
	uint64_t *to = sum;
	const uint64_t *from = of;

	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += READ_ONCE(from[i]);
}

void known_count(struct linnos_predictor *known, struct counts *counts)
{
	pthread_mutex_lock(&known->lock);
	*counts = known->past;
	for (const struct linnos_chooser *ch = known->choosers; ch; ch = ch->next)
		add_up(counts, &ch->counts, sizeof(*counts));
	pthread_mutex_unlock(&known->lock);
}

static void count_replica(struct linnos_predictor *known, unsigned int replica,
			  struct replica_counts *sum)
{
	pthread_mutex_lock(&known->lock);
	*sum = known->past_replicas[replica];
	for (const struct linnos_chooser *ch = known->choosers; ch; ch = ch->next)
		add_up(sum, &ch->replicas[replica], sizeof(*sum));
	pthread_mutex_unlock(&known->lock);
}

static enum linnos_state state_of(const struct linnos_predictor *known, unsigned int replica,
				  uint64_t now_ns)
{
	const struct observer *o = &known->drives[replica];
	uint64_t heard_ns = READ_ONCE(o->heard_ns);

	if (READ_ONCE(known->common.gone) & 1u << replica)
		return LINNOS_DROPPED;
	if (READ_ONCE(o->failing))
		return LINNOS_FAILING;
	if (READ_ONCE(o->slow) || observer_has_late_read(o, now_ns))
		return LINNOS_SLOW;
	if (!heard_ns || now_ns > heard_ns + known->o.explore_ms * 1000000ull)
		return LINNOS_SILENT;
	return LINNOS_HEALTHY;
}

int linnos_predictor_get_replica_stats(struct linnos_predictor *known, unsigned int replica,
				       uint64_t now_ns, struct linnos_replica_stats *stats,
				       size_t bytes)
{
	struct linnos_replica_stats s = {0};
	struct replica_counts sum;
	struct linnos_load load;

	if (no_such_replica(known, replica))
		return -EINVAL;
	count_replica(known, replica, &sum);
	linnos_load_snapshot(&known->drives[replica].drive, &load);
	s.state = state_of(known, replica, now_ns);
	s.chooses = READ_ONCE(known->common.chooses) >> replica & 1;
	s.served = sum.served;
	s.errors = sum.errors;
	s.answered = sum.answered;
	s.in_flight = load.reads;
	s.predicted_us = sum.predicted_us;
	s.took_us = sum.took_us;
	s.near = sum.near;
	pthread_mutex_lock(&known->lock);
	s.model_id = get_unaligned_le32(known->models[replica]->header + LINNOS_FILE_CRC32);
	pthread_mutex_unlock(&known->lock);
	versioned_struct_copy_out(stats, bytes, &s, sizeof(s));
	return 0;
}

int linnos_predictor_get_histogram(struct linnos_predictor *known, unsigned int replica,
				   uint64_t *counts, unsigned int n_counts)
{
	struct replica_counts sum;

	if (no_such_replica(known, replica))
		return -EINVAL;
	count_replica(known, replica, &sum);
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

/* --- Choosing ------------------------------------------------------------------------------ */

int linnos_chooser_create(struct linnos_chooser **chooser, struct linnos_predictor *known)
{
	struct linnos_chooser *ch;
	double share;

	*chooser = NULL;
	if (!known)
		return error_null("struct linnos_predictor");
	share = known->o.extra_io_percent / 100;
	ch = aligned_alloc(64, (sizeof(*ch) + 63) / 64 * 64);
	if (ch)
		memset(ch, 0, sizeof(*ch));
	if (ch)
		ch->replicas = calloc(known->n, sizeof(*ch->replicas));
	if (!ch || !ch->replicas) {
		free(ch);
		return error_say(-ENOMEM, "out of memory");
	}
	ch->known = known;
	ch->next_home = __atomic_fetch_add(&known->next_home, 1, __ATOMIC_RELAXED) % known->n;
	ch->hedges = (struct budget){.share = share, .burst = known->o.extra_io_burst};
	chooser_join(&ch->c, &known->first);
	chooser_set_probe_budget(&ch->c, share, known->hedging ? &ch->hedges : NULL);
	pthread_mutex_lock(&known->lock);
	ch->next = known->choosers;
	known->choosers = ch;
	pthread_mutex_unlock(&known->lock);
	*chooser = ch;
	return 0;
}

void linnos_chooser_free(struct linnos_chooser *ch)
{
	struct linnos_predictor *known;
	struct linnos_chooser **at;

	if (!ch)
		return;
	known = ch->known;
	pthread_mutex_lock(&known->lock);
	for (at = &known->choosers; *at != ch; at = &(*at)->next)
		;
	*at = ch->next;
	add_up(&known->past, &ch->counts, sizeof(ch->counts));
	add_up(known->past_replicas, ch->replicas, known->n * sizeof(*ch->replicas));
	pthread_mutex_unlock(&known->lock);
	free(ch->replicas);
	free(ch);
}

void chooser_tell(struct linnos_chooser *ch, const struct told *told)
{
	ch->c.told = told;
}

void chooser_copy_not_sent(struct linnos_chooser *ch, bool for_ever)
{
	count(&ch->counts.explored, -1);
	if (for_ever)
		WRITE_ONCE(ch->known->common.users_explore, true);
}

/* Models loaded between begin_choosing() and end_choosing() are not freed before the latter. */
static void begin_choosing(struct linnos_chooser *ch)
{
	__atomic_store_n(&ch->choosing, ch->choosing + 1, __ATOMIC_SEQ_CST);
}

static void end_choosing(struct linnos_chooser *ch)
{
	__atomic_store_n(&ch->choosing, ch->choosing + 1, __ATOMIC_RELEASE);
}

static unsigned int home_of(struct linnos_chooser *ch, int32_t given)
{
	const unsigned int n = ch->known->n;
	uint32_t gone = READ_ONCE(ch->known->common.gone);
	unsigned int home;

	if (given < 0)
		given = ch->known->o.home;
	home = given >= 0 ? (unsigned int)given % n : ch->next_home;
	if (given < 0 && ++ch->next_home == n)
		ch->next_home = 0;
	while (gone & 1u << home)
		home = (home + 1) % n;
	return home;
}

static int next_best(struct linnos_chooser *ch, const struct linnos_choice *c, uint64_t now_ns)
{
	return chooser_find_fastest(&ch->c, c->home, c->offset, pages_of(c->bytes), now_ns,
				    c->tried);
}

/* Plan the second attempt, at @replica, by its expected gain. Return true if it is due now. The
 * caller holds `learning`. */
static bool is_second_due(struct linnos_chooser *ch, struct linnos_choice *c, int replica,
			  uint64_t now_ns)
{
	struct choice_own *own = own_of(c);
	struct race_plan plan = {.wait_us = INFINITY};
	struct racing read = {.pages = pages_of(c->bytes), .first_us = c->predicted_us};
	struct linnos_load load;

	if (replica >= 0) {
		linnos_load_snapshot(&ch->known->drives[replica].drive, &load);
		read.second_us = ch->c.us[replica];
		read.waited_us = (now_ns - own->sent_ns) / 1000.0;
		read.reads = load.reads;
		plan = race_plan(&ch->known->race, &read);
	}
	c->hedge_at_ns = UINT64_MAX;
	if (!isfinite(plan.wait_us))
		return false;
	own->claimed_us = plan.gain_us;
	c->hedge_at_ns = now_ns + (uint64_t)(1000 * plan.wait_us) + 1;
	return plan.wait_us <= 0;
}

static void plan_hedge(struct linnos_chooser *ch, struct linnos_choice *c, uint64_t now_ns)
{
	struct linnos_predictor *known = ch->known;
	uint64_t after_ns = READ_ONCE(known->hedge_ns);

	c->hedge_at_ns = UINT64_MAX;
	if (known->hedge_tables)
		after_ns = 1000ull *
			   hedge_table_after_us(&known->hedge_tables[c->replica], c->predicted_us);
	if (known->races) {
		struct linnos_load load;
		int second = next_best(ch, c, now_ns);

		linnos_load_snapshot(&known->drives[c->replica].drive, &load);
		pthread_mutex_lock(&known->learning);
		race_begin(&known->race, load.reads);
		is_second_due(ch, c, second, now_ns);
		pthread_mutex_unlock(&known->learning);
	} else if (after_ns) {
		c->hedge_at_ns = now_ns + after_ns;
	}
}

void linnos_choose(struct linnos_chooser *ch, struct linnos_choice *c, uint64_t now_ns)
{
	struct choice_own *own = own_of(c);
	struct choice choice;

	begin_choosing(ch);
	c->home = (int32_t)home_of(ch, c->home);
	choice = chooser_read(&ch->c, c->home, c->offset, pages_of(c->bytes), now_ns);
	c->copy = c->bytes ? choice.copy : -1;
	*own = (struct choice_own){
		.start_ns = now_ns,
		.sent_ns = now_ns,
		.lot = choice.lot,
		.home_us = ch->c.us[c->home],
		.moved = choice.drive != (unsigned int)c->home,
	};
	if (c->copy >= 0) {
		count(&ch->counts.explored, 1);
		if (READ_ONCE(ch->known->common.users_explore)) {
			choice.drive = c->copy;
			c->copy = -1;
			own->moved = false;
			own->lot = (struct linnos_assignment){0};
		}
	}
	c->replica = choice.drive;
	c->predicted_us = ch->c.us[c->replica];
	c->tried = 1u << c->replica;
	count(&ch->counts.reads, 1);
	if (ch->c.told)
		count(&ch->counts.asked, 1);
	if (own->moved)
		count(&ch->counts.moved, 1);
	if (own->lot.wish != LINNOS_SLOWNESS_NONE && !own->lot.left)
		count(&ch->counts.stayed, 1);
	budget_earn(&ch->hedges);
	c->hedge_at_ns = UINT64_MAX;
	if (ch->known->hedging && !(c->flags & LINNOS_NEVER_HEDGE) && c->bytes <= HEDGED_BYTES_MAX)
		plan_hedge(ch, c, now_ns);
	end_choosing(ch);
	ch->c.told = NULL;
}

int linnos_choose_next(struct linnos_chooser *ch, struct linnos_choice *c, uint64_t now_ns)
{
	int replica;

	begin_choosing(ch);
	replica = next_best(ch, c, now_ns);
	end_choosing(ch);
	if (replica < 0)
		return -1;
	c->replica = replica;
	c->predicted_us = ch->c.us[replica];
	c->tried |= 1u << replica;
	own_of(c)->sent_ns = now_ns;
	count(&ch->counts.failovers, 1);
	return replica;
}

/* In addition to the token bucket, which counts in fractions: hedges and copies must never exceed
 * the allowed fraction of the reads. */
static bool cap_allows(const struct linnos_chooser *ch)
{
	return budget_allows(&ch->hedges) &&
	       (double)(ch->counts.hedges + ch->counts.explored + 1) * 100 <=
		       ch->known->o.extra_io_percent * (double)ch->counts.reads;
}

int linnos_choose_hedge(struct linnos_chooser *ch, struct linnos_choice *c, uint64_t now_ns)
{
	struct linnos_predictor *known = ch->known;
	bool is_due = true;
	int replica;

	begin_choosing(ch);
	replica = next_best(ch, c, now_ns);
	end_choosing(ch);
	if (known->races) {
		pthread_mutex_lock(&known->learning);
		is_due = is_second_due(ch, c, replica, now_ns);
		if (is_due)
			race_wanted(&known->race);
		pthread_mutex_unlock(&known->learning);
	}
	if (!is_due)
		return -1;
	c->hedge_at_ns = UINT64_MAX;
	if (replica < 0)
		return -1;
	if (!cap_allows(ch)) {
		count(&ch->counts.hedges_denied, 1);
		return -1;
	}
	c->tried |= 1u << replica;
	budget_spend(&ch->hedges);
	count(&ch->counts.hedges, 1);
	return replica;
}

/* --- Reports ---------------------------------------------------------------------------------- */

void linnos_chooser_on_submit(struct linnos_chooser *ch, struct linnos_attempt *sending,
			      const struct linnos_choice *c, unsigned int replica,
			      enum linnos_kind kind, uint64_t now_ns)
{
	struct observer *o = &ch->known->drives[replica];
	struct sending *s = sending_of(sending);

	*s = (struct sending){.replica = replica, .kind = kind};
	if (kind != LINNOS_WRITE)
		s->predicted_us = ch->c.us[replica];
	if (ch->known->races && kind != LINNOS_WRITE) {
		struct linnos_load met;

		linnos_load_snapshot(&o->drive, &met);
		s->met_pages = met.read_pages;
	}
	observer_sent(o, &s->io, now_ns, c->offset, pages_of(c->bytes), kind != LINNOS_WRITE);
}

static void note_latency(struct linnos_predictor *known, uint64_t ns)
{
	double fraction = known->o.hedge_percentile / 100;

	pthread_mutex_lock(&known->learning);
	histogram_add(&known->latencies, ns);
	if (++known->n_latencies >= LATENCIES_MAX)
		known->n_latencies = histogram_fade(&known->latencies);
	if (known->n_latencies % LOOK_UP_EVERY == 0 &&
	    (double)known->n_latencies * (1 - fraction) >= BEYOND_MIN) {
		uint64_t rank = nearest_rank(known->n_latencies, fraction);
		uint64_t at_ns = histogram_at_rank(&known->latencies, rank);

		WRITE_ONCE(known->hedge_ns, at_ns + !at_ns);
	}
	pthread_mutex_unlock(&known->learning);
}

static void note_race(struct linnos_predictor *known, const struct sending *s, uint64_t took_ns,
		      uint64_t now_ns)
{
	pthread_mutex_lock(&known->learning);
	race_answered(&known->race, s->predicted_us, s->met_pages, took_ns / 1000.0);
	if (s->claimed_us > 0)
		race_ended(&known->race, s->claimed_us,
			   s->lost_to_hedge ? (now_ns - s->lost_ns) / 1000.0 : 0);
	pthread_mutex_unlock(&known->learning);
}

static void count_answer(struct linnos_chooser *ch, const struct sending *s, uint64_t took_ns)
{
	struct replica_counts *r = &ch->replicas[s->replica];
	const struct histogram h = {.bits = BUCKET_BITS, .counts = r->buckets};
	uint64_t took_us = took_ns / 1000;

	count(&r->answered, 1);
	count(&r->predicted_us, s->predicted_us);
	count(&r->took_us, took_us);
	if (took_us <= 2ull * s->predicted_us && s->predicted_us <= 2 * took_us)
		count(&r->near, 1);
	count(&r->buckets[histogram_bucket(&h, took_ns)], 1);
}

static void answered(struct linnos_chooser *ch, const struct sending *s, uint64_t now_ns)
{
	struct linnos_predictor *known = ch->known;
	uint64_t took_ns = now_ns > s->io.issued_ns ? now_ns - s->io.issued_ns : 0;

	count_answer(ch, s, took_ns);
	if (known->o.hedge_percentile > 0 && s->kind == LINNOS_PRIMARY_ATTEMPT)
		note_latency(known, took_ns);
	if (known->races && s->kind != LINNOS_PROBE_COPY)
		note_race(known, s, took_ns, now_ns);
	if (s->lost_to_hedge)
		count(&ch->counts.hedges_saved_us, (now_ns - s->lost_ns) / 1000);
}

void linnos_chooser_on_complete(struct linnos_chooser *ch, struct linnos_attempt *sending,
				enum linnos_end end, uint64_t now_ns)
{
	struct sending *s = sending_of(sending);
	struct observer *o = &ch->known->drives[s->replica];
	enum observed_end observed = OBSERVED_IGNORED;

	/* A caller that sends every late read to another replica and cancels the first attempt must
	 * still record that this attempt was late. */
	if (end == LINNOS_CANCELLED &&
	    now_ns > s->io.issued_ns + READ_ONCE(o->overdue_us) * 1000ull)
		end = LINNOS_SUCCEEDED;
	if (s->kind == LINNOS_WRITE) {
		observer_ended(o, &s->io, now_ns, OBSERVED_ANSWERED);
		return;
	}
	if (end == LINNOS_FAILED) {
		count(&ch->counts.errors, 1);
		count(&ch->replicas[s->replica].errors, 1);
	}
	/* A read of no bytes does not reach the drive. */
	if (s->io.pages && end == LINNOS_SUCCEEDED)
		observed = OBSERVED_ANSWERED;
	else if (s->io.pages && end == LINNOS_FAILED)
		observed = OBSERVED_FAILED;
	observer_ended(o, &s->io, now_ns, observed);
	if (observed == OBSERVED_ANSWERED)
		answered(ch, s, now_ns);
}

void linnos_chooser_on_answer(struct linnos_chooser *ch, struct linnos_choice *c,
			      const struct linnos_attempt *winner, struct linnos_attempt *loser,
			      uint64_t now_ns)
{
	const struct choice_own *own = own_of(c);
	uint64_t took_ns = now_ns - own->start_ns;
	const struct sending *w = winner ? sending_of(winner) : NULL;

	if (loser) {
		struct sending *l = sending_of(loser);

		l->lost_ns = now_ns;
		l->lost_to_hedge = w && w->kind == LINNOS_HEDGE_ATTEMPT;
		if (l->kind == LINNOS_HEDGE_ATTEMPT || l->lost_to_hedge)
			l->claimed_us = own->claimed_us;
	}
	chooser_answered_sampled(&ch->c, own->lot, took_ns);
	if (own->moved)
		count((uint64_t *)&ch->counts.saved_us, own->home_us - (int64_t)(took_ns / 1000));
	if (!w)
		return;
	count(&ch->replicas[w->replica].served, 1);
	if (w->kind == LINNOS_HEDGE_ATTEMPT)
		count(&ch->counts.hedges_won, 1);
}
