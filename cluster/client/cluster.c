// SPDX-License-Identifier: MIT
/*
 * Choice between nodes: see linnos_cluster.h.
 *
 * A read stays at its default node, where the engine would send it, unless another candidate is
 * expected to be faster by more than a margin. Healthy nodes differ by chance by less than this
 * margin, and the default placement spreads reads more evenly than choices by agent reports would.
 * A redirected read is sent to a random candidate among those within the margin of the best, so
 * that clients with the same reports do not all choose the same node. The guards (linnos_guard.h)
 * measure whether redirection reduces latency: some reads stay as a control group, and the
 * latencies of both groups determine how many reads are redirected.
 *
 * A node that was slow is probed by one read at a time. The probe is a copy, for which no caller
 * waits. If the limit on copies does not allow one, a user's read with this default node probes it
 * some time later.
 */
#include "agent_reports.h"

#include "messages.h"
#include "random_bytes.h"
#include "versioned_struct.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Larger reads are neither hedged nor copied, because the data would have to be sent twice. */
#define EXTRA_BYTES_MAX (1u << 20)

/* Burst limits: of hedges and copies together, of copies, and of queries. */
#define EXTRA_BURST 100
#define COPIES_BURST 10
#define QUERIES_BURST 8

#define PROBE_AFTER_MS_MAX 250

/* A hedge that is due later, in about thirty years, is never sent. */
#define HEDGE_WAIT_MAX_NS 1e18

/* The fraction by which a decayed sum is reduced with each sample. */
#define FORGOTTEN (1.0 / 1024)

/* The private part of a choice. */
struct choice_state {
	const uint32_t *candidates;
	uint64_t start_ns;
	struct linnos_assignment assignment;
	uint32_t default_us, best_us;
	uint8_t n, size_class;
	bool redirected, would_redirect, is_healthy;
};

_Static_assert(sizeof(struct choice_state) <= sizeof(((struct linnos_choice *)0)->own),
	       "struct linnos_choice is too small");
_Static_assert(sizeof(struct sending) <= sizeof(struct linnos_attempt),
	       "struct linnos_attempt is too small");

static struct choice_state *choice_state(const struct linnos_choice *choice)
{
	return (struct choice_state *)choice->own;
}

/* --- Options ------------------------------------------------------------------------------- */

static int check_range(const char *name, double value, double min, double max)
{
	if (value >= min && value <= max)
		return 0;
	if (max == UINT32_MAX)
		return format_error(-EINVAL, "%s is %g; it must be at least %g", name, value, min);
	return format_error(-EINVAL, "%s is %g; it must be between %g and %g", name, value, min,
			    max);
}

static int check(const struct linnos_cluster_options *o, uint32_t n_nodes)
{
	const struct {
		const char *name;
		double value, min, max;
	} ranges[] = {
		{"n_nodes", n_nodes, 1, UINT32_MAX},
		{"mode", o->mode, 0, LINNOS_CLUSTER_HEDGE},
		{"flags", o->flags, 0, LINNOS_CLUSTER_UNGUARDED},
		{"margin_percent", o->margin_percent, 0, 100},
		{"probe_after_ms", o->probe_after_ms, 1, PROBE_AFTER_MS_MAX},
		{"probe_percent", o->probe_percent, 0, 100},
		{"max_duplicates", o->max_duplicates, 0, 100},
		{"query_percent", o->query_percent, 0, 100},
		{"hedge_percent", o->hedge_percent, 100, UINT32_MAX},
		{"key_bytes", o->key_bytes, 0, o->key ? KEY_BYTES_MAX : 0},
	};
	int error = 0;

	for (unsigned int k = 0; !error && k < sizeof(ranges) / sizeof(*ranges); k++)
		error = check_range(ranges[k].name, ranges[k].value, ranges[k].min, ranges[k].max);
	return error;
}

static int copy_options(struct linnos_cluster_options *o,
			const struct linnos_cluster_options *given, uint32_t n_nodes)
{
	int error;

	*o = (struct linnos_cluster_options)LINNOS_CLUSTER_OPTIONS_INIT;
	error = versioned_struct_copy_in(o, sizeof(*o), given, LINNOS_CLUSTER_OPTIONS_SIZE_VER0,
					 "options (see LINNOS_CLUSTER_OPTIONS_INIT)");
	return error ? error : check(o, n_nodes);
}

/* Replace seed 0 by a random one, so that clients make different choices. */
static int init_seed(uint64_t *seed)
{
	int error = *seed ? 0 : random_u64(seed);

	return error ? format_error(error, "getrandom: %s; set a seed to choose without it",
				    strerror(-error))
		     : 0;
}

int linnos_cluster_create(struct linnos_cluster **cluster, uint32_t n_nodes,
			  const struct linnos_cluster_options *options)
{
	struct linnos_cluster_options o;
	int error = copy_options(&o, options, n_nodes);
	struct linnos_cluster *c;

	*cluster = NULL;
	if (!error)
		error = init_seed(&o.seed);
	if (error)
		return error;
	c = calloc(1, sizeof(*c) + (size_t)n_nodes * sizeof(*c->nodes));
	if (!c)
		return format_error(-ENOMEM, "out of memory");
	pthread_mutex_init(&c->lock, NULL);
	c->o = o;
	if (o.key_bytes)
		memcpy(c->key, o.key, o.key_bytes);
	c->o.key = c->key;
	c->n_nodes = n_nodes;
	c->random = o.seed;
	for (int k = 0; k < 2; k++)
		c->guard[k].random = random_next(&c->random);
	c->next_default = random_next(&c->random) % LINNOS_CLUSTER_CANDIDATES;
	c->estimator.report_ttl_ns = o.report_ttl_ms * NS_PER_MS;
	c->estimator.report_max_uses = o.report_max_uses;
	c->estimator.probe_wait_ns = o.probe_after_ms * NS_PER_MS;
	c->extra = (struct budget){.share = o.max_duplicates / 100, .burst = EXTRA_BURST};
	c->copies = (struct budget){.share = o.probe_percent / 100, .burst = COPIES_BURST};
	c->queries = (struct budget){.share = o.query_percent / 100, .burst = QUERIES_BURST};
	for (uint32_t k = 0; k < n_nodes; k++)
		node_init(&c->nodes[k]);
	*cluster = c;
	return 0;
}

void linnos_cluster_free(struct linnos_cluster *c)
{
	if (!c)
		return;
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* --- Choosing ------------------------------------------------------------------------------ */

/* The candidates of a read and their expected latencies. */
struct candidates {
	unsigned int n;
	uint32_t out; /* bitmap of candidates that must not be chosen */
	double ratio[LINNOS_CLUSTER_CANDIDATES];
	double median_us;
};

static struct node *node_of(struct linnos_cluster *c, const struct linnos_choice *choice,
			    unsigned int replica)
{
	return &c->nodes[choice_state(choice)->candidates[replica]];
}

static void expect_candidates(struct linnos_cluster *c, const struct linnos_choice *choice,
			      struct candidates *f, uint64_t now_ns)
{
	const struct choice_state *own = choice_state(choice);

	f->n = own->n;
	f->out = choice->tried;
	f->median_us = median_us(&c->estimator.medians, own->size_class);
	for (unsigned int k = 0; k < f->n; k++)
		f->ratio[k] = node_expect(&c->estimator, node_of(c, choice, k), now_ns).ratio;
}

static uint32_t us_of(const struct candidates *f, unsigned int k)
{
	return fmin(f->median_us * f->ratio[k], UINT32_MAX / 2);
}

/* Return a random candidate among those within the margin of the best; -1 if all are excluded. */
static int choose_near_best(struct linnos_cluster *c, const struct candidates *f)
{
	unsigned int near[LINNOS_CLUSTER_CANDIDATES], n = 0;
	double kept = 1 - c->o.margin_percent / 100.0, best = INFINITY;

	for (unsigned int k = 0; k < f->n; k++)
		if (!(f->out >> k & 1))
			best = fmin(best, f->ratio[k]);
	for (unsigned int k = 0; k < f->n; k++)
		if (!(f->out >> k & 1) && f->ratio[k] * kept <= best)
			near[n++] = k;
	return n ? (int)near[random_next(&c->random) % n] : -1;
}

/* Return the candidate that is due for a probe and was read longest ago; -1 if there is none. */
static int find_probe_candidate(struct linnos_cluster *c, const struct linnos_choice *choice,
				const struct candidates *f, uint64_t now_ns)
{
	int longest = -1;

	for (unsigned int k = 0; k < f->n; k++) {
		const struct node *n = node_of(c, choice, k);

		if (k == choice->replica ||
		    !node_needs_probe(&c->estimator, n, f->ratio[k], now_ns))
			continue;
		if (longest < 0 ||
		    n->last_completion_ns < node_of(c, choice, longest)->last_completion_ns)
			longest = k;
	}
	return longest;
}

/* Request a probe copy if a candidate is due for one. */
static void request_probe_copy(struct linnos_cluster *c, struct linnos_choice *choice,
			       const struct candidates *f, uint64_t now_ns)
{
	int k = find_probe_candidate(c, choice, f, now_ns);

	if (k < 0 || choice->bytes > EXTRA_BYTES_MAX || !budget_allows(&c->copies) ||
	    !budget_allows(&c->extra))
		return;
	budget_spend(&c->copies);
	budget_spend(&c->extra);
	c->stats.copies++;
	choice->copy = k;
}

/* Return true if a read that is expected to be faster elsewhere is redirected. */
static bool is_redirected(struct linnos_cluster *c, struct linnos_choice *choice, double ratio)
{
	struct choice_state *own = choice_state(choice);

	c->stats.would_redirect++;
	own->would_redirect = true;
	if (c->o.mode == LINNOS_CLUSTER_OBSERVE)
		return false;
	/* A failing node has no latency with which to compare. */
	if (c->o.flags & LINNOS_CLUSTER_UNGUARDED || node_of(c, choice, choice->home)->failing)
		return true;
	/*
	 * Each kind of read has its own guard, so that a gain of one kind does not hide a loss of
	 * another. If the default node is slow or healthy, the expected latency is a mean of
	 * several latencies, so reads are redirected even if the gain is uncertain. If it is
	 * neither, the expected latency depends on one or two slow reads, so reads stay unless the
	 * gain is certain.
	 */
	own->is_healthy = ratio < HEALTHY_MAX;
	own->assignment =
		linnos_guard_assign(&c->guard[own->is_healthy],
				    ratio < SLOW && !own->is_healthy ? LINNOS_SLOWNESS_OVER_P90
								     : LINNOS_SLOWNESS_OVER_3X_P90,
				    own->default_us);
	c->stats.control += !own->assignment.redirected;
	return own->assignment.redirected;
}

static void plan_hedge(struct linnos_cluster *c, struct linnos_choice *choice,
		       const struct candidates *f, uint64_t now_ns)
{
	choice->hedge_at_ns = UINT64_MAX;
	if (c->o.mode == LINNOS_CLUSTER_HEDGE && f->median_us > 0 && f->n > 1 &&
	    !(choice->flags & LINNOS_NEVER_HEDGE) && choice->bytes <= EXTRA_BYTES_MAX) {
		double ratio = fmax(1, f->ratio[choice->replica]);
		double wait_ns = c->o.hedge_percent / 100.0 * f->median_us * NS_PER_US * ratio;

		choice->hedge_at_ns = now_ns + fmin(wait_ns, HEDGE_WAIT_MAX_NS);
	}
}

static int check_read(const struct linnos_cluster *c, const struct linnos_choice *choice,
		      const uint32_t *candidates, unsigned int n)
{
	if (!n || n > LINNOS_CLUSTER_CANDIDATES)
		return format_error(-EINVAL, "n_candidates is %u; it must be between 1 and %d", n,
				    LINNOS_CLUSTER_CANDIDATES);
	if (choice->home != LINNOS_DEFAULT_ROUND_ROBIN &&
	    (choice->home < 0 || (unsigned int)choice->home >= n))
		return format_error(-EINVAL, "home is %d; it must be between 0 and %u",
				    choice->home, n - 1);
	for (unsigned int k = 0; k < n; k++)
		if (candidates[k] >= c->n_nodes)
			return format_error(-EINVAL,
					    "candidate %u is node %u; it must be between 0 and %u",
					    k, candidates[k], c->n_nodes - 1);
	return 0;
}

int64_t linnos_cluster_choose(struct linnos_cluster *c, struct linnos_choice *choice,
			      const uint32_t *candidates, unsigned int n, uint64_t now_ns)
{
	struct choice_state *own = choice_state(choice);
	struct candidates f;
	double kept;
	int error = check_read(c, choice, candidates, n);

	if (error)
		return error;
	*own = (struct choice_state){
		.candidates = candidates,
		.start_ns = now_ns,
		.n = n,
		.size_class = node_size_class(choice->bytes),
	};
	choice->tried = 0;
	choice->copy = -1;
	pthread_mutex_lock(&c->lock);
	c->stats.reads++;
	budget_earn(&c->extra);
	budget_earn(&c->copies);
	budget_earn(&c->queries);
	if (choice->home == LINNOS_DEFAULT_ROUND_ROBIN)
		choice->home = c->next_default++ % n;
	expect_candidates(c, choice, &f, now_ns);
	choice->replica = choose_near_best(c, &f);
	kept = 1 - c->o.margin_percent / 100.0;
	own->default_us = us_of(&f, choice->home);
	own->best_us = us_of(&f, choice->replica);
	if (f.ratio[choice->home] * kept <= f.ratio[choice->replica])
		choice->replica = choice->home;
	else if (!is_redirected(c, choice, f.ratio[choice->home]))
		choice->replica = choice->home;
	own->redirected = choice->replica != (unsigned int)choice->home;
	c->stats.redirected += own->redirected;
	if (c->o.mode != LINNOS_CLUSTER_OBSERVE)
		request_probe_copy(c, choice, &f, now_ns);
	choice->predicted_us = us_of(&f, choice->replica);
	choice->tried = 1u << choice->replica;
	plan_hedge(c, choice, &f, now_ns);
	if (c->o.query_percent > 0 && c->o.report_ttl_ms)
		queue_candidate_query(c, candidates, n, choice->replica, now_ns);
	pthread_mutex_unlock(&c->lock);
	return candidates[choice->replica];
}

int linnos_cluster_choose_next(struct linnos_cluster *c, struct linnos_choice *choice,
			       uint64_t now_ns)
{
	struct candidates f;
	int k;

	pthread_mutex_lock(&c->lock);
	expect_candidates(c, choice, &f, now_ns);
	k = choose_near_best(c, &f);
	if (k >= 0) {
		choice->replica = k;
		choice->tried |= 1u << k;
		choice->predicted_us = us_of(&f, k);
		c->stats.failovers++;
	}
	pthread_mutex_unlock(&c->lock);
	return k;
}

int linnos_cluster_choose_hedge(struct linnos_cluster *c, struct linnos_choice *choice,
				uint64_t now_ns)
{
	struct candidates f;
	int k;

	choice->hedge_at_ns = UINT64_MAX;
	pthread_mutex_lock(&c->lock);
	expect_candidates(c, choice, &f, now_ns);
	k = choose_near_best(c, &f);
	/* If all nodes are slow, a second read makes them slower. */
	if (k >= 0 && f.ratio[k] >= SLOW)
		k = -1;
	if (k >= 0 && !budget_allows(&c->extra)) {
		c->stats.hedges_denied++;
		k = -1;
	}
	if (k >= 0) {
		budget_spend(&c->extra);
		c->stats.hedges++;
		choice->tried |= 1u << k;
	}
	pthread_mutex_unlock(&c->lock);
	return k;
}

/* --- Submission and completion ------------------------------------------------------------- */

static struct sending *sending_of(const struct linnos_attempt *sending)
{
	return (struct sending *)sending;
}

void linnos_cluster_on_submit(struct linnos_cluster *c, struct linnos_attempt *sending,
			      const struct linnos_choice *choice, unsigned int replica,
			      enum linnos_kind kind, uint64_t now_ns)
{
	const struct choice_state *own = choice_state(choice);
	struct sending *s = sending_of(sending);
	struct expected e;
	struct node *n;

	pthread_mutex_lock(&c->lock);
	n = node_of(c, choice, replica);
	e = node_expect(&c->estimator, n, now_ns);
	*s = (struct sending){
		.assignment = own->assignment,
		.sent_ns = now_ns,
		.node = own->candidates[replica],
		.expected_us = fmin(e.ratio * median_us(&c->estimator.medians, own->size_class),
				    UINT32_MAX / 2),
		.own_ratio = e.own_ratio,
		.agent_ratio = e.agent_ratio,
		.kind = kind,
		.size_class = own->size_class,
	};
	/*
	 * A copy at the default node of a redirected read measures the latency that the read would
	 * have had there.
	 */
	s->assignment.redirected = false;
	if (kind != LINNOS_PROBE_COPY || replica != (unsigned int)choice->home ||
	    !own->assignment.redirected)
		s->assignment.slowness = LINNOS_SLOWNESS_NONE;
	node_add_read(n, s);
	c->stats.sent++;
	pthread_mutex_unlock(&c->lock);
}

static void answered(struct linnos_cluster *c, const struct sending *s, double us, uint64_t now_ns)
{
	double median = median_us(&c->estimator.medians, s->size_class);
	double ratio = median > 0 ? us / median : 1;

	node_learn(&c->estimator, &c->nodes[s->node], s, ratio, now_ns);
	/* Only slow default nodes get probe copies. */
	if (s->assignment.slowness != LINNOS_SLOWNESS_NONE)
		linnos_guard_record_latency(&c->guard[false], s->assignment, us);
	/* Probe copies and hedges are not representative of other reads. */
	if (s->kind != LINNOS_PRIMARY_ATTEMPT)
		return;
	median_add(&c->estimator.medians, s->size_class, us);
	if (s->expected_us) {
		c->took_us += us - c->took_us * FORGOTTEN;
		c->expected_us += s->expected_us - c->expected_us * FORGOTTEN;
	}
}

void linnos_cluster_on_complete(struct linnos_cluster *c, struct linnos_attempt *sending,
				enum linnos_end end, uint64_t now_ns)
{
	struct sending *s = sending_of(sending);
	double us = (double)elapsed_ns(s->sent_ns, now_ns) / NS_PER_US;
	struct node *n;

	pthread_mutex_lock(&c->lock);
	n = &c->nodes[s->node];
	node_remove_read(n, s);
	c->stats.ended++;
	/* A caller may hedge late reads and cancel the first attempt, which counts as a slow read.
	 * */
	if (end == LINNOS_CANCELLED && us >= SLOW * median_us(&c->estimator.medians, s->size_class))
		end = LINNOS_SUCCEEDED;
	if (end == LINNOS_SUCCEEDED) {
		answered(c, s, us, now_ns);
	} else if (end == LINNOS_FAILED) {
		c->stats.errors++;
		node_fail(n, now_ns);
	}
	pthread_mutex_unlock(&c->lock);
}

void linnos_cluster_on_answer(struct linnos_cluster *c, const struct linnos_choice *choice,
			      const struct linnos_attempt *winner, uint64_t now_ns)
{
	const struct choice_state *own = choice_state(choice);
	double us = (double)elapsed_ns(own->start_ns, now_ns) / NS_PER_US;
	const struct sending *w = winner ? sending_of(winner) : NULL;

	pthread_mutex_lock(&c->lock);
	linnos_guard_record_latency(&c->guard[own->is_healthy], own->assignment, us);
	/* Both guards need the mean of all reads. */
	linnos_guard_record_latency(&c->guard[!own->is_healthy],
				    (struct linnos_assignment){.slowness = LINNOS_SLOWNESS_NONE},
				    us);
	if (own->redirected)
		c->stats.saved_us += own->default_us - us;
	if (w && w->kind == LINNOS_HEDGE_ATTEMPT)
		c->stats.hedges_won++;
	if (w && own->would_redirect && !own->redirected && w->kind == LINNOS_PRIMARY_ATTEMPT &&
	    c->expected_us > 0)
		c->stats.would_save_us += us - own->best_us * c->took_us / c->expected_us;
	pthread_mutex_unlock(&c->lock);
}

/* --- Statistics ---------------------------------------------------------------------------- */

void linnos_cluster_get_stats(struct linnos_cluster *c, struct linnos_cluster_stats *stats,
			      size_t bytes)
{
	pthread_mutex_lock(&c->lock);
	versioned_struct_copy_out(stats, bytes, &c->stats, sizeof(c->stats));
	pthread_mutex_unlock(&c->lock);
}

int linnos_cluster_get_node(struct linnos_cluster *c, uint32_t node, uint64_t now_ns,
			    struct linnos_cluster_node *stats, size_t bytes)
{
	struct linnos_cluster_node s = {.report_age_us = UINT64_MAX};
	struct expected e;
	struct node *n;

	if (node >= c->n_nodes)
		return format_error(-EINVAL, "node is %u; it must be between 0 and %u", node,
				    c->n_nodes - 1);
	pthread_mutex_lock(&c->lock);
	n = &c->nodes[node];
	e = node_expect(&c->estimator, n, now_ns);
	s.state = n->failing	    ? LINNOS_FAILING
		  : e.ratio >= SLOW ? LINNOS_SLOW
		  : n->n_answered   ? LINNOS_HEALTHY
				    : LINNOS_SILENT;
	s.expected_us = fmin(e.ratio * median_us(&c->estimator.medians, 0), UINT32_MAX / 2);
	s.in_flight = n->in_flight;
	s.answered = n->n_answered;
	s.errors = n->n_errors;
	if (node_has_report(&c->estimator, n, now_ns))
		s.report_age_us = elapsed_ns(n->report_query_ns, now_ns) / NS_PER_US;
	s.is_trusted = node_is_trusted(n);
	pthread_mutex_unlock(&c->lock);
	versioned_struct_copy_out(stats, bytes, &s, sizeof(s));
	return 0;
}
