/* SPDX-License-Identifier: MIT */
/* The lines of a text trace, read through a fixed buffer, and what their fields are made of. */
#ifndef REPLAYER_TEXT_LINES_H
#define REPLAYER_TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_lines {
	int fd;
	const char *path;
	char *buffer;
	size_t start, end;
	bool eof;
	uint64_t line;
	uint64_t latest_ns, latest_line; /* text_time() */
	uint64_t skipped;		 /* lines without data to read or write */
};

/* The hooks of a trace format whose state is its lines. */
void *text_open(int fd, const char *path);
uint64_t text_skipped(void *lines);
void text_close(void *lines);

/* The next line without its newline, or NULL at the end. Valid until the next call. */
char *text_next(struct text_lines *l, size_t *length);
/* A line's time: dies on one that is far before an earlier line's, for either of the two is wrong.
 */
void text_time(struct text_lines *l, uint64_t at_ns);

/* Each takes what it reads off the front of *p, as number_take() does whole numbers; false, and
 * nothing taken, when it is not there. */
/* A time with an optional fraction; one is unit_ns, a power of ten. */
bool text_time_ns(const char **p, uint64_t unit_ns, uint64_t *ns);
bool text_blanks(const char **p);

#endif
