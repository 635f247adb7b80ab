// SPDX-License-Identifier: MIT
/* Tests that each policy chooses as published; the expected values are computed by hand. */
#include "../../../liblinnos/tests/test.h"
#include "rules.h"

#include <math.h>
#include <stdlib.h>

#define N 3
#define US 1000ull
#define MS 1000000ull

static struct rule_node nodes[N];
static struct rule_client client;
static struct rule_sending sendings[64];
static const uint32_t replicas[N] = {0, 1, 2};
static uint64_t now_ns, draws;
static unsigned int n_sent;

static uint64_t next_draw(void)
{
	return draws++;
}

static void begin(void)
{
	memset(nodes, 0, sizeof(nodes));
	client = (struct rule_client){
		.nodes = nodes, .n_nodes = N, .n_clients = 1, .draw = next_draw};
	now_ns = 1000 * MS;
	draws = n_sent = 0;
}

static unsigned int choose(const char *rule)
{
	return rule_choose(rule_named(rule), &client, replicas, N, now_ns);
}

/* Choose without changing any state except the random sequence. */
static unsigned int would_choose(const char *rule)
{
	const struct rule_client of = client;
	struct rule_node kept[N];
	unsigned int chosen;

	memcpy(kept, nodes, sizeof(nodes));
	chosen = choose(rule);
	memcpy(nodes, kept, sizeof(nodes));
	client = of;
	return chosen;
}

/* Return a bitmap of the replicas that the policy may choose. */
static unsigned int any(const char *rule)
{
	unsigned int found = 0;

	for (unsigned int k = 0; k < 60; k++)
		found |= 1u << would_choose(rule);
	return found;
}

static bool always(const char *rule, unsigned int replica)
{
	return any(rule) == 1u << replica;
}

static struct rule_sending *sent(unsigned int node)
{
	assert(n_sent < sizeof(sendings) / sizeof(*sendings));
	rule_sent(&nodes[node], &sendings[n_sent], now_ns);
	return &sendings[n_sent++];
}

static void ends(unsigned int node, uint64_t us, const struct rule_server *server)
{
	struct rule_sending *sending = sent(node);

	now_ns += us * US;
	rule_ended(&client, &nodes[node], sending, server, now_ns);
	n_sent--;
}

/* Complete a read with a latency, a service time and the queue of the server at its end. */
static void answered(unsigned int node, uint64_t us, float service_us, float queue)
{
	struct rule_server server = {queue, service_us, service_us};

	ends(node, us, &server);
}

static void told(unsigned int node, uint32_t us, uint32_t pending)
{
	nodes[node].report = (struct rule_report){
		.at_ns = now_ns, .us = us, .pending = pending, .sent_at_query = nodes[node].sent};
}

TEST(round_robin_takes_turns)
{
	begin();
	sent(0);
	assert(always("primary", 0));
	for (unsigned int k = 0; k < 2 * N; k++)
		assert(choose("round-robin") == k % N);
	assert(any("random") == 7 && any("hedge") == 7 && any("hedge-capped") == 7);
	assert(any("clone") == 7 && rule_named("clone")->clones && !rule_named("hedge")->clones);
}

TEST(own_latency_uses_recent_and_waiting_reads)
{
	struct rule_sending *waits;

	begin();
	answered(0, 2100, 2000, 0);
	answered(1, 120, 80, 0);
	answered(2, 100, 80, 0);
	assert(any("own-latency") == 6);
	/* a read in flight adds 100 us */
	sent(1);
	assert(always("own-latency", 2));
	rule_ended(&client, &nodes[1], &sendings[--n_sent], &(struct rule_server){0}, now_ns);
	now_ns += 51 * MS;
	assert(any("own-latency") == 7);
	waits = sent(1);
	now_ns += MS;
	assert(any("own-latency") == 5);
	rule_ended(&client, &nodes[1], waits, &(struct rule_server){0}, now_ns);
	assert(!nodes[1].oldest && !nodes[1].in_flight && nodes[1].own_ns == MS);
}

/* Scores of the paper's formula: answer - service + queue^3 * service. */
TEST(c3_cubes_the_queue)
{
	begin();
	/* 200 - 100 + 3^3 * 100 = 2800 */
	answered(0, 200, 100, 2);
	/* 900 - 300 + 1 * 300 = 900 */
	answered(1, 900, 300, 0);
	/* 1000 - 300 + 300 = 1000 */
	answered(2, 1000, 300, 0);
	assert(always("c3", 1));
	/* with a read in flight there: 600 + 2^3 * 300 */
	sent(1);
	assert(always("c3", 2));
	/* it counts for each client: 2^3 * 100 with one client, 5^3 * 100 with four */
	begin();
	answered(0, 100, 100, 0);
	answered(1, 900, 900, 0);
	answered(2, 9000, 9000, 0);
	sent(0);
	assert(always("c3", 0));
	client.n_clients = 4;
	assert(always("c3", 1));
}

TEST(elasticsearch_ranks_like_c3_with_integer_queues)
{
	begin();
	answered(0, 200, 100, 1.9f);
	answered(1, 800, 100, 0);
	answered(2, 900, 100, 0);
	/* queue 1: 100 + 2^3 * 100 = 900; 800; 900. With 1.9 the first would have 2539. */
	assert(always("elasticsearch", 1));
	nodes[1].elastic.answer_us = 950;
	assert(any("elasticsearch") == 5);
	/* a read in flight counts for the three nodes that have answered: 800 + 63 * 100 */
	nodes[1].elastic.answer_us = 800;
	sent(1);
	assert(any("elasticsearch") == 5);
	client.n_known = 0;
	assert(always("elasticsearch", 1));
}

TEST(elasticsearch_adjusts_nodes_that_are_not_chosen)
{
	begin();
	answered(0, 100, 80, 0);
	answered(1, 2100, 2000, 4);
	assert(fabs(nodes[1].elastic.answer_us - 2100) < .01);
	answered(2, 3000, 2000, 5);
	assert(choose("elasticsearch") == 0);
	/* 0.3 times the mean of both plus 0.7 times the old value */
	assert(fabs(nodes[1].elastic.answer_us - (.3 * 1100 + .7 * 2100)) < .01);
	assert(fabs(nodes[1].elastic.service_us - (.3 * 1040 + .7 * 2000)) < .01);
	assert(fabs(nodes[1].elastic.queue - (.3 * 2 + .7 * 4)) < .01);
	/* queues are integers: (0 + 5) / 2 is 2 */
	assert(fabs(nodes[2].elastic.queue - (.3 * 2 + .7 * 5)) < .01);
	assert(fabs(nodes[0].elastic.answer_us - 100) < .01);
	/* a latency has the weight 0.3; the service time of the server replaces the old one */
	ends(0, 200, &(struct rule_server){0, 5000, 90});
	assert(fabs(nodes[0].elastic.answer_us - 130) < .01);
	assert(fabs(nodes[0].elastic.service_us - 90) < .01);
	for (unsigned int k = 0; k < 40; k++)
		assert(choose("elasticsearch") < N);
	assert(nodes[1].elastic.answer_us < 150);
}

TEST(snitch_updates_ten_times_a_second_with_a_margin_of_a_tenth)
{
	begin();
	answered(0, 109, 0, 0);
	answered(1, 100, 0, 0);
	answered(2, 200, 0, 0);
	assert(always("snitch", 0));
	answered(0, 300, 0, 0);
	assert(fabsf(nodes[0].snitch_us - 128.1f) < .01f);
	choose("snitch");
	/* 128 compared with 100; the next update is in 100 ms */
	assert(always("snitch", 1));
	answered(1, 2000, 0, 0);
	now_ns += 97 * MS;
	assert(always("snitch", 1));
	now_ns += 2 * MS;
	assert(always("snitch", 0));
}

TEST(prequal_reads_the_fastest_cold_node)
{
	begin();
	told(0, 50, 9), told(1, 300, 3), told(2, 200, 4);
	assert(always("prequal", 2));
	/* equal nodes are not hot */
	told(0, 50, 4), told(1, 300, 4), told(2, 200, 4);
	assert(always("prequal", 0));
}

TEST(prequal_uses_a_report_three_times_within_a_second)
{
	begin();
	told(0, 50, 1), told(1, 300, 1);
	for (unsigned int k = 0; k < 3; k++)
		assert(choose("prequal") == 0);
	/* one report is not enough */
	assert(any("prequal") == 7);
	told(0, 50, 1), told(1, 300, 1);
	now_ns += 1001 * MS;
	assert(any("prequal") == 7);
}

TEST(pending_adds_reads_sent_since_the_query)
{
	begin();
	told(0, 9, 2), told(1, 1, 3), told(2, 1, 4);
	assert(always("pending", 0));
	sent(0), sent(0);
	assert(always("pending", 1));
	/* an old report is replaced by the mean of the others, 3.5 */
	nodes[0].report.at_ns -= 60 * MS;
	assert(always("pending", 1));
	nodes[1].report.pending = 5;
	assert(always("pending", 2));
}

TEST(prediction_has_a_margin_of_a_quarter)
{
	begin();
	told(0, 100, 9), told(1, 124, 0), told(2, 126, 0);
	assert(any("prediction") == 3);
	sent(1);
	assert(always("prediction", 0));
	/* 0 means no prediction */
	nodes[0].report.us = 0;
	assert(any("prediction") == 7);
	told(2, 1000, 0);
	nodes[2].report.needs_probe = true;
	assert(choose("prediction") == 2 && choose("prediction") != 2);
}

TEST(hedges_start_at_the_95th_percentile_and_are_limited_to_5_percent)
{
	const struct rule *hedge = rule_named("hedge"), *capped = rule_named("hedge-capped");
	struct rule_hedging hedging = {0};
	unsigned int n = 0, n_capped = 0;

	assert(rule_hedging_init(&hedging));
	for (unsigned int k = 1; k <= 128; k++) {
		assert(!hedging.after_ns);
		rule_hedging_learn(&hedging, k * MS);
	}
	/* the width of a bucket is one sixty-fourth */
	assert(fabs(hedging.after_ns / (122. * MS) - 1) < 1. / 64);
	histogram_free(&hedging.latencies);
	begin();
	for (unsigned int k = 0; k < 200; k++) {
		int to;

		choose("hedge");
		to = rule_hedge(hedge, &client, 1, N);
		assert(to == 0 || to == 2);
		n++;
	}
	begin();
	for (unsigned int k = 0; k < 200; k++) {
		choose("hedge-capped");
		n_capped += rule_hedge(capped, &client, 1, N) >= 0;
	}
	assert(n == 200 && n_capped == 10);
	assert(rule_hedge(rule_named("random"), &client, 1, N) == -1);
}
