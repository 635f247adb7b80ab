// SPDX-License-Identifier: MIT
/* Choose between replicas, in any number of threads: see linnos_choose.h. */
#include "messages.h"
#include "predictor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The private part of struct linnos_choice. */
struct choice_own {
	uint64_t start_ns;
	uint64_t sent_ns;	 /* submission of the last attempt, except hedges */
	double expected_gain_us; /* of its hedge; 0 if there is no hedge or it is not known */
	struct linnos_assignment assignment;
	uint32_t default_us;
	bool redirected;
};

_Static_assert(sizeof(struct choice_own) <= sizeof(((struct linnos_choice *)0)->own),
	       "struct linnos_choice is too small");

static struct choice_own *own_of(const struct linnos_choice *c)
{
	return (struct choice_own *)c->own;
}

/* --- Choosing ------------------------------------------------------------------------------ */

int linnos_chooser_create(struct linnos_chooser **chooser, struct linnos_predictor *p)
{
	struct linnos_chooser *ch;
	double share;

	*chooser = NULL;
	if (!p)
		return error_null("struct linnos_predictor");
	share = p->o.max_duplicates / 100;
	ch = aligned_alloc(64, (sizeof(*ch) + 63) / 64 * 64);
	if (!ch)
		return error_memory();
	memset(ch, 0, sizeof(*ch));
	ch->replicas = calloc(p->n, sizeof(*ch->replicas));
	if (p->learns)
		ch->learner = learner_create(&p->learning);
	if (!ch->replicas || (p->learns && !ch->learner)) {
		learner_free(ch->learner);
		free(ch->replicas);
		free(ch);
		return error_memory();
	}
	ch->predictor = p;
	ch->next_default = __atomic_fetch_add(&p->next_default, 1, __ATOMIC_RELAXED) % p->n;
	ch->hedges = (struct budget){.share = share, .burst = p->o.duplicates_burst};
	chooser_join(&ch->c, &p->first);
	chooser_set_probe_budget(&ch->c, share, p->hedging ? &ch->hedges : NULL);
	pthread_mutex_lock(&p->lock);
	ch->next = p->choosers;
	p->choosers = ch;
	pthread_mutex_unlock(&p->lock);
	*chooser = ch;
	return 0;
}

void linnos_chooser_free(struct linnos_chooser *ch)
{
	struct linnos_predictor *p;
	struct linnos_chooser **at;

	if (!ch)
		return;
	p = ch->predictor;
	pthread_mutex_lock(&p->lock);
	for (at = &p->choosers; *at != ch; at = &(*at)->next)
		;
	*at = ch->next;
	counters_add(&p->past, &ch->counts, sizeof(ch->counts));
	counters_add(p->past_replicas, ch->replicas, p->n * sizeof(*ch->replicas));
	pthread_mutex_unlock(&p->lock);
	learner_free(ch->learner);
	free(ch->replicas);
	free(ch);
}

void chooser_use_external(struct linnos_chooser *ch, const struct external_predictions *external)
{
	ch->c.external = external;
}

void chooser_copy_not_sent(struct linnos_chooser *ch, bool permanent)
{
	count(&ch->counts.probes, -1);
	if (permanent)
		WRITE_ONCE(ch->predictor->common.users_probe, true);
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

static unsigned int default_of(struct linnos_chooser *ch, int32_t home)
{
	const unsigned int n = ch->predictor->n;
	uint32_t dropped = READ_ONCE(ch->predictor->common.dropped);
	unsigned int replica;

	if (home < 0)
		home = ch->predictor->o.home;
	replica = home >= 0 ? (unsigned int)home % n : ch->next_default;
	if (home < 0 && ++ch->next_default == n)
		ch->next_default = 0;
	while (dropped & 1u << replica)
		replica = (replica + 1) % n;
	return replica;
}

static int next_best(struct linnos_chooser *ch, const struct linnos_choice *c, uint64_t now_ns)
{
	return chooser_find_fastest(&ch->c, c->home, c->offset, pages_of(c->bytes), now_ns,
				    c->tried);
}

/* Plan the second attempt, at @replica, by its expected gain. Return true if it is due now. */
static bool is_second_due(struct linnos_chooser *ch, struct linnos_choice *c, int replica,
			  uint64_t now_ns)
{
	struct choice_own *own = own_of(c);
	struct hedge_plan plan = {.wait_us = INFINITY};
	struct hedge_candidate read = {.pages = pages_of(c->bytes), .first_us = c->predicted_us};
	struct linnos_load load;

	if (replica >= 0) {
		linnos_load_snapshot(&ch->predictor->drives[replica].drive, &load);
		read.second_us = ch->c.us[replica];
		read.waited_us = (now_ns - own->sent_ns) / 1000.0;
		read.reads = load.reads;
		plan = gain_planner_plan(&ch->learner->planner, &read);
	}
	c->hedge_at_ns = UINT64_MAX;
	if (!isfinite(plan.wait_us))
		return false;
	own->expected_gain_us = plan.gain_us;
	c->hedge_at_ns = now_ns + (uint64_t)(1000 * plan.wait_us) + 1;
	return plan.wait_us <= 0;
}

static void plan_hedge(struct linnos_chooser *ch, struct linnos_choice *c, uint64_t now_ns)
{
	struct linnos_predictor *p = ch->predictor;
	uint64_t after_ns = READ_ONCE(p->learning.hedge_ns);

	c->hedge_at_ns = UINT64_MAX;
	if (p->duplicates) {
		struct linnos_load load;
		int second = chooser_find_second(&ch->c, c->home, c->offset, pages_of(c->bytes),
						 now_ns, c->tried);

		linnos_load_snapshot(&p->drives[c->replica].drive, &load);
		learner_observe(ch->learner,
				(struct observation){.kind = LEARN_READ, .n = load.reads});
		is_second_due(ch, c, second, now_ns);
	} else if (after_ns) {
		c->hedge_at_ns = now_ns + after_ns;
	}
}

void linnos_choose(struct linnos_chooser *ch, struct linnos_choice *c, uint64_t now_ns)
{
	struct choice_own *own = own_of(c);
	struct choice choice;

	begin_choosing(ch);
	c->home = (int32_t)default_of(ch, c->home);
	choice = chooser_read(&ch->c, c->home, c->offset, pages_of(c->bytes), now_ns);
	c->copy = c->bytes ? choice.copy : -1;
	*own = (struct choice_own){
		.start_ns = now_ns,
		.sent_ns = now_ns,
		.assignment = choice.assignment,
		.default_us = ch->c.us[c->home],
		.redirected = choice.drive != (unsigned int)c->home,
	};
	if (c->copy >= 0) {
		count(&ch->counts.probes, 1);
		if (READ_ONCE(ch->predictor->common.users_probe)) {
			choice.drive = c->copy;
			c->copy = -1;
			own->redirected = false;
			own->assignment = (struct linnos_assignment){0};
		}
	}
	c->replica = choice.drive;
	c->predicted_us = ch->c.us[c->replica];
	c->tried = 1u << c->replica;
	count(&ch->counts.reads, 1);
	if (ch->c.external)
		count(&ch->counts.queried, 1);
	if (own->redirected)
		count(&ch->counts.redirected, 1);
	if (own->assignment.slowness != LINNOS_SLOWNESS_NONE && !own->assignment.redirected)
		count(&ch->counts.control, 1);
	c->hedge_at_ns = UINT64_MAX;
	if (ch->predictor->hedging) {
		budget_earn(&ch->hedges);
		if (!(c->flags & LINNOS_NEVER_HEDGE) && c->bytes <= HEDGED_BYTES_MAX)
			plan_hedge(ch, c, now_ns);
	}
	end_choosing(ch);
	ch->c.external = NULL;
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

/* Check the exact numbers in addition to the token bucket, which has rounding errors: hedges and
 * copies must never exceed the allowed percentage of the reads. */
static bool cap_allows(const struct linnos_chooser *ch)
{
	return budget_allows(&ch->hedges) &&
	       (double)(ch->counts.hedges + ch->counts.probes + 1) * 100 <=
		       ch->predictor->o.max_duplicates * (double)ch->counts.reads;
}

int linnos_choose_hedge(struct linnos_chooser *ch, struct linnos_choice *c, uint64_t now_ns)
{
	struct linnos_predictor *p = ch->predictor;
	bool is_due = true;
	int replica;

	begin_choosing(ch);
	replica = next_best(ch, c, now_ns);
	end_choosing(ch);
	if (p->duplicates) {
		is_due = is_second_due(ch, c, replica, now_ns);
		if (is_due)
			learner_observe(ch->learner, (struct observation){.kind = LEARN_HEDGE_DUE});
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

void linnos_chooser_on_submit(struct linnos_chooser *ch, struct linnos_attempt *attempt,
			      const struct linnos_choice *c, unsigned int replica,
			      enum linnos_kind kind, uint64_t now_ns)
{
	struct observer *o = &ch->predictor->drives[replica];
	struct attempt_data *s = attempt_data_of(attempt);

	*s = (struct attempt_data){.replica = replica, .kind = kind};
	if (kind != LINNOS_WRITE)
		s->predicted_us = ch->c.us[replica];
	if (ch->predictor->duplicates && kind != LINNOS_WRITE) {
		struct linnos_load met;

		linnos_load_snapshot(&o->drive, &met);
		s->pages_ahead = met.read_pages;
	}
	observer_sent(o, &s->io, now_ns, c->offset, pages_of(c->bytes), kind != LINNOS_WRITE);
}

static void record_gain(struct learner *learner, const struct attempt_data *s, uint64_t took_ns,
			uint64_t now_ns)
{
	learner_observe(learner, (struct observation){.kind = LEARN_ATTEMPT,
						      .predicted_us = s->predicted_us,
						      .n = s->pages_ahead,
						      .us = took_ns / 1000.0});
	if (s->expected_gain_us > 0)
		learner_observe(
			learner,
			(struct observation){
				.kind = LEARN_HEDGE,
				.claimed_us = s->expected_gain_us,
				.us = s->beaten_by_hedge ? (now_ns - s->beaten_ns) / 1000.0 : 0});
}

static void count_answer(struct linnos_chooser *ch, const struct attempt_data *s, uint64_t took_ns)
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

static void answered(struct linnos_chooser *ch, const struct attempt_data *s, uint64_t now_ns)
{
	struct linnos_predictor *p = ch->predictor;
	uint64_t took_ns = now_ns > s->io.issued_ns ? now_ns - s->io.issued_ns : 0;

	count_answer(ch, s, took_ns);
	if (p->o.hedge_percentile > 0 && s->kind == LINNOS_PRIMARY_ATTEMPT)
		learner_observe(ch->learner,
				(struct observation){.kind = LEARN_LATENCY, .latency_ns = took_ns});
	if (p->duplicates && s->kind != LINNOS_PROBE_COPY)
		record_gain(ch->learner, s, took_ns, now_ns);
	if (s->beaten_by_hedge)
		count(&ch->counts.hedges_saved_us, (now_ns - s->beaten_ns) / 1000);
}

void linnos_chooser_on_complete(struct linnos_chooser *ch, struct linnos_attempt *attempt,
				enum linnos_end end, uint64_t now_ns)
{
	struct attempt_data *s = attempt_data_of(attempt);
	struct observer *o = &ch->predictor->drives[s->replica];
	enum observed_end observed = OBSERVED_IGNORED;

	/* A caller may send every late read to another replica and cancel the first attempt. This
	 * attempt was late and must count as such. */
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
	const struct attempt_data *w = winner ? attempt_data_of(winner) : NULL;

	if (loser) {
		struct attempt_data *l = attempt_data_of(loser);

		l->beaten_ns = now_ns;
		l->beaten_by_hedge = w && w->kind == LINNOS_HEDGE_ATTEMPT;
		if (l->kind == LINNOS_HEDGE_ATTEMPT || l->beaten_by_hedge)
			l->expected_gain_us = own->expected_gain_us;
	}
	chooser_answered_sampled(&ch->c, own->assignment, took_ns);
	if (own->redirected)
		count((uint64_t *)&ch->counts.saved_us_estimate,
		      own->default_us - (int64_t)(took_ns / 1000));
	if (!w)
		return;
	count(&ch->replicas[w->replica].served, 1);
	if (w->kind == LINNOS_HEDGE_ATTEMPT)
		count(&ch->counts.hedges_won, 1);
}
