/* SPDX-License-Identifier: MIT */
/* Internals of a client. The lock protects all of them. */
#ifndef LINNOS_CLUSTER_CLIENT_STATE_H
#define LINNOS_CLUSTER_CLIENT_STATE_H

#include "budget.h"
#include "datagram.h"
#include "linnos_cluster.h"
#include "linnos_guard.h"
#include "node.h"

#include <pthread.h>

/* The maximum number of queued queries. */
#define TO_QUERY_MAX 8

struct linnos_cluster {
	pthread_mutex_t lock;
	struct linnos_cluster_options o;
	uint8_t key[KEY_BYTES_MAX];
	uint32_t n_nodes;
	struct node_estimator estimator;
	struct linnos_guard guard[2]; /* for healthy default nodes [1], and for others */
	struct budget extra, copies, queries;
	uint64_t random, next_default;
	double median_pending;	     /* median of the pending reads in agent reports */
	double took_us, expected_us; /* decayed sums over primary attempts */
	uint32_t to_query[TO_QUERY_MAX], next_to_query, n_to_query;
	struct linnos_cluster_stats stats;
	struct node nodes[];
};

#endif
