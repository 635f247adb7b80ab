// SPDX-License-Identifier: MIT
/* Finds the format of a trace and hands its I/Os out one by one. */
#include "trace.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct trace_format *const formats[] = {&trace_iolog, &trace_blk};

struct trace {
	const struct trace_format *format;
	void *state;
	char *path;
	bool have_first;
	struct trace_io first; /* read ahead to know when the trace begins */
	uint64_t zero_ns;
};

struct trace *trace_open(const char *path)
{
	unsigned char head[64];
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
		if (!formats[i]->matches(head, n))
			continue;
		t = xcalloc(1, sizeof(*t));
		t->format = formats[i];
		t->path = xstrdup(path);
		t->state = formats[i]->open(fd, t->path);
		t->have_first = t->format->clock_times && t->format->next(t->state, &t->first);
		return t;
	}
	die("trace %s: neither a fio iolog of version 3 (its first line would be \"fio version 3 "
	    "iolog\") nor a binary "
	    "blktrace file; `linnapp convert` makes an iolog from other formats",
	    path);
}

bool trace_next(struct trace *t, struct trace_io *io)
{
	if (t->have_first)
		*io = t->first;
	else if (!t->format->next(t->state, io))
		return false;
	t->have_first = false;
	io->at_ns -= io->at_ns < t->zero_ns ? io->at_ns : t->zero_ns;
	return true;
}

bool trace_clock_start(struct trace *t, uint64_t *at_ns)
{
	*at_ns = t->first.at_ns;
	return t->have_first;
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
	free(t);
}
