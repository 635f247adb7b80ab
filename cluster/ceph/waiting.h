/* SPDX-License-Identifier: MIT */
/* A thread that waits for a read which ends on another one. */
#ifndef LINNOS_CEPH_WAITING_H
#define LINNOS_CEPH_WAITING_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int cancel_state;
	bool has_ended;
	ssize_t bytes;
};

/* Before the read is sent: until waiting_end() the thread cannot be cancelled, or somebody would
 * write to a stack that is gone. */
void waiting_begin(struct waiting *waiting);

/* For whoever has read: what is called then, of a struct waiting. */
void waiting_wake(void *of, ssize_t bytes, int node);

/* was_sent: somebody will be waking; else there is nothing to wait for. */
void waiting_end(struct waiting *waiting, bool was_sent);

#endif
