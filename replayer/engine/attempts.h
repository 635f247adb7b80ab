/* SPDX-License-Identifier: MIT */
/*
 * I/Os and the attempts that serve them: send, cancel and check them. An I/O belongs to a user
 * (users.h) or the prefill, which is called back through done().
 */
#ifndef REPLAYER_ATTEMPTS_H
#define REPLAYER_ATTEMPTS_H

#include "observer.h"
#include "replay.h"
#include "results/io_log.h"

#include <stdbool.h>
#include <stdint.h>

/* One I/O that is sent to one drive to serve a struct io. */
struct attempt {
	struct attempt *next; /* list of the I/O's attempts in flight, or the free list */
	struct attempt *earlier, *later; /* all in flight, in the order of submission */
	struct io *io;
	struct buffer *buffer;
	struct linnos_io observed;
	uint64_t submit_ns;
	uint32_t done_bytes;   /* done by earlier short completions */
	uint32_t met;	       /* attempts in flight at the drive when it was sent */
	uint32_t predicted_us; /* 0 if there is no prediction */
	uint32_t met_pages;    /* pages of reads at the drive at the time of the prediction */
	uint8_t drive;
	bool hinted, hedge;
	bool orphaned; /* another attempt has answered the user */
};

struct io {
	struct timer timer; /* for the policy: failover or hedge */
	struct io *next_free;
	struct attempt *in_flight;
	/*
	 * Called when an attempt has completed, with a negative errno or the number of bytes. An
	 * I/O that is complete is marked as answered.
	 */
	void (*done)(struct replay *r, struct attempt *a, int result);
	void *owner;	    /* used by done() */
	uint64_t due_ns;    /* from the start of the run */
	uint64_t submit_ns; /* absolute time of the first attempt */
	uint64_t offset_bytes;
	uint32_t size_bytes;
	uint32_t tried, failed; /* bitmaps of drives that received an attempt; that failed one */
	uint16_t revocations, sent;
	uint16_t tag; /* 0 if there is none */
	struct linnos_assignment assignment;
	double hedge_gain_us; /* expected gain of the hedge, 0 if there is none */
	uint64_t answered_ns; /* absolute time */
	uint8_t default_drive, served_by, flags;
	bool is_write, answered;
	bool submitted;	   /* otherwise submit_ns is the start of the preparation */
	bool failing_over; /* the timer is for a failover, not for a hedge */
};

enum { /* flags of user I/Os, as in the per-I/O log */
       IO_REVOKED = 1,
       IO_HEDGED = 2,
       IO_HEDGE_WON = 4,
       IO_DATA_ERROR = 8,
       IO_ERROR = 16,
       IO_PROBED = 32,
};

static inline uint32_t io_pages(const struct io *io)
{
	return io->size_bytes / BLOCK_BYTES;
}

/* Return a zeroed I/O. It is freed once it is answered and its last attempt has completed. */
struct io *io_new(struct replay *r);

enum { SEND_PLAIN = 0, SEND_HINT = 1, SEND_HEDGE = 2 };

/* Send a read attempt to a drive; flags are those of SEND_. */
void attempt_send(struct replay *r, struct io *io, unsigned int drive, unsigned int flags);
void write_send(struct replay *r, struct io *io, unsigned int drive);
/* Send a write that belongs to no user. */
void background_write(struct replay *r, unsigned int drive, uint64_t offset_bytes,
		      uint32_t size_bytes, void (*done)(struct replay *, struct attempt *, int),
		      void *owner);
/* Cancel the other attempts of an answered I/O, which are orphaned now, where the kernel can. */
void attempts_cancel(struct replay *r, struct io *io);

/* Return the drive that is @distance drives after the default drive, cyclically. */
static inline unsigned int drive_after_default(const struct replay *r, const struct io *io,
					       unsigned int distance)
{
	return (io->default_drive + distance) % r->n_drives;
}
/* Return the first drive after the default drive that is not in @mask; -1 if there is none. */
int replica_after_default(const struct replay *r, const struct io *io, uint32_t mask);
/*
 * Return true if a drive has the maximum number of orphaned reads (--max-orphans). No hedge or copy
 * is then sent to the drive, and no read in flight there is hedged.
 */
static inline bool orphans_full(const struct replay *r, unsigned int drive)
{
	return r->orphans[drive] >= r->o.max_orphans;
}

/* For done(): count an attempt that failed or was short, and print the first few. */
void attempt_failed(struct replay *r, const struct attempt *a, int result);
/* For done(): return the number of wrong blocks of a read; *e describes the first of them. */
uint32_t attempt_check(struct replay *r, const struct attempt *a, struct content_error *e);

/* The prepared attempts are being submitted: start their service time. */
void attempts_submitted(struct replay *r);
/* Return true if a drive has not completed an I/O within --timeout; print and count such I/Os. */
bool attempts_timed_out(struct replay *r);
/* Handle all available completions. */
void attempts_reap(struct replay *r);

#endif
