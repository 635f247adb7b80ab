/* SPDX-License-Identifier: MIT */
/* The traces of a run as one stream of I/Os by due time. */
#ifndef REPLAYER_SOURCES_H
#define REPLAYER_SOURCES_H

#include "trace.h"

#include <stdbool.h>
#include <stdint.h>

struct replay;

struct source { /* one trace and its next I/O */
	struct trace *trace;
	struct trace_io next;
	bool have;
	unsigned int drive;
	uint64_t n; /* I/Os taken */
	uint32_t loop;
	bool have_zero;
	uint64_t zero_ns, skipped; /* the clock's start; what earlier loops passed over */
};

typedef void scan_visit(void *context, const struct trace_io *io);

/* Before anything is written: reads every trace to its end, so that a bad line, an I/O that no
 * drive can take, and a run in which nothing would be counted are found now; tells visit() of every
 * I/O. Learns how long a loop is. */
void sources_scan(struct replay *r, scan_visit *visit, void *context);
/* Opens all traces, again from their start, and reads the first I/O of each. */
void sources_open(struct replay *r);
/* Reads the next I/O of a trace; false at its end or the run's. Dies on one that no drive can take.
 */
bool source_advance(struct replay *r, struct source *s);
/* How many lines or records were neither read nor write. */
uint64_t source_skipped(const struct source *s);
/* The source whose I/O is due first, or NULL; ties go to the first trace. */
struct source *source_first(struct replay *r);

#endif
