/* SPDX-License-Identifier: MIT */
/*
 * An account has the resources of attempts in flight: the chooser to which they are reported,
 * counters, and memory that is reused. Each queue has an account, and so has the reaper, which
 * takes over orphaned attempts. One thread uses an account, but any thread may read its counters.
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
	const struct iovec *buffers; /* registered buffers */
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
