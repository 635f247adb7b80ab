/* SPDX-License-Identifier: MIT */
/*
 * Traces: a stream of timed reads and writes, read in bounded memory. A trace is a recording of
 * blktrace or a text with one I/O in each line.
 */
#ifndef REPLAYER_TRACE_H
#define REPLAYER_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct trace_io {
	uint64_t at_ns; /* from the start of the trace */
	uint64_t offset_bytes;
	uint32_t size_bytes;
	bool is_write;
};

struct trace;

/* Return true if a path exists and refers to a file. */
bool trace_is_file(const char *path, const struct stat *file);
/* Return true if a file is the trace or one of its per-CPU files. */
bool trace_has_file(const char *path, const struct stat *file);

/*
 * Open a trace; exit with a message on failure. For a text, @format is its format, or NULL to
 * detect it, and @volume the only volume to use, or NULL.
 */
struct trace *trace_open(const char *path, const char *format, const char *volume);
/* Get the next I/O, in the order of the times; return false at the end. */
bool trace_next(struct trace *t, struct trace_io *io);
/*
 * Get the time of a recording's first I/O, by a clock that started long before; call it before
 * trace_next(). Return false for texts and for an empty recording.
 */
bool trace_clock_start(const struct trace *t, uint64_t *at_ns);
/* Set the time that is subtracted from the times of all I/Os. */
void trace_set_zero(struct trace *t, uint64_t zero_ns);
/* Return the number of lines without data, or of revoked reads, that were left out so far. */
uint64_t trace_skipped(const struct trace *t);
/* Warn about lost events, several volumes and times out of order; call it after the last I/O. */
void trace_warn(const struct trace *t);
const char *trace_path(const struct trace *t);
void trace_close(struct trace *t);

#endif
