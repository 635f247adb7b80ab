/* SPDX-License-Identifier: MIT */
/*
 * Lanes: a queue's part of the backend, of an array of files a ring.
 *
 * Attempts that have lost their race, and copies, are of no queue any more. Where the backend has a
 * descriptor to wait for, their lane goes to the waiter, a thread of the array, which hears of
 * their ends when they come: what the drive took is part of what predictions are made of. The queue
 * takes another lane when it next needs one. Else they stay in the queue's, and are heard of by its
 * next call.
 */
#ifndef LINNOS_LANES_H
#define LINNOS_LANES_H

#include "reads.h"

/* Returns 0 or a negative errno; *why is what failed. Under the lock, or before there is anybody.
 */
int reaper_start(struct linnos_array *a, const char **why);
/* The waiter's, of what has lost. */
const struct linnos_queue *reaper_queue(const struct lanes *lanes);
/* Waits for all that have lost, and for copies. */
void reaper_stop(struct linnos_array *a);

/* The queue's, made when there is none; NULL: *error says why there can be none. */
struct lane *io_channel_get(struct linnos_queue *q, int *error);
void io_channel_submit(struct lane *lane, struct attempt *at);
/* The ring cannot be used any more, for this reason, and the kernel has not taken the attempt. */
void attempt_not_sent(struct attempt *at, int error);
/* Until something has ended, or the time is over; for ever if it is below 0. */
int io_channel_wait(struct linnos_queue *q, int64_t timeout_ns);
/* Takes back what nobody waits for, if the backend can. */
void io_channel_cancel_orphans(struct linnos_queue *q);
/* What is left in it has lost, or is a copy: to the waiter, if it can be. */
void io_channel_hand_over(struct linnos_queue *q);
/* Gives it back when nothing is under way there any more. */
void io_channel_close(struct linnos_queue *q);
/* Sends a copy, or takes it back when there is no ring for it. Nobody waits. */
void reaper_submit_probe_copy(struct attempt *copy);

#endif
