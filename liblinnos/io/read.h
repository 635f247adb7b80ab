/* SPDX-License-Identifier: MIT */
/*
 * Reads, as a state machine that does no I/O: it chooses the next attempt, processes the result of
 * an attempt, and decides when a read is complete. The caller submits the attempts.
 *
 *   read_begin ──► attempt ──► read_attempt_complete ──► DONE
 *                     ▲              │  │
 *                     └─ RESUBMIT ◄──┘  └──► PENDING: another attempt is in flight, or the read
 *   read_expire ─► attempt                            was already complete
 *        └───────► DONE: its deadline has come
 *
 * Only the thread of the queue uses a read.
 */
#ifndef LINNOS_READ_H
#define LINNOS_READ_H

#include "attempt.h"

#define READ_BYTES_MAX 0x7ffff000u

/* The reads of a queue in its own I/O channel, or those in the caller's ring. */
struct reads {
	struct linnos_read *first_timed, *last_timed; /* wait for a hedge or deadline, by time */
	bool is_callers_ring;
	struct attempt_list attempts;		    /* in the caller's ring */
	unsigned int n_in_flight;		    /* in the channel */
	struct linnos_read *first_done, *last_done; /* in the channel, for linnos_queue_wait() */
};

struct linnos_read {
	/* Zero at the beginning. */
	struct attempt *in_flight[2];
	struct attempt *next; /* to be sent next; the remainder of a short read precedes a hedge */
	struct attempt *copy; /* probe copy to be sent; NULL for none */
	bool is_listed, is_done;

	struct account *account;
	uint32_t sqe_flags, ioprio;
	struct linnos_read *earlier, *later; /* list of timed reads; free or done list */
	struct iovec one;
	const struct iovec *iov;
	int n_iov;
	struct reads *reads; /* that contains this read */
	bool is_only_read;   /* the calling thread waits for this read and no other */
	size_t bytes;
	uint64_t offset;
	void *user;
	uint64_t deadline_ns; /* UINT64_MAX for none */
	unsigned int replica; /* the replica that answered, or that failed last */
	size_t got;	      /* number of bytes for the caller */
	int error;	      /* of the last attempt; 0 if its replica is too short */
	ssize_t result;
	struct linnos_choice choice;
	char *error_text; /* message of a failed read, for its completion; NULL for none */
};

/* Copy and check the options of a read. @options may be NULL for the defaults. */
int read_options_copy_in(const struct account *account, struct linnos_read_options *copy,
			 const struct linnos_read_options *options);
/* Begin a read and choose its first replica. The caller must send r->copy, if there is one, and
 * then r->next, or call read_at_once() if there is no r->next. Return 0 or a negative errno. */
int read_begin(struct account *account, struct linnos_read *r, const struct iovec *iov, int n_iov,
	       off_t offset, const struct linnos_read_options *o, struct reads *reads,
	       bool is_only_read);
/* Remove the next attempt to be sent from the read and return it. */
struct attempt *read_take_next(struct linnos_read *r);
/* Return when a hedge or the deadline is due; UINT64_MAX if neither is planned. */
uint64_t read_due_ns(const struct linnos_read *r);
/* Return true if the read can complete before its attempt does. */
static inline bool read_is_timed(const struct linnos_read *r)
{
	return read_due_ns(r) != UINT64_MAX;
}
/* Add the read to the list of timed reads if it may be hedged or has a deadline. */
void read_list(struct linnos_read *r);

/* Read from the chosen replica with one pread(2), after which nearly every read is complete. */
enum linnos_outcome read_at_once(struct linnos_read *r);
/* Process the result of an attempt. Set *read to its read, or to NULL if the read is already
 * complete. LINNOS_READ_RESUBMIT means that the next attempt of the read must be sent. */
enum linnos_outcome read_attempt_complete(struct attempt *at, ssize_t result,
					  struct linnos_read **read);
/* Get the first read whose hedge or deadline is due. LINNOS_READ_RESUBMIT means that its next
 * attempt must be sent, LINNOS_READ_PENDING that there is no such read. */
enum linnos_outcome read_expire(struct reads *reads, struct linnos_read **read);
/* Complete the read with this error, because its attempt cannot be sent. */
void read_fail_unsent(struct linnos_read *r, struct attempt *at, int error);
/* Complete the read with this error, because waiting for its attempts has failed. They become
 * orphans. */
void read_give_up(struct linnos_read *r, int error);
/* Discard all attempts in a caller's ring, because no completions will arrive. Reads that have no
 * other attempt are added to *unused. */
void read_abandon_attempts(struct attempt_list *ring, struct linnos_read **unused);

#endif
