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

struct trace_format {
	/* Times are of a clock that ran long before the first I/O, not of the trace. */
	bool clock_times;
	/* Times are taken from the trace's own first I/O on. */
	bool since_first;
	/* I/Os need not come in the order of their times. */
	bool steps_back;
	/* What speaks against the file's first bytes being of this format; NULL: they are. */
	const char *(*objection)(const unsigned char *head, unsigned long n);
	/* Takes over the descriptor, which stands at the file's start; dies on a malformed file. */
	void *(*open)(int fd, const char *path);
	/* False at the end. */
	bool (*next)(void *state, struct trace_io *io);
	/* How many lines or records had no data to read or write. */
	uint64_t (*skipped)(void *state);
	void (*close)(void *state);
};

extern const struct trace_format trace_iolog, trace_columns, trace_blk;

/* What a format gets to see of a file's beginning. */
#define TRACE_HEAD_BYTES 256
/* By how much an I/O may be earlier than one before it in the file. */
#define TRACE_STEP_BACK_NS 1000000000ull

/* Whether a path, if there is one, leads to a file. */
bool trace_is_file(const char *path, const struct stat *file);
/* Whether a file is the trace, or one of its per-CPU files. */
bool trace_has_file(const char *path, const struct stat *file);

/* Opens a trace of any known format; dies with a message when it cannot. */
struct trace *trace_open(const char *path);
bool trace_next(struct trace *t, struct trace_io *io);
/* When the first I/O was, for traces with times of a clock, before anything was read; false for
 * others and for an empty one. */
bool trace_clock_start(struct trace *t, uint64_t *at_ns);
/* What is to be taken off its times. */
void trace_set_zero(struct trace *t, uint64_t zero_ns);
uint64_t trace_skipped(struct trace *t);
const char *trace_path(struct trace *t);
void trace_close(struct trace *t);

#endif
