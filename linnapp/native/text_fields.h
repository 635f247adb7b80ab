/* SPDX-License-Identifier: MIT */
/*
 * The columns of a line of a text trace: split a line, and read words and numbers.
 *
 * The functions that run for every line are inline here; text_fields.c has the others.
 */
#ifndef LINNAPP_TEXT_FIELDS_H
#define LINNAPP_TEXT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct field {
	const char *start;
	const char *end;
};

bool lt_read_float_time(int64_t unit_ns, struct field field, int64_t *units, int64_t *ns);
bool lt_has_fraction(struct field field);
bool lt_is_rounded(struct field field);
const char *lt_problem_of(struct field field);

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') <= 9;
}

static inline char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/*
 * Return true if a column is one of the words, in any case of its letters. They are separated by
 * spaces; NULL has none.
 */
static inline bool is_one_of(const char *words, struct field field)
{
	size_t length = field.end - field.start;

	while (words && *words) {
		size_t at = 0, end = strcspn(words, " ");

		while (at < length && at < end && lower(words[at]) == lower(field.start[at]))
			at++;
		if (at == length && at == end)
			return true;
		words += end + !!words[end];
	}
	return false;
}

static inline bool is_blank(char c)
{
	return (unsigned char)c <= ' ' &&
	       (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f');
}

static inline void strip(const char **start, const char **end)
{
	while (*start < *end && is_blank(**start))
		++*start;
	while (*end > *start && is_blank((*end)[-1]))
		--*end;
}

/* Store a column without blanks and without the quotes that spreadsheets add. */
static inline void set_field(struct field *field, const char *start, const char *end)
{
	strip(&start, &end);
	if (start < end && *start == '"' && end - start >= 2 && end[-1] == '"') {
		start++;
		end--;
	}
	field->start = start;
	field->end = end;
}

/*
 * Split a stripped line into columns; return their number, at most @max + 1, which means that there
 * are more than @max.
 */
static inline int split_line(char separator, int max, struct field line, struct field *fields)
{
	const char *at = line.start, *end = line.end;
	int n = 0;

	while (n <= max && (at < end || separator == ',')) {
		const char *begin = at;

		while (at < end && !(separator == ',' ? *at == ',' : is_blank(*at)))
			at++;
		set_field(&fields[n++], begin, at);
		/* A comma after the last column does not begin another one. */
		if (at == end || (separator == ',' && at + 1 == end && n == max))
			break;
		at++;
		while (separator != ',' && at < end && is_blank(*at))
			at++;
	}
	return n;
}

/* Read digits up to the first other character; return false on overflow. */
static inline bool read_digits(const char **start, const char *end, int64_t *value)
{
	const char *at = *start, *safe = end - at > 18 ? at + 18 : end;
	int64_t total = 0;

	/* This number of digits always fits. */
	for (; at < safe && is_digit(*at); at++)
		total = 10 * total + (*at - '0');
	for (; at < end && is_digit(*at); at++)
		if (__builtin_mul_overflow(total, 10, &total) ||
		    __builtin_add_overflow(total, *at - '0', &total))
			return false;
	*start = at;
	*value = total;
	return true;
}

/* Read a whole number that is not negative. */
static inline bool read_count(struct field field, int64_t *value)
{
	const char *at = field.start;

	if (at < field.end && *at == '+')
		at++;
	if (at == field.end || !is_digit(*at))
		return false;
	return read_digits(&at, field.end, value) && at == field.end;
}

/* Read a number of units and convert it to bytes. */
static inline bool read_bytes(struct field field, int32_t unit_bytes, int64_t *bytes)
{
	return read_count(field, bytes) && !__builtin_mul_overflow(*bytes, unit_bytes, bytes);
}

/* Read a time as whole units of its column and further nanoseconds; smaller digits are dropped. */
static inline bool read_time(int64_t unit_ns, struct field field, int64_t *units, int64_t *ns)
{
	const char *at = field.start;
	int64_t scale = unit_ns;
	bool negative = false, digits;

	if (at < field.end && (*at == '+' || *at == '-'))
		negative = *at++ == '-';
	digits = at < field.end && is_digit(*at);
	*ns = 0;
	if (!read_digits(&at, field.end, units))
		return false;
	if (at < field.end && *at == '.') {
		for (at++; at < field.end && is_digit(*at); at++) {
			scale /= 10;
			*ns += (*at - '0') * scale;
			digits = true;
		}
	}
	if (at < field.end && digits)
		return lt_read_float_time(unit_ns, field, units, ns);
	if (negative) {
		*units = -*units;
		*ns = -*ns;
	}
	return digits;
}

#endif
