/* SPDX-License-Identifier: MIT */
/*
 * The columns of a line of a text trace: split a line, and read words and numbers.
 */
#ifndef LINNAPP_TEXT_FIELDS_H
#define LINNAPP_TEXT_FIELDS_H

#include <ctype.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct field {
	const char *start;
	const char *end;
};

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

#define EACH_BYTE 0x0101010101010101ull

/*
 * Return the place of the first separator, or @end. Eight bytes are examined at a time, because
 * columns differ in length, and a loop over bytes that ends at a separator is mispredicted for each
 * column. A blank is a byte up to ' '; the few others of these are no separators.
 */
static inline const char *find_separator(const char *at, const char *end, char separator)
{
	while (end - at >= 8) {
		uint64_t word, found;

		memcpy(&word, at, sizeof(word));
		word = le64toh(word);
		if (separator == ',')
			word ^= EACH_BYTE * ',';
		/* The lowest bit that is set is that of the first byte that is small enough. */
		found = (word - EACH_BYTE * (separator == ',' ? 1 : ' ' + 1)) & ~word &
			(EACH_BYTE * 0x80);
		if (!found) {
			at += 8;
			continue;
		}
		at += __builtin_ctzll(found) / 8;
		if (separator == ',' || is_blank(*at))
			return at;
		at++;
	}
	while (at < end && !(separator == ',' ? *at == ',' : is_blank(*at)))
		at++;
	return at;
}

/*
 * Split a stripped line into columns; return their number, at most @max + 1, which means that there
 * are more than @max.
 */
static inline int split_line(char separator, int max, struct field line, struct field *fields)
{
	const char *at = line.start, *end = line.end;
	int n = 0;

	if (separator == ',') {
		while (n <= max) {
			const char *begin = at;

			at = find_separator(at, end, ',');
			set_field(&fields[n++], begin, at);
			/* A comma after the last column does not begin another one. */
			if (at == end || (at + 1 == end && n == max))
				return n;
			at++;
		}
		return n;
	}
	while (n <= max && at < end) {
		const char *begin = at;

		at = find_separator(at, end, ' ');
		set_field(&fields[n++], begin, at);
		while (at < end && is_blank(*at))
			at++;
	}
	return n;
}

/* Read eight characters; return false if one of them is not a digit. */
static inline bool read_eight_digits(const char *at, int64_t *value)
{
	uint64_t word, digits;

	memcpy(&word, at, sizeof(word));
	word = le64toh(word);
	digits = word - EACH_BYTE * '0';
	/* The first byte that is not a digit sets its high bit in one of the two terms. */
	if (((digits + EACH_BYTE * (0x80 - 10)) | digits) & (EACH_BYTE * 0x80))
		return false;
	/* Join pairs of digits, then four, then eight; the first digit is in the lowest byte. */
	digits = digits * 10 + (digits >> 8);
	*value = ((digits & 0x000000ff000000ffull) * 0x000f424000000064ull +
		  (digits >> 16 & 0x000000ff000000ffull) * 0x0000271000000001ull) >> 32;
	return true;
}

/* Read digits up to the first other character; return false on overflow. */
static inline bool read_digits(const char **start, const char *end, int64_t *value)
{
	const char *at = *start, *safe = end - at > 18 ? at + 18 : end;
	int64_t total = 0;

	/* This number of digits always fits. */
	for (int64_t eight; safe - at >= 8 && read_eight_digits(at, &eight); at += 8)
		total = 100000000 * total + eight;
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

/* Read a time with an exponent, as spreadsheets and awk write it, with a double's precision. */
static inline bool read_float_time(int64_t unit_ns, struct field field, int64_t *units, int64_t *ns)
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
			return false;	/* strtod() also accepts nan, inf and hexadecimal numbers */
	value = strtod(text, &end);
	if (!length || *end || value > 9e18 || value < -9e18)
		return false;
	whole = (double)(int64_t)value;
	*units = (int64_t)value;
	*ns = (int64_t)((value - whole) * (double)unit_ns);
	return true;
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
		return read_float_time(unit_ns, field, units, ns);
	if (negative) {
		*units = -*units;
		*ns = -*ns;
	}
	return digits;
}

static inline const char *find_exponent(struct field field)
{
	const char *lower = memchr(field.start, 'e', field.end - field.start);

	return lower ? lower : memchr(field.start, 'E', field.end - field.start);
}

/*
 * Return true if a time has an exponent and too few digits to be whole units, as 1.28166e+17.
 * Spreadsheets and awk write all numbers of more than 6 or 15 digits like that. With 5 decimals or
 * fewer, the other digits may have been zeroes.
 */
static inline bool is_rounded(struct field field)
{
	const char *exponent = find_exponent(field);
	const char *point = memchr(field.start, '.', field.end - field.start);
	long decimals;

	if (!exponent || !point || point > exponent)
		return false;
	decimals = exponent - point - 1;
	return decimals >= 5 && decimals < 15 && strtol(exponent + 1, NULL, 10) > decimals;
}

/* Return true if a time has decimals that are not 0. */
static inline bool has_fraction(struct field field)
{
	const char *c = memchr(field.start, '.', field.end - field.start);

	while (c && ++c < field.end)
		if (*c >= '1' && *c <= '9')
			return true;
	return false;
}

/* Return the reason why a number is invalid. */
static inline const char *problem_of(struct field field)
{
	size_t length = field.end - field.start;

	if (!length)
		return "is missing";
	if (*field.start == '-')
		return "is negative";
	if (length > 1 && field.start[0] == '0' && (field.start[1] | 0x20) == 'x')
		return "is hexadecimal; write it in decimal digits";
	if (*field.start == '"')
		return "is quoted and contains a comma; remove both";
	if (isdigit((unsigned char)*field.start) && find_exponent(field))
		return "has an exponent; write it with all its digits";
	if (isdigit((unsigned char)*field.start) && memchr(field.start, '.', length))
		return "is not a whole number";
	for (const char *c = field.start; c < field.end; c++)
		if (!isdigit((unsigned char)*c))
			return "is not a number";
	return "is too large";
}

#endif
