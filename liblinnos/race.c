// SPDX-License-Identifier: MIT
/* Is a read sent to a second replica as well? See race.h. */
#include "race.h"

#include <math.h>
#include <string.h>

#define BINS_A_DOUBLING 4
#define LOWEST_EXPONENT (-2)

/* Fewer answers tell of no distribution. */
#define ENOUGH 200
/* Half of a distribution is forgotten when it has so many answers. */
#define FULL 4000
/* Until a power of two has many more answers of its own it counts as having these of all. */
#define OF_ALL 50
/*
 * And one read that nobody has seen: half of its distribution is beyond 8 times what was predicted,
 * a quarter beyond 16, ... So who has waited longer than any read ever took does not think that the
 * answer must come at once.
 */
#define TAIL_FROM (4 * BINS_A_DOUBLING)
/* To wait for what so few reads do tells nothing. */
#define SELDOM 1e-4

/* A race moves the price by so much; as many reads as earn a race move it back. */
#define PRICE_STEP 0.02
#define PRICE_FIRST_US 100
#define PRICE_LEAST_US 1

/* A drive works on so many reads at once, at most: each loses no less than this part of what
 * another one takes, whatever can be seen of it. */
#define AT_ONCE 32

/* Some 500 races, as many reads, and 4000 attempts are remembered. */
#define RACE_FORGET (1 / 512.0)
#define READS_FORGET (1 / 128.0)
#define ATTEMPTS_FORGET (1 / 4096.0)
/* At first races are believed for what one of 1 ms would say; later never less than this. */
#define CLAIMED_FIRST_US 1000
#define BELIEVED_LEAST (1 / 16.0)

/* What a prediction stands for; before: of all that is sooner than a bin, its weight and mean. */
struct expected {
	double weights[RACE_BINS], us[RACE_BINS];
	double before[RACE_BINS + 1], before_us[RACE_BINS + 1];
};

void race_init(struct race *race, double share)
{
	memset(race, 0, sizeof(*race));
	race->share = share;
	race->price_us = isfinite(share) ? PRICE_FIRST_US : 0;
	race->claimed_us = race->gained_us = CLAIMED_FIRST_US;
}

/* Where by_prediction has the ratios of such a prediction, which is not 0. */
static unsigned int class_of(uint32_t predicted_us)
{
	unsigned int exponent = 31 - __builtin_clz(predicted_us);

	return exponent < RACE_PREDICTIONS ? exponent : RACE_PREDICTIONS - 1;
}

/* 2^(quarters / 4), relative to the first bin. */
static double ratio(unsigned int bin, const double within[BINS_A_DOUBLING])
{
	/* From 2^LOWEST_EXPONENT on. */
	static const double doublings[RACE_BINS / BINS_A_DOUBLING] = {0.25, 0.5, 1,  2,	 4,
								      8,    16,	 32, 64, 128};

	return within[bin % BINS_A_DOUBLING] * doublings[bin / BINS_A_DOUBLING];
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

static unsigned int bin_of(double r)
{
	double bin = floor((log2(r) - LOWEST_EXPONENT) * BINS_A_DOUBLING);

	return bin < 0 ? 0 : bin < RACE_BINS ? (unsigned int)bin : RACE_BINS - 1;
}

static void expect(const struct race *race, uint32_t predicted_us, struct expected *e)
{
	const struct race_ratios *own = &race->by_prediction[class_of(predicted_us)];
	double tail = 1 - exp2(-1.0 / BINS_A_DOUBLING);

	e->before[0] = e->before_us[0] = 0;
	for (unsigned int i = 0; i < RACE_BINS; i++) {
		e->us[i] = predicted_us * middle(i);
		e->weights[i] = own->bins[i] + OF_ALL * race->all.bins[i] / race->all.n;
		if (i >= TAIL_FROM) {
			e->weights[i] += tail;
			tail *= exp2(-1.0 / BINS_A_DOUBLING);
		}
		e->weights[i] /= own->n + OF_ALL + 1;
		e->before[i + 1] = e->before[i] + e->weights[i];
		e->before_us[i + 1] = e->before_us[i] + e->weights[i] * e->us[i];
	}
}

/* E[max(0, X1 - t - X2); X1 > t], and in *late P[X1 > t]. No bin before from is beyond t. */
static double gain_after(const struct expected *first, const struct expected *second,
			 unsigned int from, double t, double *late)
{
	double gain_us = 0;
	unsigned int j = 0;

	*late = 0;
	for (unsigned int i = from; i < RACE_BINS; i++) {
		double rest_us = first->us[i] - t;

		if (rest_us <= 0)
			continue;
		while (j < RACE_BINS && second->us[j] < rest_us)
			j++;
		*late += first->weights[i];
		gain_us += first->weights[i] * (rest_us * second->before[j] - second->before_us[j]);
	}
	return gain_us;
}

/* How much longer an attempt takes for each page of others: least squares. */
static double us_a_page(const struct race *race)
{
	double n = race->n, variance, covariance;

	if (n < ENOUGH)
		return 0;
	variance = race->pages_squared - race->pages * race->pages / n;
	covariance = race->pages_us - race->pages * race->us / n;
	return variance > 0 && covariance > 0 ? covariance / variance : 0;
}

/* The others are the reads that are there, and those that come while it is: as many as are usual
 * come while one of the usual length is. */
static double others_lose_us(const struct race *race, const struct racing *read)
{
	double usual_us = race->us / race->n;
	double each_us = fmax(us_a_page(race) * read->pages, read->second_us / (double)AT_ONCE);

	return each_us * (read->reads + race->reads * read->second_us / usual_us);
}

static double believed(const struct race *race)
{
	return fmin(1, fmax(BELIEVED_LEAST, race->gained_us / race->claimed_us));
}

struct race_plan race_plan(const struct race *race, const struct racing *read)
{
	struct race_plan plan = {.wait_us = INFINITY};
	struct expected first, second;
	double cost_us, trust, best_us = 0;

	if (race->all.n < ENOUGH || !read->first_us || !read->second_us)
		return plan;
	trust = believed(race);
	cost_us = race->price_us + others_lose_us(race, read);
	expect(race, read->first_us, &first);
	expect(race, read->second_us, &second);
	/* At once, or when one more bin has passed in which answers come. */
	for (unsigned int i = 0; i < RACE_BINS; i++) {
		double t = i ? read->first_us * lower_edge(i) : read->waited_us;
		double late, gain_us, worth_us;

		if (i && (t <= read->waited_us || first.weights[i - 1] < SELDOM))
			continue;
		gain_us = gain_after(&first, &second, i, t, &late);
		/* Whoever waits longer gains less. */
		if (trust * gain_us <= best_us)
			break;
		worth_us = trust * gain_us - late * cost_us;
		if (worth_us <= best_us)
			continue;
		best_us = worth_us;
		plan.wait_us = t - read->waited_us;
		plan.gain_us = gain_us / late;
	}
	return plan;
}

void race_begin(struct race *race, uint32_t reads)
{
	race->reads += (reads - race->reads) * READS_FORGET;
	if (isfinite(race->share))
		race->price_us =
			fmax(PRICE_LEAST_US, race->price_us * (1 - PRICE_STEP * race->share));
}

void race_wanted(struct race *race)
{
	race->price_us *= 1 + PRICE_STEP;
}

static void count(struct race_ratios *ratios, unsigned int bin)
{
	ratios->bins[bin]++;
	if (++ratios->n < FULL)
		return;
	ratios->n /= 2;
	for (unsigned int i = 0; i < RACE_BINS; i++)
		ratios->bins[i] /= 2;
}

static void fade(double *sum, double value)
{
	*sum += value - *sum * ATTEMPTS_FORGET;
}

void race_answered(struct race *race, uint32_t predicted_us, uint32_t pages, double took_us)
{
	unsigned int bin;

	if (!predicted_us || took_us <= 0)
		return;
	bin = bin_of(took_us / predicted_us);
	count(&race->all, bin);
	count(&race->by_prediction[class_of(predicted_us)], bin);
	fade(&race->n, 1);
	fade(&race->pages, pages);
	fade(&race->us, took_us);
	fade(&race->pages_squared, (double)pages * pages);
	fade(&race->pages_us, pages * took_us);
}

void race_ended(struct race *race, double claimed_us, double gained_us)
{
	race->claimed_us += claimed_us - race->claimed_us * RACE_FORGET;
	race->gained_us += gained_us - race->gained_us * RACE_FORGET;
}
