/* SPDX-License-Identifier: MIT */
/*
 * The core from within: what choosers share, and what each has counted.
 *
 * Words that several threads write are atomic, or under `lock` (which choosers there are, whose
 * model is exchanged) or `learning` (races and percentiles). A chooser's own are written by its
 * thread alone, and read by whoever counts.
 */
#ifndef LINNOS_CORE_H
#define LINNOS_CORE_H

#include "budget.h"
#include "chooser.h"
#include "hedge_table.h"
#include "histogram.h"
#include "linnos_choose.h"
#include "race.h"

#include <pthread.h>

/* Larger reads are not hedged: whoever serves them would have to copy them. */
#define HEDGED_BYTES_MAX (1u << 20)

#define BUCKET_BITS 2
#define N_BUCKETS ((64 - BUCKET_BITS + 1) << BUCKET_BITS)

struct replica_counts {
	uint64_t served, errors, answered, predicted_us, took_us, near;
	uint64_t buckets[N_BUCKETS];
};

struct counts {
	uint64_t reads, moved, stayed, explored, hedges, hedges_won, hedges_denied, failovers,
		errors, asked, hedges_saved_us;
	int64_t saved_us;
};

struct linnos_predictor {
	struct chooser first; /* those of threads are like it */
	struct chooser_common common;
	struct observer drives[CHOOSER_DRIVES_MAX];
	struct linnos_latency *models[CHOOSER_DRIVES_MAX];
	unsigned int n;
	unsigned int next_home; /* of the next chooser's first read; begins at random */
	struct linnos_options o;
	uint32_t missing; /* were not there when the array was opened, by bit; gone for good */
	bool hedging, races;
	struct hedge_table *hedge_tables; /* by replica; NULL: not hedged by prediction */
	uint64_t hedge_ns; /* 0: not hedged, not enough seen yet, by prediction or by gain */

	pthread_mutex_t lock;
	struct linnos_chooser *choosers;
	struct counts past; /* of choosers that are gone */
	struct replica_counts *past_replicas;

	pthread_mutex_t learning;
	struct race race;
	struct histogram latencies; /* of first attempts, in ns; fades */
	uint64_t n_latencies;
};

struct linnos_chooser {
	struct chooser c;
	struct linnos_predictor *known;
	struct linnos_chooser *next;
	unsigned int next_home;
	struct budget hedges;
	uint32_t choosing; /* odd: between two steps of it; models are in use */
	struct counts counts;
	struct replica_counts *replicas;
};

/* A read from outside is in the core's hands; how its attempts end. */
struct sending {
	struct linnos_io io;
	uint32_t predicted_us, met_pages;
	uint64_t lost_ns; /* 0: it has not lost */
	double claimed_us;
	uint8_t replica, kind;
	bool lost_to_hedge;
};

_Static_assert(sizeof(struct sending) <= sizeof(struct linnos_attempt), "it has room");

static inline struct sending *sending_of(const struct linnos_attempt *s)
{
	return (struct sending *)s;
}

static inline uint32_t pages_of(uint64_t bytes)
{
	return (bytes + LINNOS_PAGE_BYTES - 1) / LINNOS_PAGE_BYTES;
}

/* Written by one thread, read by any. */
static inline void count(uint64_t *counter, uint64_t more)
{
	WRITE_ONCE(*counter, *counter + more);
}

/* What somebody else knows of the drives, for the next linnos_choose(). */
void chooser_tell(struct linnos_chooser *ch, const struct told *told);
/* A copy could not be sent, for want of what it takes; for ever: nor will any be. */
void chooser_copy_not_sent(struct linnos_chooser *ch, bool for_ever);
/* What all have counted until now. */
void known_count(struct linnos_predictor *known, struct counts *counts);

#endif
