// SPDX-License-Identifier: MIT
/* Tests of the estimate made from a client's own reads and an agent's reports. */
#include "../../../liblinnos/tests/test.h"
#include "node.h"

#include <math.h>

#define USUAL_US 100

static struct knowing knowing;
static struct node node;
static uint64_t now_ns;

static void begin(void)
{
	knowing = (struct knowing){
		.news_for_ns = 50 * NS_PER_MS,
		.report_max_uses = 4,
		.wait_ns = 10 * NS_PER_MS,
	};
	usual_add(&knowing.usual, 0, USUAL_US);
	node_init(&node);
	now_ns = NS_PER_MS;
}

static double expected(void)
{
	return node_expect(&knowing, &node, now_ns).ratio;
}

/* Complete a read with a latency given as a ratio to the median. */
static void read_takes(double ratio)
{
	struct expected e = node_expect(&knowing, &node, now_ns);
	struct sending s = {.sent_ns = now_ns, .own = e.own, .told = e.told};

	node_sent(&node, &s);
	now_ns += ratio * USUAL_US * NS_PER_US;
	node_forget(&node, &s);
	node_learn(&knowing, &node, &s, ratio, now_ns);
}

static void tell(double ratio)
{
	now_ns += NS_PER_US;
	node.told = ratio;
	node.told_of_ns = now_ns;
	node.told_uses = 0;
	node.sent_since_asked = 0;
}

TEST(what_is_usual_is_known_after_however_many_reads)
{
	struct usual usual = {0};

	for (unsigned int k = 0; k < 100; k++)
		usual_add(&usual, 0, USUAL_US);
	/* some hours of a busy client */
	usual.n[0] = UINT32_MAX;
	for (unsigned int k = 0; k < 4; k++)
		usual_add(&usual, 0, 100 * USUAL_US);
	assert(usual.us[0] < 1.2 * USUAL_US);
}

TEST(who_is_not_known_is_as_usual)
{
	begin();
	assert(expected() == 1);
}

TEST(one_slow_read_makes_a_node_slow_until_another_is_not)
{
	begin();
	read_takes(1);
	read_takes(20);
	now_ns += 2 * knowing.wait_ns;
	assert(expected() >= SLOW);
	read_takes(1.1);
	assert(expected() < 1.2);
}

TEST(that_it_was_slow_is_forgotten_in_time_and_later_each_time)
{
	uint64_t after_ns[3];

	begin();
	read_takes(1);
	for (unsigned int k = 0; k < 3; k++) {
		uint64_t begin_ns;

		read_takes(20);
		for (begin_ns = now_ns; expected() > 1.3; now_ns += NS_PER_MS)
			;
		after_ns[k] = now_ns - begin_ns;
	}
	assert(after_ns[0] > 50 * NS_PER_MS && after_ns[0] < 70 * NS_PER_MS);
	assert(after_ns[1] > 1.9 * after_ns[0] && after_ns[2] > 1.9 * after_ns[1]);
}

TEST(while_one_looks_nobody_else_does)
{
	struct sending s = {0};

	begin();
	read_takes(1);
	read_takes(20);
	now_ns += 1000 * NS_PER_MS;
	assert(expected() < 1.3);
	s.sent_ns = now_ns;
	node_sent(&node, &s);
	assert(expected() >= SLOW);
	node_forget(&node, &s);
}

TEST(how_long_nodes_stay_slow_is_learnt)
{
	double first_ns;

	begin();
	first_ns = knowing.wait_ns;
	for (unsigned int k = 0; k < 20; k++) {
		read_takes(20);
		now_ns += knowing.wait_ns;
		read_takes(1);
	}
	assert(knowing.wait_ns < first_ns / 5);
	for (unsigned int k = 0; k < 200; k++) {
		read_takes(20);
		now_ns += knowing.wait_ns;
		read_takes(20);
		read_takes(1);
	}
	assert(knowing.wait_ns > 10 * first_ns && knowing.wait_ns <= 250 * NS_PER_MS);
}

TEST(a_node_in_order_is_as_usual_after_a_while)
{
	begin();
	read_takes(2);
	assert(expected() > 1.9);
	now_ns += 1000 * NS_PER_MS;
	assert(expected() < 1.01);
}

TEST(a_read_in_flight_counts_by_what_it_has_waited)
{
	struct sending s = {0}, later = {0};

	begin();
	s.sent_ns = later.sent_ns = now_ns;
	node_sent(&node, &s);
	assert(expected() < 1.2);
	now_ns += 5 * USUAL_US * NS_PER_US;
	node_sent(&node, &later);
	assert(expected() >= 5);
	node_forget(&node, &s);
	later.sent_ns = now_ns;
	assert(expected() < 1.2);
	node_forget(&node, &later);
	assert(!node.in_flight && !node.oldest && !node.newest);
}

TEST(news_make_a_node_worse_for_some_time_and_some_reads)
{
	begin();
	read_takes(1);
	tell(20);
	assert(expected() >= SLOW);
	now_ns += knowing.news_for_ns;
	assert(expected() < 1.1);
	tell(20);
	for (unsigned int k = 0; k < knowing.report_max_uses; k++) {
		assert(node_has_report(&knowing, &node, now_ns));
		read_takes(20);
	}
	assert(!node_has_report(&knowing, &node, now_ns));
}

TEST(news_that_were_never_worth_anything_make_no_node_better)
{
	begin();
	tell(0.1);
	assert(expected() >= 1);
	read_takes(1);
	tell(0.1);
	assert(expected() >= 0.99);
	/* an agent that reports a constant, and one that reports random values */
	for (unsigned int k = 0; k < 200; k++) {
		tell(0.5);
		read_takes(1);
	}
	tell(0.1);
	assert(expected() >= 0.98);
	for (unsigned int k = 0; k < 200; k++) {
		tell(k % 3 ? 1.4 : 0.7);
		read_takes(k % 2 ? 1.2 : 0.8);
	}
	tell(0.5);
	assert(expected() >= 0.9);
}

TEST(news_that_come_true_make_a_node_better_and_worse)
{
	begin();
	for (unsigned int k = 0; k < 200; k++) {
		double ratio = k % 2 ? 0.7 : 1.3;

		tell(ratio);
		read_takes(ratio);
	}
	tell(0.7);
	assert(expected() < 0.8);
	tell(1.3);
	assert(expected() > 1.15);
	/* the report expires first, then the own latencies */
	now_ns += knowing.news_for_ns;
	assert(expected() > 0.95 && expected() < 1.05);
}

TEST(what_a_node_takes_in_the_mean_is_forgotten_in_time)
{
	begin();
	for (unsigned int k = 0; k < 300; k++)
		read_takes(0.8);
	assert(expected() < 0.84);
	now_ns += 2000 * NS_PER_MS;
	assert(expected() > 0.99);
}

TEST(a_burst_is_one_slow_read_in_the_mean)
{
	begin();
	for (unsigned int k = 0; k < 300; k++)
		read_takes(1);
	for (unsigned int k = 0; k < 20; k++)
		read_takes(20);
	read_takes(1);
	assert(expected() < 1.05);
}

TEST(news_end_that_a_node_is_slow_if_they_are_newer)
{
	begin();
	for (unsigned int k = 0; k < 20; k++) {
		read_takes(1);
		tell(1);
	}
	tell(1);
	read_takes(20);
	assert(node_has_report(&knowing, &node, now_ns) && expected() >= SLOW);
	tell(1);
	assert(expected() < SLOW);
}

TEST(who_tells_what_is_not_so_is_not_listened_to)
{
	begin();
	for (unsigned int k = 0; k < 20; k++)
		read_takes(1);
	assert(node_is_trusted(&node));
	for (unsigned int k = 0; k < 20; k++) {
		tell(20);
		read_takes(1);
	}
	assert(!node_is_trusted(&node));
	tell(20);
	assert(expected() < 1.2);
	/* and is trusted again once it is accurate */
	for (unsigned int k = 0; k < 40; k++) {
		tell(1);
		read_takes(1);
	}
	assert(node_is_trusted(&node));
}

TEST(a_lone_slow_read_does_not_end_trust)
{
	begin();
	for (unsigned int k = 0; k < 20; k++) {
		tell(1);
		read_takes(1);
	}
	read_takes(20);
	assert(node_is_trusted(&node));
}

TEST(a_slow_node_is_looked_at_by_one_and_later_each_time)
{
	struct sending s = {0};
	uint64_t heard_ns;

	begin();
	read_takes(1);
	assert(!node_needs_probe(&knowing, &node, expected(), now_ns + NS_PER_MS * 1000));
	read_takes(20);
	heard_ns = now_ns;
	assert(!node_needs_probe(&knowing, &node, SLOW, heard_ns + 10 * NS_PER_MS - 1));
	assert(node_needs_probe(&knowing, &node, SLOW, heard_ns + 10 * NS_PER_MS));
	/* immediate reads say nothing about how long the node stays slow */
	read_takes(20);
	heard_ns = now_ns;
	assert(!node_needs_probe(&knowing, &node, SLOW, heard_ns + 20 * NS_PER_MS - 1));
	assert(node_needs_probe(&knowing, &node, SLOW, heard_ns + 20 * NS_PER_MS));
	for (unsigned int k = 0; k < 10; k++)
		read_takes(20);
	now_ns += 250 * NS_PER_MS;
	assert(node_needs_probe(&knowing, &node, SLOW, now_ns));
	s.sent_ns = now_ns;
	node_sent(&node, &s);
	assert(!node_needs_probe(&knowing, &node, SLOW, now_ns));
	node_forget(&node, &s);
}

TEST(a_node_that_fails_is_the_last_one)
{
	begin();
	read_takes(20);
	node_fail(&node, now_ns);
	assert(node.failing && expected() >= FAILED);
	read_takes(1);
	assert(!node.failing && expected() < 1.1);
}

TEST(what_is_usual_is_a_median_of_each_size)
{
	struct usual u = {0};

	for (unsigned int k = 0; k < 3000; k++) {
		usual_add(&u, 0, k % 3 ? 100 : 5000);
		usual_add(&u, 8, 1000);
	}
	assert(usual_us(&u, 0) > 90 && usual_us(&u, 0) < 120);
	assert(usual_us(&u, 8) == 1000);
	/* a size class without data uses the nearest one */
	assert(usual_us(&u, 1) == usual_us(&u, 0) && usual_us(&u, 9) == 1000);
}

TEST(a_mean_is_forgotten_while_few_read)
{
	begin();
	for (unsigned int k = 0; k < 300; k++)
		read_takes(1.3);
	assert(expected() > 1.2);
	now_ns += 3600 * 1000 * NS_PER_MS;
	read_takes(1);
	assert(expected() < 1.02);
}

TEST(of_an_agent_that_is_not_trusted_nothing_counts)
{
	double untold;

	begin();
	for (unsigned int k = 0; k < 400; k++) {
		double ratio = k % 2 ? 0.75 : 1.25;

		tell(ratio);
		read_takes(ratio);
	}
	node.told = 0;
	untold = expected();
	tell(0.25);
	assert(expected() < 0.9 * untold);
	node.told_error = node.own_error + 2;
	assert(!node_is_trusted(&node));
	assert(fabs(expected() - untold) < 0.001);
}
