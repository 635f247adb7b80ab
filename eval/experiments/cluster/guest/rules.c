// SPDX-License-Identifier: MIT
#include "rules.h"

#include "policies/rankings.h"

#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)

/* Older reports and latencies are not used. */
#define KNOWN_FOR_NS (50 * MS)
/* The additional latency of a read for each own read in flight at its node. */
#define QUEUED_NS 100000.0
/* As in BLKEXPECT: nodes whose latency is at most this multiple of the lowest are equal. */
#define NEARLY_BEST 1.25
/* The relative increase of a predicted latency for each own read sent since the query. */
#define CROWDING 0.1

/* Suresh et al., "C3", NSDI 2015: the weight of a new value in averages. */
#define C3_NEW 0.1f

/*
 * Elasticsearch's adaptive replica selection: ResponseCollectorService (ALPHA, innerRank()) and
 * IndexShardRoutingTable (adjustStats()) as in 8.x, which fixed the service time, formerly used as
 * its inverse (elasticsearch#65838). The formula is that of C3, in ms.
 */
#define ELASTIC_NEW 0.3
#define US_PER_MS 1000.0

/*
 * Cassandra's DynamicEndpointSnitch: the interval between updates of the scores, and how much worse
 * than the best one the default node must be.
 */
#define SNITCH_EVERY_NS (100 * MS)
#define SNITCH_WORSE 1.1
#define SNITCH_NEW 0.1f

/* Wydrowski et al., "Load is not what you should balance", NSDI 2024. */
#define PREQUAL_FOR_NS (1000 * MS)
#define PREQUAL_USES 3

/* Dean and Barroso, "The tail at scale", CACM 2013: the percentile, and a common limit. */
#define HEDGE_PERCENTILE 0.95
#define HEDGE_CAP 0.05
#define HEDGE_EVERY 128
#define HEDGE_HISTOGRAM_BITS 6

unsigned int rule_lowest(const struct rule_client *client, const double *given, unsigned int n,
			 double factor)
{
	double score[RULE_REPLICAS_MAX], best = INFINITY, sum = 0;
	unsigned int near[RULE_REPLICAS_MAX], n_near = 0, known = 0;

	for (unsigned int k = 0; k < n; k++) {
		known += given[k] >= 0;
		sum += given[k] >= 0 ? given[k] : 0;
	}
	for (unsigned int k = 0; k < n; k++) {
		score[k] = given[k] >= 0 ? given[k] : known ? sum / known : 0;
		best = fmin(best, score[k]);
	}
	for (unsigned int k = 0; k < n; k++)
		if (score[k] <= best * factor)
			near[n_near++] = k;
	return near[client->draw() % n_near];
}

static unsigned int another(const struct rule_client *client, unsigned int one, unsigned int n)
{
	return (one + 1 + client->draw() % (n - 1)) % n;
}

/* The parameters of all policies; most policies do not use all of them. */
#define RULE(rule)                                                                                 \
	static unsigned int rule(__attribute__((unused)) struct rule_client *client,               \
				 __attribute__((unused)) const uint32_t *replicas,                 \
				 __attribute__((unused)) unsigned int n,                           \
				 __attribute__((unused)) uint64_t now_ns)

#define NODE(k) (&client->nodes[replicas[k]])

RULE(primary)
{
	return 0;
}

RULE(at_random)
{
	return client->draw() % n;
}

RULE(in_turn)
{
	return client->turn++ % n;
}

RULE(own_pending)
{
	double score[RULE_REPLICAS_MAX];

	for (unsigned int k = 0; k < n; k++)
		score[k] = NODE(k)->in_flight;
	return rule_lowest(client, score, n, 1);
}

RULE(two_choices)
{
	unsigned int one = client->draw() % n, other = another(client, one, n);

	return NODE(other)->in_flight < NODE(one)->in_flight ? other : one;
}

/* The latency of the last own read, or the age of the oldest one in flight if that is longer. */
RULE(last_latency)
{
	double score[RULE_REPLICAS_MAX];

	for (unsigned int k = 0; k < n; k++) {
		const struct rule_node *node = NODE(k);
		uint64_t ns = node->own_at_ns + KNOWN_FOR_NS > now_ns ? node->own_ns : 0;

		if (node->oldest && now_ns - node->oldest->sent_ns > ns)
			ns = now_ns - node->oldest->sent_ns;
		score[k] = ns + QUEUED_NS * node->in_flight;
	}
	return rule_lowest(client, score, n, NEARLY_BEST);
}

/* Without its rate control, which limits overload of the servers. */
RULE(c3)
{
	double score[RULE_REPLICAS_MAX];

	for (unsigned int k = 0; k < n; k++) {
		const struct rule_node *node = NODE(k);
		double queue = 1 + node->in_flight * (double)client->n_clients + node->queue;

		score[k] = fmax(c3_score(node->answer_us, node->service_us, queue), 0);
	}
	return rule_lowest(client, score, n, 1);
}

static void average(double *value, double added, double weight)
{
	*value = weight * added + (1 - weight) * *value;
}

/*
 * Nodes that have not answered come first. The number of clients is estimated by the number of
 * nodes that have answered. A node that is not chosen gets the mean of its values and those of the
 * chosen node, as if it had answered, so that it is tried again.
 */
RULE(elasticsearch)
{
	double rank[RULE_REPLICAS_MAX] = {0};
	const struct rule_node *best;
	unsigned int chosen;

	for (unsigned int k = 0; k < n; k++) {
		const struct rule_node *node = NODE(k);
		double queue =
			1 + (double)node->in_flight * client->n_known + trunc(node->elastic.queue);

		if (node->own_at_ns)
			rank[k] =
				c3_score(node->elastic.answer_us, node->elastic.service_us, queue) /
				US_PER_MS;
	}
	chosen = rule_lowest(client, rank, n, 1);
	best = NODE(chosen);
	for (unsigned int k = 0; best->own_at_ns && k < n; k++) {
		struct rule_node *node = NODE(k);

		if (k == chosen || !node->own_at_ns)
			continue;
		average(&node->elastic.queue,
			trunc((trunc(best->elastic.queue) + trunc(node->elastic.queue)) / 2),
			ELASTIC_NEW);
		average(&node->elastic.answer_us,
			(best->elastic.answer_us + node->elastic.answer_us) / 2, ELASTIC_NEW);
		average(&node->elastic.service_us,
			(best->elastic.service_us + node->elastic.service_us) / 2, ELASTIC_NEW);
	}
	return chosen;
}

RULE(snitch)
{
	double best = INFINITY, score[RULE_REPLICAS_MAX];

	if (now_ns >= client->scored_ns + SNITCH_EVERY_NS) {
		for (uint32_t k = 0; k < client->n_nodes; k++)
			client->nodes[k].score_us = client->nodes[k].snitch_us;
		client->scored_ns = now_ns;
	}
	for (unsigned int k = 0; k < n; k++) {
		score[k] = NODE(k)->score_us;
		best = fmin(best, score[k]);
	}
	return score[0] <= best * SNITCH_WORSE ? 0 : rule_lowest(client, score, n, 1);
}

static bool prequal_has_report(const struct rule_report *report, uint64_t now_ns)
{
	return report->at_ns && now_ns - report->at_ns < PREQUAL_FOR_NS &&
	       report->uses < PREQUAL_USES;
}

RULE(prequal)
{
	double cold[RULE_REPLICAS_MAX], pending[RULE_REPLICAS_MAX];
	unsigned int known = 0, n_cold = 0, chosen;
	uint32_t least = UINT32_MAX;

	for (unsigned int k = 0; k < n; k++) {
		const struct rule_report *report = &NODE(k)->report;

		if (!prequal_has_report(report, now_ns))
			continue;
		known++;
		least = report->pending < least ? report->pending : least;
	}
	if (known < 2)
		return at_random(client, replicas, n, now_ns);
	for (unsigned int k = 0; k < n; k++) {
		const struct rule_report *report = &NODE(k)->report;
		bool is_known = prequal_has_report(report, now_ns), is_hot;
		unsigned int not_above = 0;

		for (unsigned int other = 0; other < n; other++)
			not_above += prequal_has_report(&NODE(other)->report, now_ns) &&
				     NODE(other)->report.pending <= report->pending;
		is_hot = report->pending > least && not_above >= PREQUAL_HOT_QUANTILE * known;
		pending[k] = is_known ? report->pending : 1e18;
		cold[k] = is_known && !is_hot ? report->us : 1e18;
		n_cold += is_known && !is_hot;
	}
	chosen = rule_lowest(client, n_cold ? cold : pending, n, 1);
	NODE(chosen)->report.uses++;
	return chosen;
}

static double sent_since(const struct rule_node *node)
{
	uint32_t since = node->sent - node->report.sent_at_query;

	return since < node->in_flight ? since : node->in_flight;
}

static bool is_fresh(const struct rule_report *report, uint64_t now_ns)
{
	return report->at_ns && now_ns - report->at_ns < KNOWN_FOR_NS;
}

RULE(shipped_pending)
{
	double score[RULE_REPLICAS_MAX];

	for (unsigned int k = 0; k < n; k++) {
		const struct rule_node *node = NODE(k);

		score[k] = is_fresh(&node->report, now_ns) ? node->report.pending + sent_since(node)
							   : -1;
	}
	return rule_lowest(client, score, n, 1);
}

/* A silent drive is probed once for each report that says so. */
RULE(shipped_prediction)
{
	double score[RULE_REPLICAS_MAX];

	for (unsigned int k = 0; k < n; k++) {
		struct rule_node *node = NODE(k);
		bool is_known = is_fresh(&node->report, now_ns);

		if (is_known && node->report.needs_probe &&
		    node->sent == node->report.sent_at_query) {
			node->report.needs_probe = false;
			return k;
		}
		score[k] = is_known && node->report.us
				   ? node->report.us * (1 + CROWDING * sent_since(node))
				   : -1;
	}
	return rule_lowest(client, score, n, NEARLY_BEST);
}

const struct rule rules[] = {
	{.name = "primary", .choose = primary},
	{.name = "random", .choose = at_random},
	{.name = "round-robin", .choose = in_turn},
	{.name = "own-queue", .choose = own_pending},
	{.name = "two-choices", .choose = two_choices},
	{.name = "own-latency", .choose = last_latency},
	{.name = "c3", .choose = c3, .queries = RULE_QUERIES_CHOSEN},
	{.name = "elasticsearch", .choose = elasticsearch, .queries = RULE_QUERIES_CHOSEN},
	{.name = "prequal", .choose = prequal, .queries = RULE_QUERIES_ALL},
	{.name = "snitch", .choose = snitch},
	{.name = "hedge", .choose = at_random, .hedges = INFINITY},
	{.name = "hedge-capped", .choose = at_random, .hedges = HEDGE_CAP},
	{.name = "clone", .choose = at_random, .clones = true},
	{.name = "pending", .choose = shipped_pending, .queries = RULE_QUERIES_ALL},
	{.name = "prediction",
	 .choose = shipped_prediction,
	 .queries = RULE_QUERIES_ALL,
	 .probes_silent = true},
};
const unsigned int n_rules = sizeof(rules) / sizeof(*rules);

const struct rule *rule_named(const char *name)
{
	for (unsigned int k = 0; k < n_rules; k++)
		if (!strcmp(rules[k].name, name))
			return &rules[k];
	return NULL;
}

unsigned int rule_choose(const struct rule *rule, struct rule_client *client,
			 const uint32_t *replicas, unsigned int n, uint64_t now_ns)
{
	client->reads++;
	return rule->choose(client, replicas, n, now_ns);
}

void rule_sent(struct rule_node *node, struct rule_sending *sending, uint64_t now_ns)
{
	*sending = (struct rule_sending){.previous = node->newest, .sent_ns = now_ns};
	*(node->newest ? &node->newest->next : &node->oldest) = sending;
	node->newest = sending;
	node->in_flight++;
	node->sent++;
}

void rule_ended(struct rule_client *client, struct rule_node *node, struct rule_sending *sending,
		const struct rule_server *server, uint64_t now_ns)
{
	float us = (now_ns - sending->sent_ns) / 1000.0f;
	bool first = !node->own_at_ns;
	float c3_new = first ? 1 : C3_NEW, snitch_new = first ? 1 : SNITCH_NEW;
	double elastic_new = first ? 1 : ELASTIC_NEW;

	*(sending->previous ? &sending->previous->next : &node->oldest) = sending->next;
	*(sending->next ? &sending->next->previous : &node->newest) = sending->previous;
	client->n_known += first;
	node->in_flight--;
	node->own_ns = now_ns - sending->sent_ns;
	node->own_at_ns = now_ns;
	node->answer_us = (1 - c3_new) * node->answer_us + c3_new * us;
	node->service_us = (1 - c3_new) * node->service_us + c3_new * server->service_us;
	node->queue = (1 - c3_new) * node->queue + c3_new * server->queue;
	node->snitch_us = (1 - snitch_new) * node->snitch_us + snitch_new * us;
	average(&node->elastic.answer_us, us, elastic_new);
	average(&node->elastic.queue, server->queue, elastic_new);
	/* the server sends an average */
	node->elastic.service_us = server->average_service_us;
}

bool rule_hedging_init(struct rule_hedging *hedging)
{
	return histogram_init(&hedging->latencies, HEDGE_HISTOGRAM_BITS);
}

void rule_hedging_learn(struct rule_hedging *hedging, uint64_t first_ns)
{
	histogram_add(&hedging->latencies, first_ns);
	if (++hedging->n % HEDGE_EVERY == 0)
		hedging->after_ns = histogram_at_rank(&hedging->latencies,
						      nearest_rank(hedging->n, HEDGE_PERCENTILE));
}

int rule_hedge(const struct rule *rule, struct rule_client *client, unsigned int first,
	       unsigned int n)
{
	if (client->hedges + 1 > rule->hedges * client->reads)
		return -1;
	client->hedges++;
	return another(client, first, n);
}
