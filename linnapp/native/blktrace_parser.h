/* SPDX-License-Identifier: MIT */
/*
 * Convert blktrace's binary events to I/Os with the features that the kernel saw.
 *
 * linnapp/trace/blktrace.py loads this interface. The comment at the head of
 * blktrace_requests.c explains how events are matched.
 */
#ifndef LINNAPP_BLKTRACE_PARSER_H
#define LINNAPP_BLKTRACE_PARSER_H

#include <stdint.h>

/* dimensions of a model's input, as in the kernel's linnos_model.h */
#define LT_HISTORY 4
#define LT_FEATURES 23
#define LT_MAX_DEVICES 16

#define SECTOR_BYTES 512u

#define LT_MAX_CPUS 4096

/* The files of a trace; @missing is the number of CPUs before the last one that have no file. */
struct lt_files {
	int32_t n, missing;
	char *names[LT_MAX_CPUS];
};

void lt_find_files(const char *trace, struct lt_files *files);
void lt_free_files(struct lt_files *files);

/* Flags of an I/O. */
enum lt_io_flag {
	LT_WRITE = 1 << 0,
	LT_COMPLETED = 1 << 1,
	LT_ERROR = 1 << 2,
	LT_REVOKED = 1 << 3,
	LT_MERGED = 1 << 4,
	LT_SPLIT = 1 << 5,
	LT_REQUEUED = 1 << 6,
	LT_ISSUED = 1 << 7,
	/* events are missing, so its features or its latency may be wrong */
	LT_DOUBTFUL = 1 << 8,
};

/* Filled by lt_stats(): numbers of events or I/Os, except the numbers of the devices. */
struct lt_stats {
	uint64_t events;
	uint64_t bytes;
	uint64_t notes;
	uint64_t queued;
	uint64_t issued;
	uint64_t completed;
	uint64_t back_merges;
	uint64_t front_merges;
	uint64_t splits;
	uint64_t remaps;
	uint64_t requeues;
	uint64_t other_device;
	uint64_t not_counted;
	uint64_t unmatched_completions;
	uint64_t missing_completions;
	uint64_t revoked;
	uint64_t errors;
	uint64_t out_of_order;
	uint64_t lost_events;		/* events whose numbers are missing, and dropped_events */
	uint64_t dropped_events;	/* reported by blktrace as dropped, see lt_merge() */
	uint64_t doubtful_reads;	/* number of doubtful completed reads */
	uint64_t reads;
	uint64_t writes;
	uint32_t n_devices;
	uint32_t devices[LT_MAX_DEVICES];
	uint64_t device_events[LT_MAX_DEVICES];
};

/* An I/O as it was submitted, with the state of the drive that the kernel saw. */
struct lt_row {
	uint64_t arrival_ns;
	uint64_t latency_ns;		/* 0 if it did not complete */
	uint64_t sector;
	/* times of the part that ended last; 0 if its issue is unknown */
	uint64_t to_request_ns;		/* from Q to G */
	uint64_t to_issue_ns;		/* from G to D */
	uint64_t to_completion_ns;	/* from D to C */
	uint32_t size_bytes;
	uint32_t pending;
	/* for reads: the last reads in the history, oldest first, and a latency model's inputs */
	uint32_t hist_pending[LT_HISTORY];
	uint32_t hist_latency_us[LT_HISTORY];
	uint32_t features[LT_FEATURES];
	uint16_t flags;
};

/*
 * Options for reading a trace.
 *
 * max_age_ns: time after which an I/O that has not completed counts as lost
 * device: kernel device number (major << 20 | minor) to keep, 0 for the first in the trace
 * overdue_us: time after which a latency model's input counts a read in flight as overdue
 * allow_truncated: treat an event that is cut off as the end of its file
 * keep_starts: keep the start times of all reads, for lt_starts()
 */
struct lt_options {
	uint64_t max_age_ns;
	uint32_t device;
	uint32_t overdue_us;
	uint32_t allow_truncated;
	uint32_t keep_starts;
};

/* A read in flight with a start slot. The I/Os before row @until found it in flight. */
struct lt_start {
	uint64_t start_ns;
	uint64_t until;
};

struct lt_parser;

struct lt_parser *lt_open(const char *const *paths, int n_paths, const struct lt_options *options);
int64_t lt_read(struct lt_parser *p, int64_t n, struct lt_row *rows);
int64_t lt_merge(struct lt_parser *p, const char *path, uint64_t dropped);
int64_t lt_starts(const struct lt_parser *p, const struct lt_start **starts);
void lt_stats(const struct lt_parser *p, struct lt_stats *stats);
const char *lt_error(const struct lt_parser *p);
void lt_close(struct lt_parser *p);

#endif
