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
	uint64_t n; /* number of I/Os so far */
	uint32_t loop;
	bool have_zero;
	uint64_t zero_ns, skipped; /* start of its clock; records skipped in earlier loops */
};

struct sources {
	const struct options *o; /* traces, and which of their I/Os to use */
	unsigned int n_drives;
	uint64_t limit_bytes; /* of the smallest drive, in whole blocks: the limit of offsets */
	uint32_t loops;	      /* number of passes over the traces; 1 during the scan */
	uint64_t loop_ns;     /* length of a pass */
	bool endless;	      /* ignore --duration */
	/* Of every n_shares I/Os of a trace, only one is used. */
	unsigned int n_shares, share;
	struct source each[MAX_DRIVES];

	uint64_t realigned;	  /* I/Os extended to 4 KiB blocks */
	uint64_t folded;	  /* offsets reduced to the drive's size by --fit */
	uint64_t writes_left_out; /* excluded by --readonly */
};

/* Called for an I/O of a trace, given by its index on the command line. */
typedef void scan_visit(void *context, unsigned int trace, const struct trace_io *io);

/*
 * Read all traces to their end before anything is written. This finds malformed lines, I/Os that no
 * drive can take, and runs in which nothing would be counted. Call visit() for every I/O, and
 * determine the length of a loop.
 */
void sources_scan(struct sources *all, scan_visit *visit, void *context);
/* Open all traces from the start, and read the first I/O of each. */
void sources_open(struct sources *all);
void sources_close(struct sources *all);
/*
 * Read the next I/O of a trace; return false at its end or that of the run. Exit on an I/O that no
 * drive can take.
 */
bool source_advance(struct sources *all, struct source *s);
/* Return the source with the earliest I/O, or NULL; in a tie, the first trace. */
struct source *source_first(struct sources *all);
/* Return the number of lines or records without data to read or write. */
uint64_t sources_skipped(const struct sources *all);

#endif
