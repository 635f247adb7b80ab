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

/* The maximum number of recent candidates whose agents wait to be queried. */
#define TO_ASK 8

struct linnos_cluster {
	pthread_mutex_t lock;
	struct linnos_cluster_options o;
	uint8_t key[KEY_BYTES_MAX];
	uint32_t n_nodes;
	struct knowing knowing;
	struct linnos_guard guard[2]; /* for healthy default nodes [1], and for others */
	struct budget extra, copies, questions;
	uint64_t random, next_home;
	/*
	 * How much slower than the median reads are without recent data about their default node;
	 * the round trip time of a query; the fraction of answers that contain usable information.
	 */
	double blind_us, way_us, telling;
	double usual_pending; /* median number of pending reads in agent reports */
	uint32_t n_blind;
	bool asks_first;	     /* the caller uses linnos_cluster_should_query_first() */
	double took_us, expected_us; /* decayed sums over primary attempts */
	uint32_t to_ask[TO_ASK], next_to_ask, n_to_ask;
	struct linnos_cluster_stats stats;
	struct node nodes[];
};

#endif
