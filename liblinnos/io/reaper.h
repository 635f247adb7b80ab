/* SPDX-License-Identifier: MIT */
/*
 * The reaper: a thread that processes the completions of orphaned attempts and copies, because
 * predictions depend on their latencies too.
 *
 * If the backend has a descriptor to wait for, a queue hands its I/O channel over to the reaper
 * when only such attempts are left in the channel. The queue gets another channel when it next
 * needs one. Without such a descriptor the attempts stay in the queue's channel, and the next call
 * for the queue processes their completions.
 */
#ifndef LINNOS_REAPER_H
#define LINNOS_REAPER_H

#include "io_channel.h"

#include <pthread.h>

struct reaper {
	struct replica_set *set;
	struct linnos_predictor *predictor;
	pthread_mutex_t lock;
	/* Protected by the lock. */
	struct io_channel *unused, *handed_over;
	bool is_running, stopping;
	int wake_fd;
	pthread_t thread;
	struct account account; /* used by the thread only */
};

void reaper_init(struct reaper *reaper, struct replica_set *set);
/* Start the thread, and create a channel for the first read. Return 0, or a negative errno with the
 * error text set. */
int reaper_start(struct reaper *reaper);
/* Wait for all orphaned attempts and copies, then stop the thread. */
void reaper_destroy(struct reaper *reaper);

/* Take an unused channel, or create one. On failure return NULL, and set *error and the error
 * text. */
struct io_channel *reaper_get_channel(struct reaper *reaper, int *error);
/* Return true if the reaper can wait for this channel. */
bool reaper_can_wait(const struct io_channel *ch);
/* Hand over the channel and all its attempts. The thread also sends the attempts that were not sent
 * yet. Return false if there is no thread and none can be started. */
bool reaper_hand_over(struct reaper *reaper, struct io_channel *ch);

#endif
