/* SPDX-License-Identifier: MIT */
/*
 * The parts of the blktrace parser, in the order in which data goes through them:
 *
 *   files -> blktrace_events.c: events in order of time
 *         -> blktrace_requests.c, blktrace_parts.c: I/Os with the state that they saw
 *         -> blktrace_parser.c: columns
 */
#ifndef LINNAPP_BLKTRACE_PRIVATE_H
#define LINNAPP_BLKTRACE_PRIVATE_H

#include "blktrace_parser.h"
#include "linnos_drive.h"
#include "packed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/queue.h>

/* struct blk_io_trace of linux/blktrace_api.h: the on-disk layout of an event in version 7 */
struct blk_event_v7 {
	uint32_t magic, sequence;
	uint64_t time, sector;
	uint32_t bytes, action, pid, device, cpu;
	uint16_t error, pdu_len;
};

/* An event, independent of the version of blktrace that wrote it. */
struct blk_event {
	uint64_t time;
	uint64_t sector;
	uint64_t action;
	uint32_t bytes;
	uint32_t sequence;
	uint32_t device;
	uint32_t cpu;
	uint16_t error;
	uint16_t pdu_len;
};

_Static_assert(LT_HISTORY == LINNOS_HISTORY && LT_FEATURES == LINNOS_N_FEATURES, "as the kernel's");

enum blk_action { ACT_QUEUE = 1, ACT_BACKMERGE, ACT_FRONTMERGE, ACT_GETRQ, ACT_REQUEUE = 6,
		  ACT_ISSUE, ACT_COMPLETE, ACT_SPLIT = 13, ACT_REMAP = 15, ACT_MASK = 0xff };

/* Categories from 16 on exist in version 8 only, for example those of zones (17 to 21). */
#define CATEGORY(bit) (1ull << (16 + (bit)))
#define CAT_WRITE CATEGORY(1)
#define CAT_PASSTHROUGH CATEGORY(9)
#define CAT_NOTIFY CATEGORY(10)
#define CAT_DISCARD CATEGORY(13)
#define CAT_ZONE_STATE (CATEGORY(22) - CATEGORY(17))
#define CAT_WRITE_ZEROES CATEGORY(22)

/* The reason why the parser cannot continue; empty while it can. */
struct lt_failure {
	char why[LT_PACKED_WHY];
};

void lt_fail(struct lt_failure *failure, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void *lt_alloc(struct lt_failure *failure, size_t bytes);

static inline bool lt_failed(const struct lt_failure *failure)
{
	return *failure->why;
}

/* ---- blktrace_events.c ---- */

/*
 * Number of events to read ahead: enough for the completion of nearly every I/O, so that an I/O
 * whose completion was lost can be distinguished from a slow one.
 */
#define LT_AHEAD (1u << 12)

/* Maximum number of events by which one may be out of time order: blkparse writes in batches. */
#define LT_REORDER 1024u

/* A gap in the numbers of a CPU's events, between the event before it and the one after it. */
struct lt_gap {
	uint64_t from_ns, until_ns;
	uint32_t cpu, first, missing;
};

/* State of the numbering of a CPU's events. */
struct lt_sequence {
	uint64_t time;
	uint32_t last;
	bool any;
};

/* Distance in events at which the memory of an event's part is prefetched. */
#define LT_PEEK 8u

struct lt_events {
	struct lt_source *sources;
	int n_sources;
	const char *path;		/* of the first file */
	bool allow_truncated;
	uint32_t *device;		/* the device to keep; 0 for the first event's */
	struct lt_stats *stats;
	struct lt_failure *failure;

	/* events read ahead, in order of time */
	struct blk_event *ahead;
	uint32_t start, len;
	uint64_t given_ns;		/* time of the last event returned */
	bool has_queue, has_issue;
	struct lt_gap *gaps;
	uint32_t gaps_start, gaps_len;
	uint32_t first_cpu;		/* the CPU of the first event */
	enum { LT_NUMBERED_UNKNOWN, LT_NUMBERED_BY_CPU, LT_NUMBERED_AT_ONCE } numbering;
	struct lt_sequence sequences[LT_MAX_CPUS];
};

bool lt_events_open(struct lt_events *events, const char *const *paths, int n_paths);
const struct blk_event *lt_events_next(struct lt_events *events);
const struct blk_event *lt_events_peek(const struct lt_events *events);
uint32_t lt_events_gap(struct lt_events *events, uint64_t now_ns, uint64_t *until_ns);
bool lt_events_lost(const struct lt_events *events, uint64_t sector, uint32_t bytes, bool write,
		    uint32_t in_flight, uint64_t until_ns);
bool lt_events_issued_again(struct lt_events *events, uint64_t sector, uint32_t bytes, bool write,
			    uint32_t in_flight, uint64_t now_ns, uint64_t slowest_ns,
			    uint64_t end_ns);
int64_t lt_events_copy(struct lt_events *events, FILE *out, uint64_t dropped);
void lt_events_close(struct lt_events *events);

/* ---- blktrace_requests.c ---- */

TAILQ_HEAD(lt_ios, lt_io);
TAILQ_HEAD(lt_parts, lt_part);

#define LT_CHAINS (1 << 14)

struct lt_requests {
	const struct lt_options *options;
	struct lt_stats *stats;
	struct lt_failure *failure;
	struct lt_events *events;
	struct linnos_drive drive;
	uint64_t now_ns;
	bool has_requests;		/* the trace has G events */
	bool crowded;			/* there were too many parts to find that of an event */
	bool has_issues;		/* it has had D events so far */
	uint64_t first_ns;		/* of the first event */
	uint64_t mean_ns[2];		/* mean latencies of reads and writes, from D to C */
	uint64_t held_mean_ns;		/* mean time from Q to D */
	uint64_t old_from_ns;		/* next search for requests that are no longer load */
	uint64_t n_ended;		/* number of requests that have ended */
	/* if events are missing */
	bool doubt;			/* I/Os that arrive now can be doubtful: is_doubtful() */
	uint64_t gap_until_ns;
	uint64_t sure_from_ns;		/* time when no suspect was left; 0 if some are left */
	uint64_t doubt_ended;		/* value of n_ended at which suspects are given up */
	bool gap_hides;			/* unknown requests may be in flight */
	uint32_t n_suspects;
	/* by size class: reads in the history that arrived after the gap */
	uint32_t sure_reads[LINNOS_SIZE_CLASSES];
	uint64_t doubt_until_ns;	/* for the I/Os that are returned next */
	struct lt_start *starts;	/* with keep_starts, of all reads so far */
	uint64_t n_starts;
	struct lt_ios ios;		/* not yet returned, in order of arrival */
	struct lt_parts in_flight;
	struct lt_parts chains[LT_CHAINS];	/* hashed by their first sector */
};

void lt_requests_init(struct lt_requests *requests);
void lt_requests_advance(struct lt_requests *requests, uint64_t now_ns);
void lt_requests_prefetch(struct lt_requests *requests, const struct blk_event *event);
void lt_requests_process(struct lt_requests *requests, const struct blk_event *event);
void lt_requests_close(struct lt_requests *requests);
bool lt_requests_take(struct lt_requests *requests, bool at_end, struct lt_row *row);

#endif
