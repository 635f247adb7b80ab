/* SPDX-License-Identifier: MIT */
/* Traces: a stream of timed reads and writes, one format a file, read in bounded memory. */
#ifndef REPLAYER_TRACE_H
#define REPLAYER_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct trace_io {
	uint64_t at_ns; /* from the trace's zero */
	uint64_t offset_bytes;
	uint32_t size_bytes;
	bool is_write;
};

struct trace;

/* What the user says of the traces. */
struct trace_choice {
	const char *format; /* of text traces, or NULL: find out */
	const char *volume; /* the only one to keep of a text trace of several, or NULL */
};

struct trace_format {
	/* Times are of a clock that ran long before the first I/O, not of the trace. */
	bool clock_times;
	/* Takes over the descriptor, which stands at the file's start; dies on a malformed file. */
	void *(*open)(int fd, const char *path, const struct trace_choice *choice);
	/* False at the end. I/Os come in the order of their times. */
	bool (*next)(void *state, struct trace_io *io);
	/* How many lines or records had no data to read or write. */
	uint64_t (*skipped)(void *state);
	/* Warns of what is not as it seems, once all was read; may be NULL. */
	void (*tell)(void *state);
	void (*close)(void *state);
};

extern const struct trace_format trace_text, trace_blk;

/* Whether a path, if there is one, leads to a file. */
bool trace_is_file(const char *path, const struct stat *file);
/* Whether a file is the trace, or one of its per-CPU files. */
bool trace_has_file(const char *path, const struct stat *file);

/* Opens a trace of any known format; dies with a message when it cannot. */
struct trace *trace_open(const char *path, const struct trace_choice *choice);
bool trace_next(struct trace *t, struct trace_io *io);
/* When the first I/O was, for traces with times of a clock, before anything was read; false for
 * others and for an empty one. */
bool trace_clock_start(struct trace *t, uint64_t *at_ns);
/* What is to be taken off its times. */
void trace_set_zero(struct trace *t, uint64_t zero_ns);
uint64_t trace_skipped(struct trace *t);
/* Warns of several volumes, and of times out of order; after the last I/O. */
void trace_tell(struct trace *t);
const char *trace_path(struct trace *t);
void trace_close(struct trace *t);

#endif
