/* SPDX-License-Identifier: MIT */
/*
 * Hedging as several policies use it: a timer per read, a budget for the array.
 *
 * The budget is a token bucket. It starts empty; each read that is started earns --hedge-budget of
 * a token (0.05), a hedge costs one, and the bucket holds no more than --hedge-burst (100). So
 * hedges are never more than that share of the reads so far, and however long the drives were calm,
 * of n reads in a row at most 0.05 n + 100 are hedged.
 */
#ifndef REPLAYER_HEDGING_H
#define REPLAYER_HEDGING_H

struct replay;
struct user_io;

/* Threshold of every home drive: --hedge-us, else the profile's percentile. Dies when neither is
 * given. */
void hedging_setup_percentile(struct replay *r, double percentile);
/* Threshold of every home drive: --hedge-us, else its model's inflection point. Dies when there is
 * none. */
void hedging_setup_threshold(struct replay *r);
/* Starts the read's timer; it counts from the first submission. */
void hedging_arm(struct replay *r, struct user_io *io);
/* A read is started. */
void hedging_earn(struct replay *r);
/* A hedge was revoked: no drive has had it. */
void hedging_refund(struct replay *r);
/* The timer has run out: asks one more replica, with send_flags of SEND_, unless the budget is used
 * up. */
void hedging_fire(struct replay *r, struct user_io *io, unsigned int send_flags);

#endif
