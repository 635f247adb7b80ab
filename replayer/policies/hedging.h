/* SPDX-License-Identifier: MIT */
/* Hedging for several policies: a timer per read, and a budget for the array (budget.h). */
#ifndef REPLAYER_HEDGING_H
#define REPLAYER_HEDGING_H

#include <stdint.h>

struct replay;
struct io;

/*
 * Set the threshold of every default drive: --hedge-us, otherwise the percentile of the profile.
 * Exit if neither is given.
 */
void hedging_setup_percentile(struct replay *r, double percentile);
/* Start the timer of a read; it counts from the first submission. */
void hedging_arm(struct replay *r, struct io *io);
/*
 * The timer has expired: send the read to one more replica, with send_flags of SEND_, unless the
 * budget is used up.
 */
void hedging_fire(struct replay *r, struct io *io, unsigned int send_flags);

/* Like hedging_fire(), to a given drive. */
void hedging_send(struct replay *r, struct io *io, unsigned int drive, unsigned int send_flags);

#endif
