// SPDX-License-Identifier: MIT
/*
 * Rules by which clients choose, as their authors have them; those of eval/experiments/cluster as
 * its client has them (guest/reads.c).
 */
#include "simulation.h"

#include <math.h>

/* What was told, or seen, longer ago counts no more. */
#define KNOWN_FOR_NS (50 * NS_PER_MS)
#define QUEUED_NS 100000.0
#define NEARLY_BEST 1.25
#define CROWDING 0.1

/* Suresh et al., "C3", NSDI 2015: averages keep so much. */
#define C3_KEPT 0.9

/* Cassandra's DynamicEndpointSnitch: looks, and what its first choice must be worse by. */
#define SNITCH_EVERY_NS (100 * NS_PER_MS)
#define SNITCH_WORSE 1.1

/* Wydrowski et al., "Load is not what you should balance", NSDI 2024. */
#define PREQUAL_HOT 0.84
#define PREQUAL_FOR_NS NS_PER_S
#define PREQUAL_USES 3

static struct pair *pair_of(const struct client *client, const struct read *read, unsigned int k)
{
	return &client->pairs[read->nodes[k]];
}

/* Any of those within a factor of the lowest; who is below 0 is as the mean of the others. */
static unsigned int lowest(const double *given, double factor)
{
	double score[N_REPLICAS], best = INFINITY, sum = 0;
	unsigned int near[N_REPLICAS], n = 0, known = 0;

	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		known += given[k] >= 0;
		sum += given[k] >= 0 ? given[k] : 0;
	}
	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		score[k] = given[k] >= 0 ? given[k] : known ? sum / known : 0;
		best = fmin(best, score[k]);
	}
	for (unsigned int k = 0; k < N_REPLICAS; k++)
		if (score[k] <= best * factor)
			near[n++] = k;
	return near[draw() % n];
}

static unsigned int primary(struct client *client, struct read *read)
{
	(void)client;
	(void)read;
	return 0;
}

static unsigned int at_random(struct client *client, struct read *read)
{
	(void)client;
	(void)read;
	return draw() % N_REPLICAS;
}

static unsigned int in_turn(struct client *client, struct read *read)
{
	(void)read;
	return client->turn++ % N_REPLICAS;
}

static unsigned int own_pending(struct client *client, struct read *read)
{
	double score[N_REPLICAS];

	for (unsigned int k = 0; k < N_REPLICAS; k++)
		score[k] = pair_of(client, read, k)->in_flight;
	return lowest(score, 1);
}

static unsigned int two_choices(struct client *client, struct read *read)
{
	unsigned int one = draw() % N_REPLICAS,
		     other = (one + 1 + draw() % (N_REPLICAS - 1)) % N_REPLICAS;

	return pair_of(client, read, other)->in_flight < pair_of(client, read, one)->in_flight
		       ? other
		       : one;
}

static unsigned int last_latency(struct client *client, struct read *read)
{
	double score[N_REPLICAS];

	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		const struct pair *p = pair_of(client, read, k);
		uint64_t ns = p->own_at_ns + KNOWN_FOR_NS > now_ns ? p->own_ns : 0;

		if (p->oldest && now_ns - p->oldest->sent_ns > ns)
			ns = now_ns - p->oldest->sent_ns;
		score[k] = ns + QUEUED_NS * p->in_flight;
	}
	return lowest(score, NEARLY_BEST);
}

static unsigned int c3(struct client *client, struct read *read)
{
	double score[N_REPLICAS];

	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		const struct pair *p = pair_of(client, read, k);
		double queue = 1 + p->in_flight * (double)scenario.n_clients + p->queue;

		score[k] = p->answer_us - p->service_us + queue * queue * queue * p->service_us;
		score[k] = fmax(score[k], 0);
	}
	return lowest(score, 1);
}

static unsigned int snitch(struct client *client, struct read *read)
{
	double best = INFINITY, score[N_REPLICAS];

	if (now_ns >= client->scored_ns + SNITCH_EVERY_NS)
		pair_scored(client);
	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		score[k] = pair_of(client, read, k)->score_us;
		best = fmin(best, score[k]);
	}
	return score[0] <= best * SNITCH_WORSE ? 0 : lowest(score, 1);
}

static bool prequal_knows(const struct pair *p)
{
	return p->is_told && now_ns - p->told_ns < PREQUAL_FOR_NS && p->told_uses < PREQUAL_USES;
}

static unsigned int prequal(struct client *client, struct read *read)
{
	double cold[N_REPLICAS], pending[N_REPLICAS];
	unsigned int known = 0, n_cold = 0, chosen;
	uint32_t most = 0, least = UINT32_MAX;

	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		const struct pair *p = pair_of(client, read, k);

		if (!prequal_knows(p))
			continue;
		known++;
		most = p->told_pending > most ? p->told_pending : most;
		least = p->told_pending < least ? p->told_pending : least;
	}
	if (known < 2)
		return at_random(client, read);
	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		const struct pair *p = pair_of(client, read, k);
		bool knows = prequal_knows(p);
		/* of three the 84th percentile is the highest */
		bool hot = p->told_pending > least && p->told_pending >= most;

		pending[k] = knows ? p->told_pending : 1e18;
		cold[k] = knows && !hot ? p->told_us : 1e18;
		n_cold += knows && !hot;
	}
	chosen = lowest(n_cold ? cold : pending, 1);
	pair_of(client, read, chosen)->told_uses++;
	return chosen;
}

static double sent_since(const struct pair *p)
{
	uint32_t since = p->sent - p->sent_when_asked;

	return since < p->in_flight ? since : p->in_flight;
}

static bool is_fresh(const struct pair *p)
{
	return p->is_told && now_ns - p->told_ns < KNOWN_FOR_NS;
}

static unsigned int shipped_pending(struct client *client, struct read *read)
{
	double score[N_REPLICAS];

	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		const struct pair *p = pair_of(client, read, k);

		score[k] = is_fresh(p) ? p->told_pending + sent_since(p) : -1;
	}
	return lowest(score, 1);
}

static unsigned int shipped_prediction(struct client *client, struct read *read)
{
	double score[N_REPLICAS];

	for (unsigned int k = 0; k < N_REPLICAS; k++) {
		const struct pair *p = pair_of(client, read, k);

		score[k] = is_fresh(p) && p->told_us ? p->told_us * (1 + CROWDING * sent_since(p))
						     : -1;
	}
	return lowest(score, NEARLY_BEST);
}

static unsigned int oracle(struct client *client, struct read *read)
{
	double score[N_REPLICAS];

	(void)client;
	for (unsigned int k = 0; k < N_REPLICAS; k++)
		score[k] = drive_read(&drives[read->nodes[k]], read->place,
				      now_ns + scenario.one_way_ns, false);
	return lowest(score, 1);
}

const struct rule rules[] = {
	{"primary", "primary", primary, .at_once = 1},
	{"random", "at random", at_random, .at_once = 1},
	{"round-robin", "in turn", in_turn, .at_once = 1},
	{"own-queue", "shortest own queue", own_pending, .at_once = 1},
	{"two-choices", "two choices", two_choices, .at_once = 1},
	{"own-latency", "lowest own last latency", last_latency, .at_once = 1},
	{"c3", "C3", c3, .at_once = 1},
	{"prequal", "Prequal", prequal, .asked = N_REPLICAS, .at_once = 1},
	{"snitch", "Cassandra's snitch", snitch, .at_once = 1},
	{"hedge", "at random, hedge after p95", at_random, .at_once = 1, .hedges = true},
	{"clone", "two at once", at_random, .at_once = 2},
	{"pending", "shipped: what is in flight at the drive", shipped_pending, .asked = N_REPLICAS,
	 .at_once = 1},
	{"prediction", "shipped: the prediction", shipped_prediction, .asked = N_REPLICAS,
	 .at_once = 1},
	{"observe", "library, observes", NULL, .at_once = 1, .mode = LINNOS_CLUSTER_OBSERVE},
	{"library", "library, chooses", NULL, .at_once = 1, .mode = LINNOS_CLUSTER_CHOOSE},
	{"library-deaf", "library, chooses, asks nobody", NULL, .at_once = 1,
	 .mode = LINNOS_CLUSTER_CHOOSE, .deaf = true},
	{"library-hedge", "library, hedges", NULL, .at_once = 1, .mode = LINNOS_CLUSTER_HEDGE},
	{"oracle", "oracle", oracle, .at_once = 1},
};
const unsigned int n_rules = sizeof(rules) / sizeof(*rules);
