/* SPDX-License-Identifier: MIT */
/*
 * What a model of latencies sees of a drive: the features of docs/formats.md, kept up to date with
 * every I/O that is sent to it and every answer. Each of these takes constant time, and so do
 * features, but for the reads that have become overdue since the last ones were asked for.
 *
 * It knows of this program's I/Os alone. Times are absolute and never go back.
 */
#ifndef LINNOS_OBSERVER_H
#define LINNOS_OBSERVER_H

#include "linnos_latency.h"

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

/* An I/O at a drive; whoever sends it keeps it until it has ended. */
struct observed {
	struct observed *earlier, *later; /* of the reads in flight */
	uint64_t start_ns;
	uint32_t pages, pending; /* its own; all in flight when it was sent, these included */
	bool is_read, is_overdue;
};

/* A read that was answered. */
struct observed_past {
	uint64_t end_ns;
	uint32_t latency_us, pending, pages;
};

enum observed_end {
	OBSERVED_ANSWERED,
	OBSERVED_FAILED,
	OBSERVED_TAKEN_BACK, /* by this program: says nothing of the drive */
};

struct observer {
	uint64_t overdue_ns;
	uint64_t read_pages, write_pages; /* in flight */
	uint32_t reads_in_flight, n_overdue;
	struct observed *oldest, *newest;
	struct observed *due; /* the oldest read that is not overdue yet; NULL: there is none */
	/* For a read of each order of size; the last one is at (n_past - 1) % LINNOS_HISTORY. */
	struct observed_past past[LINNOS_SIZES][LINNOS_HISTORY];
	uint64_t n_past[LINNOS_SIZES];
	uint64_t heard_ns;
	bool failing;	   /* the last read that ended did so with an error */
	bool slow;	   /* it took longer than any does of a drive in order */
	uint64_t quiet_ns; /* how long no user should wait for it, from heard_ns on */
};

/* A read in flight for longer is overdue. */
void observer_init(struct observer *o, uint32_t overdue_us);
/* An I/O is sent. It counts from now on: the next decision knows of it. */
void observer_sent(struct observer *o, struct observed *io, uint64_t now_ns, uint32_t pages,
		   bool is_read);
/* Its submission, for which it had to be prepared: its time begins. In the order of
 * observer_sent(). */
void observer_submitted(struct observed *io, uint64_t now_ns);
void observer_ended(struct observer *o, struct observed *io, uint64_t now_ns,
		    enum observed_end end);
/* Has the oldest read in flight taken longer than any does of a drive in order? */
bool observer_is_stalled(const struct observer *o, uint64_t now_ns);
/* Of a read of so many pages that would be sent now. */
void observer_features(struct observer *o, uint32_t pages, uint64_t now_ns,
		       uint32_t features[LINNOS_N_FEATURES]);

#endif
