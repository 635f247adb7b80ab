/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS: is it worth leaving home?
 *
 * A read has a home, where it goes when nobody knows better. Predictions say that
 * another replica would answer sooner, and may be wrong: learnt from too little, or
 * from reads that stayed at home. So those that would leave are sorted by how slow
 * home is called, and of each kind some leave and some stay, by lot. What both take
 * tells what leaving is worth; the kinds for which it is worth nothing stay.
 *
 * Whoever uses it has a lock around it.
 */
#ifndef _LINNOS_GUARD_H
#define _LINNOS_GUARD_H

#include "linnos_shim.h"

/**
 * enum linnos_wish - why a read would leave home
 * @LINNOS_STAY: it would not
 * @LINNOS_HOME_USUAL: home is called slower than another, and not unusually slow
 * @LINNOS_HOME_SLOW: slower than nine in ten of its reads were when it was learnt
 * @LINNOS_HOME_SLOWER: twice as slow
 * @LINNOS_HOME_BAD: three times as slow: collecting garbage, flushing, or failing
 */
enum linnos_wish {
	LINNOS_STAY,
	LINNOS_HOME_USUAL,
	LINNOS_HOME_SLOW,
	LINNOS_HOME_SLOWER,
	LINNOS_HOME_BAD,
	LINNOS_N_WISHES,
};

/**
 * struct linnos_took - what reads took
 * @n: how many, the older ones counting less; in 1/%LINNOS_GUARD_ONE
 * @sum_us: of what they took, weighted alike
 * @square: of its squares
 */
struct linnos_took {
	u32 n;
	u64 sum_us;
	u64 square;
};

#define LINNOS_GUARD_ONE 1024

/**
 * struct linnos_guard - what leaving home was worth
 * @took: of each kind of wish the reads that stayed, and those that left
 * @claimed_us: of those that left what they were predicted to take at home, a sum as
 *	in &linnos_took
 * @wished: how many there were of each kind, and
 * @left: how many of these left
 * @mean_us: of all reads, lately
 * @random: state of the lot
 * @unjudged: who has it sets this, if the model at home has not been right about reads
 *	that it had not seen
 */
struct linnos_guard {
	struct linnos_took took[LINNOS_N_WISHES][2];
	u64 claimed_us[LINNOS_N_WISHES];
	u64 wished[LINNOS_N_WISHES];
	u64 left[LINNOS_N_WISHES];
	u64 mean_us;
	u64 random;
	bool unjudged;
};

/**
 * struct linnos_lot - what was drawn for a read, to be kept until it is answered
 * @home_us: what it was predicted to take at home
 * @wish: why it would have left home, an enum linnos_wish
 * @left: it did
 */
struct linnos_lot {
	u32 home_us;
	u8 wish;
	bool left;
};

/**
 * struct linnos_worth - what leaving home is worth for a kind of wish
 * @stayed_us: mean of the reads that stayed, 0: none did lately
 * @left_us: of those that left, likewise
 * @share: of 1024 that wish so many leave
 */
struct linnos_worth {
	u32 stayed_us;
	u32 left_us;
	u32 share;
};

void linnos_took_fade(struct linnos_took *took, u32 shift);
void linnos_took_add(struct linnos_took *took, u64 us);
u64 linnos_took_error(const struct linnos_took *took);
enum linnos_wish linnos_wish_of(u32 home_us, u32 usual_us);
struct linnos_lot linnos_guard_draw(struct linnos_guard *guard,
				    enum linnos_wish wish, u32 home_us);
void linnos_guard_learn(struct linnos_guard *guard, struct linnos_lot lot,
			u64 latency_us);
bool linnos_guard_leaves(const struct linnos_guard *guard,
			 enum linnos_wish wish);
void linnos_guard_worth(const struct linnos_guard *guard, enum linnos_wish wish,
			struct linnos_worth *worth);

#endif /* _LINNOS_GUARD_H */
