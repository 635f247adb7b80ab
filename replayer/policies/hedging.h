/* SPDX-License-Identifier: MIT */
/* Hedging as several policies use it: a timer per read, a budget for the array (budget.h). */
#ifndef REPLAYER_HEDGING_H
#define REPLAYER_HEDGING_H

#include <stdint.h>

struct replay;
struct io;

/* Threshold of every home drive: --hedge-us, else the profile's percentile. Dies when neither is
 * given. */
void hedging_setup_percentile(struct replay *r, double percentile);
/* Starts the read's timer; it counts from the first submission. */
void hedging_arm(struct replay *r, struct io *io);
/* The same, for a read with a time of its own. */
void hedging_arm_after(struct replay *r, struct io *io, uint64_t after_ns);
/* The timer has run out: asks one more replica, with send_flags of SEND_, unless the budget is used
 * up. */
void hedging_fire(struct replay *r, struct io *io, unsigned int send_flags);

/* The same, asking this drive. */
void hedging_send(struct replay *r, struct io *io, unsigned int drive, unsigned int send_flags);

#endif
