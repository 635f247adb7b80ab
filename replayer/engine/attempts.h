/* SPDX-License-Identifier: MIT */
/*
 * I/Os and the attempts that serve them: sending, taking back and checking. Whose an I/O is, its
 * done() knows: a user's (users.h), a storm's, the prefill's.
 */
#ifndef REPLAYER_ATTEMPTS_H
#define REPLAYER_ATTEMPTS_H

#include "observer.h"
#include "policies/hint_guard.h"
#include "replay.h"

#include <stdbool.h>
#include <stdint.h>

/* One I/O sent to one drive for a user I/O. */
struct attempt {
	struct attempt *next; /* of the same user I/O while in flight, else of the free list */
	struct attempt *earlier, *later; /* of all in flight, in the order of submission */
	struct io *io;
	struct buffer *buffer;
	struct linnos_io observed;
	uint64_t submit_ns;
	uint32_t done_bytes;   /* by earlier completions, which were short */
	uint32_t met;	       /* attempts that were at the drive when it was sent there */
	uint32_t predicted_us; /* 0: by nobody */
	uint32_t met_pages;    /* of reads, at the drive when it was predicted */
	uint8_t drive;
	bool hinted, hedge;
	bool lost; /* the user has had another attempt's answer */
};

struct io {
	struct timer timer; /* for a user's policy: failover or hedge */
	struct io *next_free;
	struct attempt *in_flight;
	/* An attempt has come back, with a negative errno or how many bytes were done; what is over
	 * is marked as answered. */
	void (*done)(struct replay *r, struct attempt *a, int result);
	void *owner;	    /* for done() */
	uint64_t due_ns;    /* from the run's start */
	uint64_t submit_ns; /* absolute; of the first attempt */
	uint64_t offset_bytes;
	uint32_t size_bytes;
	uint32_t tried, failed; /* drives, as bits: asked at all; answered with an error */
	uint16_t revocations, sent;
	uint16_t tag; /* 0: none */
	struct linnos_assignment lot;
	struct hint hint;     /* with --guarded */
	double claimed_us;    /* that its race gains, 0: there is none */
	uint64_t answered_ns; /* absolute */
	uint8_t home, served_by, flags;
	bool is_write, answered, warmup;
	bool submitted;	   /* else submit_ns is when its preparation began */
	bool failing_over; /* the timer runs for a failover, not for a hedge */
	bool stays;	   /* to home again, though that has revoked it */
};

enum { /* flags of user I/Os, as the per-I/O log has them */
       IO_REVOKED = 1,
       IO_HEDGED = 2,
       IO_HEDGE_WON = 4,
       IO_DATA_ERROR = 8,
       IO_ERROR = 16,
       IO_EXPLORED = 32,
};

#define SERVED_BY_NONE 255

static inline uint32_t io_pages(const struct io *io)
{
	return io->size_bytes / BLOCK_BYTES;
}

/* A zeroed one; freed when it is answered and its last attempt has come back. */
struct io *io_new(struct replay *r);

enum { SEND_PLAIN = 0, SEND_HINT = 1, SEND_HEDGE = 2 };

/* Sends a read attempt of io to a drive; flags of SEND_. */
void attempt_send(struct replay *r, struct io *io, unsigned int drive, unsigned int flags);
void write_send(struct replay *r, struct io *io, unsigned int drive);
/* A write that belongs to no user. */
void background_write(struct replay *r, unsigned int drive, uint64_t offset_bytes,
		      uint32_t size_bytes, void (*done)(struct replay *, struct attempt *, int),
		      void *owner);
/* The user has an answer: takes the other attempts back where the kernel can. */
void attempts_cancel(struct replay *r, struct io *io);

/* The first drive after the home drive, cyclically, whose bit is not in mask; -1 when all are. */
int replica_after_home(const struct replay *r, const struct io *io, uint32_t mask);
/* A drive that holds its limit of lost reads (--losers) gets no copies of reads, nor may its own
 * reads be raced.
 */
static inline bool losers_full(const struct replay *r, unsigned int drive)
{
	return r->losers[drive] >= r->losers_limit;
}

/* For done(): counts an attempt that its drive did not do whole, and tells of the first few. */
void attempt_failed(struct replay *r, const struct attempt *a, int result);
/* For done(): how many blocks of a read's answer are wrong; *e is about the first of them. */
uint32_t attempt_check(struct replay *r, const struct attempt *a, struct content_error *e);

/* The ring gets them now: the time of those that lie in it begins. */
void attempts_submitted(struct replay *r);
/* Whether a drive has kept an I/O for longer than --timeout; tells which, and counts them. */
bool attempts_timed_out(struct replay *r);
/* Handles all completions that are there. */
void attempts_reap(struct replay *r);

#endif
