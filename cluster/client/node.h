/* SPDX-License-Identifier: MIT */
/*
 * The state of a node as known to a client, and the latency that it expects of a read there,
 * relative to the median of the size class.
 *
 * Healthy nodes differ little, and their differences persist. Their expected latency is the mean of
 * the reads of each node, corrected by how much the latest report of its agent deviates from the
 * mean of the agent's reports (struct fit).
 *
 * Two sources show that a node is unhealthy: the latencies of the client's own reads and the
 * predictions of the node's agent. Each source is weighted by its recent accuracy for this node,
 * and the client's own latencies lose weight with age. A client that often reads from a node
 * therefore relies on its own latencies, and a client that rarely does relies on the agent's
 * reports. An agent that is wrong or dishonest loses weight. If it is far less accurate than the
 * client's own latencies, it is ignored.
 *
 * After a slow read a node counts as slow until another read is fast. The node is probed after a
 * wait, which doubles with each slow read. The time that a read in flight has already taken counts
 * as a latency, too.
 *
 * If there are no data about a node, or they are too old, a read is expected to take the median.
 */
#ifndef LINNOS_CLUSTER_NODE_H
#define LINNOS_CLUSTER_NODE_H

#include "linnos_guard.h"

#include <stdbool.h>
#include <stdint.h>

/* Size classes: reads of up to 1, 2, 4, ... pages; the last class includes all larger reads. */
#define N_SIZE_CLASSES 10

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull

/* A node is healthy up to this multiple of the median. */
#define HEALTHY_MAX 1.5
/*
 * A node is slow from this multiple of the median on. At a healthy drive a few percent of the reads
 * exceed it.
 */
#define SLOW 2.5
/* The ratio of a node that fails, or whose agent reports that a read on its drive is late. */
#define FAILED 1000.0

/* The minimum ratio to the median. */
#define RATIO_MIN 0.01

/* Medians of the latencies of a client's reads. */
struct medians {
	double us[N_SIZE_CLASSES];  /* 0 if there is none */
	uint32_t n[N_SIZE_CLASSES]; /* number of reads, up to FIRST_READS */
};

void median_add(struct medians *u, unsigned int size_class, double us);
/* Return 0 if there are no data. */
double median_us(const struct medians *u, unsigned int size_class);

/*
 * The mean latency of a node's reads, and how much it changes with the reports of the node's agent:
 * a least-squares line through the base-2 logarithms, in which older reads have less weight. The
 * influence of an agent therefore depends on how well its past reports agreed with the latencies.
 * An agent that always reports the same value, or random values, has no influence.
 *
 * All values are relative to the median, and come from reads while the node was not slow.
 */
struct fit {
	float n;	       /* number of all reads (decayed) */
	float ratio;	       /* their mean ratio */
	float n_reports;       /* number of the reads with a report (decayed) */
	float report, latency; /* means of the base-2 logarithms of reports and latencies */
	float square, product; /* sums of the products of the deviations from these means */
};

/* A read in flight, stored inside struct linnos_attempt. */
struct sending {
	struct sending *next, *previous;
	uint64_t sent_ns;
	uint32_t node, expected_us;
	float own_ratio, agent_ratio; /* predictions from each source alone; 0 if it has none */
	uint8_t kind, size_class;
	struct linnos_assignment assignment; /* for the guard, if this is a copy */
};

struct node {
	struct sending *oldest, *newest;
	uint32_t in_flight;
	uint32_t consecutive_slow; /* number of slow reads in a row that were not concurrent */
	bool failing;
	float own_ratio; /* recent ratio of own reads */
	float own_error, agent_error;
	struct fit fit;
	uint64_t last_completion_ns; /* time of the last completion; 0 if there is none */
	uint64_t n_answered, n_errors;

	float agent_ratio; /* ratio reported by its agent; 0 if there is none */
	uint32_t report_uses, sent_since_query;
	uint64_t report_query_ns; /* time of the query that the report answers */
	uint64_t last_query_ns;	  /* time of the last query */
	uint64_t cookie;	  /* cookie of the last query; 0 if it is answered */
	uint32_t query_bytes, unanswered;
};

/* The parameters of all nodes of a client. */
struct node_estimator {
	struct medians medians;
	uint64_t report_ttl_ns;
	double probe_wait_ns; /* initial time until a slow node is probed */
	uint32_t report_max_uses;
	double agent_offset; /* median of the latency of reads minus that predicted by agents,
			       relative to the median latency */
	uint32_t n_reports;
};

struct expected {
	double own_ratio, agent_ratio; /* as in struct sending */
	double ratio;
};

/* Return the time since @then_ns; 0 if @then_ns is later, because another thread recorded it. */
uint64_t elapsed_ns(uint64_t then_ns, uint64_t now_ns);

/* Return the next number of a random sequence. */
uint64_t random_next(uint64_t *state);
unsigned int node_size_class(uint64_t bytes);
void node_init(struct node *n);
struct expected node_expect(const struct node_estimator *k, const struct node *n, uint64_t now_ns);
/* Add a read that is being sent to the reads in flight. */
void node_add_read(struct node *n, struct sending *s);
/* Remove a read that is no longer in flight. */
void node_remove_read(struct node *n, struct sending *s);
/* Record a latency, as a ratio to the median. */
void node_learn(struct node_estimator *k, struct node *n, const struct sending *s, double ratio,
		uint64_t now_ns);
void node_fail(struct node *n, uint64_t now_ns);
bool node_has_report(const struct node_estimator *k, const struct node *n, uint64_t now_ns);
bool node_is_trusted(const struct node *n);
/* Return true if a probe should check whether the node is still slow. */
bool node_needs_probe(const struct node_estimator *k, const struct node *n, double ratio,
		      uint64_t now_ns);

#endif
