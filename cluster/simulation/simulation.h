/* SPDX-License-Identifier: MIT */
/* What is simulated: clients that read from nodes, and by which rule. */
#ifndef SIMULATION_H
#define SIMULATION_H

#include "drive.h"
#include "histogram.h"
#include "linnos_cluster.h"

#define N_REPLICAS 3

struct read;

struct attempt {
	struct attempt *next, *previous; /* of its client at its node, by when they were sent */
	struct read *read;
	uint64_t sent_ns;
	uint32_t pending, drive_us; /* told with the answer: queue at the drive, what it took */
	uint8_t replica;
	bool is_first;
	struct linnos_sending sending;
};

struct read {
	uint64_t number, place, due_ns;
	uint32_t client, nodes[N_REPLICAS];
	uint8_t n_attempts, n_holders;
	bool is_begun, is_answered;
	struct linnos_choice choice;
	struct attempt attempts[N_REPLICAS];
};

/* What a client knows of a node, for the rules that are not the library's. */
struct pair {
	struct attempt *oldest, *newest;
	uint32_t in_flight, sent;
	uint64_t own_ns, own_at_ns;	    /* its last answer */
	float answer_us, queue, service_us; /* C3's averages */
	float snitch_us, score_us;	    /* Cassandra's, and its last look */
	bool is_told;
	uint32_t told_us, told_pending, told_uses, sent_when_asked; /* told_us 0: none */
	uint64_t told_ns;
};

struct client {
	struct pair *pairs;
	struct linnos_cluster *cluster;
	uint32_t turn;
	uint64_t scored_ns;
};

struct rule {
	const char *name, *title;
	/* Which replica; NULL: the library decides. */
	unsigned int (*choose)(struct client *client, struct read *read);
	uint32_t asked;	  /* replicas whose agents are asked, a read */
	uint32_t at_once; /* it is sent to so many */
	bool hedges;	  /* by the 95th percentile, without a cap */
	int mode;	  /* of the library */
	bool deaf;	  /* it asks no agents */
};

struct scenario {
	const struct profile *profile;
	uint32_t n_nodes, n_clients;
	double reads_per_s, seconds;
	uint64_t seed, one_way_ns, news_delay_ns;
	double written_bytes_per_s;
	struct injected injected;
	const char *agents; /* "on", "dead", "fast" and "slow": node 0's lies */
};

extern const struct rule rules[];
extern const unsigned int n_rules;
extern struct scenario scenario;
extern struct drive *drives;
extern uint64_t now_ns;

uint64_t draw(void); /* for rules */
void pair_scored(struct client *client);

#endif
