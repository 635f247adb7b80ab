/* SPDX-License-Identifier: MIT */
/* A client with a simulated clock, and nodes with latencies set by the test. */
#ifndef LINNOS_CLUSTER_TEST_CLIENT_H
#define LINNOS_CLUSTER_TEST_CLIENT_H

#include "../../../liblinnos/tests/test.h"
#include "linnos_cluster.h"

#define US 1000ull
#define MS 1000000ull
#define N 3
#define PAGE 4096

static struct linnos_cluster *cluster;
static uint64_t now_ns;
static uint64_t takes_us[N];
static const uint32_t nodes[N] = {0, 1, 2};

/* If the options contain no seed, use seed 1, so that tests are reproducible. */
static inline void open_client(const struct linnos_cluster_options *given)
{
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;

	if (given)
		o = *given;
	if (!o.seed)
		o.seed = 1;
	assert(!linnos_cluster_create(&cluster, N, &o));
	now_ns = MS;
	for (unsigned int k = 0; k < N; k++)
		takes_us[k] = 100;
}

static inline struct linnos_cluster_stats stats(void)
{
	struct linnos_cluster_stats s;

	linnos_cluster_get_stats(cluster, &s, sizeof(s));
	return s;
}

static inline struct linnos_cluster_node node(uint32_t k)
{
	struct linnos_cluster_node n;

	assert(!linnos_cluster_get_node(cluster, k, now_ns, &n, sizeof(n)));
	return n;
}

static inline void close_client(void)
{
	if (!cluster)
		return;
	assert(stats().sent == stats().ended);
	for (unsigned int k = 0; k < N; k++)
		assert(!node(k).in_flight);
	linnos_cluster_free(cluster);
	cluster = NULL;
}

AFTER_EACH(close_client)

static inline struct linnos_choice chosen(int home, uint64_t bytes)
{
	struct linnos_choice c = {.bytes = bytes, .home = home};

	assert(linnos_cluster_choose(cluster, &c, nodes, N, now_ns) == (int64_t)c.replica);
	return c;
}

/* Execute one read and its probe copy, if there is one. Return the choice of the read. */
static inline struct linnos_choice read_once(int home, uint64_t bytes)
{
	struct linnos_choice c = chosen(home, bytes);
	struct linnos_attempt first, copy;
	uint64_t end_ns = now_ns + takes_us[c.replica] * US * (bytes / PAGE);

	linnos_cluster_on_submit(cluster, &first, &c, c.replica, LINNOS_PRIMARY_ATTEMPT, now_ns);
	if (c.copy >= 0)
		linnos_cluster_on_submit(cluster, &copy, &c, c.copy, LINNOS_PROBE_COPY, now_ns);
	linnos_cluster_on_complete(cluster, &first, LINNOS_SUCCEEDED, end_ns);
	linnos_cluster_on_answer(cluster, &c, &first, end_ns);
	if (c.copy >= 0)
		linnos_cluster_on_complete(cluster, &copy, LINNOS_SUCCEEDED,
					   now_ns + takes_us[c.copy] * US * (bytes / PAGE));
	now_ns = end_ns + 100 * US;
	return c;
}

#endif
