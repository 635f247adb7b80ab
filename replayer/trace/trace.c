// SPDX-License-Identifier: MIT
/* Detect the format of a trace and return its I/Os one by one. */
#include "trace.h"
#include "blktrace_parser.h"
#include "error.h"
#include "packed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct trace {
	const struct trace_format *format;
	void *state;
	char *path;
	bool have_first;
	struct trace_io first; /* read ahead to determine when the trace begins */
	uint64_t zero_ns;
};

/* Open the trace; for a recording with a file per CPU, the first one that is not empty. */
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

/*
 * Return true if a file begins with blktrace's magic in either byte order; one of its bytes is the
 * version.
 */
static bool is_blktrace(const unsigned char *head, ssize_t n)
{
	return n >= 4 && (!memcmp(head + 1, "tae", 3) || !memcmp(head, "eat", 3));
}

struct trace *trace_open(const char *path, const struct trace_choice *choice)
{
	unsigned char head[4];
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
	t = xcalloc(1, sizeof(*t));
	t->format = is_blktrace(head, n) ? &trace_blk : &trace_text;
	t->path = xstrdup(path);
	t->state = t->format->open(fd, t->path, choice);
	t->have_first = t->format->clock_times && t->format->next(t->state, &t->first);
	return t;
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

void trace_warn(struct trace *t)
{
	if (t->format->warn)
		t->format->warn(t->state);
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
