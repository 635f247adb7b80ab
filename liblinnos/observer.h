/* SPDX-License-Identifier: MIT */
/*
 * What a program knows of a drive: the core's state of it (linnos_drive.h), fed by this program's
 * I/Os alone, and whether it answers at all. Times are absolute, not 0, and never go back.
 *
 * Of a program that is built with LINNOS_THREADS any number of threads may use one at once. Whoever
 * sends, or looks, waits for nobody; who tells of an answer has a lock for an instant. What is read
 * of the last answers is a copy under a sequence count.
 */
#ifndef LINNOS_OBSERVER_H
#define LINNOS_OBSERVER_H

#include "linnos_drive.h"

#include <stdbool.h>
#include <stdint.h>

/* A drive in order answers within ten times what is overdue, 20 ms at least, and moves 40 MB/s. */
#define LATE_OVERDUES 10
#define LATE_NS_MIN 20000000ull
#define LATE_NS_PER_PAGE 100000ull
/* Who waits for a drive that fails, or takes long, spends a hundredth of the time on it, and with
 * each time in a row half as much; but a minute later it may have been mended. */
#define QUIET_TIMES 100
#define QUIET_NS_MAX 60000000000ull

enum observed_end {
	OBSERVED_ANSWERED,
	OBSERVED_FAILED,
	OBSERVED_IGNORED, /* by this program: says nothing of the drive */
};

struct observer {
	struct linnos_drive drive; /* its history is that of who has the lock */
	uint32_t overdue_us;
	unsigned long lock ____cacheline_aligned_in_smp;
	uint32_t sequence; /* odd: seen is being written */
	uint64_t heard_ns;
	bool failing;		    /* the last read that ended did so with an error */
	bool slow;		    /* it took longer than any does of a drive in order */
	bool unheard;		    /* forgotten, and nothing was heard of it since */
	uint64_t quiet_ns;	    /* how long no user should wait for it, from heard_ns on */
	struct linnos_history seen; /* as drive.history, for everybody */
};

/* A read in flight for longer is overdue. */
void observer_init(struct observer *o, uint32_t overdue_us);
/* What it answered until now says nothing of what it will: it is as new. What is in flight stays.
 */
void observer_reset(struct observer *o);
/* An I/O is sent. It counts from now on: the next decision knows of it. */
void observer_sent(struct observer *o, struct linnos_io *io, uint64_t now_ns, uint64_t offset_bytes,
		   uint32_t pages, bool is_read);
/* Its submission, for which it had to be prepared: its time begins. */
void observer_submitted(struct observer *o, struct linnos_io *io, uint64_t now_ns);
void observer_ended(struct observer *o, struct linnos_io *io, uint64_t now_ns,
		    enum observed_end end);
/* Has the oldest read in flight taken longer than any does of a drive in order? */
bool observer_is_stalled(const struct observer *o, uint64_t now_ns);
/* Has none of the last reads, of no larger order than so many pages, taken longer? */
bool observer_recent_reads_within(const struct observer *o, uint32_t pages, uint32_t us);
/* Of a read of so many pages that would be sent now. */
void observer_features(const struct observer *o, uint64_t offset_bytes, uint32_t pages,
		       uint64_t now_ns, uint32_t features[LINNOS_N_FEATURES]);

#endif
