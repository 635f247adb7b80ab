// SPDX-License-Identifier: MIT
/* Tests of which reads carry the hint, with synthetic latencies. */
#include "policies/hint_guard.h"

#include "test.h"

#include <math.h>
#include <stdlib.h>

#define US 1000ull
#define N_READS 4000u
#define REFUSAL_US 15

/* How the default drive of a read behaves. */
struct load {
	double refused; /* fraction of the hinted reads */
	double home_us, refused_home_us, elsewhere_us;
	uint32_t last_us; /* latency of the last answer of the default drive */
};

struct outcome {
	unsigned int hinted, refused, left;
	double lost_us; /* per read, computed from the means */
};

/* The standard deviation of the latencies equals their mean. */
static double exponential(double mean_us)
{
	return -mean_us * log((rand() + 0.5) / (RAND_MAX + 1.0));
}

static struct outcome replay(struct hints *h, const struct load *load, unsigned int n)
{
	struct outcome seen = {0};

	for (unsigned int i = 0; i < n; i++) {
		bool would_be_refused = rand() < load->refused * RAND_MAX;
		double us = exponential(would_be_refused ? load->refused_home_us : load->home_us);
		struct hint hint;

		hints_heard(h, 0, load->last_us * US);
		hint = hints_begin(h, 0, i * US);
		seen.hinted += hint.is_carried;
		if (hint.is_carried && would_be_refused) {
			seen.refused++;
			if (hints_refused(h, &hint)) {
				us = exponential(load->elsewhere_us);
				seen.lost_us += (load->elsewhere_us - load->refused_home_us) / n;
				seen.left++;
			} else {
				seen.lost_us += (double)REFUSAL_US / n;
			}
		}
		hints_answered(h, &hint, i * US + us * US);
	}
	return seen;
}

static struct hints *new_hints(unsigned int seed)
{
	struct hints *h = malloc(sizeof(*h));

	srand(seed);
	hints_init(h, seed);
	return h;
}

static const struct load gains = {.refused = 0.2,
				  .home_us = 100,
				  .refused_home_us = 1000,
				  .elsewhere_us = 130,
				  .last_us = 100},
			 loses = {.refused = 0.2,
				  .home_us = 100,
				  .refused_home_us = 100,
				  .elsewhere_us = 200,
				  .last_us = 100};

TEST(hints_mark_nearly_all_reads_when_leaving_gains)
{
	struct hints *h = new_hints(1);
	struct outcome seen;

	replay(h, &gains, N_READS);
	seen = replay(h, &gains, N_READS);
	assert(seen.hinted > 0.99 * N_READS);
	assert(seen.left > 0.97 * seen.refused);
	free(h);
}

TEST(hints_mark_few_reads_when_leaving_loses_but_compare_both_outcomes)
{
	unsigned int hinted = 0, refused = 0, left = 0;

	for (unsigned int seed = 0; seed < 20; seed++) {
		struct hints *h = new_hints(seed);
		struct outcome seen;

		replay(h, &loses, N_READS);
		seen = replay(h, &loses, N_READS);
		hinted += seen.hinted;
		refused += seen.refused;
		left += seen.left;
		free(h);
	}
	assert(hinted > 20 * N_READS / 40 && hinted < 20 * N_READS / 20);
	assert(left > 0.4 * refused && left < 0.6 * refused);
}

TEST(hints_mark_a_third_of_the_reads_when_nothing_is_known)
{
	unsigned int hinted = 0;

	for (unsigned int seed = 0; seed < 3000; seed++) {
		struct hints *h = new_hints(seed);

		hinted += hints_begin(h, 0, 0).is_carried;
		free(h);
	}
	/* One in six should be redirected, and half of the hinted reads would be. */
	assert(hinted > 3000 * 0.28 && hinted < 3000 * 0.36);
}

TEST(hints_adapt_when_the_load_changes)
{
	struct hints *h = new_hints(3);

	replay(h, &loses, N_READS);
	replay(h, &gains, 20000);
	assert(replay(h, &gains, N_READS).left > 0.15 * N_READS);
	replay(h, &loses, 20000);
	assert(replay(h, &loses, N_READS).left < 0.02 * N_READS);
	free(h);
}

TEST(hints_judge_drives_separately_when_their_last_answer_was_slow)
{
	struct load slow = gains;
	struct hints *h = new_hints(4);
	unsigned int usual = 0, left = 0;

	slow.last_us = 5000;
	for (unsigned int i = 0; i < 200; i++) {
		usual += replay(h, &loses, 50).left;
		left += replay(h, &slow, 50).left;
	}
	assert(usual < 0.01 * 200 * 50 && left > 0.15 * 200 * 50);
	free(h);
}

TEST(hints_cost_little_when_leaving_neither_gains_nor_loses)
{
	double lost_us = 0;

	for (unsigned int seed = 0; seed < 20; seed++) {
		struct hints *h = new_hints(seed);
		struct load noise = loses;

		/* Another drive takes as long, plus the time of the refusal. */
		noise.elsewhere_us = noise.refused_home_us + REFUSAL_US;
		lost_us += replay(h, &noise, N_READS).lost_us / 20;
		free(h);
	}
	/* A read takes 100 us; if all reads were hinted, the cost would be 3 us. */
	assert(lost_us < 1);
}
