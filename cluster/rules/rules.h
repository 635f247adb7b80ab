/* SPDX-License-Identifier: MIT */
/*
 * Rules by which a client chooses the replica that it reads from: other engines' and papers', as
 * their authors have them, and those that go by what agents tell. The simulation and the lab's
 * client are compared by the same ones. A rule does no I/O and has no clock: it is told what was
 * sent, what came back and what agents said.
 */
#ifndef CLUSTER_RULES_H
#define CLUSTER_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

#define RULE_REPLICAS_MAX 16

/* An own read in flight. */
struct rule_sending {
	struct rule_sending *next, *previous; /* of its node, by when they were sent */
	uint64_t sent_ns;
};

/* What a server says of itself with an answer. */
struct rule_server {
	float queue;
	float service_us;	  /* of this read */
	float average_service_us; /* of its last ones */
};

/* What an agent told. */
struct rule_told {
	uint64_t at_ns;		/* 0: nothing yet */
	uint32_t us;		/* predicted, 0: nothing is */
	uint32_t pending;	/* in flight at the drive */
	uint32_t sent_at_asked; /* own reads that had been sent when it was asked */
	uint32_t uses;		/* reads that it was used for */
	bool wants_look;	/* the drive has been silent, and a read would tell */
};

/* What a client knows of a node. */
struct rule_node {
	struct rule_sending *oldest, *newest;
	uint32_t in_flight, sent;
	uint64_t own_ns, own_at_ns;	    /* its last answer, 0: none yet */
	float answer_us, queue, service_us; /* C3's averages */
	float snitch_us, score_us;	    /* Cassandra's, and its last look */
	struct {
		double answer_us, queue, service_us;
	} elastic;
	struct rule_told told;
};

struct rule_client {
	struct rule_node *nodes;
	uint32_t n_nodes;
	uint32_t n_clients; /* that read from them */
	uint32_t n_known;   /* nodes that have answered */
	uint32_t turn;
	uint64_t reads, hedges, scored_ns;
	uint64_t (*draw)(void);
};

/* When reads are late: by what first attempts took, of one client or of several. */
struct rule_hedging {
	struct histogram latencies;
	uint64_t n, after_ns; /* 0: not known yet */
};

enum rule_asks {
	RULE_ASKS_NOBODY,
	RULE_ASKS_ALL,
	RULE_ASKS_CHOSEN, /* where servers say nothing of themselves */
};

struct rule {
	const char *name;
	/* Which of the replicas, whose numbers as nodes are given; the first is the primary. */
	unsigned int (*choose)(struct rule_client *client, const uint32_t *replicas, unsigned int n,
			       uint64_t now_ns);
	enum rule_asks asks;
	bool looks_at_silent; /* a question of it is followed by a read */
	bool clones;	      /* a second one is sent at once */
	double hedges;	      /* at most so many a read, INFINITY: whenever it is late; 0: none */
};

extern const struct rule rules[];
extern const unsigned int n_rules;

/* NULL: there is none. */
const struct rule *rule_named(const char *name);

unsigned int rule_choose(const struct rule *rule, struct rule_client *client,
			 const uint32_t *replicas, unsigned int n, uint64_t now_ns);
/* Any of those within a factor of the lowest; who is below 0 is as the mean of the others. */
unsigned int rule_lowest(const struct rule_client *client, const double *given, unsigned int n,
			 double factor);
void rule_sent(struct rule_node *node, struct rule_sending *sending, uint64_t now_ns);
void rule_ended(struct rule_client *client, struct rule_node *node, struct rule_sending *sending,
		const struct rule_server *server, uint64_t now_ns);

/* False when there is no memory. */
bool rule_hedging_init(struct rule_hedging *hedging);
void rule_hedging_learn(struct rule_hedging *hedging, uint64_t first_ns);
/* Where a read that is late goes as well; -1: nowhere. */
int rule_hedge(const struct rule *rule, struct rule_client *client, unsigned int first,
	       unsigned int n);

#endif
