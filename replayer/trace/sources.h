/* SPDX-License-Identifier: MIT */
/* The traces of a run as one stream of I/Os ordered by due time. */
#ifndef REPLAYER_SOURCES_H
#define REPLAYER_SOURCES_H

#include "options.h"
#include "trace.h"

#include <stdbool.h>
#include <stdint.h>

struct source { /* one trace and its next I/O */
	struct trace *trace;
	struct trace_io next;
	bool have;
	unsigned int drive;
	uint64_t n; /* with --spread: number of I/Os so far */
};

struct sources {
	const struct options *o; /* traces, and which of their I/Os to use */
	unsigned int n_drives;
	uint64_t limit_bytes; /* whole blocks of the smallest drive: no I/O may end beyond them */
	struct source each[MAX_DRIVES];

	uint64_t realigned;	  /* I/Os extended to 4 KiB blocks */
	uint64_t folded;	  /* offsets reduced to the drive's size by --fit */
	uint64_t writes_left_out; /* excluded by --readonly */
};

/* Called for an I/O of a trace. */
typedef void scan_visit(void *context, const struct trace_io *io);

/*
 * Read all traces to their end before anything is written. This finds malformed lines, I/Os that no
 * drive can take, and runs in which nothing would be counted. Call visit() for every I/O, unless it
 * is NULL.
 */
void sources_scan(struct sources *all, scan_visit *visit, void *context);
/* Open all traces from the start, and read the first I/O of each. */
void sources_open(struct sources *all);
/*
 * Read the next I/O of a trace; return false at its end or that of the run. Exit on an I/O that no
 * drive can take.
 */
bool source_advance(struct sources *all, struct source *s);
/* Return the source with the earliest I/O, or NULL; in a tie, the first trace. */
struct source *source_first(struct sources *all);
/* Return the sum of trace_skipped() of all traces. */
uint64_t sources_skipped(const struct sources *all);

#endif
