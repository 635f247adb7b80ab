/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LinnOS: is it worth leaving home?
 *
 * A read has a home, where it goes when nobody knows better. Predictions say that
 * another replica would answer sooner, and may be wrong. So reads that would leave are
 * sorted by how slow home is called, and of each kind some leave and some stay, by lot.
 * What both take tells what leaving is worth; the kinds for which it is worth nothing
 * stay.
 *
 * Whoever uses it has a lock around it.
 */
#ifndef _LINNOS_GUARD_H
#define _LINNOS_GUARD_H

#include "linnos_shim.h"

/* Why would a read leave home? */
enum linnos_slowness {
	LINNOS_SLOWNESS_NONE, /* it would not */
	LINNOS_SLOWNESS_NORMAL, /* slower than another, and not unusually slow */
	LINNOS_SLOWNESS_OVER_P90, /* slower than 9 in 10 of its reads when it was learnt */
	LINNOS_SLOWNESS_OVER_2X_P90, /* twice as slow */
	LINNOS_SLOWNESS_OVER_3X_P90, /* thrice: collecting garbage, flushing, or failing */
	LINNOS_N_SLOWNESS,
};

#define LINNOS_GUARD_ONE 1024

/* What reads took. */
struct linnos_moments {
	u32 n; /* the older ones counting less; in 1/%LINNOS_GUARD_ONE */
	u64 sum_us; /* weighted alike */
	u64 square; /* sum of the squares */
};

struct linnos_guard {
	/* of each kind of wish the reads that stayed, and those that left */
	struct linnos_moments took[LINNOS_N_SLOWNESS][2];
	/* predicted to take at home, of those that left; a sum as in linnos_moments */
	u64 claimed_us[LINNOS_N_SLOWNESS];
	u64 wished[LINNOS_N_SLOWNESS]; /* how many there were of each kind, and */
	u64 left[LINNOS_N_SLOWNESS]; /* how many of these left */
	u64 mean_us; /* of all reads, lately */
	u64 random; /* state of the lot */
	/* set by its user: home's model was not tried on reads it had not seen */
	bool unjudged;
};

#define LINNOS_GUARD_MEAN_SHIFT 10

/* What reads take in the mean, lately. */
static inline u64 linnos_guard_mean_us(const struct linnos_guard *guard)
{
	return guard->mean_us >> LINNOS_GUARD_MEAN_SHIFT;
}

/* Marsaglia, "Xorshift RNGs" (2003): nobody gains by foreseeing it. */
u32 linnos_random(u64 *state);

/* Of a read, to be kept until it is answered. */
struct linnos_assignment {
	u32 home_us; /* what it was predicted to take at home */
	u8 wish; /* why it would have left home, an enum linnos_slowness */
	bool left; /* it did */
};

/* What leaving home is worth for a kind of wish. */
struct linnos_redirect_benefit {
	u32 stayed_us; /* mean of the reads that stayed, 0: none did lately */
	u32 left_us; /* of those that left, likewise */
	u32 share; /* so many of 1024 that wish so leave */
};

static inline u64 linnos_moments_mean_us(const struct linnos_moments *took)
{
	return took->n ? div_u64(took->sum_us, took->n) : 0;
}

void linnos_moments_decay(struct linnos_moments *took, u32 shift);
void linnos_moments_add(struct linnos_moments *took, u64 us);
u64 linnos_moments_mean_variance(const struct linnos_moments *took);
enum linnos_slowness linnos_classify_slowness(u32 home_us, u32 usual_us);
struct linnos_assignment linnos_guard_assign(struct linnos_guard *guard,
					     enum linnos_slowness wish,
					     u32 home_us);
void linnos_guard_record_latency(struct linnos_guard *guard,
				 struct linnos_assignment lot, u64 latency_us);
bool linnos_guard_mostly_redirects(const struct linnos_guard *guard,
				   enum linnos_slowness wish);
void linnos_guard_get_benefit(const struct linnos_guard *guard,
			      enum linnos_slowness wish,
			      struct linnos_redirect_benefit *worth);

#endif /* _LINNOS_GUARD_H */
