// SPDX-License-Identifier: MIT
/* The redirection of reads by the guard, with simulated latencies. */
#include "linnos_guard.h"

#include "test.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LATER 400

/* Latencies whose standard deviation equals their mean. */
static double exponential(double mean_us)
{
	return -mean_us * log((rand() + 0.5) / (RAND_MAX + 1.0));
}

/* One in a hundred latencies is a hundred times as long. These contribute half of the mean and
 * nearly all of the variance. */
static double heavy(double mean_us)
{
	return exponential(rand() % 100 ? mean_us / 2 : 50 * mean_us);
}

#define EACH_SLOWNESS(slowness)                                                                    \
	enum linnos_slowness slowness = LINNOS_SLOWNESS_NORMAL;                                    \
	slowness < LINNOS_N_SLOWNESS;                                                              \
	slowness++

/* Return how many of n reads of this slowness are redirected, with these mean latencies of both
 * groups. */
static unsigned int redirect(struct linnos_guard *g, enum linnos_slowness slowness, unsigned int n,
			     double control_us, double redirected_us,
			     double (*draw)(double mean_us))
{
	unsigned int n_redirected = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct linnos_assignment assignment = linnos_guard_assign(g, slowness, UINT32_MAX);

		linnos_guard_record_latency(
			g, assignment, draw(assignment.redirected ? redirected_us : control_us));
		n_redirected += assignment.redirected;
		/* Other reads stay at their default replica because it is not slow. */
		linnos_guard_record_latency(g, linnos_guard_assign(g, LINNOS_SLOWNESS_NONE, 0),
					    draw(control_us));
	}
	return n_redirected;
}

TEST(slowness_class_depends_on_overdue_time)
{
	assert(linnos_classify_slowness(0, 100) == LINNOS_SLOWNESS_NORMAL);
	assert(linnos_classify_slowness(100, 100) == LINNOS_SLOWNESS_NORMAL);
	assert(linnos_classify_slowness(101, 100) == LINNOS_SLOWNESS_OVER_P90);
	assert(linnos_classify_slowness(201, 100) == LINNOS_SLOWNESS_OVER_P90);
	assert(linnos_classify_slowness(202, 100) == LINNOS_SLOWNESS_OVER_2X_P90);
	assert(linnos_classify_slowness(302, 100) == LINNOS_SLOWNESS_OVER_2X_P90);
	assert(linnos_classify_slowness(303, 100) == LINNOS_SLOWNESS_OVER_3X_P90);
	assert(linnos_classify_slowness(UINT32_MAX, UINT32_MAX) == LINNOS_SLOWNESS_NORMAL);
}

TEST(guard_never_redirects_reads_without_slowness)
{
	struct linnos_guard g = {0};

	for (unsigned int i = 0; i < 1000; i++)
		assert(!linnos_guard_assign(&g, LINNOS_SLOWNESS_NONE, 0).redirected);
	assert(!g.random && !g.eligible[LINNOS_SLOWNESS_NONE]);
}

TEST(guard_redirects_most_reads_without_data)
{
	unsigned int n_redirected[LINNOS_N_SLOWNESS] = {0};

	for (unsigned int i = 0; i < 1000; i++) {
		struct linnos_guard g = {.random = i + 1};

		/* The first numbers of the generator resemble its seed. */
		for (unsigned int k = 0; k < 20; k++)
			linnos_guard_assign(&g, LINNOS_SLOWNESS_OVER_2X_P90, 0);
		for (EACH_SLOWNESS(w))
			n_redirected[w] += linnos_guard_assign(&g, w, 0).redirected;
	}
	for (EACH_SLOWNESS(w))
		assert(n_redirected[w] > 930 && n_redirected[w] < 985);
}

TEST(guard_follows_beneficial_and_stops_harmful_redirection)
{
	for (EACH_SLOWNESS(slowness)) {
		struct linnos_guard better = {0}, worse = {0};

		srand(slowness);
		redirect(&better, slowness, 400, 200, 100, exponential);
		assert(redirect(&better, slowness, 2000, 200, 100, exponential) > 1750);
		redirect(&worse, slowness, 400, 100, 200, exponential);
		assert(redirect(&worse, slowness, 2000, 100, 200, exponential) < 150);
	}
}

TEST(guard_rarely_redirects_without_benefit_and_is_not_misled_by_heavy_tails)
{
	unsigned int n_equal = 0, n_same = 0, n_better = 0;

	for (unsigned int seed = 0; seed < 50; seed++) {
		struct linnos_guard equal = {0}, same = {0}, better = {0};

		srand(seed);
		n_equal += redirect(&equal, LINNOS_SLOWNESS_NORMAL, 2000, 100, 100, exponential);
		n_same += redirect(&same, LINNOS_SLOWNESS_NORMAL, 2000, 100, 100, heavy);
		n_better += redirect(&better, LINNOS_SLOWNESS_OVER_3X_P90, 2000, 300, 100, heavy);
	}
	assert(n_equal < 50 * 2000 * 0.25 && n_same < 50 * 2000 * 0.25);
	assert(n_better > 50 * 2000 * 0.85);
}

/* A drive that hangs: only few reads stay there, at 40 ms each. When it recovers, redirection
 * stops. */
TEST(control_group_is_small_when_it_is_costly)
{
	unsigned int n_redirected = 0;

	for (unsigned int seed = 0; seed < 50; seed++) {
		struct linnos_guard g = {0};

		srand(seed);
		redirect(&g, LINNOS_SLOWNESS_OVER_3X_P90, 2000, 40000, 300, heavy);
		n_redirected += redirect(&g, LINNOS_SLOWNESS_OVER_3X_P90, 2000, 40000, 300, heavy);
		redirect(&g, LINNOS_SLOWNESS_OVER_3X_P90, 10000, 100, 300, heavy);
		assert(redirect(&g, LINNOS_SLOWNESS_OVER_3X_P90, 1000, 100, 300, heavy) < 500);
	}
	assert(n_redirected > 50 * 2000 * 0.995);
}

/* Return how many of n reads are redirected, with constant latencies. Reads of the control group
 * that take 0 us do not complete. */
static unsigned int redirect_constant(struct linnos_guard *g, enum linnos_slowness slowness,
				      unsigned int n, uint32_t default_us, uint64_t control_us,
				      uint64_t redirected_us)
{
	unsigned int n_redirected = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct linnos_assignment assignment = linnos_guard_assign(g, slowness, default_us);
		uint64_t us = assignment.redirected ? redirected_us : control_us;

		if (us)
			linnos_guard_record_latency(g, assignment, us);
		n_redirected += assignment.redirected;
	}
	return n_redirected;
}

/* Return how many of n reads stay at a drive that hangs, which answers after LATER more reads have
 * been sent. */
static unsigned int stay_while_hanging(struct linnos_guard *g, enum linnos_slowness slowness,
				       unsigned int n)
{
	static struct linnos_assignment stayed[LATER];
	unsigned int n_stayed = 0;

	memset(stayed, 0, sizeof(stayed));
	for (unsigned int i = 0; i < n; i++) {
		struct linnos_assignment *slot = &stayed[i % LATER], assignment;

		if (slot->slowness)
			linnos_guard_record_latency(g, *slot, 40000);
		assignment = linnos_guard_assign(g, slowness, UINT32_MAX);
		*slot = assignment.redirected ? (struct linnos_assignment){0} : assignment;
		if (assignment.redirected)
			linnos_guard_record_latency(g, assignment, 300);
		n_stayed += !assignment.redirected;
	}
	return n_stayed;
}

/* If the guard ignored reads in the control group that have not completed, many would stay until
 * some have. */
TEST(control_group_is_small_while_its_reads_hang)
{
	for (EACH_SLOWNESS(slowness)) {
		unsigned int n_stayed = 0;

		for (unsigned int seed = 1; seed <= 20; seed++) {
			struct linnos_guard g = {.random = seed * 7919};

			stay_while_hanging(&g, slowness, 4 * LATER);
			n_stayed += stay_while_hanging(&g, slowness, 20000);
		}
		assert(n_stayed < 20 * 20000 / 400);
	}
}

/* A default replica without any completion is no reason to stay. */
TEST(guard_redirects_most_reads_until_the_default_replica_answers)
{
	for (EACH_SLOWNESS(slowness)) {
		struct linnos_guard g = {.random = 7919};

		assert(redirect_constant(&g, slowness, 4000, UINT32_MAX, 0, 300) > 4000 * 0.93);
	}
}

TEST(change_of_load_is_noticed)
{
	for (unsigned int seed = 0; seed < 20; seed++) {
		struct linnos_guard g = {0};

		srand(seed);
		redirect(&g, LINNOS_SLOWNESS_OVER_P90, 5000, 200, 100, exponential);
		redirect(&g, LINNOS_SLOWNESS_OVER_P90, 1500, 100, 200, exponential);
		assert(redirect(&g, LINNOS_SLOWNESS_OVER_P90, 1000, 100, 200, exponential) < 200);
		redirect(&g, LINNOS_SLOWNESS_OVER_P90, 5000, 200, 100, exponential);
		assert(redirect(&g, LINNOS_SLOWNESS_OVER_P90, 1000, 200, 100, exponential) > 800);
	}
}

/* A default replica with too high predictions is detected from the latencies of the control
 * group. */
TEST(guard_stops_when_redirected_reads_exceed_the_default_prediction)
{
	for (EACH_SLOWNESS(slowness)) {
		struct linnos_guard slower = {.random = slowness}, faster = {.random = slowness};

		assert(redirect_constant(&slower, slowness, 100, 150, 100, 151) < 20);
		assert(redirect_constant(&faster, slowness, 20, 150, 150, 149) > 15);
	}
}

/* In 95 % of the cases a mean is within two of its standard errors. */
TEST(variance_of_the_mean_covers_the_true_mean)
{
	unsigned int within = 0;

	for (unsigned int seed = 0; seed < 200; seed++) {
		struct linnos_moments moments = {0};

		srand(seed);
		for (unsigned int i = 0; i < 400; i++)
			linnos_moments_add(&moments, exponential(200));
		within += fabs((double)moments.sum_us / moments.n - 200) <=
			  2 * sqrt(linnos_moments_mean_variance(&moments));
	}
	assert(within >= 180);
}

TEST(guard_does_not_overflow_with_latencies_of_a_year)
{
	struct linnos_guard g = {0};
	struct linnos_redirect_benefit benefit;

	redirect_constant(&g, LINNOS_SLOWNESS_OVER_3X_P90, 20000, UINT32_MAX, 31536000000000,
			  31536000000000);
	linnos_guard_get_benefit(&g, LINNOS_SLOWNESS_OVER_3X_P90, &benefit);
	assert(benefit.redirected_us > 0.995 * 0x1fffff &&
	       benefit.redirected_us < 1.005 * 0x1fffff);
	assert(benefit.control_us > 0.995 * 0x1fffff && benefit.control_us < 1.005 * 0x1fffff);
	assert(benefit.share > 700 && benefit.share < 900);
}
