/* SPDX-License-Identifier: MIT */
/*
 * A policy decides which replica a read goes to, and when another one is tried. Each family of
 * policies has a file, and each policy an entry in EACH_POLICY. users.c and engine.c in engine/
 * call the hooks below; policies use the functions of engine/attempts.h.
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
	bool needs_linnos; /* drives must decide on hinted reads */
	bool is_bound; /* uses information that is not available in practice, to show the possible
			  gain */
	/*
	 * Reads are hedged at this percentile (hedging.h), unless --hedge-us or --hedge-percentile
	 * is given.
	 */
	double hedge_percentile;

	/*
	 * Called before the run: read inputs, and exit with the remedy if one is missing. Optional.
	 */
	void (*setup)(struct replay *r);
	/* For score_read() (score.h): the drive with the lowest score is read. Optional. */
	double (*score)(const struct replay *r, unsigned int drive);
	/* A user's read has arrived: send at least one attempt. */
	void (*read)(struct replay *r, struct io *io);
	/* A hinted attempt has returned EBUSY. Required with needs_linnos. */
	void (*revoked)(struct replay *r, struct io *io, struct attempt *a);
	/* The timer armed by the policy has expired and the read is not answered. */
	void (*timer)(struct replay *r, struct io *io);
	/*
	 * A drive has completed a read attempt, which may or may not be the first answer. Optional.
	 */
	void (*answered)(struct replay *r, struct io *io, struct attempt *a);
};

/* In the order of --help. */
/* clang-format off */
#define EACH_POLICY(_) \
	_(baseline) _(clone) _(random) _(shortest_queue) _(shortest_queue_h95) _(fewest) \
	_(ewma_inflight) _(prequal) _(c3) _(heimdall) _(hedge) _(hedge_ip) _(heuristic) _(heuristic_adv) _(linnos) _(linnos_hl) \
	_(linnos_h99) _(fastest) _(oracle) _(verdict)
/* clang-format on */

#define DECLARE_POLICY(name) extern const struct policy policy_##name;
EACH_POLICY(DECLARE_POLICY)

extern const struct policy *const policies[]; /* ends with NULL */
const struct policy *policy_find(const char *name);

#endif
