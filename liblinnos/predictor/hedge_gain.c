// SPDX-License-Identifier: MIT
/* Hedging by gain: see hedge_gain.h. */
#include "hedge_gain.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BINS_PER_DOUBLING 4
#define LOWEST_EXPONENT (-2)
/* The bin that begins at the prediction. */
#define AT_ONE (-LOWEST_EXPONENT * BINS_PER_DOUBLING)

/*
 * Before there are latencies, the ratio to the prediction is assumed to be log-normal with a
 * standard deviation of half a doubling, and in one of 50 cases anything from 2 to 32 times the
 * prediction. This prior counts as many latencies as are needed to estimate the delay per page.
 */
#define ENOUGH 200
#define PRIOR_SLOW 0.02
#define PRIOR_SLOW_FROM 1 /* doublings */
#define PRIOR_SLOW_TO 5
#define PRIOR_FIRST_US 100
/* The counts of a distribution are halved when they reach this number. */
#define FULL 4000
/* The distribution over all predictions counts as this many latencies of each power of two. */
#define ALL_WEIGHT 50
/*
 * One latency that was never observed is added to each distribution. It is longer than 4 times the
 * prediction, longer than 8 times with probability 1/2, longer than 16 times with probability 1/4,
 * and so on. A read that has waited longer than any earlier read took is therefore not expected to
 * be answered at once.
 */
#define TAIL_FROM (4 * BINS_PER_DOUBLING)
/* Curves are computed again when 1/NEW_PART of the observations are new. */
#define NEW_PART 4
/* Do not wait for a bin that contains a smaller fraction of the reads than this. */
#define WEIGHT_MIN 1e-4

/* A hedge raises the price by this fraction. The number of reads that earn one hedge lowers it
 * again by the same amount. */
#define PRICE_STEP 0.02
#define PRICE_FIRST_US 100
#define PRICE_LEAST_US 1

/* A drive serves at most this many reads at once. A further read therefore delays each of the
 * others by at least 1/AT_ONCE of its own latency, even if no delay was measured. */
#define AT_ONCE 32

/* The decayed sums cover about 512 hedged reads, 128 reads and 4096 attempts. */
#define HEDGES_FORGET (1 / 512.0)
#define READS_FORGET (1 / 128.0)
#define ATTEMPTS_FORGET (1 / 4096.0)
/* Initially expected and measured gain are equal, with the weight of one hedge that gains 1 ms. The
 * expectation is never reduced to less than this fraction. */
#define CLAIMED_FIRST_US 1000
#define TRUST_MIN (1 / 16.0)

/* 2^(1/8) */
#define EIGHTH_DOUBLING 0x1.172b83c7d517bp0

/* Distribution of the latency for one prediction. before[i] and before_us[i] are the sums of the
 * weights, and of the weighted latencies, of all bins before bin i. */
struct expected {
	double weights[GAIN_BINS], us[GAIN_BINS];
	double before[GAIN_BINS + 1], before_us[GAIN_BINS + 1];
};

void hedge_gain_init(struct hedge_gain *g, double share)
{
	memset(g, 0, sizeof(*g));
	g->share = share;
	g->price_us = isfinite(share) ? PRICE_FIRST_US : 0;
	g->claimed_us = g->gained_us = CLAIMED_FIRST_US;
	for (unsigned int i = 0; i < GAIN_BINS; i++) {
		double doublings = (i + 0.5) / BINS_PER_DOUBLING + LOWEST_EXPONENT;
		double normal = sqrt(2 / M_PI) * exp(-2 * doublings * doublings);
		bool is_slow = doublings > PRIOR_SLOW_FROM && doublings < PRIOR_SLOW_TO;

		g->all.bins[i] = ENOUGH / (double)BINS_PER_DOUBLING *
				 ((1 - PRIOR_SLOW) * normal +
				  PRIOR_SLOW * is_slow / (PRIOR_SLOW_TO - PRIOR_SLOW_FROM));
		g->all.n += g->all.bins[i];
	}
	g->n = 1;
	g->us = PRIOR_FIRST_US;
}

/* Return the index in by_prediction for a prediction, which must not be 0. */
static unsigned int class_of(uint32_t predicted_us)
{
	unsigned int exponent = 31 - __builtin_clz(predicted_us);

	return exponent < GAIN_PREDICTIONS ? exponent : GAIN_PREDICTIONS - 1;
}

/* Return the ratio at a position in a bin, which @within gives for each quarter of a doubling. */
static double ratio(unsigned int bin, const double within[BINS_PER_DOUBLING])
{
	/* The first bin begins at 2^LOWEST_EXPONENT. */
	static const double doublings[GAIN_BINS / BINS_PER_DOUBLING] = {0.25, 0.5, 1,  2,  4,
									8,    16,  32, 64, 128};

	return within[bin % BINS_PER_DOUBLING] * doublings[bin / BINS_PER_DOUBLING];
}

static double lower_edge(unsigned int bin)
{
	static const double within[] = {1, 0x1.306fe0a31b715p0, M_SQRT2, 0x1.ae89f995ad3adp0};

	return ratio(bin, within);
}

static double middle(unsigned int bin)
{
	static const double within[] = {0x1.172b83c7d517bp0, 0x1.4bfdad5362a27p0,
					0x1.8ace5422aa0dbp0, 0x1.d5818dcfba487p0};

	return ratio(bin, within);
}

/* Return 4 log2(r), rounded down. */
static int quarter_doublings(double r)
{
	int exponent;
	double mantissa = 2 * frexp(r, &exponent); /* from 1 to 2 */

	return BINS_PER_DOUBLING * (exponent - 1) + (mantissa >= lower_edge(AT_ONE + 1)) +
	       (mantissa >= lower_edge(AT_ONE + 2)) + (mantissa >= lower_edge(AT_ONE + 3));
}

static unsigned int bin_of(double r)
{
	int bin = quarter_doublings(r) + AT_ONE;

	return bin < 0 ? 0 : bin < GAIN_BINS ? (unsigned int)bin : GAIN_BINS - 1;
}

/* Compute the distribution for a prediction in this class. */
static void expect(const struct hedge_gain *g, unsigned int class, double predicted_us,
		   struct expected *e)
{
	const struct latency_ratios *own = &g->by_prediction[class];
	double tail = 1 - exp2(-1.0 / BINS_PER_DOUBLING);

	e->before[0] = e->before_us[0] = 0;
	for (unsigned int i = 0; i < GAIN_BINS; i++) {
		e->us[i] = predicted_us * middle(i);
		e->weights[i] = own->bins[i] + ALL_WEIGHT * g->all.bins[i] / g->all.n;
		if (i >= TAIL_FROM) {
			e->weights[i] += tail;
			tail *= exp2(-1.0 / BINS_PER_DOUBLING);
		}
		e->weights[i] /= own->n + ALL_WEIGHT + 1;
		e->before[i + 1] = e->before[i] + e->weights[i];
		e->before_us[i + 1] = e->before_us[i] + e->weights[i] * e->us[i];
	}
}

/* Return E[max(0, X1 - t - X2); X1 > t] and store P[X1 > t] in *late. All bins before bin @from are
 * below t. */
static double gain_after(const struct expected *first, const struct expected *second,
			 unsigned int from, double t, double *late)
{
	double gain_us = 0;
	unsigned int j = 0;

	*late = 0;
	for (unsigned int i = from; i < GAIN_BINS; i++) {
		double rest_us = first->us[i] - t;

		if (rest_us <= 0)
			continue;
		while (j < GAIN_BINS && second->us[j] < rest_us)
			j++;
		*late += first->weights[i];
		gain_us += first->weights[i] * (rest_us * second->before[j] - second->before_us[j]);
	}
	return gain_us;
}

/* Return the increase in latency per page of other reads that is pending, by least squares. */
static double us_per_page(const struct hedge_gain *g)
{
	double n = g->n, variance, covariance;

	if (n < ENOUGH)
		return 0;
	variance = g->pages_squared - g->pages * g->pages / n;
	covariance = g->pages_us - g->pages * g->us / n;
	return variance > 0 && covariance > 0 ? covariance / variance : 0;
}

/* The other reads are those in flight at the second replica and those that arrive while the second
 * attempt is in flight. The mean number of reads in flight arrives within one mean latency
 * (Little's law). */
static double delay_of_others_us(const struct hedge_gain *g, const struct hedge_candidate *read)
{
	double mean_us = g->us / g->n;
	double each_us = fmax(us_per_page(g) * read->pages, read->second_us / (double)AT_ONCE);

	return each_us * (read->reads + g->reads * read->second_us / mean_us);
}

static double gain_trust(const struct hedge_gain *g)
{
	return fmin(1, fmax(TRUST_MIN, g->gained_us / g->claimed_us));
}

struct hedge_plan hedge_plan(const struct hedge_gain *g, const struct hedge_candidate *read)
{
	struct hedge_plan plan = {.wait_us = INFINITY};
	struct expected first, second;
	double cost_us, trust, best_us = 0;

	if (!read->first_us || !read->second_us)
		return plan;
	trust = gain_trust(g);
	cost_us = g->price_us + delay_of_others_us(g, read);
	expect(g, class_of(read->first_us), read->first_us, &first);
	expect(g, class_of(read->second_us), read->second_us, &second);
	/* The second attempt is sent at once, or at the end of one of the bins if the first one was
	 * not answered by then. */
	for (unsigned int i = 0; i < GAIN_BINS; i++) {
		double t = i ? read->first_us * lower_edge(i) : read->waited_us;
		double late, gain_us, benefit_us;

		if (i && (t <= read->waited_us || first.weights[i - 1] < WEIGHT_MIN))
			continue;
		gain_us = gain_after(&first, &second, i, t, &late);
		/* The gain decreases with the waiting time. */
		if (trust * gain_us <= best_us)
			break;
		benefit_us = trust * gain_us - late * cost_us;
		if (benefit_us <= best_us)
			continue;
		best_us = benefit_us;
		plan.wait_us = t - read->waited_us;
		plan.gain_us = gain_us / late;
	}
	return plan;
}

void gain_planner_update(struct gain_planner *p, const struct hedge_gain *gain)
{
	p->gain = *gain;
	/* Fewer observations barely change the distributions. */
	if (gain->attempts - p->attempts < gain->all.n / NEW_PART)
		return;
	p->attempts = gain->attempts;
	for (unsigned int i = 0; i < GAIN_CURVES; i++)
		p->curves[i].n = 0;
}

/* Compute the gain of each wait, in units of the first prediction. */
static void compute_curve(const struct hedge_gain *g, struct gain_curve *curve)
{
	struct expected first, second;
	unsigned int whole = curve->ratio + GAIN_RATIOS, n = 0;

	expect(g, curve->first, 1, &first);
	expect(g, curve->second,
	       ldexp(lower_edge(AT_ONE + whole % BINS_PER_DOUBLING),
		     (int)(whole / BINS_PER_DOUBLING) - GAIN_RATIOS / BINS_PER_DOUBLING),
	       &second);
	for (unsigned int i = 0; i < GAIN_BINS; i++) {
		double late;

		if (i && first.weights[i - 1] < WEIGHT_MIN)
			continue;
		curve->waits[n] = i ? lower_edge(i) : 0;
		curve->gains[n] = gain_after(&first, &second, i, curve->waits[n], &late);
		curve->late[n++] = late;
	}
	curve->n = n;
}

static const struct gain_curve *find_curve(struct gain_planner *p, uint32_t first_us,
					   uint32_t second_us)
{
	/* Round to the nearest quarter of a doubling. */
	int ratio = quarter_doublings(EIGHTH_DOUBLING * second_us / first_us);
	const uint8_t first = class_of(first_us), second = class_of(second_us);
	struct gain_curve *curve;
	uint32_t key;

	ratio = ratio < -GAIN_RATIOS ? -GAIN_RATIOS : ratio > GAIN_RATIOS ? GAIN_RATIOS : ratio;
	/* Fibonacci hashing */
	key = ((uint32_t)first << 16 | (uint32_t)second << 8 | (uint8_t)ratio) * 0x9e3779b1u;
	curve = &p->curves[key >> 16 & (GAIN_CURVES - 1)];
	if (!curve->n || curve->first != first || curve->second != second ||
	    curve->ratio != ratio) {
		curve->first = first;
		curve->second = second;
		curve->ratio = (int8_t)ratio;
		compute_curve(&p->gain, curve);
	}
	return curve;
}

struct hedge_plan gain_planner_plan(struct gain_planner *p, const struct hedge_candidate *read)
{
	struct hedge_plan plan = {.wait_us = INFINITY};
	const struct gain_curve *curve;
	double cost, trust, best = 0;

	if (!read->first_us || !read->second_us || read->waited_us > 0)
		return hedge_plan(&p->gain, read);
	curve = find_curve(p, read->first_us, read->second_us);
	trust = gain_trust(&p->gain);
	cost = (p->gain.price_us + delay_of_others_us(&p->gain, read)) / read->first_us;
	for (unsigned int i = 0; i < curve->n && trust * curve->gains[i] > best; i++) {
		double benefit = trust * curve->gains[i] - curve->late[i] * cost;

		if (benefit <= best)
			continue;
		best = benefit;
		plan.wait_us = curve->waits[i] * read->first_us;
		plan.gain_us = curve->gains[i] / curve->late[i] * read->first_us;
	}
	return plan;
}

void hedge_gain_begin(struct hedge_gain *g, uint32_t reads)
{
	g->reads += (reads - g->reads) * READS_FORGET;
	if (isfinite(g->share))
		g->price_us = fmax(PRICE_LEAST_US, g->price_us * (1 - PRICE_STEP * g->share));
}

void hedge_gain_hedge_due(struct hedge_gain *g)
{
	g->price_us *= 1 + PRICE_STEP;
}

static void count(struct latency_ratios *ratios, unsigned int bin)
{
	ratios->bins[bin]++;
	if (++ratios->n < FULL)
		return;
	ratios->n /= 2;
	for (unsigned int i = 0; i < GAIN_BINS; i++)
		ratios->bins[i] /= 2;
}

static void fade(double *sum, double value)
{
	*sum += value - *sum * ATTEMPTS_FORGET;
}

void hedge_gain_record_attempt(struct hedge_gain *g, uint32_t predicted_us, uint32_t pages,
			       double took_us)
{
	unsigned int bin;

	if (!predicted_us || took_us <= 0)
		return;
	g->attempts++;
	bin = bin_of(took_us / predicted_us);
	count(&g->all, bin);
	count(&g->by_prediction[class_of(predicted_us)], bin);
	fade(&g->n, 1);
	fade(&g->pages, pages);
	fade(&g->us, took_us);
	fade(&g->pages_squared, (double)pages * pages);
	fade(&g->pages_us, pages * took_us);
}

void hedge_gain_record_hedge(struct hedge_gain *g, double claimed_us, double gained_us)
{
	g->claimed_us += claimed_us - g->claimed_us * HEDGES_FORGET;
	g->gained_us += gained_us - g->gained_us * HEDGES_FORGET;
}
