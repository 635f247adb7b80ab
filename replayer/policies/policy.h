/* SPDX-License-Identifier: MIT */
/*
 * A replay policy decides to which replica a read goes, and when another one is asked. One file a
 * family of them, one line each in policy.c. users.c calls the hooks below; attempts.h is
 * what they work with.
 */
#ifndef REPLAYER_POLICY_H
#define REPLAYER_POLICY_H

#include <stdbool.h>

struct replay;
struct io;
struct attempt;

struct policy {
	const char *name;
	const char *help;  /* one line for --help */
	bool needs_linnos; /* drives must decide reads with the hint */
	bool keeps_count;  /* of what is at the drives or was answered: not with --threads */
	bool is_bound;	   /* knows what cannot be known: tells what there is to win */

	/* Before the run: reads what it needs, dies with the remedy when that is missing. Optional.
	 */
	void (*setup)(struct replay *r);
	/* A user's read has arrived: sends at least one attempt. */
	void (*read)(struct replay *r, struct io *io);
	/* A hinted attempt came back with EBUSY. Required with needs_linnos. */
	void (*revoked)(struct replay *r, struct io *io, struct attempt *a);
	/* The timer that the policy armed has run out and the read is not answered. */
	void (*timer)(struct replay *r, struct io *io);
	/* A read attempt was answered by its drive, whether or not it won. Optional. */
	void (*answered)(struct replay *r, struct io *io, struct attempt *a);
};

extern const struct policy *const policies[]; /* ends with NULL */
const struct policy *policy_find(const char *name);

extern const struct policy policy_baseline, policy_clone, policy_random, policy_hedge,
	policy_hedge_ip, policy_heuristic, policy_heuristic_adv, policy_linnos, policy_linnos_hl,
	policy_linnos_h99, policy_oracle, policy_verdict, policy_lowest, policy_lowest_h95,
	policy_lowest_p99, policy_lowest_two, policy_shortest_queue, policy_shortest_queue_h95,
	policy_prequal, policy_c3, policy_heimdall;

#endif
