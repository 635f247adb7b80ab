/* SPDX-License-Identifier: MIT */
/*
 * Reads and the attempts that serve them: choose the next attempt, and decide when a read is
 * complete.
 *
 *   read_begin ──► attempt ──► attempt_ended ──► DONE
 *                     ▲              │  │
 *                     └─ RESUBMIT ◄──┘  └──► PENDING: another attempt is in flight, or the read
 *   read_due ────► attempt                            was already complete
 *        └───────► DONE: its deadline has come
 *
 * All of it is used by one thread. An attempt that is still in flight when its read completes is
 * orphaned: it has its own memory, and belongs to the thread that processes its completion. A copy
 * never has a read. It is sent to measure the current latency of a replica.
 */
#ifndef LINNOS_READS_H
#define LINNOS_READS_H

#include "queue.h"

#define READ_BYTES_MAX 0x7ffff000u

/* An attempt, or a wait, fails after this many consecutive interruptions. */
#define INTERRUPTED_MAX 1000

/* The handle is made from the address of the attempt, whose low bits are therefore zero. */
#define ATTEMPT_ALIGN 64

struct attempt {
	_Alignas(ATTEMPT_ALIGN) struct attempt *next; /* free list, or sent after it */
	/* List of the attempts in a caller's ring or an I/O channel. */
	struct attempt *earlier, *later, **list;
	struct linnos_queue *queue;
	struct linnos_read *read; /* NULL: an orphan or a copy */
	struct linnos_read *held; /* complete; the caller has it until this attempt is prepared */
	struct lane *lane;	  /* NULL: in a caller's ring, or not sent yet */
	struct bounce *bounce;	  /* NULL: reads into the caller's memory */
	char *data;		  /* NULL: uses iov */
	const struct iovec *iov;
	int n_iov;
	int buffer; /* index of the registered buffer with data; -1: none */
	unsigned int replica;
	uint64_t offset; /* of data in the replica */
	size_t lead;	 /* bytes in data before those of the read */
	size_t bytes;	 /* to read, including alignment */
	size_t want;	 /* of them needed for the read, including lead */
	size_t from;	 /* where the next submission starts in data */
	size_t got;	 /* bytes of data that were read */
	enum linnos_kind kind;
	uint32_t sqe_flags, ioprio;
	bool in_callers_ring, is_lost, is_unwanted;
	bool is_unsent;	 /* the backend had no room for it */
	bool is_retried; /* its result was not caused by the replica */
	bool no_memory;	 /* for the remaining bytes */
	bool not_sent;	 /* the ring cannot be used any more */
	uint16_t n_interrupted;
	struct linnos_attempt sending;
};

enum read_where {
	READ_NOW, /* in the queue's channel or the calling thread, which waits for this read only */
	READ_LATER, /* in the queue's channel, returned by linnos_queue_wait() */
	READ_CALLERS_RING,
};

struct linnos_read {
	struct linnos_read *earlier, *later; /* list of timed reads; free or done list */
	struct linnos_queue *queue;
	struct iovec one;
	const struct iovec *iov;
	int n_iov;
	enum read_where where;
	size_t bytes;
	uint64_t offset;
	void *user;
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint32_t sqe_flags, ioprio;
	unsigned int replica; /* that has answered, or failed last */
	bool is_listed, is_done;
	size_t got; /* bytes for the caller */
	int error;  /* of the last attempt; 0: its replica ends too early */
	ssize_t result;
	struct attempt *flying[2];
	struct attempt *next; /* to be sent: one, or a remainder and a hedge */
	struct attempt *copy; /* to be sent by reaper_submit_probe_copy(); NULL: none */
	struct linnos_choice choice;
	char *error_text; /* message of a failed read, for its completion; NULL: none */
};

/* Copy and check the options of a read. @given may be NULL for the defaults. */
int read_options_copy_in(const struct linnos_queue *q, struct linnos_read_options *taken,
			 const struct linnos_read_options *given);
/* Begin a read and choose its first replica. The caller must send r->copy, if there is one, and
 * then r->next. Return 0 or a negative errno. */
int read_begin(struct linnos_queue *q, struct linnos_read *r, const struct iovec *iov, int n_iov,
	       off_t offset, const struct linnos_read_options *o, enum read_where where);
/* Return true if the read can complete before its attempt does. */
bool read_is_timed(const struct linnos_read *r);
/* Return when a hedge or the deadline is due; UINT64_MAX if neither is planned. */
uint64_t read_due_ns(const struct linnos_read *r);
/* Get the first read whose time has come. LINNOS_READ_RESUBMIT means that its next attempt must be
 * sent, LINNOS_READ_PENDING that there is no such read. */
enum linnos_outcome read_due(struct linnos_queue *q, struct timed_reads *list,
			     struct linnos_read **read);
/* Add the read to the timed reads if it has a time. */
void read_list(struct linnos_queue *q, struct linnos_read *r);
struct linnos_read *read_new(struct linnos_queue *q);
void read_put(struct linnos_queue *q, struct linnos_read *r);
/* Remove the next attempt to be sent from the read and return it. */
struct attempt *read_take_next(struct linnos_read *r);

/* Process the result of an attempt. Set *read to its read, or NULL if that is already complete.
 * With LINNOS_READ_RESUBMIT its next attempt must be sent. */
enum linnos_outcome attempt_ended(struct attempt *at, ssize_t result, struct linnos_read **read);
/* Complete the read with this error, because its attempt cannot be sent. */
void read_cannot_be_sent(struct linnos_read *r, struct attempt *at, int error);
/* Complete the read with this error, because its attempts cannot be waited for. They become
 * orphans. */
void read_give_up(struct linnos_read *r, int error);
/* Fill a ring's entry. Indices are those of registered files and buffers, or -1 if they are not
 * registered. */
void attempt_prepare(const struct attempt *at, struct io_uring_sqe *sqe, int fixed_file,
		     int first_buffer);
static inline uint64_t attempt_handle(const struct attempt *at)
{
	return (uintptr_t)at;
}
void attempt_list_add(struct attempt **list, struct attempt *at);
void attempt_list_del(struct attempt *at);
/* Cancel a copy that cannot be sent for lack of a ring. With for_ever no further ring can be
 * created. */
void probe_copy_cancel(struct attempt *copy, bool for_ever);
/* Discard an attempt whose read was complete before it was sent. */
void attempt_cancel_unsent(struct attempt *at);
/* Discard an orphaned attempt whose completion will never arrive. */
void attempt_forsake(struct attempt *at);
/* Discard all attempts in the caller's ring and their reads: no completions will arrive. */
void attempts_abandon(struct linnos_queue *q);
void reads_free(struct linnos_queue *q);

#endif
