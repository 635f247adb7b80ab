/* SPDX-License-Identifier: MIT */
/*
 * An account: what attempts need while they are in flight, whoever processes their completions: a
 * chooser to report to, counters, and memory. A queue has one, and so has the reaper. It is used by
 * one thread, except for its counters, which any thread may read.
 */
#ifndef LINNOS_ACCOUNT_H
#define LINNOS_ACCOUNT_H

#include "bounce.h"
#include "predictor.h"
#include "replica.h"

struct attempt;

struct account {
	struct account *next; /* list of the array's queues */
	const struct replica_set *set;
	struct linnos_chooser *chooser;
	uint64_t now_ns; /* never goes back */
	bool reuses_memory;
	struct bounces bounces;
	struct attempt *free_attempts;
	/* Registered buffers. */
	const struct iovec *buffers;
	unsigned int n_buffers;
	struct linnos_stats counts; /* in addition to those of the chooser */
};

int account_init(struct account *account, const struct replica_set *set,
		 struct linnos_predictor *predictor);
/* Free its chooser, and the memory that is kept for reuse. */
void account_destroy(struct account *account);

static inline uint64_t account_now_ns(struct account *account)
{
	uint64_t clock_ns = replica_set_clock_ns(account->set);

	if (clock_ns > account->now_ns)
		account->now_ns = clock_ns;
	return account->now_ns;
}

#endif
