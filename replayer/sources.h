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
};

/* Opens all traces, again from their start, and reads the first I/O of each. */
void sources_open(struct replay *r);
/* Reads the next I/O of a trace; false at its end or the run's. Dies on one that no drive can take.
 */
bool source_advance(struct replay *r, struct source *s);
/* The source whose I/O is due first, or NULL; ties go to the first trace. */
struct source *source_first(struct replay *r);

#endif
