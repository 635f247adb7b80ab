// SPDX-License-Identifier: MIT
/* State of a node: see node.h. */
#include "node.h"

#include <math.h>
#include <stddef.h>

#define PAGE_BYTES 4096

/* The half-life of the latency of the client's own reads. */
#define HALF_NS (50 * NS_PER_MS)
/* The half-life of the mean latency of the client's own reads. */
#define MEAN_HALF_NS (250 * NS_PER_MS)
/*
 * The relative increase in latency for each read in flight, small because drives serve many in
 * parallel.
 */
#define CROWDING 0.1
/* The weight of the source with the older data, own latencies or reports, is multiplied by this. */
#define OLDER 0.25
/*
 * Prediction errors, in doublings of the latency: the initial value, the maximum, the weight of the
 * latest error, and the error of a perfect prediction because of random differences.
 */
#define ERROR_FIRST 0.25
#define ERROR_MAX 3.0
#define ERROR_SHARE (1.0 / 8)
#define ERROR_MIN 0.1
/* An agent whose error exceeds that of the client's own latencies by more than this is ignored. */
#define DISTRUST_MARGIN 0.5
/*
 * Bounds of the time between probes of a slow node, and the factor by which a probe changes it. A
 * probe changes it only if the probe was sent between 1/WAIT_NEAR and WAIT_NEAR times the current
 * time after the previous completion.
 */
#define WAIT_MAX_NS (250.0 * NS_PER_MS)
#define WAIT_MIN_NS (1.0 * NS_PER_MS)
#define WAIT_STEP 1.1
#define WAIT_NEAR 4
/* A read moves a median by this fraction of it: FIRST_STEP for the first FIRST_READS, then STEP. */
#define FIRST_READS 16
#define FIRST_STEP 0.2
#define STEP 0.01
/* The maximum latency of network and storage engine, relative to the median. */
#define OFFSET_MAX 1.0

/* splitmix64 */
uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

unsigned int node_size_class(uint64_t bytes)
{
	uint64_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
	unsigned int size_class = pages > 1 ? 64 - __builtin_clzll(pages - 1) : 0;

	return size_class < N_SIZE_CLASSES ? size_class : N_SIZE_CLASSES - 1;
}

/* --- The mean latency of healthy reads: see struct fit --- */

/* Each read multiplies the weight of all earlier reads by this, so about a hundred have a weight.
 * */
#define DECAY (1 - 1.0 / 128)
/* The prior: this number of reads at the median. */
#define PRIOR 24
/* The prior of the slope is 0, with this sum of squares. */
#define PRIOR_SQUARE 2
/* Limits of reports and latencies, in doublings, so that outliers do not dominate the regression.
 * */
#define LOG_RATIO_MIN (-2.0)
#define LOG_REPORT_MAX 3.0
#define LOG_LATENCY_MAX 2.0

static double log_ratio(double ratio, double max)
{
	return fmin(fmax(log2(ratio), LOG_RATIO_MIN), max);
}

/* Return the expected ratio; @report is 0 if there is no report. */
static double fit_expect(const struct fit *f, double report)
{
	double mean = 1 + (f->ratio - 1) * f->n / (f->n + PRIOR);
	double slope = fmin(fmax(f->product / (f->square + PRIOR_SQUARE), 0), 1);

	if (report <= 0)
		return mean;
	return mean * exp2(slope * (log_ratio(report, LOG_REPORT_MAX) - f->report));
}

/* Multiply the weight of all samples by @factor. */
static void fit_decay(struct fit *f, double factor)
{
	f->n *= factor;
	f->n_reports *= factor;
	f->square *= factor;
	f->product *= factor;
}

static void fit_learn(struct fit *f, double report, double ratio)
{
	double deviation, latency = log_ratio(ratio, LOG_LATENCY_MAX);

	fit_decay(f, DECAY);
	f->n++;
	f->ratio += (ratio - f->ratio) / f->n;
	if (report <= 0)
		return;
	report = log_ratio(report, LOG_REPORT_MAX);
	f->n_reports++;
	deviation = report - f->report;
	f->report += deviation / f->n_reports;
	f->latency += (latency - f->latency) / f->n_reports;
	f->square += deviation * (report - f->report);
	f->product += deviation * (latency - f->latency);
}

/* --- Medians and nodes --- */

/* Return the step by which a read moves a median, given the number of reads so far. */
static double step_of(uint32_t *n)
{
	bool is_early = *n < FIRST_READS;

	*n += is_early;
	return is_early ? FIRST_STEP : STEP;
}

void median_add(struct medians *u, unsigned int size_class, double us)
{
	bool is_first = !u->n[size_class];
	double step = step_of(&u->n[size_class]);

	if (is_first)
		u->us[size_class] = us;
	else if (us > u->us[size_class])
		u->us[size_class] = fmin(us, u->us[size_class] * (1 + step));
	else
		u->us[size_class] = fmax(us, u->us[size_class] / (1 + step));
}

/* Return the median of the size class, or that of the nearest size class with data. */
double median_us(const struct medians *u, unsigned int size_class)
{
	for (unsigned int by = 0; by < N_SIZE_CLASSES; by++) {
		if (size_class >= by && u->us[size_class - by] > 0)
			return u->us[size_class - by];
		if (size_class + by < N_SIZE_CLASSES && u->us[size_class + by] > 0)
			return u->us[size_class + by];
	}
	return 0;
}

void node_init(struct node *n)
{
	*n = (struct node){.own_error = ERROR_FIRST, .agent_error = ERROR_FIRST};
}

uint64_t elapsed_ns(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

static double decayed(uint64_t age_ns, uint64_t half_ns)
{
	return exp2(-(double)age_ns / half_ns);
}

/* Return the time until a slow node is probed again, also the half-life of its slowness. */
static uint64_t probe_wait_ns(const struct node_estimator *k, const struct node *n)
{
	unsigned int doublings = n->consecutive_slow ? n->consecutive_slow - 1 : 0;
	double ns = k->probe_wait_ns * (1u << (doublings < 9 ? doublings : 9));

	return fmin(ns, WAIT_MAX_NS);
}

/* Return how long the oldest read in flight has been waiting, relative to the median. */
static double waiting_ratio(const struct node_estimator *k, const struct node *n, uint64_t now_ns)
{
	double median = n->oldest ? median_us(&k->medians, n->oldest->size_class) : 0;

	return median > 0 ? elapsed_ns(n->oldest->sent_ns, now_ns) / (NS_PER_US * median) : 0;
}

bool node_has_report(const struct node_estimator *k, const struct node *n, uint64_t now_ns)
{
	return n->agent_ratio > 0 && n->report_uses < k->report_max_uses &&
	       elapsed_ns(n->report_query_ns, now_ns) < k->report_ttl_ns;
}

bool node_is_trusted(const struct node *n)
{
	return n->agent_error <= n->own_error + DISTRUST_MARGIN;
}

/*
 * Return the ratio expected of a healthy node. If no read has completed there for a long time, it
 * approaches 1, that is, the median, whatever the agent reports.
 */
static double healthy_ratio(const struct node *n, double report, uint64_t now_ns)
{
	return 1 + (fit_expect(&n->fit, report) - 1) *
			   decayed(elapsed_ns(n->last_completion_ns, now_ns), MEAN_HALF_NS);
}

struct expected node_expect(const struct node_estimator *k, const struct node *n, uint64_t now_ns)
{
	double own_weight = 0, weight = 0, sum = 0;
	struct expected e = {0};

	if (n->last_completion_ns) {
		double decay = decayed(elapsed_ns(n->last_completion_ns, now_ns), HALF_NS);

		own_weight = decay / (n->own_error + ERROR_MIN);
		/*
		 * The expected slowness of a slow node decays with the time until its next probe as
		 * half-life, and does not decay while a probe is in flight.
		 */
		if (n->own_ratio >= SLOW)
			decay = n->in_flight ? 1
					     : decayed(elapsed_ns(n->last_completion_ns, now_ns),
						       probe_wait_ns(k, n));
		e.own_ratio = 1 + (n->own_ratio - 1) * decay;
	}
	if (node_has_report(k, n, now_ns)) {
		e.agent_ratio = n->agent_ratio * (1 + CROWDING * n->sent_since_query);
		if (node_is_trusted(n))
			weight = 1 / (n->agent_error + ERROR_MIN);
		if (n->report_query_ns > n->last_completion_ns)
			own_weight *= OLDER;
		else
			weight *= OLDER;
	}
	/* Combine in doublings, the unit of the errors. */
	if (weight > 0) {
		sum = (e.own_ratio > 0 ? own_weight * log2(e.own_ratio) : 0) +
		      weight * log2(fmax(e.agent_ratio, 1));
		e.ratio = exp2(sum / (own_weight + weight));
	} else {
		e.ratio = e.own_ratio > 0 ? e.own_ratio : 1;
	}
	if (e.ratio < HEALTHY_MAX)
		e.ratio = healthy_ratio(n, node_is_trusted(n) ? e.agent_ratio : 0, now_ns);
	e.ratio = fmax(e.ratio, waiting_ratio(k, n, now_ns)) * (1 + CROWDING * n->in_flight);
	return e;
}

void node_add_read(struct node *n, struct sending *s)
{
	s->next = NULL;
	s->previous = n->newest;
	if (n->newest)
		n->newest->next = s;
	else
		n->oldest = s;
	n->newest = s;
	n->in_flight++;
	n->sent_since_query++;
	n->report_uses++;
}

void node_remove_read(struct node *n, struct sending *s)
{
	*(s->previous ? &s->previous->next : &n->oldest) = s->next;
	*(s->next ? &s->next->previous : &n->newest) = s->previous;
	s->next = s->previous = NULL;
	n->in_flight--;
}

static void record_error(float *error, double expected, double ratio)
{
	double now = fabs(log2(fmax(expected, RATIO_MIN) / fmax(ratio, RATIO_MIN)));

	*error += (fmin(now, ERROR_MAX) - *error) * ERROR_SHARE;
}

void node_learn(struct node_estimator *k, struct node *n, const struct sending *s, double ratio,
		uint64_t now_ns)
{
	record_error(&n->own_error, s->own_ratio > 0 ? s->own_ratio : 1, ratio);
	if (s->agent_ratio > 0) {
		double step = step_of(&k->n_reports);

		k->agent_offset += ratio > s->agent_ratio ? step : -step;
		k->agent_offset = fmin(fmax(k->agent_offset, -OFFSET_MAX), OFFSET_MAX);
		record_error(&n->agent_error, s->agent_ratio, ratio);
	}
	/* Probes of a slow node are not representative of other reads. */
	if (ratio < SLOW || !n->consecutive_slow) {
		fit_decay(&n->fit,
			  decayed(elapsed_ns(n->last_completion_ns, now_ns), MEAN_HALF_NS));
		fit_learn(&n->fit, s->agent_ratio, fmin(fmax(ratio, RATIO_MIN), SLOW));
	}
	/* Adapt probe_wait_ns to the time after which one probe in two is fast again. */
	if (n->own_ratio >= SLOW && !n->failing && s->sent_ns > n->last_completion_ns) {
		double age_ns = s->sent_ns - n->last_completion_ns,
		       after = age_ns / probe_wait_ns(k, n);

		if (after > 1.0 / WAIT_NEAR && after < WAIT_NEAR)
			k->probe_wait_ns *= ratio < SLOW ? 1 / WAIT_STEP : WAIT_STEP;
		k->probe_wait_ns = fmin(fmax(k->probe_wait_ns, WAIT_MIN_NS), WAIT_MAX_NS);
	}
	/* Reads that were in flight at the last completion belong to the same slow period. */
	if (ratio < SLOW)
		n->consecutive_slow = 0;
	else if (s->sent_ns >= n->last_completion_ns || !n->consecutive_slow)
		n->consecutive_slow++;
	ratio = fmax(ratio, RATIO_MIN);
	n->own_ratio = ratio < SLOW && n->own_ratio < SLOW && n->last_completion_ns
			       ? (n->own_ratio + ratio) / 2
			       : ratio;
	n->failing = false;
	n->last_completion_ns = now_ns;
	n->n_answered++;
}

void node_fail(struct node *n, uint64_t now_ns)
{
	n->consecutive_slow++;
	n->own_ratio = FAILED;
	n->failing = true;
	n->last_completion_ns = now_ns;
	n->n_errors++;
}

bool node_needs_probe(const struct node_estimator *k, const struct node *n, double ratio,
		      uint64_t now_ns)
{
	return ratio >= SLOW && !n->in_flight &&
	       elapsed_ns(n->last_completion_ns, now_ns) >= probe_wait_ns(k, n);
}
