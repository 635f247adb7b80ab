/* SPDX-License-Identifier: MIT */
/*
 * Read text traces, one I/O per line, into columns, in order of time.
 *
 * Lines are split in place in a buffer and only the relevant columns are parsed. Numbers are read
 * as integers, times as whole nanoseconds: the time of an MSR trace, in 100 ns since 1601, is exact
 * neither in a double nor, as nanoseconds, in 64 bits. So the whole units of the first I/O are
 * subtracted before the multiplication.
 *
 * I/Os need not be in the order of their times, because threads and devices write their lines with
 * delays. They are sorted within a window of lines, which bounds the memory, and those that were
 * out of order are counted. A time more than MOST_LATE_NS before an earlier line's is refused,
 * because then one of the two is wrong, or the trace has to be sorted as a whole. A single time far
 * ahead of, or far behind, those on the lines around it is refused as well.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "text_fields.h"
#include "text_trace.h"
#include "text_volumes.h"

#ifndef TEXT_BUFFER_BYTES		/* the fuzzers refill a small one often */
#define TEXT_BUFFER_BYTES (1 << 18)	/* also the longest line */
#endif
#define SHOWN_BYTES 200		/* maximum part of a malformed line in the message */
#define MOST_LATE_NS 60000000000ll
#define ALONE_NS 10000000000ll	/* a single I/O with this distance from its neighbours is an error */
#define MOST_EARLY_NS (366ll * 24 * 3600 * 1000000000)
#define SMALLEST_IO 512
#define LARGEST_IO (1ll << 30)
#define LARGEST_OFFSET (1ll << 56)

struct row {
	int64_t time, offset, size, latency, line;
	bool is_write;
};

struct lt_text_reader {
	int fd;
	struct lt_text_format format;
	struct lt_text_options options;
	char separator;		/* from the first line; 0 if not known yet */
	int64_t unit_ns, latency_unit_ns;
	char *buffer;		/* TEXT_BUFFER_BYTES long, or NULL if all is in @text */
	const char *text;
	size_t start, end;	/* the part of the text that is not parsed yet */
	bool at_end;
	bool had_first_line;	/* that is neither blank nor a comment */
	bool failed;
	int64_t failed_line;	/* line with the error if it is not the last one read, else 0 */
	struct lt_text_counts counts;
	char why[LT_TEXT_WHY_BYTES];
	bool have_first;
	int64_t first_units, first_ns;
	int64_t latest_ns, latest_line;
	struct row first;
	int64_t first_volume;
	struct {
		int64_t line;	/* line of the last I/O if it is far from the one before, else 0 */
		bool is_ahead;
		int64_t before_ns;	/* the latest time before it; INT64_MIN if there is none */
	} alone;

	struct row *rows;	/* twice the window */
	int64_t n_rows, n_ready, next;
	bool in_order;
	bool have_zero;
	int64_t zero_ns, last_ns;

	struct volumes volumes;
};

/* ---- errors in a line ---- */

/* Copy the printable characters of a text; return the end of the copy. */
static char *put_printable(char *out, const char *text, size_t length)
{
	bool cut = length > SHOWN_BYTES;

	for (const char *c = text; c < text + (cut ? SHOWN_BYTES : length); c++)
		*out++ = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
	return cut ? stpcpy(out, "...") : out;
}

static void vfail(struct lt_text_reader *r, const char *format, va_list arguments)
{
	char *end = r->why + strlen(r->why);

	vsnprintf(end, r->why + sizeof(r->why) - end, format, arguments);
	r->failed = true;
}

__attribute__((format(printf, 2, 3)))
static void fail(struct lt_text_reader *r, const char *format, ...)
{
	va_list arguments;

	r->why[0] = '\0';
	va_start(arguments, format);
	vfail(r, format, arguments);
	va_end(arguments);
}

/* The message shows the line, then the error, then an example line of the format. */
__attribute__((format(printf, 3, 4)))
static void fail_line(struct lt_text_reader *r, struct field line, const char *format, ...)
{
	char *at = r->why;
	va_list arguments;

	*at++ = '\'';
	at = put_printable(at, line.start, line.end - line.start);
	strcpy(at, "': ");
	va_start(arguments, format);
	vfail(r, format, arguments);
	va_end(arguments);
	if (r->counts.cut_off)
		strcat(r->why, "; this last line does not end with a newline, so the file may be "
			       "truncated");
	strcat(r->why, "; expected ");
	strncat(r->why, r->format.description, sizeof(r->why) - strlen(r->why) - 1);
}

/* Return how many characters of a word to show. */
static int shown_length(struct field field)
{
	return field.end - field.start < 40 ? field.end - field.start : 40;
}

static void fail_number(struct lt_text_reader *r, struct field line, const char *what,
			struct field field)
{
	fail_line(r, line, "the %s %s", what, problem_of(field));
}

/* ---- lines ---- */

enum outcome { FAILED, NO_IO, AN_IO };

/* Refuse values that no drive has, if the format was detected only from the first lines. */
static bool is_possible(struct lt_text_reader *r, struct field line, const struct row *row)
{
	const char *wrong = row->size < SMALLEST_IO ? "smaller than a sector" :
			    row->size > LARGEST_IO ? "larger than any drive accepts" :
			    row->offset > LARGEST_OFFSET ? "beyond the end of any drive" :
							   NULL;

	if (!wrong || r->options.known_by != LT_TEXT_DETECTED ||
	    (r->format.flags & LT_TEXT_IOLOG))
		return true;
	fail_line(r, line, "a %s of %lld bytes at byte %lld is %s; the format or its units may be "
			   "different (--from %s skips this check)",
		  row->is_write ? "write" : "read", (long long)row->size,
		  (long long)row->offset, wrong, r->format.name);
	return false;
}

/*
 * Return true if the I/O before this one is isolated in time. In a log that is written as I/Os end,
 * one far behind is not an error if its latency was that long.
 */
static bool is_last_alone(const struct lt_text_reader *r, const struct row *row, int64_t difference)
{
	if (!r->alone.line)
		return false;
	if (!r->alone.is_ahead)
		return difference >= 0;
	return difference < -ALONE_NS - row->latency && (r->alone.before_ns == INT64_MIN ||
					  row->time - r->alone.before_ns < ALONE_NS);
}

static void note_alone(struct lt_text_reader *r, const struct row *row, int64_t difference)
{
	bool first = !r->latest_line;

	r->alone.is_ahead = first || difference > 0;
	r->alone.before_ns = first ? INT64_MIN : r->latest_ns;
	r->alone.line = first || difference > ALONE_NS ||
			difference < -ALONE_NS - row->latency ? row->line : 0;
}

/* Check an I/O's time against those before it. */
static bool is_in_order(struct lt_text_reader *r, const struct row *row)
{
	static const char remedy[] = "one of the two time stamps is wrong, or the trace has to be "
				     "sorted by time";
	/* read_row_time() has checked that this does not overflow. */
	int64_t difference = row->time - r->latest_ns;

	if (r->latest_line && llabs(difference) <= MOST_EARLY_NS &&
	    is_last_alone(r, row, difference) && difference >= -MOST_LATE_NS) {
		r->failed_line = r->alone.line;
		fail(r, "more than %lld s %s the lines around it; its time stamp is wrong, or the "
		     "trace has to be sorted by time", ALONE_NS / 1000000000,
		     r->alone.is_ahead ? "after" : "before");
		return false;
	}
	note_alone(r, row, difference);
	if (r->latest_line && difference > MOST_EARLY_NS)
		fail(r, "%.0f days after line %lld; %s", (double)difference / 86400e9,
		     (long long)r->latest_line, remedy);
	else if (r->latest_line && difference < -MOST_LATE_NS)
		fail(r, "%.6f s before line %lld; %s", -(double)difference / 1e9,
		     (long long)r->latest_line, remedy);
	if (r->failed)
		return false;
	if (!r->latest_line) {
		r->first = *row;
		r->first_volume = r->volumes.last;
	}
	if (!r->latest_line || row->time >= r->latest_ns) {
		r->latest_ns = row->time;
		r->latest_line = row->line;
		return true;
	}
	r->counts.out_of_order++;
	if (!r->counts.repeated_line && row->time == r->first.time &&
	    row->offset == r->first.offset && row->size == r->first.size &&
	    row->is_write == r->first.is_write && r->volumes.last == r->first_volume)
		r->counts.repeated_line = row->line;
	if (r->latest_ns - row->time > r->counts.most_late_ns) {
		r->counts.most_late_ns = r->latest_ns - row->time;
		r->counts.most_late_line = row->line;
	}
	return true;
}

/* Read a latency in ns, which must not be negative. */
static bool read_latency(const struct lt_text_reader *r, struct field field, int64_t *latency)
{
	int64_t units, ns;

	return read_time(r->latency_unit_ns, field, &units, &ns) && units >= 0 && ns >= 0 &&
	       !__builtin_mul_overflow(units, r->latency_unit_ns, &units) &&
	       !__builtin_add_overflow(units, ns, latency);
}

/* Read the time of an I/O whose latency is known. */
static bool read_row_time(struct lt_text_reader *r, struct field line, struct field field,
			  struct row *row)
{
	const struct lt_text_format *f = &r->format;
	int64_t units, ns;

	if (!read_time(r->unit_ns, field, &units, &ns)) {
		fail_number(r, line, "time", field);
		return false;
	}
	/* The point of a number with an exponent is near its start. */
	if (r->options.known_by != LT_TEXT_PROBED && field.end - field.start > 7 &&
	    memchr(field.start, '.', 3) && is_rounded(field)) {
		fail_line(r, line, "the time was rounded when it was written with an exponent; "
				   "write it with all its digits");
		return false;
	}
	r->counts.fractions += ns || (r->unit_ns == 1 && has_fraction(field));
	if (!(f->flags & LT_TEXT_IOLOG) && !r->have_first) {
		r->have_first = true;
		r->counts.first_units = r->first_units = units;
		r->first_ns = ns;
	}
	if (__builtin_sub_overflow(units, r->first_units, &units) ||
	    __builtin_mul_overflow(units, r->unit_ns, &units) ||
	    __builtin_add_overflow(units, ns - r->first_ns, &row->time) ||
	    /* in whole units, because that is the precision of the times */
	    ((f->flags & LT_TEXT_AT_END) &&
	     __builtin_sub_overflow(row->time, row->latency / r->unit_ns * r->unit_ns,
				    &row->time)) ||
	    (!(f->flags & LT_TEXT_IOLOG) && llabs(row->time) > INT64_MAX / 2)) {
		fail_line(r, line, "the time is a century or more from the first line's, or from 0");
		return false;
	}
	if ((f->flags & LT_TEXT_IOLOG) && row->time < 0) {
		fail_line(r, line, "the time is negative");
		return false;
	}
	return true;
}

/* Parse one line, which is not a comment, into @row. */
static enum outcome parse_line(struct lt_text_reader *r, struct field line, struct row *row)
{
	const struct lt_text_format *f = &r->format;
	struct field fields[LT_TEXT_MAX_FIELDS + 1], volume;
	int64_t end, again;
	int n;

	if (line.start == line.end)
		return NO_IO;
	if (!r->separator)
		r->separator = !(f->flags & LT_TEXT_IOLOG) &&
			       memchr(line.start, ',', line.end - line.start) ? ',' : ' ';
	n = split_line(r->separator, f->max_columns, line, fields);
	if (n <= f->type_at) {
		fail_line(r, line, "%d column%s", n, n == 1 ? "" : "s");
		return FAILED;
	}
	row->is_write = is_one_of(f->writes, fields[f->type_at]);
	if (!row->is_write && !is_one_of(f->reads, fields[f->type_at])) {
		bool skipped = is_one_of(f->skipped, fields[f->type_at]);

		r->counts.skipped += skipped;
		if (skipped || is_one_of(f->passed_over, fields[f->type_at]))
			return NO_IO;
		fail_line(r, line, "the type is '%.*s'; it must be one of these: %s %s",
			  shown_length(fields[f->type_at]), fields[f->type_at].start, f->reads,
			  f->writes);
		return FAILED;
	}
	if (n < f->n_columns || n > f->max_columns) {
		fail_line(r, line, "%s%d columns", n > f->max_columns ? "more than " : "",
			  n > f->max_columns ? f->max_columns : n);
		return FAILED;
	}
	if (!read_bytes(fields[f->offset_at], f->offset_unit_bytes, &row->offset)) {
		fail_number(r, line, "offset", fields[f->offset_at]);
		return FAILED;
	}
	if (!read_bytes(fields[f->size_at], f->size_unit_bytes, &row->size)) {
		fail_number(r, line, "size", fields[f->size_at]);
		return FAILED;
	}
	if (__builtin_add_overflow(row->offset, row->size, &end)) {
		fail_line(r, line, "offset and size are too large");
		return FAILED;
	}
	if (f->same_as_size_at && (!read_count(fields[f->same_as_size_at], &again) ||
				   again != row->size)) {
		fail_line(r, line, "column %d does not repeat the size", f->same_as_size_at + 1);
		return FAILED;
	}
	row->latency = 0;
	if (f->latency_at && !read_latency(r, fields[f->latency_at], &row->latency)) {
		fail_number(r, line, "latency", fields[f->latency_at]);
		return FAILED;
	}
	if (!row->size) {
		int64_t units, ns;

		if (!read_time(r->unit_ns, fields[f->time_at], &units, &ns)) {
			fail_number(r, line, "time", fields[f->time_at]);
			return FAILED;
		}
		r->counts.empty++;
		return NO_IO;
	}
	if (!is_possible(r, line, row))
		return FAILED;
	if (f->volume_columns) {
		volume = (struct field){ fields[f->volume_at].start,
					 fields[f->volume_at + f->volume_columns - 1].end };
		if (!lt_count_volume(&r->volumes, volume)) {
			fail(r, "out of memory");
			return FAILED;
		}
		if (r->options.volume &&
		    !lt_last_volume_is(&r->volumes, r->options.volume,
				       fields[f->volume_at + f->volume_columns - 1]))
			return NO_IO;
	}
	row->line = r->counts.lines;
	return read_row_time(r, line, fields[f->time_at], row) && is_in_order(r, row) ? AN_IO :
											FAILED;
}

/* Get the next line without its end; return false at the end of the file or on an error (errno). */
static bool next_line(struct lt_text_reader *r, const char **start, const char **end)
{
	size_t searched = r->start;

	errno = 0;
	for (;;) {
		const char *newline = memchr(r->text + searched, '\n', r->end - searched);
		ssize_t got;

		if (newline) {
			*start = r->text + r->start;
			*end = newline;
			r->start = newline + 1 - r->text;
			return true;
		}
		if (r->at_end) {
			if (r->start == r->end)
				return false;
			r->counts.cut_off = 1;
			*start = r->text + r->start;
			*end = r->text + r->end;
			r->start = r->end;
			return true;
		}
		if (r->start) {
			memmove(r->buffer, r->buffer + r->start, r->end - r->start);
			r->end -= r->start;
			r->start = 0;
		}
		searched = r->end;
		if (r->end == TEXT_BUFFER_BYTES) {
			/* no trace has such a line; it will be reported as malformed */
			*start = r->text;
			*end = r->text + r->end;
			r->start = r->end;
			return true;
		}
		do {
			got = read(r->fd, r->buffer + r->end, TEXT_BUFFER_BYTES - r->end);
		} while (got < 0 && errno == EINTR);
		if (got < 0)
			return false;
		errno = 0;
		r->at_end = !got;
		r->end += got;
	}
}

static bool begins_with(struct field line, const char *text)
{
	size_t length = strlen(text);

	return (size_t)(line.end - line.start) >= length &&
	       !strncasecmp(line.start, text, length);
}

/* Return true if a first line names columns: none of them begins like a number. */
static bool names_columns(struct field line)
{
	bool at_start = true;

	for (const char *c = line.start; c < line.end; c++) {
		if (at_start && (is_digit(*c) || *c == '-' || *c == '.'))
			return false;
		at_start = *c == ',' || *c == '"' || is_blank(*c);
	}
	return true;
}

/** lt_text_is_header() - return true if a line begins like a format's header, perhaps in quotes */
bool lt_text_is_header(const struct lt_text_format *format, const char *start, const char *end)
{
	const char *wanted = format->header;

	if (!wanted || (format->flags & LT_TEXT_IOLOG))
		return false;
	for (; *wanted && start < end; start++)
		if (*start != '"' && !is_blank(*start) && lower(*start) != lower(*wanted++))
			return false;
	return !*wanted;
}

/* Return true if the first line has no I/O. The version in an iolog's first line is checked. */
static bool is_header(struct lt_text_reader *r, struct field line)
{
	const char *header = r->format.header;

	if (r->format.flags & LT_TEXT_IOLOG) {
		if (!begins_with(line, header) ||
		    (size_t)(line.end - line.start) != strlen(header))
			fail(r, begins_with(line, "fio version") ?
				"'%.*s' is not supported; fio 3.31 and later write version 3" :
				"the first line is '%.*s', but an iolog begins with 'fio version 3 "
				"iolog'; write it with fio's option --write_iolog",
			     shown_length(line), line.start);
		return true;
	}
	/* A user who names the format has checked what the first line says. */
	return lt_text_is_header(&r->format, line.start, line.end) ||
	       (r->options.known_by == LT_TEXT_NAMED && names_columns(line));
}

static void skip_byte_order_mark(const char **start, const char *end)
{
	if (end - *start >= 3 && !memcmp(*start, "\xef\xbb\xbf", 3))
		*start += 3;
}

/* Parse lines up to one with an I/O; return false at the end or on a failure. */
static bool next_row(struct lt_text_reader *r, struct row *row)
{
	const char *start, *end;

	while (next_line(r, &start, &end)) {
		struct field line;

		if (!r->counts.lines++)
			skip_byte_order_mark(&start, end);
		strip(&start, &end);
		line.start = start;
		line.end = end;
		if (start < end && *start == '#')
			continue;
		if ((start < end || (r->format.flags & LT_TEXT_IOLOG)) && !r->had_first_line) {
			r->had_first_line = true;
			if (is_header(r, line)) {
				if (r->failed)
					return false;
				continue;
			}
		} else if (lt_text_is_header(&r->format, start, end) ||
			   ((r->format.flags & LT_TEXT_IOLOG) && begins_with(line, "fio version"))) {
			fail(r, "a second trace begins here; read the two separately");
			return false;
		}
		switch (parse_line(r, line, row)) {
		case AN_IO:
			return true;
		case NO_IO:
			break;
		case FAILED:
			return false;
		}
	}
	if (errno)
		fail(r, "%s", strerror(errno));
	return false;
}

/* ---- sorting by time ---- */

#define MOST_MOVED 32
#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b))

static int by_line(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	return a->time != b->time ? COMPARE(a->time, b->time) : COMPARE(a->line, b->line);
}

static int by_place(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (a->time != b->time)
		return COMPARE(a->time, b->time);
	if (a->size != b->size)
		return COMPARE(a->size, b->size);
	if (a->offset != b->offset)
		return COMPARE(a->offset, b->offset);
	if (a->is_write != b->is_write)
		return COMPARE(a->is_write, b->is_write);
	if (a->latency != b->latency)
		return COMPARE(a->latency, b->latency);
	return COMPARE(a->line, b->line);
}

/*
 * Add the row after the last one, in order if it is at most MOST_MOVED rows late. Most rows are
 * late by a few rows, if at all, and sorting all rows would take as long as parsing them.
 */
static void insert_last(struct lt_text_reader *r, int (*order)(const void *, const void *))
{
	struct row last = r->rows[r->n_rows];
	int64_t at = r->n_rows++, least = at > MOST_MOVED ? at - MOST_MOVED : 0;

	if (!r->in_order)
		return;
	while (at > least && r->rows[at - 1].time >= last.time &&
	       order(&r->rows[at - 1], &last) > 0)
		at--;
	r->in_order = at == 0 || order(&r->rows[at - 1], &last) < 0;
	if (!r->in_order || at == r->n_rows - 1)
		return;
	memmove(&r->rows[at + 1], &r->rows[at], (r->n_rows - 1 - at) * sizeof(last));
	r->rows[at] = last;
}

/* Read on until there are I/Os that are earlier than all later lines; return false on a failure. */
static bool make_ready(struct lt_text_reader *r)
{
	int (*order)(const void *, const void *) = r->options.ties_by_place ? by_place : by_line;
	int64_t window = r->options.window;

	/* Keep the I/Os that were not returned yet. */
	r->n_rows -= r->next;
	memmove(r->rows, r->rows + r->next, r->n_rows * sizeof(*r->rows));
	r->next = 0;
	r->in_order = true;
	while (r->n_rows < 2 * window && next_row(r, &r->rows[r->n_rows]))
		insert_last(r, order);
	if (r->failed)
		return false;
	if (!r->in_order)
		qsort(r->rows, r->n_rows, sizeof(*r->rows), order);
	r->n_ready = r->n_rows < 2 * window ? r->n_rows : window;
	if (!r->n_ready)
		return true;
	if (!r->have_zero) {
		r->have_zero = true;
		r->zero_ns = r->format.flags & LT_TEXT_IOLOG ? 0 : r->rows[0].time;
		r->counts.start_ns = r->first_ns + r->zero_ns;
		r->last_ns = r->rows[0].time;
	}
	if (r->rows[0].time < r->last_ns) {
		r->failed_line = r->rows[0].line;
		fail(r, "more than %lld lines behind one that is %.6f s later; sort the trace by "
		     "time", (long long)window, (double)(r->last_ns - r->rows[0].time) / 1e9);
		return false;
	}
	r->last_ns = r->rows[r->n_ready - 1].time;
	return true;
}

/* ---- the interface ---- */

static int64_t power_of_ten(int32_t exponent)
{
	int64_t power = 1;

	while (exponent-- > 0)
		power *= 10;
	return power;
}

static struct lt_text_reader *open_reader(const struct lt_text_format *format,
					  const struct lt_text_options *options)
{
	struct lt_text_reader *r;

	if (format->max_columns > LT_TEXT_MAX_FIELDS)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->fd = -1;
	r->format = *format;
	r->options = *options;
	if (r->options.window <= 0)
		r->options.window = LT_TEXT_WINDOW;
	if (options->time_digits >= 0)
		r->format.time_digits = options->time_digits;
	r->unit_ns = power_of_ten(r->format.time_digits);
	r->latency_unit_ns = power_of_ten(format->latency_digits);
	r->rows = malloc(2 * r->options.window * sizeof(*r->rows));
	if (!r->rows) {
		free(r);
		return NULL;
	}
	return r;
}

/**
 * lt_text_open() - start reading a text trace
 * @fd: the open file, which remains the caller's
 * @format: the format of a line; its strings must live as long as the reader
 * @options: what to read, and how; its strings must live as long as the reader, too
 *
 * Return: a reader, to be closed with lt_text_close(); NULL if out of memory or if @format has
 * a column after LT_TEXT_MAX_FIELDS.
 */
struct lt_text_reader *lt_text_open(int fd, const struct lt_text_format *format,
				    const struct lt_text_options *options)
{
	struct lt_text_reader *r = open_reader(format, options);

	if (!r)
		return NULL;
	r->fd = fd;
	r->text = r->buffer = malloc(TEXT_BUFFER_BYTES);
	if (!r->buffer) {
		lt_text_close(r);
		return NULL;
	}
	return r;
}

/** lt_text_open_memory() - read @n bytes at @text, which remain the caller's; see lt_text_open() */
struct lt_text_reader *lt_text_open_memory(const char *text, size_t n,
					   const struct lt_text_format *format,
					   const struct lt_text_options *options)
{
	struct lt_text_reader *r = open_reader(format, options);

	if (!r)
		return NULL;
	r->text = text;
	r->end = n;
	r->at_end = true;
	return r;
}

/**
 * lt_text_read() - read the next I/Os in the order of their times
 * @r: the reader
 * @rows: number of rows in the columns
 * @columns: receives the I/Os; times in ns, relative to the first I/O, except those of an iolog
 *
 * Return: the number of I/Os written, fewer than @rows only at the end of the trace; -1 if the
 * trace is malformed or cannot be read: see lt_text_line_number() and lt_text_error().
 */
int64_t lt_text_read(struct lt_text_reader *r, int64_t rows, const struct lt_text_columns *columns)
{
	for (int64_t n = 0; n < rows; n++) {
		const struct row *row;

		if (r->next == r->n_ready && !r->failed)
			make_ready(r);
		if (r->failed)
			return -1;
		if (r->next == r->n_ready)
			return n;
		row = &r->rows[r->next++];
		columns->time[n] = row->time - r->zero_ns;
		columns->offset[n] = row->offset;
		columns->size[n] = row->size;
		columns->is_write[n] = row->is_write;
		if (columns->latency)
			columns->latency[n] = row->latency;
		if (columns->line)
			columns->line[n] = row->line;
	}
	return rows;
}

/** lt_text_error() - get the reason why lt_text_read() failed */
const char *lt_text_error(const struct lt_text_reader *r)
{
	return r->why;
}

/** lt_text_line_number() - get the number of the line at which it failed, from 1 */
int64_t lt_text_line_number(const struct lt_text_reader *r)
{
	return r->failed_line ? r->failed_line : r->counts.lines;
}

/** lt_text_counts() - get the counters of the lines read so far */
const struct lt_text_counts *lt_text_counts(struct lt_text_reader *r)
{
	r->counts.n_volumes = r->volumes.n;
	return &r->counts;
}

/** lt_text_volume() - get the name of a volume by its number, in the order of occurrence */
const char *lt_text_volume(const struct lt_text_reader *r, int64_t i, int64_t *ios)
{
	*ios = r->volumes.of[i].ios;
	return lt_volume_name(&r->volumes, i);
}

/** lt_text_close() - free a reader, which may be NULL */
void lt_text_close(struct lt_text_reader *r)
{
	if (!r)
		return;
	lt_free_volumes(&r->volumes);
	free(r->rows);
	free(r->buffer);
	free(r);
}
