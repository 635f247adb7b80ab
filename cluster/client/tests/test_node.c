// SPDX-License-Identifier: MIT
/* Tests of the estimate made from a client's own reads and an agent's reports. */
#include "../../../liblinnos/tests/test.h"
#include "node.h"

#include <math.h>

#define MEDIAN_US 100

static struct node_estimator estimator;
static struct node node;
static uint64_t now_ns;

static void begin(void)
{
	estimator = (struct node_estimator){
		.report_ttl_ns = 50 * NS_PER_MS,
		.report_max_uses = 4,
		.probe_wait_ns = 10 * NS_PER_MS,
	};
	median_add(&estimator.medians, 0, MEDIAN_US);
	node_init(&node);
	now_ns = NS_PER_MS;
}

static double expected(void)
{
	return node_expect(&estimator, &node, now_ns).ratio;
}

/* Complete a read with a latency given as a ratio to the median. */
static void read_takes(double ratio)
{
	struct expected e = node_expect(&estimator, &node, now_ns);
	struct sending s = {
		.sent_ns = now_ns, .own_ratio = e.own_ratio, .agent_ratio = e.agent_ratio};

	node_add_read(&node, &s);
	now_ns += ratio * MEDIAN_US * NS_PER_US;
	node_remove_read(&node, &s);
	node_learn(&estimator, &node, &s, ratio, now_ns);
}

static void report(double ratio)
{
	now_ns += NS_PER_US;
	node.agent_ratio = ratio;
	node.report_query_ns = now_ns;
	node.report_uses = 0;
	node.sent_since_query = 0;
}

TEST(probe_wait_adapts_to_how_long_nodes_stay_slow)
{
	double first_ns;

	begin();
	first_ns = estimator.probe_wait_ns;
	for (unsigned int k = 0; k < 20; k++) {
		read_takes(20);
		now_ns += estimator.probe_wait_ns;
		read_takes(1);
	}
	assert(estimator.probe_wait_ns < first_ns / 5);
	for (unsigned int k = 0; k < 200; k++) {
		read_takes(20);
		now_ns += estimator.probe_wait_ns;
		read_takes(20);
		read_takes(1);
	}
	assert(estimator.probe_wait_ns > 10 * first_ns &&
	       estimator.probe_wait_ns <= 250 * NS_PER_MS);
}

TEST(read_in_flight_counts_with_its_waiting_time)
{
	struct sending s = {0}, later = {0};

	begin();
	s.sent_ns = later.sent_ns = now_ns;
	node_add_read(&node, &s);
	assert(expected() < 1.2);
	now_ns += 5 * MEDIAN_US * NS_PER_US;
	node_add_read(&node, &later);
	assert(expected() >= 5);
	node_remove_read(&node, &s);
	later.sent_ns = now_ns;
	assert(expected() < 1.2);
	node_remove_read(&node, &later);
	assert(!node.in_flight && !node.oldest && !node.newest);
}

TEST(report_expires_after_time_and_reads)
{
	begin();
	read_takes(1);
	report(20);
	assert(expected() >= SLOW);
	now_ns += estimator.report_ttl_ns;
	assert(expected() < 1.1);
	report(20);
	for (unsigned int k = 0; k < estimator.report_max_uses; k++) {
		assert(node_has_report(&estimator, &node, now_ns));
		read_takes(20);
	}
	assert(!node_has_report(&estimator, &node, now_ns));
}

TEST(inaccurate_reports_do_not_improve_the_expectation)
{
	begin();
	report(0.1);
	assert(expected() >= 1);
	read_takes(1);
	report(0.1);
	assert(expected() >= 0.99);
	/* an agent that reports a constant, and one that reports random values */
	for (unsigned int k = 0; k < 200; k++) {
		report(0.5);
		read_takes(1);
	}
	report(0.1);
	assert(expected() >= 0.98);
	for (unsigned int k = 0; k < 200; k++) {
		report(k % 3 ? 1.4 : 0.7);
		read_takes(k % 2 ? 1.2 : 0.8);
	}
	report(0.5);
	assert(expected() >= 0.9);
}

TEST(accurate_reports_change_the_expectation)
{
	begin();
	for (unsigned int k = 0; k < 200; k++) {
		double ratio = k % 2 ? 0.7 : 1.3;

		report(ratio);
		read_takes(ratio);
	}
	report(0.7);
	assert(expected() < 0.8);
	report(1.3);
	assert(expected() > 1.15);
	/* the report expires first, then the own latencies */
	now_ns += estimator.report_ttl_ns;
	assert(expected() > 0.95 && expected() < 1.05);
}

TEST(burst_counts_as_one_slow_read_in_the_mean)
{
	begin();
	for (unsigned int k = 0; k < 300; k++)
		read_takes(1);
	for (unsigned int k = 0; k < 20; k++)
		read_takes(20);
	read_takes(1);
	assert(expected() < 1.05);
}

TEST(newer_report_ends_a_slow_state)
{
	begin();
	for (unsigned int k = 0; k < 20; k++) {
		read_takes(1);
		report(1);
	}
	report(1);
	read_takes(20);
	assert(node_has_report(&estimator, &node, now_ns) && expected() >= SLOW);
	report(1);
	assert(expected() < SLOW);
}

TEST(inaccurate_agent_loses_trust)
{
	begin();
	for (unsigned int k = 0; k < 20; k++)
		read_takes(1);
	assert(node_is_trusted(&node));
	for (unsigned int k = 0; k < 20; k++) {
		report(20);
		read_takes(1);
	}
	assert(!node_is_trusted(&node));
	report(20);
	assert(expected() < 1.2);
	/* and is trusted again once it is accurate */
	for (unsigned int k = 0; k < 40; k++) {
		report(1);
		read_takes(1);
	}
	assert(node_is_trusted(&node));
}

TEST(median_is_kept_for_each_size_class)
{
	struct medians u = {0};

	for (unsigned int k = 0; k < 3000; k++) {
		median_add(&u, 0, k % 3 ? 100 : 5000);
		median_add(&u, 8, 1000);
	}
	assert(median_us(&u, 0) > 90 && median_us(&u, 0) < 120);
	assert(median_us(&u, 8) == 1000);
	/* a size class without data uses the nearest one */
	assert(median_us(&u, 1) == median_us(&u, 0) && median_us(&u, 9) == 1000);
}

TEST(mean_decays_without_reads)
{
	begin();
	for (unsigned int k = 0; k < 300; k++)
		read_takes(1.3);
	assert(expected() > 1.2);
	now_ns += 3600 * 1000 * NS_PER_MS;
	read_takes(1);
	assert(expected() < 1.02);
}

TEST(untrusted_agent_has_no_influence)
{
	double without_report;

	begin();
	for (unsigned int k = 0; k < 400; k++) {
		double ratio = k % 2 ? 0.75 : 1.25;

		report(ratio);
		read_takes(ratio);
	}
	node.agent_ratio = 0;
	without_report = expected();
	report(0.25);
	assert(expected() < 0.9 * without_report);
	node.agent_error = node.own_error + 2;
	assert(!node_is_trusted(&node));
	assert(fabs(expected() - without_report) < 0.001);
}
