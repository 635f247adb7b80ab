/* SPDX-License-Identifier: MIT */
/*
 * Reads and the attempts that serve them: which replica is asked next, and when a read is over.
 *
 *   read_begin ──► attempt ──► attempt_ended ──► DONE
 *                     ▲              │  │
 *                     └──── AGAIN ◄──┘  └──► NOTHING: another attempt is under way, or the read
 *   read_due ────► attempt                            was over before
 *        └───────► DONE: its deadline has come
 *
 * All of it is one thread's. An attempt may outlive its read: it is lost then, has memory of its
 * own, and belongs to whoever hears of its end. A copy never has a read: it is sent to hear of a
 * replica.
 */
#ifndef LINNOS_READS_H
#define LINNOS_READS_H

#include "queue.h"

#define READ_BYTES_MAX 0x7ffff000u

/* An attempt, or a wait, that is interrupted so often in a row has failed. */
#define INTERRUPTED_MAX 1000

/* Of its address that of the handle is made. */
#define ATTEMPT_ALIGN 64

struct attempt {
	_Alignas(ATTEMPT_ALIGN) struct attempt *next; /* of the free list, or to be sent after it */
	/* Of those in a place: a caller's ring, or a lane. */
	struct attempt *earlier, *later, **list;
	struct linnos_queue *queue;
	struct linnos_read *read; /* NULL: over without this attempt, or a copy */
	struct linnos_read *held; /* is over; the caller has it until this attempt is prepared */
	struct lane *lane;	  /* NULL: in a caller's ring, or in none */
	struct bounce *bounce;	  /* NULL: reads into the caller's memory */
	char *data;		  /* NULL: iov */
	const struct iovec *iov;
	int n_iov;
	int buffer; /* data is in a registered one; -1: it is not */
	unsigned int replica;
	uint64_t offset; /* of data in the replica */
	size_t lead;	 /* of the read in data */
	size_t bytes;	 /* to read, alignment included */
	size_t want;	 /* of them, from the start, for the read */
	size_t from;	 /* the next submission's place in data */
	size_t got;	 /* bytes of data that are there */
	enum linnos_kind kind;
	uint32_t sqe_flags, ioprio;
	bool in_callers_ring, is_lost, is_unwanted;
	bool is_unsent;	 /* the backend had no room for it */
	bool is_retried; /* its result was not the replica's doing */
	bool no_memory;	 /* for the rest of it */
	bool not_sent;	 /* the ring cannot be used any more */
	uint16_t n_interrupted;
	struct linnos_attempt sending;
};

enum read_where {
	READ_NOW,   /* in the queue's lane or the calling thread, which waits for nothing else */
	READ_LATER, /* in the queue's lane; linnos_queue_wait() tells of it */
	READ_CALLERS_RING,
};

struct linnos_read {
	struct linnos_read *earlier, *later; /* of those that are timed; free or done */
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
	unsigned int replica; /* that has answered or failed last */
	bool is_listed, is_done;
	size_t got; /* bytes for the caller */
	int error;  /* of the last attempt; 0: its replica ends too early */
	ssize_t result;
	struct attempt *flying[2];
	struct attempt *next; /* to be sent: one, or its rest and a hedge */
	struct attempt *copy; /* likewise, by reaper_submit_probe_copy(); NULL: none */
	struct linnos_choice choice;
	char *error_text; /* of a read that has failed, for its completion; NULL: none */
};

/* A read's options, checked; NULL: the defaults. */
int read_options_copy_in(const struct linnos_queue *q, struct linnos_read_options *taken,
			 const struct linnos_read_options *given);
/* Chooses the first replica: r->next is to be sent, and r->copy before it. Returns 0 or a negative
 * errno. */
int read_begin(struct linnos_queue *q, struct linnos_read *r, const struct iovec *iov, int n_iov,
	       off_t offset, const struct linnos_read_options *o, enum read_where where);
/* Would the read have to be left before its attempt ends? */
bool read_is_timed(const struct linnos_read *r);
/* When something is to be done for it; UINT64_MAX: never, as things are. */
uint64_t read_due_ns(const struct linnos_read *r);
/* The first of those whose time has come: LINNOS_READ_RESUBMIT: its next is to be sent.
 * LINNOS_READ_PENDING: none is there. */
enum linnos_outcome read_due(struct linnos_queue *q, struct timed_reads *list,
			     struct linnos_read **read);
/* Among those that have a time, if it has. */
void read_list(struct linnos_queue *q, struct linnos_read *r);
struct linnos_read *read_new(struct linnos_queue *q);
void read_put(struct linnos_queue *q, struct linnos_read *r);
/* Takes the attempt that is to be sent. */
struct attempt *read_take_next(struct linnos_read *r);

/* An attempt has come back with this result. *read is its read, NULL when that is over already;
 * with LINNOS_READ_RESUBMIT its next is to be sent. */
enum linnos_outcome attempt_ended(struct attempt *at, ssize_t result, struct linnos_read **read);
/* Nobody can be given the read's attempt, for this reason: it is over. */
void read_cannot_be_sent(struct linnos_read *r, struct attempt *at, int error);
/* Nobody can wait for its attempts, for this reason: it is over, and they are lost. */
void read_give_up(struct linnos_read *r, int error);
/* For a ring; what is registered there has an index, else it is -1. */
void attempt_prepare(const struct attempt *at, struct io_uring_sqe *sqe, int fixed_file,
		     int first_buffer);
static inline uint64_t attempt_handle(const struct attempt *at)
{
	return (uintptr_t)at;
}
void attempt_list_add(struct attempt **list, struct attempt *at);
void attempt_list_del(struct attempt *at);
/* It cannot be sent; without_ring: for want of one; for_ever: there will be none. */
void probe_copy_cancel(struct attempt *copy, bool for_ever);
/* Its read was over before it was sent. */
void attempt_cancel_unsent(struct attempt *at);
/* Forgets one whose end nobody will tell of, after its read is over. */
void attempt_forsake(struct attempt *at);
/* Forgets all attempts in the caller's ring, and their reads: no completion will come. */
void attempts_abandon(struct linnos_queue *q);
void reads_free(struct linnos_queue *q);

#endif
