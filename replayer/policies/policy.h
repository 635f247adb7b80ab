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
	/* Reads are hedged at it (hedging.h), unless --hedge-us or --hedge-percentile says else. */
	double hedge_percentile;

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

/* In the order of --help. */
/* clang-format off */
#define EACH_POLICY(_) \
	_(baseline) _(clone) _(random) _(shortest_queue) _(shortest_queue_h95) _(prequal) _(c3) \
	_(heimdall) _(hedge) _(hedge_ip) _(heuristic) _(heuristic_adv) _(linnos) _(linnos_hl) \
	_(linnos_h99) _(lowest) _(lowest_h95) _(lowest_p99) _(lowest_two) _(oracle) _(verdict)
/* clang-format on */

#define DECLARE_POLICY(name) extern const struct policy policy_##name;
EACH_POLICY(DECLARE_POLICY)

extern const struct policy *const policies[]; /* ends with NULL */
const struct policy *policy_find(const char *name);

#endif
