/* SPDX-License-Identifier: MIT */
/*
 * A program's knowledge of a drive: the core's drive state (linnos_drive.h), updated by the I/Os of
 * this program only, and the health of the drive. Times are absolute, not 0, and never go back.
 *
 * Any number of threads may use an observer at once. Submitting and predicting take no lock.
 * Reporting a completion takes a spin lock for a short time. Recent completions are read from a
 * copy that is protected by a sequence count.
 */
#ifndef LINNOS_OBSERVER_H
#define LINNOS_OBSERVER_H

#include "linnos_drive.h"

#include <stdbool.h>
#include <stdint.h>

/* A healthy drive answers within ten times its overdue time, but at least 20 ms, and transfers at
 * least 40 MB/s. */
#define LATE_OVERDUES 10
#define LATE_NS_MIN 20000000ull
#define LATE_NS_PER_PAGE 100000ull
/* After a read has failed or was slow, users' reads avoid the drive for 100 times as long as it
 * took, so that they spend about 1 % of the time waiting for the drive. The time doubles with each
 * further failure, up to a minute, because the drive may have been repaired by then. */
#define QUIET_TIMES 100
#define QUIET_NS_MAX 60000000000ull

enum observed_end {
	OBSERVED_ANSWERED,
	OBSERVED_FAILED,
	OBSERVED_IGNORED, /* the result says nothing about the drive */
};

struct observer {
	struct linnos_drive drive; /* only the holder of the lock accesses its history */
	uint32_t overdue_us;
	unsigned long lock ____cacheline_aligned_in_smp;
	uint32_t sequence; /* odd while seen is being written */
	uint64_t last_completion_ns;
	bool failing;	   /* the last completed read failed */
	bool slow;	   /* it took longer than any read of a healthy drive */
	bool unprobed;	   /* reset, and no read has completed since */
	uint64_t quiet_ns; /* time after last_completion_ns in which users' reads avoid the drive */
	struct linnos_history seen; /* copy of drive.history for all threads */
};

/* A read is overdue after @overdue_us in flight. */
void observer_init(struct observer *o, uint32_t overdue_us);
/* Reset the history, because past latencies say nothing about future ones. I/Os in flight remain
 * counted. */
void observer_reset(struct observer *o);
/* Record that an I/O is sent. It counts from now on, so that the next decision includes it. */
void observer_sent(struct observer *o, struct linnos_io *io, uint64_t now_ns, uint64_t offset_bytes,
		   uint32_t pages, bool is_read);
/* Record that a prepared I/O is submitted. Its latency is measured from now on. */
void observer_submitted(struct observer *o, struct linnos_io *io, uint64_t now_ns);
/* Record that an I/O has completed, in any thread. */
void observer_ended(struct observer *o, struct linnos_io *io, uint64_t now_ns,
		    enum observed_end end);
/* Return true if the oldest read in flight has taken longer than any read of a healthy drive. */
bool observer_has_late_read(const struct observer *o, uint64_t now_ns);
/* Return true if none of the last reads of this and smaller size classes took longer than @us. */
bool observer_recent_reads_within(const struct observer *o, uint32_t pages, uint32_t us);
/* Compute the features of a read of this size that would be sent now. */
void observer_features(const struct observer *o, uint64_t offset_bytes, uint32_t pages,
		       uint64_t now_ns, uint32_t features[LINNOS_N_FEATURES]);

#endif
