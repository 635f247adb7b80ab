// SPDX-License-Identifier: MIT
/* Finds the format of a trace and hands its I/Os out one by one. */
#include "trace.h"
#include "error.h"

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

	/* I/Os read ahead, a heap with the earliest on top, so that one with a time stamp in the
	 * future waits for its own time and holds up no other. */
	struct ahead {
		struct trace_io io;
		uint64_t n; /* in the file: equal times keep their order */
	} * ahead;
	uint32_t n_ahead;
	uint64_t n_read, last_ns;
	bool at_end;
};

static bool before(const struct ahead *a, const struct ahead *b)
{
	return a->io.at_ns < b->io.at_ns || (a->io.at_ns == b->io.at_ns && a->n < b->n);
}

static void push(struct trace *t, const struct trace_io *io)
{
	struct ahead new = {.io = *io, .n = t->n_read++};
	uint32_t i = t->n_ahead++;

	for (; i && before(&new, &t->ahead[(i - 1) / 2]); i = (i - 1) / 2)
		t->ahead[i] = t->ahead[(i - 1) / 2];
	t->ahead[i] = new;
}

static struct trace_io pop(struct trace *t)
{
	struct trace_io first = t->ahead[0].io;
	struct ahead last = t->ahead[--t->n_ahead];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < t->n_ahead) {
		if (child + 1 < t->n_ahead && before(&t->ahead[child + 1], &t->ahead[child]))
			child++;
		if (!before(&t->ahead[child], &last))
			break;
		t->ahead[i] = t->ahead[child];
		i = child;
	}
	t->ahead[i] = last;
	return first;
}

/* The format's I/Os in the order of their times. */
static bool next_in_order(struct trace *t, struct trace_io *io)
{
	struct trace_io read;

	if (!t->format->steps_back)
		return t->format->next(t->state, io);
	while (!t->at_end && t->n_ahead < AHEAD_IOS) {
		if (t->format->next(t->state, &read))
			push(t, &read);
		else
			t->at_end = true;
	}
	if (!t->n_ahead)
		return false;
	*io = pop(t);
	if (io->at_ns < t->last_ns)
		die("trace %s: more than %u I/Os are out of the order of their times; sort its "
		    "lines",
		    t->path, AHEAD_IOS);
	t->last_ns = io->at_ns;
	return true;
}

struct trace *trace_open(const char *path)
{
	unsigned char head[TRACE_HEAD_BYTES];
	struct trace *t;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		char *file = trace_blk_first_file(path);

		if (file)
			return trace_open(file);
		errno = ENOENT;
	}
	if (fd < 0)
		die("trace %s: %s", path, strerror(errno));
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
	free(t);
}

static bool is_file(const char *path, const struct stat *file)
{
	struct stat st;

	return !stat(path, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

bool trace_has_file(const char *path, const struct stat *file)
{
	char *files[TRACE_BLK_FILES_MAX],
		*first = access(path, F_OK) ? trace_blk_first_file(path) : NULL;
	int n = trace_blk_files(first ? first : path, files);
	bool has = is_file(path, file);

	for (int i = 0; i < n; i++) {
		has |= is_file(files[i], file);
		free(files[i]);
	}
	free(first);
	return has;
}
