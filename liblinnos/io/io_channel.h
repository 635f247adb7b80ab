/* SPDX-License-Identifier: MIT */
/* I/O channels. A channel is a part of the backend that is used by one thread at a time; for files
 * it is a ring. */
#ifndef LINNOS_IO_CHANNEL_H
#define LINNOS_IO_CHANNEL_H

#include "read.h"

struct io_channel {
	struct io_channel *next;
	struct replica_set *set;
	void *backend_queue;
	struct attempt_list attempts;
	struct attempt *first_unsent,
		*last_unsent;		  /* no room in the backend; linked by attempt.next */
	uint64_t unsent_ns;		  /* time since which none could be sent */
	unsigned int in_flight, n_unsent; /* in_flight includes unsent attempts */
	unsigned int n_interrupted;	  /* consecutive interrupted waits */
	bool fd_is_closed;		  /* set by the reaper */
	bool has_new;			  /* a request was added since the last wait */
	bool has_registrations;		  /* files or buffers of a queue are registered */
};

/* Open a channel. @registrations is NULL, or has the files and buffers to register in a ring.
 * On failure return NULL, and set *error and the error text. */
struct io_channel *io_channel_open(struct replica_set *set,
				   const struct linnos_queue_options *registrations, int *error);
/* Close a channel in which nothing is in flight. */
void io_channel_close(struct io_channel *ch);
/* Return true if the channel is a ring that cannot be entered any more. */
bool io_channel_is_broken(const struct io_channel *ch);
/* Return true if the channel can be given to another queue. */
bool io_channel_is_reusable(const struct io_channel *ch);
/* Return true if a request must still be sent, for which no completion would wake up a thread. */
bool io_channel_has_unsent(const struct io_channel *ch);
/* Callback for uring.c. */
void io_channel_on_complete(uint64_t handle, ssize_t result, bool is_sent);
/* Submit an attempt, or keep it until the backend has room. If the submission fails, the next
 * attempt of the read is submitted, if it has one. */
void io_channel_submit(struct io_channel *ch, struct attempt *at);
/* Wait for the backend, then submit the attempts for which it had no room before. A negative time
 * means no limit. */
int io_channel_poll(struct io_channel *ch, int64_t timeout_ns);
/* As io_channel_poll(), but also send hedges and complete reads at their deadlines. @now_ns may be
 * some microseconds ago. */
int io_channel_wait(struct io_channel *ch, struct reads *reads, int64_t timeout_ns,
		    uint64_t now_ns);
/* Cancel the attempts for which no read waits, if the backend supports it. */
void io_channel_cancel_unwanted(struct io_channel *ch);
/* Wait until nothing is in flight, or the backend fails to wait. */
void io_channel_drain(struct io_channel *ch);
/* Discard all attempts, because their completions will never arrive. */
void io_channel_abandon(struct io_channel *ch);

#endif
