/* SPDX-License-Identifier: MIT */
/* The traces of a run as one stream of I/Os by due time. */
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
	uint64_t n; /* I/Os so far */
	uint32_t loop;
	bool have_zero;
	uint64_t zero_ns, skipped; /* the clock's start; what earlier loops passed over */
};

struct sources {
	const struct options *o; /* which traces, and what of them */
	unsigned int n_drives;
	uint64_t limit_bytes; /* of the smallest drive, in whole blocks: what a trace may touch */
	uint32_t loops;	      /* passes over the traces; 1 while they are scanned */
	uint64_t loop_ns;     /* how much later each of them is */
	bool endless;	      /* whatever --duration says */
	/* Of every n_shares I/Os of a trace one is taken, and all others passed over. */
	unsigned int n_shares, share;
	struct source each[MAX_DRIVES];

	uint64_t realigned;	  /* I/Os widened to 4 KiB blocks */
	uint64_t folded;	  /* offsets folded into the drive's size by --fit */
	uint64_t writes_left_out; /* by --readonly */
};

/* An I/O of this trace, by its place on the command line. */
typedef void scan_visit(void *context, unsigned int trace, const struct trace_io *io);

/* Before anything is written: reads every trace to its end, so that a bad line, an I/O that no
 * drive can take, and a run in which nothing would be counted are found now; tells visit() of every
 * I/O. Learns how long a loop is. */
void sources_scan(struct sources *all, scan_visit *visit, void *context);
/* Opens all traces, again from their start, and reads the first I/O of each. */
void sources_open(struct sources *all);
void sources_close(struct sources *all);
/* Reads the next I/O of a trace; false at its end or the run's. Dies on one that no drive can take.
 */
bool source_advance(struct sources *all, struct source *s);
/* The source whose I/O is due first, or NULL; ties go to the first trace. */
struct source *source_first(struct sources *all);
/* How many lines or records had no data to read or write. */
uint64_t sources_skipped(const struct sources *all);

#endif
