/* SPDX-License-Identifier: MIT */
/*
 * From blktrace's binary events to I/Os with the features that the kernel saw.
 *
 * The interface that linnapp/trace/blktrace.py loads through ctypes. See the comment at the head of
 * blktrace_parser.c for what is matched with what.
 */
#ifndef LINNAPP_BLKTRACE_PARSER_H
#define LINNAPP_BLKTRACE_PARSER_H

#include <stdint.h>

#define LT_MAX_HISTORY 16
#define LT_MAX_DEVICES 16

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
};

/* Filled in by lt_stats(); every field is a count of events or I/Os but the last ones. */
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
	uint64_t lost_events;
	uint64_t reads;
	uint64_t writes;
	uint32_t big_endian;
	uint32_t n_devices;
	uint32_t devices[LT_MAX_DEVICES];
	uint64_t device_events[LT_MAX_DEVICES];
};

/* Where lt_read() puts I/Os, one array per column, each of at least the asked number of rows. */
struct lt_columns {
	uint64_t *arrival_ns;
	uint64_t *latency_ns;
	uint64_t *sector;
	uint32_t *bytes;
	uint32_t *pending;
	uint8_t *flags;
	uint32_t *hist_pending;		/* [rows][history], oldest first; reads only */
	uint32_t *hist_latency_us;	/* [rows][history], oldest first; reads only */
	/* NULL where nobody asks; of the part that ended last: from Q to G, to D and to C */
	uint64_t *to_request_ns;
	uint64_t *to_issue_ns;
	uint64_t *to_completion_ns;
};

struct lt_parser;

struct lt_parser *lt_open(const char *const *paths, int n_paths, int history, uint32_t device,
			  uint64_t max_age_ns, int allow_truncated);
int64_t lt_read(struct lt_parser *p, int64_t rows, const struct lt_columns *columns);
int64_t lt_merge(struct lt_parser *p, const char *path);
void lt_stats(const struct lt_parser *p, struct lt_stats *stats);
const char *lt_error(const struct lt_parser *p);
void lt_close(struct lt_parser *p);

#endif
