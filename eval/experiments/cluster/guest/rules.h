/* SPDX-License-Identifier: MIT */
/*
 * Policies by which a client chooses the replica that it reads from: those of other engines and of
 * papers, as published, and simple ones that use the reports of agents. The lab's
 * client uses them as alternatives to the library. A policy does no I/O and has no clock.
 */
#ifndef CLUSTER_RULES_H
#define CLUSTER_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

#define RULE_REPLICAS_MAX 16

/* A read of this client in flight. */
struct rule_sending {
	struct rule_sending *next, *previous; /* of the same node, in the order of sending */
	uint64_t sent_ns;
};

/* Statistics of a server, sent with an answer. */
struct rule_server {
	float queue;
	float service_us;	  /* of this read */
	float average_service_us; /* moving average */
};

/* The report of an agent. */
struct rule_report {
	uint64_t at_ns;		/* 0 if there is none */
	uint32_t us;		/* predicted latency; 0 if there is none */
	uint32_t pending;	/* I/Os in flight at the drive */
	uint32_t sent_at_query; /* own reads sent before the query */
	uint32_t uses;		/* number of reads that it was used for */
	bool needs_probe;	/* the drive has been silent, and a read would show its latency */
};

/* The state of a node as known to a client. */
struct rule_node {
	struct rule_sending *oldest, *newest;
	uint32_t in_flight, sent;
	uint64_t own_ns, own_at_ns; /* latency and time of the last answer; 0 if there is none */
	float answer_us, queue, service_us; /* averages of C3 */
	float snitch_us, score_us;	    /* average of Cassandra, and its last score */
	struct {
		double answer_us, queue, service_us;
	} elastic;
	struct rule_report report;
};

struct rule_client {
	struct rule_node *nodes;
	uint32_t n_nodes;
	uint32_t n_clients; /* clients that read from the nodes */
	uint32_t n_known;   /* nodes that have answered */
	uint32_t turn;
	uint64_t reads, hedges, scored_ns;
	uint64_t (*draw)(void);
};

/* When reads are hedged: from the latencies of primary attempts, of one or more clients. */
struct rule_hedging {
	struct histogram latencies;
	uint64_t n, after_ns; /* after_ns is 0 if unknown */
};

enum rule_queries {
	RULE_QUERIES_NONE,
	RULE_QUERIES_ALL,
	RULE_QUERIES_CHOSEN, /* only if servers send no statistics */
};

struct rule {
	const char *name;
	/* Return the index of a replica; @replicas are their nodes, the primary first. */
	unsigned int (*choose)(struct rule_client *client, const uint32_t *replicas, unsigned int n,
			       uint64_t now_ns);
	enum rule_queries queries;
	bool probes_silent; /* a read follows each query, so a report may ask for a probe */
	bool clones;	    /* a second read is sent at once */
	double hedges;	    /* maximum number of hedges per read; INFINITY for no limit */
};

extern const struct rule rules[];
extern const unsigned int n_rules;

/* Return NULL if there is no such policy. */
const struct rule *rule_named(const char *name);

unsigned int rule_choose(const struct rule *rule, struct rule_client *client,
			 const uint32_t *replicas, unsigned int n, uint64_t now_ns);
/*
 * Return a random index among the values within a factor of the lowest. A negative value is
 * unknown, and replaced by the mean of the others.
 */
unsigned int rule_lowest(const struct rule_client *client, const double *given, unsigned int n,
			 double factor);
void rule_sent(struct rule_node *node, struct rule_sending *sending, uint64_t now_ns);
void rule_ended(struct rule_client *client, struct rule_node *node, struct rule_sending *sending,
		const struct rule_server *server, uint64_t now_ns);

/* Return false if memory is exhausted. */
bool rule_hedging_init(struct rule_hedging *hedging);
void rule_hedging_learn(struct rule_hedging *hedging, uint64_t first_ns);
/* Return the replica for a hedge; -1 for none. */
int rule_hedge(const struct rule *rule, struct rule_client *client, unsigned int first,
	       unsigned int n);

#endif
