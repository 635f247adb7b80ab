// SPDX-License-Identifier: MIT
/*
 * Clients of simulated nodes with queues, where redirecting reads gains nothing or costs other
 * clients more than it gains. Choosing must not be slower than the engine's own choice. There are
 * no agents.
 */
#include "client.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define CLIENTS_MAX 64
#define SERVERS_MAX 4
#define SEEDS 5
/* One-way network latency. */
#define WAY_NS (20 * US)
#define SERVICE_US 100.0

struct queues {
	unsigned int clients, servers;
	double reads_per_s, seconds;
	/* exponentially distributed fraction of the service time */
	double chance;
	/* additional latency at nodes other than the default node */
	double miss_us;
	/* additional latency of node 0, from half of the run on and for a fiftieth of it */
	double burst_us;
};

struct read {
	struct linnos_choice choice;
	struct linnos_attempt first, copy;
	struct linnos_cluster *client;
	uint64_t begin_ns, end_ns[2]; /* of the first attempt and of its copy */
	unsigned int to_end;
	struct read *next; /* list of reads by next completion */
};

static uint64_t random_state;
static uint64_t free_ns[N][SERVERS_MAX];

/* Return a number greater than 0 and less than 1. */
static double uniform(void)
{
	return ((chance(&random_state) >> 11) + 0.5) * 0x1p-53;
}

static uint64_t served_ns(const struct queues *q, unsigned int k, bool at_default, uint64_t now)
{
	double us = SERVICE_US * (1 - q->chance - q->chance * log(uniform()));
	double part = now / (q->seconds * 1e9);
	uint64_t *server = &free_ns[k][0];

	for (unsigned int i = 1; i < q->servers; i++)
		if (free_ns[k][i] < *server)
			server = &free_ns[k][i];
	now += WAY_NS;
	*server = (*server > now ? *server : now) + (us + (at_default ? 0 : q->miss_us)) * US;
	if (!k && part > 0.5 && part < 0.52)
		return *server + q->burst_us * US + WAY_NS;
	return *server + WAY_NS;
}

static uint64_t next_end_ns(const struct read *r)
{
	return r->end_ns[0] < r->end_ns[1] ? r->end_ns[0] : r->end_ns[1];
}

static void wait_for(struct read **waiting, struct read *r)
{
	while (*waiting && next_end_ns(*waiting) <= next_end_ns(r))
		waiting = &(*waiting)->next;
	r->next = *waiting;
	*waiting = r;
}

/* Complete all reads that end by then. Return the sum of their response times. */
static double end_until(struct read **waiting, uint64_t ns)
{
	double sum_us = 0;

	while (*waiting && next_end_ns(*waiting) <= ns) {
		struct read *r = *waiting;
		uint64_t end_ns = next_end_ns(r);
		bool is_copy = r->end_ns[1] == end_ns;

		*waiting = r->next;
		linnos_cluster_on_complete(r->client, is_copy ? &r->copy : &r->first,
					   LINNOS_SUCCEEDED, end_ns);
		if (!is_copy) {
			linnos_cluster_on_answer(r->client, &r->choice, &r->first, end_ns);
			sum_us += (end_ns - r->begin_ns) / (double)US;
		}
		r->end_ns[is_copy] = UINT64_MAX;
		if (--r->to_end)
			wait_for(waiting, r);
		else
			free(r);
	}
	return sum_us;
}

static double mean_us(const struct queues *q, uint32_t mode, uint64_t seed)
{
	struct linnos_cluster *clients[CLIENTS_MAX];
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;
	struct read *waiting = NULL;
	double sum_us = 0;
	uint64_t n = 0;

	random_state = seed;
	memset(free_ns, 0, sizeof(free_ns));
	o.mode = mode;
	for (unsigned int k = 0; k < q->clients; k++) {
		o.seed = seed * CLIENTS_MAX + k;
		assert(!linnos_cluster_create(&clients[k], N, &o));
	}
	for (uint64_t now = MS; now < q->seconds * 1e9;
	     now -= log(uniform()) * 1e9 / q->reads_per_s) {
		struct read *r = calloc(1, sizeof(*r));

		assert(r);
		sum_us += end_until(&waiting, now);
		r->client = clients[(unsigned int)(uniform() * q->clients)];
		r->choice.bytes = PAGE;
		r->choice.home = uniform() * N;
		linnos_cluster_choose(r->client, &r->choice, nodes, N, now);
		r->begin_ns = now;
		r->end_ns[0] = r->end_ns[1] = UINT64_MAX;
		for (unsigned int i = 0; i < 2; i++) {
			int k = i ? r->choice.copy : (int)r->choice.replica;

			if (k < 0)
				continue;
			r->to_end++;
			r->end_ns[i] = served_ns(q, k, k == r->choice.home, now);
			linnos_cluster_on_submit(r->client, i ? &r->copy : &r->first, &r->choice, k,
						 i ? LINNOS_PROBE_COPY : LINNOS_PRIMARY_ATTEMPT,
						 now);
		}
		wait_for(&waiting, r);
		n++;
	}
	sum_us += end_until(&waiting, UINT64_MAX - 1);
	for (unsigned int k = 0; k < q->clients; k++)
		linnos_cluster_free(clients[k]);
	return sum_us / n;
}

/* The mean latency relative to that of the engine's own choice must be at most one. */
static void assert_choosing_is_not_slower(struct queues q)
{
	double sum = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		sum += mean_us(&q, LINNOS_CLUSTER_CHOOSE, seed) /
		       mean_us(&q, LINNOS_CLUSTER_OBSERVE, seed) / SEEDS;
	assert(sum < 1.01);
}

TEST(choosing_is_not_slower_with_equal_busy_nodes)
{
	assert_choosing_is_not_slower(
		(struct queues){.clients = 16, .servers = 4, .reads_per_s = 108000, .seconds = 1});
}

TEST(choosing_is_not_slower_with_a_cache_miss_elsewhere)
{
	assert_choosing_is_not_slower((struct queues){.clients = 1,
						      .servers = 1,
						      .reads_per_s = 6000,
						      .seconds = 3,
						      .chance = 1,
						      .miss_us = 10});
}

TEST(gain_in_bursts_hides_no_loss_between_them)
{
	assert_choosing_is_not_slower((struct queues){.clients = 1,
						      .servers = 2,
						      .reads_per_s = 6000,
						      .seconds = 6,
						      .chance = 0.5,
						      .miss_us = 10,
						      .burst_us = 2000});
}

TEST(choosing_is_not_slower_for_the_first_reads)
{
	assert_choosing_is_not_slower((struct queues){
		.clients = 64, .servers = 1, .reads_per_s = 6000, .seconds = 1, .miss_us = 20});
}
