/* SPDX-License-Identifier: MIT */
/* Traces: a stream of timed reads and writes, with one format per file, read in bounded memory. */
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

/* Options of the user about the traces. */
struct trace_choice {
	const char *format; /* format of text traces, or NULL to detect it */
	const char *volume; /* the only volume to use from a text trace with several, or NULL */
};

struct trace_format {
	/*
	 * Times are those of a clock that started long before the first I/O, and not relative to
	 * the trace.
	 */
	bool clock_times;
	/*
	 * Take over the descriptor, which is at the start of the file; exit if the file is
	 * malformed.
	 */
	void *(*open)(int fd, const char *path, const struct trace_choice *choice);
	/* Return false at the end. I/Os come in the order of their times. */
	bool (*next)(void *state, struct trace_io *io);
	/* Return the number of lines or records without data to read or write. */
	uint64_t (*skipped)(void *state);
	/* Print warnings after everything was read; may be NULL. */
	void (*warn)(void *state);
	void (*close)(void *state);
};

extern const struct trace_format trace_text, trace_blk;

/* Return true if a path exists and refers to a file. */
bool trace_is_file(const char *path, const struct stat *file);
/* Return true if a file is the trace or one of its per-CPU files. */
bool trace_has_file(const char *path, const struct stat *file);

/* Open a trace of any known format; exit with a message on failure. */
struct trace *trace_open(const char *path, const struct trace_choice *choice);
bool trace_next(struct trace *t, struct trace_io *io);
/*
 * Get the time of the first I/O, for traces with clock times, before anything was read; return
 * false for other traces and for an empty one.
 */
bool trace_clock_start(struct trace *t, uint64_t *at_ns);
/* Set the time to subtract from its times. */
void trace_set_zero(struct trace *t, uint64_t zero_ns);
uint64_t trace_skipped(struct trace *t);
/* Warn about several volumes, and about times out of order; call it after the last I/O. */
void trace_warn(struct trace *t);
const char *trace_path(struct trace *t);
void trace_close(struct trace *t);

#endif
