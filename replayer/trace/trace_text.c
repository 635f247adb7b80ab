// SPDX-License-Identifier: MIT
/*
 * Text traces, an I/O a line, all as `linnapp convert` has it.
 *
 * fio's iolog, version 3: "timestamp filename action [offset length]", timestamps in microseconds
 * from the job's start (measured with fio 3.33; a fraction is accepted too).
 *
 * Five columns, as Heimdall's: "time_ms device offset_bytes size_bytes type", the type 1 for a read
 * and 0 for a write. Times are taken from the first I/O on.
 *
 * File names and devices are ignored: the replayer's home drive follows from the trace's place on
 * the command line. Lines without data to read or write are counted, not done.
 */
#include "error.h"
#include "number.h"
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (64 * 1024)
#define HEADER "fio version 3 iolog"

struct text {
	FILE *file;
	const char *path;
	char *line;
	uint64_t n; /* of the line */
	uint64_t latest_ns, latest_n;
	uint64_t skipped; /* lines without data to read or write */
};

/* What a line is. */
enum outcome { AN_IO, NO_DATA, NOTHING, MALFORMED };

/* ---- what lines are made of: each takes what it reads off the front of *p, as number_take() does
 * whole numbers; false when it is not there ---- */

/* A time with an optional fraction; one is unit_ns, a power of ten. */
static bool take_time(const char **p, uint64_t unit_ns, uint64_t *ns)
{
	uint64_t whole, unit = unit_ns;

	if (!number_take(p, &whole) || whole > UINT64_MAX / 2 / unit_ns)
		return false;
	*ns = whole * unit_ns;
	if (**p == '.')
		for (++*p; **p >= '0' && **p <= '9'; ++*p)
			*ns += (**p - '0') * (unit /= 10);
	return true;
}

static bool take_blanks(const char **p)
{
	size_t n = strspn(*p, " \t");

	*p += n;
	return n;
}

static const char no_range[] = "offset or size missing or not a number";

/* Where an I/O is and how much it is. */
static enum outcome take_range(const char **p, struct trace_io *io, const char **why)
{
	uint64_t size;

	*why = no_range;
	if (!number_take(p, &io->offset_bytes) || !take_blanks(p) || !number_take(p, &size))
		return MALFORMED;
	*why = "size or offset too large";
	if (size > UINT32_MAX / 2 || io->offset_bytes > INT64_MAX - size)
		return MALFORMED;
	io->size_bytes = size;
	return size ? AN_IO : NO_DATA;
}

/* ---- the formats' lines ---- */

static enum outcome parse_columns(const char *p, struct trace_io *io, const char **why)
{
	enum outcome outcome;
	uint64_t device;

	*why = "no time";
	if (!take_time(&p, 1000000, &io->at_ns) || !take_blanks(&p))
		return MALFORMED;
	*why = "no device number";
	if (!number_take(&p, &device) || !take_blanks(&p))
		return MALFORMED;
	outcome = take_range(&p, io, why);
	if (outcome == MALFORMED)
		return MALFORMED;
	*why = no_range;
	if (!take_blanks(&p))
		return MALFORMED;
	*why = "the type is neither 1 nor 0";
	if (*p != '0' && *p != '1')
		return MALFORMED;
	io->is_write = *p++ == '0';
	*why = "something follows the type";
	take_blanks(&p);
	return *p && *p != '\r' ? MALFORMED : outcome;
}

static bool is_one_of(const char *const *words, const char *word, size_t n)
{
	for (; *words; words++)
		if (strlen(*words) == n && !memcmp(*words, word, n))
			return true;
	return false;
}

static enum outcome parse_iolog(const char *p, struct trace_io *io, const char **why)
{
	static const char *const reads[] = {"read", NULL}, *const writes[] = {"write", NULL},
				 *const others[] = {"trim", "sync", "datasync", "wait", NULL},
				 /* The format's bookkeeping, no I/Os. */
					 *const files[] = {"add", "open", "close", NULL};
	enum outcome outcome;
	const char *action;
	size_t n;

	*why = "no timestamp";
	if (!take_time(&p, 1000, &io->at_ns) || !take_blanks(&p))
		return MALFORMED;
	p += strcspn(p, " \t");
	*why = "no action";
	if (!take_blanks(&p))
		return MALFORMED;
	action = p;
	n = strcspn(p, " \t\r");
	p += n;
	io->is_write = is_one_of(writes, action, n);
	if (!io->is_write && !is_one_of(reads, action, n)) {
		*why = "unknown action";
		return is_one_of(others, action, n)  ? NO_DATA
		       : is_one_of(files, action, n) ? NOTHING
						     : MALFORMED;
	}
	take_blanks(&p);
	outcome = take_range(&p, io, why);
	if (outcome != MALFORMED && *p && *p != '\r' && *p != ' ') {
		*why = "something follows the length";
		return MALFORMED;
	}
	return outcome;
}

/* ---- the lines of a file ---- */

static void *text_open(int fd, const char *path)
{
	struct text *t = xcalloc(1, sizeof(*t));

	*t = (struct text){
		.file = fdopen(fd, "r"), .path = path, .line = xcalloc(1, LINE_BYTES_MAX)};
	if (!t->file)
		die("trace %s: %s", path, strerror(errno));
	setvbuf(t->file, NULL, _IOFBF, LINE_BYTES_MAX);
	return t;
}

/* The next line without its end, or NULL. Valid until the next call. */
static const char *next_line(struct text *t)
{
	size_t n;

	if (!fgets(t->line, LINE_BYTES_MAX, t->file)) {
		if (ferror(t->file))
			die("trace %s: %s", t->path, strerror(errno));
		return NULL;
	}
	t->n++;
	n = strcspn(t->line, "\n");
	if (t->line[n] != '\n' && !feof(t->file))
		die("trace %s line %llu: longer than %d bytes, or with a byte of 0; not a text "
		    "trace",
		    t->path, (unsigned long long)t->n, LINE_BYTES_MAX);
	t->line[n] = 0;
	return t->line;
}

/* Dies on a time that is far before an earlier line's, for either of the two is wrong. */
static void require_order(struct text *t, uint64_t at_ns)
{
	if (at_ns + TRACE_STEP_BACK_NS < t->latest_ns)
		die("trace %s line %llu: at %.6f s, %.6f s before line %llu; one of the two time "
		    "stamps is wrong. Correct it, or sort the lines by time",
		    t->path, (unsigned long long)t->n, (double)at_ns / 1e9,
		    (double)(t->latest_ns - at_ns) / 1e9, (unsigned long long)t->latest_n);
	if (at_ns >= t->latest_ns) {
		t->latest_ns = at_ns;
		t->latest_n = t->n;
	}
}

static bool next_io(struct text *t, struct trace_io *io,
		    enum outcome (*parse)(const char *, struct trace_io *, const char **),
		    const char *form)
{
	const char *line, *why;

	while ((line = next_line(t))) {
		enum outcome outcome = *line && *line != '\r' ? parse(line, io, &why) : NOTHING;

		if (outcome == MALFORMED)
			die("trace %s line %llu: %s; a line reads %s", t->path,
			    (unsigned long long)t->n, why, form);
		t->skipped += outcome == NO_DATA;
		if (outcome == AN_IO) {
			require_order(t, io->at_ns);
			return true;
		}
	}
	return false;
}

static uint64_t text_skipped(void *state)
{
	return ((struct text *)state)->skipped;
}

static void text_close(void *state)
{
	struct text *t = state;

	fclose(t->file);
	free(t->line);
	free(t);
}

/* ---- the formats ---- */

static const char *iolog_objection(const unsigned char *head, unsigned long n)
{
	if (n >= strlen(HEADER) && !memcmp(head, HEADER, strlen(HEADER)))
		return NULL;
	return "not \"" HEADER "\"";
}

static void *iolog_open(int fd, const char *path)
{
	struct text *t = text_open(fd, path);

	next_line(t);
	return t;
}

static bool iolog_next(void *state, struct trace_io *io)
{
	return next_io(state, io, parse_iolog,
		       "\"timestamp_us filename action offset length\" in version 3");
}

static const char *columns_objection(const unsigned char *head, unsigned long n)
{
	struct trace_io io;
	char line[TRACE_HEAD_BYTES + 1];
	const char *why;

	memcpy(line, head, n);
	line[n] = 0;
	if (!memchr(line, '\n', n) && n == TRACE_HEAD_BYTES)
		return "no line is so long";
	line[strcspn(line, "\n")] = 0;
	return parse_columns(line, &io, &why) == MALFORMED ? why : NULL;
}

static bool columns_next(void *state, struct trace_io *io)
{
	return next_io(state, io, parse_columns,
		       "\"time_ms device offset_bytes size_bytes type\", the type 1 for a read and "
		       "0 for a write");
}

const struct trace_format trace_iolog = {
	/* fio's own logs are written at completion. */
	.steps_back = true, .objection = iolog_objection, .open = iolog_open,
	.next = iolog_next, .skipped = text_skipped,	  .close = text_close,
};

const struct trace_format trace_columns = {
	.since_first = true,
	.steps_back = true,
	.objection = columns_objection,
	.open = text_open,
	.next = columns_next,
	.skipped = text_skipped,
	.close = text_close,
};
