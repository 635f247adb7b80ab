/* SPDX-License-Identifier: MIT */
/*
 * Attempts: a read from one replica, or a copy of a read that measures the current latency of a
 * replica. An attempt that is still in flight when its read completes is orphaned: it has its own
 * memory, and belongs to the thread that processes its completion. A copy never has a read.
 *
 * These functions prepare an attempt and process its result. io_channel.c and caller_ring.c submit
 * it.
 */
#ifndef LINNOS_ATTEMPT_H
#define LINNOS_ATTEMPT_H

#include "account.h"
#include "io_request.h"

/* An attempt, or a wait, fails after this many consecutive interruptions. */
#define INTERRUPTED_MAX 1000
/* The handle is made from the address of the attempt, whose low bits are therefore zero. */
#define ATTEMPT_ALIGN 64

struct io_channel;

/* Attempts in a caller's ring or an I/O channel. */
struct attempt_list {
	struct attempt *first;
	unsigned int n_unwanted; /* see is_unwanted */
};

struct attempt {
	/* Zero at the beginning. */
	_Alignas(ATTEMPT_ALIGN) struct attempt *next; /* free list, or sent after it */
	struct attempt_list *list;		      /* NULL if it is in none */
	struct linnos_read *read;		      /* NULL for an orphan or a copy */
	struct linnos_read
		*retry_of;	    /* complete; the caller has it until this attempt is prepared */
	struct io_channel *channel; /* NULL if it is not in a channel, or was not sent yet */
	struct bounce *bounce;	    /* NULL if it reads into the caller's memory */
	size_t from;		    /* where the next submission starts in buf */
	size_t got;		    /* bytes of buf that were read */
	bool in_callers_ring, is_orphan;
	bool is_unwanted; /* in flight without a read, and attempt_take_unwanted() can return it */
	bool is_unsent;	  /* the backend had no room for it */
	bool is_retried;  /* sent again after a result that the replica had not caused */
	bool no_memory;	  /* there was none for the remaining bytes */
	bool not_sent;	  /* because the ring cannot be used any more */
	uint16_t n_interrupted;

	struct account *account;
	struct attempt *earlier, *later;
	struct io_request io; /* for the whole range; iov is NULL if there is a buf */
	size_t lead;	      /* bytes in buf before those of the read */
	size_t want;	      /* bytes needed for the read, including lead */
	unsigned int replica;
	enum linnos_kind kind;
	struct linnos_attempt report; /* for the chooser */
};

/* How an attempt has ended. */
enum attempt_end {
	ATTEMPT_FULL,
	ATTEMPT_AT_END, /* it returned everything up to the end of the replicas */
	ATTEMPT_CALLERS_FAULT,
	ATTEMPT_CANCELLED,
	ATTEMPT_NO_MEMORY,
	ATTEMPT_NOT_SENT,
	ATTEMPT_UNFINISHED, /* orphaned, so the remainder is not needed */
	ATTEMPT_FAILED,
};

/* Return true if the replica cannot read the range directly into these buffers. */
bool attempt_is_misaligned(const struct replica *replica, const struct iovec *iov, int n_iov,
			   uint64_t offset, size_t bytes);
/* Create an attempt for the range in @c. @n_iov is 0 if the attempt may still be in flight after
 * its read has completed, so that it must not read into the caller's buffers. The caller sets
 * @report. Return NULL if there is no memory. */
struct attempt *attempt_create(struct account *account, const struct linnos_choice *c,
			       unsigned int replica, enum linnos_kind kind, const struct iovec *iov,
			       int n_iov);
/* Return the request for the bytes that were not read yet. */
struct io_request attempt_request(const struct attempt *at);
/* Return true if the attempt must be sent to the same replica again, because it was interrupted or
 * only part of it was read. */
bool attempt_continues(struct attempt *at, ssize_t result);
enum attempt_end attempt_classify(const struct attempt *at, ssize_t result);
/* Copy the bytes of an attempt with its own memory to the caller. Return the number of bytes of the
 * read. */
size_t attempt_copy_out(const struct attempt *at, const struct iovec *iov);
/* Report to the chooser how the attempt has ended, and count it. */
void attempt_report(struct attempt *at, enum attempt_end end, uint64_t now_ns);
void attempt_free(struct attempt *at);
/* Discard an attempt whose completion will never arrive. The replica may still write to its memory.
 */
void attempt_abandon(struct attempt *at);
/* Discard an attempt whose read was complete before it was sent. */
void attempt_cancel_unsent(struct attempt *at);
/* Cancel a copy that cannot be sent for lack of a ring. @permanent means that no ring can be
 * created later either. */
void probe_copy_cancel(struct attempt *copy, bool permanent);

void attempt_list_add(struct attempt_list *list, struct attempt *at);
void attempt_list_del(struct attempt *at);
void attempt_set_unwanted(struct attempt *at);
/* Return an unwanted attempt that was sent, each one only once; NULL if there is none. */
struct attempt *attempt_take_unwanted(struct attempt_list *list);

static inline uint64_t attempt_handle(const struct attempt *at)
{
	return (uintptr_t)at;
}

static inline struct attempt *attempt_of(uint64_t handle)
{
	return (struct attempt *)(uintptr_t)(handle & ~(uint64_t)(ATTEMPT_ALIGN - 1));
}

#endif
