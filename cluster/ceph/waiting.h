/* SPDX-License-Identifier: MIT */
/* A thread that waits for a read that completes on another thread. */
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

/*
 * Call this before the read is sent. The thread cannot be cancelled until waiting_end(), because
 * the completion would otherwise write to a stack that no longer exists.
 */
void waiting_begin(struct waiting *waiting);

/* The completion callback; @of is a struct waiting. */
void waiting_wake(void *of, ssize_t bytes, int node);

/* @was_sent is true if waiting_wake() will be called; otherwise there is nothing to wait for. */
void waiting_end(struct waiting *waiting, bool was_sent);

#endif
