// SPDX-License-Identifier: MIT
/* Finds the format of a trace and hands its I/Os out one by one. */
#include "trace.h"
#include "blktrace_parser.h"
#include "engine/timers.h"
#include "error.h"
#include "packed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many I/Os a trace may be out of order by. */
#define AHEAD_IOS 1024u

static const struct trace_format *const formats[] = {&trace_iolog, &trace_columns, &trace_blk};

struct trace {
	const struct trace_format *format;
	void *state;
	char *path;
	bool have_first;
	struct trace_io first; /* read ahead to know when the trace begins */
	uint64_t zero_ns;

	/* I/Os read ahead, of which the earliest goes first, so that one with a time stamp in the
	 * future waits for its own time and holds up no other. Equal times keep their order. */
	struct ahead {
		struct timer timer; /* at the I/O's time */
		struct trace_io io;
	} * ahead;
	struct timers waiting;
	uint64_t last_ns;
	bool at_end;
};

/* Reads one I/O to where there is room for it. */
static void read_ahead(struct trace *t, struct ahead *room)
{
	t->at_end = !t->format->next(t->state, &room->io);
	if (!t->at_end)
		timer_arm(&t->waiting, &room->timer, room->io.at_ns);
}

/* The format's I/Os in the order of their times. */
static bool next_in_order(struct trace *t, struct trace_io *io)
{
	struct timer *first;

	if (!t->format->steps_back)
		return t->format->next(t->state, io);
	while (!t->at_end && t->waiting.count < AHEAD_IOS)
		read_ahead(t, &t->ahead[t->waiting.count]);
	first = timer_expired(&t->waiting, UINT64_MAX);
	if (!first)
		return false;
	*io = ((struct ahead *)first)->io;
	if (!t->at_end)
		read_ahead(t, (struct ahead *)first);
	if (io->at_ns < t->last_ns)
		die("trace %s: more than %u I/Os are out of the order of their times; sort its "
		    "lines",
		    t->path, AHEAD_IOS);
	t->last_ns = io->at_ns;
	return true;
}

/* Opens the trace; of a recording with a file for each CPU the first one with anything in it. */
static int open_first_file(const char *path, char *why)
{
	struct lt_files files;
	struct stat st;
	int fd = -1, i = 0;

	lt_find_files(path, &files);
	do {
		if (fd >= 0)
			close(fd);
		fd = lt_packed_open(files.n ? files.names[i] : path, why);
	} while (fd >= 0 && ++i < files.n && !fstat(fd, &st) && !st.st_size);
	lt_free_files(&files);
	return fd;
}

struct trace *trace_open(const char *path)
{
	unsigned char head[TRACE_HEAD_BYTES];
	char why[LT_PACKED_WHY];
	struct trace *t;
	ssize_t n;
	int fd = open_first_file(path, why);

	if (fd < 0)
		die("trace %s", why);
	n = pread(fd, head, sizeof(head), 0);
	if (n < 0)
		die("trace %s: %s (a trace must be a file; pipes cannot be read twice)", path,
		    strerror(errno));
	for (unsigned int i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		if (formats[i]->objection(head, n))
			continue;
		t = xcalloc(1, sizeof(*t));
		t->format = formats[i];
		t->path = xstrdup(path);
		t->state = formats[i]->open(fd, t->path);
		if (t->format->steps_back)
			t->ahead = xcalloc(AHEAD_IOS, sizeof(*t->ahead));
		t->have_first = (t->format->clock_times || t->format->since_first) &&
				next_in_order(t, &t->first);
		if (t->have_first && t->format->since_first)
			t->zero_ns = t->first.at_ns;
		return t;
	}
	die("trace %s: neither a fio iolog of version 3 (its first line would be \"fio version 3 "
	    "iolog\"), nor a text of "
	    "five columns (time_ms device offset_bytes size_bytes type; in line 1: %s), nor a "
	    "binary blktrace file; `linnapp convert` makes an iolog from other formats",
	    path, trace_columns.objection(head, n));
}

bool trace_next(struct trace *t, struct trace_io *io)
{
	if (t->have_first)
		*io = t->first;
	else if (!next_in_order(t, io))
		return false;
	t->have_first = false;
	io->at_ns -= io->at_ns < t->zero_ns ? io->at_ns : t->zero_ns;
	return true;
}

bool trace_clock_start(struct trace *t, uint64_t *at_ns)
{
	*at_ns = t->first.at_ns;
	return t->have_first && t->format->clock_times;
}

void trace_set_zero(struct trace *t, uint64_t zero_ns)
{
	t->zero_ns = zero_ns;
}

uint64_t trace_skipped(struct trace *t)
{
	return t->format->skipped(t->state);
}

const char *trace_path(struct trace *t)
{
	return t->path;
}

void trace_close(struct trace *t)
{
	if (!t)
		return;
	t->format->close(t->state);
	free(t->path);
	free(t->ahead);
	free(t->waiting.heap);
	free(t);
}

bool trace_is_file(const char *path, const struct stat *file)
{
	struct stat st;

	return path && !stat(path, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

bool trace_has_file(const char *path, const struct stat *file)
{
	struct lt_files files;
	bool has = trace_is_file(path, file);

	lt_find_files(path, &files);
	for (int i = 0; i < files.n; i++)
		has |= trace_is_file(files.names[i], file);
	lt_free_files(&files);
	return has;
}
