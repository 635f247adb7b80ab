/* SPDX-License-Identifier: MIT */
/* A client from within. All of it is under its lock. */
#ifndef LINNOS_CLUSTER_H
#define LINNOS_CLUSTER_H

#include "budget.h"
#include "datagram.h"
#include "linnos_cluster.h"
#include "linnos_guard.h"
#include "node.h"

#include <pthread.h>

/* Nodes that reads had the choice of and that may be asked about. */
#define TO_ASK 8

struct linnos_cluster {
	pthread_mutex_t lock;
	struct linnos_cluster_options o;
	uint8_t key[KEY_BYTES_MAX];
	uint32_t n_nodes;
	struct knowing knowing;
	struct linnos_guard guard[2]; /* of those whose home is in order [1], and of others */
	struct budget extra, copies, questions;
	uint64_t random, next_home;
	/* By what reads take longer than usual whose home was not known; what questions take, and
	 * how many of their answers say something.
	 */
	double blind_us, way_us, telling;
	double usual_pending; /* that agents tell of */
	uint32_t n_blind;
	bool asks_first;	     /* its user does */
	double took_us, expected_us; /* sums over first attempts, fading */
	uint32_t to_ask[TO_ASK], next_to_ask, n_to_ask;
	struct linnos_cluster_stats stats;
	struct node nodes[];
};

uint64_t cluster_draw(struct linnos_cluster *c);
/* A read of which nothing was known took longer than usual by so much. */
void report_unknown_read_cost(struct linnos_cluster *c, double us);
/* Of one of a read's candidates to which it does not go the agent may be worth a question. */
void report_candidates_for_query(struct linnos_cluster *c, const uint32_t *candidates,
				 unsigned int n, unsigned int chosen, uint64_t now_ns);
unsigned int size_class_of(uint64_t bytes);

#endif
