/* SPDX-License-Identifier: MIT */
/*
 * Hedging by gain: decide whether to send a read to a second replica as well, at once, later or
 * never.
 *
 * The latency of a read is its prediction times a ratio whose distribution is estimated from
 * completed reads: X1 at the replica it was sent to, X2 at the second one. If the second attempt is
 * sent t us later, unless the first has been answered by then,
 *
 *	gain(t) = E[max(0, X1 - t - X2); X1 > t]
 *	cost(t) = P[X1 > t] * (delay of other reads + price)
 *
 * The second attempt is sent after the t for which gain(t) - cost(t) is highest. If the difference
 * is not positive for any t, the read is never hedged. Waiting delays the second attempt of late
 * reads, but avoids it for all reads that are not late.
 *
 * Delay of other reads: each page of the second attempt increases the latency of the other reads
 * that are at the second replica at the same time. The increase per page is estimated from
 * completed reads. The price limits hedges to a given fraction of the reads, those with the highest
 * gain: it rises with each hedge and falls with each read. Both attempts of a hedged read are
 * completed, so its gain is measured. If hedges gain less than expected, the expectation is reduced
 * accordingly.
 *
 * The derivation and an evaluation are in docs/latency-model.md. Times are in us.
 */
#ifndef LINNOS_HEDGE_GAIN_H
#define LINNOS_HEDGE_GAIN_H

#include <stdint.h>

/* Four bins of ratios for each doubling, from 1/4 to 256. The first and the last bin include all
 * lower and higher ratios. */
#define GAIN_BINS 40
#define GAIN_PREDICTIONS 24

struct latency_ratios {
	double n, bins[GAIN_BINS];
};

struct hedge_gain {
	double share; /* fraction of reads that may be hedged; infinite for no limit */
	double price_us;
	struct latency_ratios all, by_prediction[GAIN_PREDICTIONS]; /* by its power of two */
	double claimed_us, gained_us; /* decayed sums over hedged reads */
	/* Decayed sums over attempts: the pages that were pending for other reads, and the
	 * latencies. */
	double n, pages, us, pages_squared, pages_us;
	uint64_t attempts; /* number of all recorded attempts */
	double reads;	   /* decayed mean of reads in flight at the chosen replica */
};

/*
 * The gain of each waiting time for a pair of predictions, in units of the first prediction. The
 * ratio of the second to the first one is rounded to a power of 2^(1/4).
 */
#define GAIN_RATIOS 40 /* the largest ratio of the predictions is 2^(GAIN_RATIOS/4) */
struct gain_curve {
	uint8_t first, second; /* powers of two of the predictions */
	int8_t ratio;
	uint8_t n; /* number of waiting times; 0 if the curve was not computed yet */
	double waits[GAIN_BINS], gains[GAIN_BINS], late[GAIN_BINS];
};

/* Plans hedges from a copy of the distributions. A curve is computed when it is first needed. */
#define GAIN_CURVES 64
struct gain_planner {
	struct hedge_gain gain;
	uint64_t attempts; /* number of attempts when the curves were last discarded */
	struct gain_curve curves[GAIN_CURVES];
};

/* A read that might be hedged. */
struct hedge_candidate {
	uint32_t first_us, second_us; /* predicted */
	double waited_us;
	uint32_t pages;
	uint32_t reads; /* in flight at the second replica */
};

struct hedge_plan {
	double wait_us; /* from now on; infinite if the read is never hedged */
	double gain_us; /* expected gain of a hedge after that wait */
};

/* @share is the fraction of the reads that may be hedged; infinite for no limit. */
void hedge_gain_init(struct hedge_gain *g, double share);
/* Account for a new read at a replica with this number of reads in flight. */
void hedge_gain_begin(struct hedge_gain *g, uint32_t reads);
struct hedge_plan hedge_plan(const struct hedge_gain *g, const struct hedge_candidate *read);
/* Copy the distributions, which are used from now on. */
void gain_planner_update(struct gain_planner *p, const struct hedge_gain *gain);
/* As hedge_plan(), but the ratio of the predictions is rounded if the read has not waited yet. */
struct hedge_plan gain_planner_plan(struct gain_planner *p, const struct hedge_candidate *read);
/* Account for a second attempt that is due now, whether or not the budget allows it. */
void hedge_gain_hedge_due(struct hedge_gain *g);
/* Record the latency of an attempt. @pages were pending for other reads when it was sent. */
void hedge_gain_record_attempt(struct hedge_gain *g, uint32_t predicted_us, uint32_t pages,
			       double took_us);
/* Record the gain of a hedged read, both attempts of which have completed. */
void hedge_gain_record_hedge(struct hedge_gain *g, double claimed_us, double gained_us);

#endif
