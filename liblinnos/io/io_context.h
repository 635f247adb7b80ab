/* SPDX-License-Identifier: MIT */
/*
 * I/O channels (struct lane): a queue's part of the backend, which is a ring for an array of files.
 *
 * Orphaned attempts (those that lost against another attempt of their read) and copies belong to no
 * queue. If the backend has a descriptor to wait for, their channel is handed over to the reaper, a
 * thread of the array. The reaper processes their completions as they arrive, because predictions
 * depend on these latencies too. The queue takes another channel when it next needs one. Without
 * such a descriptor they stay in the queue's channel, and the next call for the queue processes
 * their completions.
 */
#ifndef LINNOS_LANES_H
#define LINNOS_LANES_H

#include "read.h"

/* Start the reaper. Return 0, or a negative errno with *why set to what has failed. The caller
 * holds the lock, or no other thread uses the array yet. */
int reaper_start(struct linnos_array *a, const char **why);
/* Return the reaper's queue, which has the orphaned attempts. */
const struct linnos_queue *reaper_queue(const struct lanes *lanes);
/* Wait for all orphaned attempts and copies, then stop the reaper. */
void reaper_stop(struct linnos_array *a);

/* Get the queue's channel, which is created if there is none. On failure return NULL and set
 * *error. */
struct lane *io_channel_get(struct linnos_queue *q, int *error);
void io_channel_submit(struct lane *lane, struct attempt *at);
/* Report that the kernel has not accepted the attempt and that the ring cannot be used any more
 * because of this error. */
void attempt_not_sent(struct attempt *at, int error);
/* Wait until a request has completed or the time is over. A negative time means no limit. */
int io_channel_wait(struct linnos_queue *q, int64_t timeout_ns);
/* Cancel the attempts that no read waits for, if the backend supports it. */
void io_channel_cancel_orphans(struct linnos_queue *q);
/* Hand the channel over to the reaper, if possible, when only orphaned attempts and copies are
 * left. */
void io_channel_hand_over(struct linnos_queue *q);
/* Release the channel after everything in flight has completed. */
void io_channel_close(struct linnos_queue *q);
/* Submit a copy, or cancel it if there is no ring for it. Does not wait. */
void reaper_submit_probe_copy(struct attempt *copy);

#endif
