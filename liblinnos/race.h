/* SPDX-License-Identifier: MIT */
/*
 * A read's race: is it sent to a second replica as well, at once, later or never?
 *
 * What a read takes is its prediction times a ratio, whose distribution is learnt from what was
 * answered: X1 where it was sent, X2 at the second replica. If it is sent there t us later, unless
 * it is answered by then,
 *
 *	gain(t) = E[max(0, X1 - t - X2); X1 > t]
 *	cost(t) = P[X1 > t] * (what others lose + price)
 *
 * and the t with the highest gain - cost is waited for; where none is above 0 it is never sent. To
 * wait costs the reads that are late, and spares the copies of all that are not.
 *
 * What others lose: each of the reads that are at the second replica meanwhile takes longer for
 * each page that is pending there; by how much is learnt, too. The price is that of a limited good:
 * it rises with each race and falls with each read, so that races come to be a given share of the
 * reads, those that gain most. Both attempts of a race are waited for, so what it has gained is
 * measured: as far as races gain less than they were expected to, less is expected.
 *
 * The derivation, and what it is worth: docs/latency-model.md. Times are in us.
 */
#ifndef LINNOS_RACE_H
#define LINNOS_RACE_H

#include <stdint.h>

/* Four bins of ratios a doubling, from 1/4 to 256; the first and the last have what is beyond. */
#define RACE_BINS 40
#define RACE_PREDICTIONS 24

struct race_ratios {
	double n, bins[RACE_BINS];
};

struct race {
	double share; /* of the reads that may be raced; infinite: there is no limit */
	double price_us;
	struct race_ratios all, by_prediction[RACE_PREDICTIONS]; /* by its power of two */
	double claimed_us, gained_us; /* by races, the older ones counting less */
	/* Of attempts, likewise: the pages that were pending for others, and what they took. */
	double n, pages, us, pages_squared, pages_us;
	double reads; /* in flight where one is sent, lately */
};

/* A read that might be raced. */
struct racing {
	uint32_t first_us, second_us; /* predicted */
	double waited_us;
	uint32_t pages;
	uint32_t reads; /* in flight at the second replica */
};

struct race_plan {
	double wait_us; /* from now on; infinite: never */
	double gain_us; /* of a race after that wait */
};

void race_init(struct race *race, double share);
/* A read begins, at a replica with so many in flight. */
void race_begin(struct race *race, uint32_t reads);
struct race_plan race_plan(const struct race *race, const struct racing *read);
/* A second attempt would be sent now, if the budget has it. */
void race_wanted(struct race *race);
/* An attempt is answered, which met so many pages of others. */
void race_answered(struct race *race, uint32_t predicted_us, uint32_t pages, double took_us);
/* Both attempts are. */
void race_ended(struct race *race, double claimed_us, double gained_us);

#endif
