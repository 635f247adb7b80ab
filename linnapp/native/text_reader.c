/* SPDX-License-Identifier: MIT */
/*
 * Reads text traces, one I/O a line, into columns.
 *
 * Lines are cut out of a buffer in place and only the columns that matter are looked at. Numbers
 * are read as integers, times as whole nanoseconds: the time of an MSR trace, in 100 ns since
 * 1601, is exact in neither a double nor, as nanoseconds, in 64 bits. So the whole units of the
 * first I/O are taken off before they are multiplied.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text_trace.h"

#ifndef BUFFER_BYTES		/* the fuzzers refill a small one often */
#define BUFFER_BYTES (1 << 20)	/* also the longest line */
#endif
#define MAX_WORDS 16
#define TOLD_BYTES 200		/* of a malformed line, for the message */

struct word {
	const char *text;
	size_t length;
};

struct words {
	struct word words[MAX_WORDS];
	int n;
};

struct field {
	const char *start;
	const char *end;
};

struct lt_text_reader {
	int fd;
	struct lt_text_format format;
	struct words reads, writes, passed_over;
	int n_columns;		/* that must be looked at */
	int64_t unit_ns, latency_unit_ns;
	char *buffer;
	size_t start, end;	/* what of the buffer is not parsed yet */
	bool at_end;
	int64_t line_number;	/* of the line parsed last, from 1 */
	int64_t empty;		/* I/Os of no length so far */
	char told[TOLD_BYTES + 1];
	bool have_first;
	int64_t first_units;
	int64_t first_ns;
};

static void split_words(struct words *words, const char *text)
{
	words->n = 0;
	while (text && *text && words->n < MAX_WORDS) {
		const char *end = strchrnul(text, ' ');

		words->words[words->n++] = (struct word){ text, end - text };
		text = *end ? end + 1 : end;
	}
}

static bool is_one_of(const struct words *words, struct field field)
{
	size_t length = field.end - field.start;

	for (int i = 0; i < words->n; i++)
		if (words->words[i].length == length &&
		    !memcmp(words->words[i].text, field.start, length))
			return true;
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static struct field stripped(const char *start, const char *end)
{
	while (start < end && is_blank(*start))
		start++;
	while (end > start && is_blank(end[-1]))
		end--;
	return (struct field){ start, end };
}

/* Cut a line, stripped, into its first @wanted columns; returns how many there were. */
static int split_line(const struct lt_text_reader *r, struct field line, struct field *fields)
{
	const char *at = line.start;
	int n = 0;

	if (r->format.delimiter) {
		while (n < r->n_columns) {
			const char *end = memchr(at, r->format.delimiter, line.end - at);

			fields[n++] = stripped(at, end ? end : line.end);
			if (!end)
				break;
			at = end + 1;
		}
		return n;
	}
	while (n < r->n_columns && at < line.end) {
		const char *begin = at;

		while (at < line.end && !is_blank(*at))
			at++;
		fields[n++] = (struct field){ begin, at };
		while (at < line.end && is_blank(*at))
			at++;
	}
	return n;
}

/* Digits up to the first other character; false on overflow. */
static bool read_digits(const char **at, const char *end, int64_t *value)
{
	int64_t total = 0;

	for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
		if (__builtin_mul_overflow(total, 10, &total) ||
		    __builtin_add_overflow(total, **at - '0', &total))
			return false;
	*value = total;
	return true;
}

/* A whole number, not negative. */
static bool read_count(struct field field, int64_t *value)
{
	const char *at = field.start;

	if (at < field.end && *at == '+')
		at++;
	if (at == field.end || !isdigit((unsigned char)*at))
		return false;
	return read_digits(&at, field.end, value) && at == field.end;
}

/* A count of units, in bytes. */
static bool read_bytes(struct field field, int32_t unit_bytes, int64_t *bytes)
{
	return read_count(field, bytes) && !__builtin_mul_overflow(*bytes, unit_bytes, bytes);
}

/* A time with an exponent, as spreadsheets and awk leave them; as exact as a double is. */
static bool read_float_time(int64_t unit_ns, struct field field, int64_t *units, int64_t *ns)
{
	char text[64], *end;
	size_t length = field.end - field.start;
	double value, whole;

	if (length >= sizeof(text))
		return false;
	memcpy(text, field.start, length);
	text[length] = '\0';
	for (const char *c = text; *c; c++)
		if (!strchr("+-.0123456789eE", *c))
			return false;	/* strtod() also knows nan, inf and hexadecimals */
	value = strtod(text, &end);
	if (!length || *end || value > 9e18 || value < -9e18)
		return false;
	whole = (double)(int64_t)value;
	*units = (int64_t)value;
	*ns = (int64_t)((value - whole) * (double)unit_ns);
	return true;
}

/* A time as whole units of its column and nanoseconds on top; digits below 1 ns are dropped. */
static bool read_time(int64_t unit_ns, struct field field, int64_t *units, int64_t *ns)
{
	const char *at = field.start;
	int64_t scale = unit_ns;
	bool negative = false, digits;

	if (at < field.end && (*at == '+' || *at == '-'))
		negative = *at++ == '-';
	digits = at < field.end && isdigit((unsigned char)*at);
	*ns = 0;
	if (!read_digits(&at, field.end, units))
		return false;
	if (at < field.end && *at == '.') {
		for (at++; at < field.end && isdigit((unsigned char)*at); at++) {
			scale /= 10;
			*ns += (*at - '0') * scale;
			digits = true;
		}
	}
	if (at < field.end && digits)
		return read_float_time(unit_ns, field, units, ns);
	if (negative) {
		*units = -*units;
		*ns = -*ns;
	}
	return digits;
}

/* A latency in ns; not negative. */
static bool read_latency(const struct lt_text_reader *r, struct field field, int64_t *latency)
{
	int64_t units, ns;

	return read_time(r->latency_unit_ns, field, &units, &ns) && units >= 0 && ns >= 0 &&
	       !__builtin_mul_overflow(units, r->latency_unit_ns, &units) &&
	       !__builtin_add_overflow(units, ns, latency);
}

static bool volume_differs(const struct lt_text_reader *r, const struct field *fields)
{
	struct field field;
	size_t length;

	if (!r->format.volume)
		return false;
	field = fields[r->format.volume_at];
	length = field.end - field.start;
	return length != strlen(r->format.volume) ||
	       memcmp(field.start, r->format.volume, length);
}

enum outcome { MALFORMED, NO_IO, AN_IO };

/* Parse one line into row @row of @columns. */
static enum outcome parse_line(struct lt_text_reader *r, struct field line, int64_t row,
			       const struct lt_text_columns *columns)
{
	const struct lt_text_format *f = &r->format;
	struct field fields[LT_TEXT_MAX_FIELDS];
	int64_t units, ns, end;
	bool is_write;
	int n;

	if (line.start == line.end)
		return NO_IO;
	n = split_line(r, line, fields);
	if (n <= f->type_at)
		return MALFORMED;
	is_write = is_one_of(&r->writes, fields[f->type_at]);
	if (!is_write && !is_one_of(&r->reads, fields[f->type_at]))
		return is_one_of(&r->passed_over, fields[f->type_at]) ? NO_IO : MALFORMED;
	if (n < r->n_columns)
		return MALFORMED;
	if (!read_bytes(fields[f->offset_at], f->offset_unit_bytes, &columns->offset[row]) ||
	    !read_bytes(fields[f->size_at], f->size_unit_bytes, &columns->size[row]) ||
	    __builtin_add_overflow(columns->offset[row], columns->size[row], &end) ||
	    !read_time(r->unit_ns, fields[f->time_at], &units, &ns))
		return MALFORMED;
	if (volume_differs(r, fields))
		return NO_IO;
	if (!columns->size[row]) {
		r->empty++;
		return NO_IO;
	}
	if (f->since_first && !r->have_first) {
		r->have_first = true;
		r->first_units = units;
		r->first_ns = ns;
	}
	if (__builtin_sub_overflow(units, r->first_units, &units) ||
	    __builtin_mul_overflow(units, r->unit_ns, &units) ||
	    __builtin_add_overflow(units, ns - r->first_ns, &columns->time[row]))
		return MALFORMED;
	if (!f->since_first && columns->time[row] < 0)
		return MALFORMED;
	if (f->has_latency &&
	    !read_latency(r, fields[f->latency_at], &columns->latency[row]))
		return MALFORMED;
	columns->is_write[row] = is_write;
	return AN_IO;
}

/* The next line without its end; false at the end of the file or on an error (errno). */
static bool next_line(struct lt_text_reader *r, const char **start, const char **end)
{
	size_t searched = r->start;

	errno = 0;
	for (;;) {
		char *newline = memchr(r->buffer + searched, '\n', r->end - searched);
		ssize_t got;

		if (newline) {
			*start = r->buffer + r->start;
			*end = newline;
			r->start = newline + 1 - r->buffer;
			return true;
		}
		if (r->at_end) {
			if (r->start == r->end)
				return false;
			*start = r->buffer + r->start;
			*end = r->buffer + r->end;
			r->start = r->end;
			return true;
		}
		if (r->start) {
			memmove(r->buffer, r->buffer + r->start, r->end - r->start);
			r->end -= r->start;
			r->start = 0;
		}
		searched = r->end;
		if (r->end == BUFFER_BYTES) {
			/* no trace has such a line: let it be told as one that is malformed */
			*start = r->buffer;
			*end = r->buffer + r->end;
			r->start = r->end;
			return true;
		}
		do {
			got = read(r->fd, r->buffer + r->end, BUFFER_BYTES - r->end);
		} while (got < 0 && errno == EINTR);
		if (got < 0)
			return false;
		errno = 0;
		r->at_end = !got;
		r->end += got;
	}
}

static void tell(struct lt_text_reader *r, struct field line)
{
	size_t length = line.end - line.start;

	if (length > TOLD_BYTES)
		length = TOLD_BYTES;
	memcpy(r->told, line.start, length);
	r->told[length] = '\0';
}

/** lt_text_format_bytes() - of struct lt_text_format, by which a caller knows this version */
int64_t lt_text_format_bytes(void)
{
	return sizeof(struct lt_text_format);
}

static int64_t power_of_ten(int32_t exponent)
{
	int64_t power = 1;

	while (exponent-- > 0)
		power *= 10;
	return power;
}

/**
 * lt_text_open() - start reading a text trace
 * @fd: the open file; stays the caller's
 * @format: what a line holds; its strings must live as long as the reader
 *
 * Return: a reader, to be closed with lt_text_close(); NULL when out of memory or when @format has
 * a column beyond LT_TEXT_MAX_FIELDS.
 */
struct lt_text_reader *lt_text_open(int fd, const struct lt_text_format *format)
{
	const int32_t columns[] = { format->time_at, format->offset_at, format->size_at,
				    format->type_at,
				    format->has_latency ? format->latency_at : 0,
				    format->volume ? format->volume_at : 0 };
	struct lt_text_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->buffer = malloc(BUFFER_BYTES);
	r->fd = fd;
	r->format = *format;
	r->unit_ns = power_of_ten(format->time_decimals);
	r->latency_unit_ns = power_of_ten(format->latency_decimals);
	split_words(&r->reads, format->reads);
	split_words(&r->writes, format->writes);
	split_words(&r->passed_over, format->passed_over);
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		if (columns[i] >= r->n_columns)
			r->n_columns = columns[i] + 1;
	if (!r->buffer || r->n_columns > LT_TEXT_MAX_FIELDS) {
		lt_text_close(r);
		return NULL;
	}
	return r;
}

/**
 * lt_text_read() - the next I/Os in the order of the lines
 * @r: the reader
 * @rows: room in the columns
 * @columns: where to put them; times in ns
 *
 * Return: how many I/Os were written, fewer than @rows only at the end of the trace; -1 when a
 * line is malformed (lt_text_line_number() and lt_text_line_text() tell which); a negative errno
 * below that when the file cannot be read.
 */
int64_t lt_text_read(struct lt_text_reader *r, int64_t rows, const struct lt_text_columns *columns)
{
	int64_t row = 0;
	const char *start, *end;

	while (row < rows) {
		struct field line;

		if (!next_line(r, &start, &end)) {
			if (errno)
				return -1 - (int64_t)errno;
			break;
		}
		r->line_number++;
		line = stripped(start, end);
		if (r->line_number == 1 && r->format.header &&
		    (size_t)(line.end - line.start) >= strlen(r->format.header) &&
		    !memcmp(line.start, r->format.header, strlen(r->format.header)))
			continue;
		switch (parse_line(r, line, row, columns)) {
		case AN_IO:
			row++;
			break;
		case NO_IO:
			break;
		case MALFORMED:
			tell(r, line);
			return -1;
		}
	}
	return row;
}

/** lt_text_line_number() - of the line that was parsed last, from 1 */
int64_t lt_text_line_number(const struct lt_text_reader *r)
{
	return r->line_number;
}

/** lt_text_line_text() - the start of the malformed line */
const char *lt_text_line_text(const struct lt_text_reader *r)
{
	return r->told;
}

/** lt_text_empty() - how many I/Os of no length were passed over so far */
int64_t lt_text_empty(const struct lt_text_reader *r)
{
	return r->empty;
}

void lt_text_close(struct lt_text_reader *r)
{
	if (!r)
		return;
	free(r->buffer);
	free(r);
}
