/* SPDX-License-Identifier: MIT */
/* Columns of a line of a text trace: what is needed rarely; see text_fields.h. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "text_fields.h"

/* Read a time with an exponent, as spreadsheets and awk write it, with a double's precision. */
bool lt_read_float_time(int64_t unit_ns, struct field field, int64_t *units, int64_t *ns)
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

static const char *find_exponent(struct field field)
{
	const char *lower = memchr(field.start, 'e', field.end - field.start);

	return lower ? lower : memchr(field.start, 'E', field.end - field.start);
}

/*
 * Return true if a time has an exponent and too few digits to be whole units, as 1.28166e+17.
 * Spreadsheets and awk write all numbers of more than 6 or 15 digits like that. With 5 decimals or
 * fewer, the other digits may have been zeroes.
 */
bool lt_is_rounded(struct field field)
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
bool lt_has_fraction(struct field field)
{
	const char *c = memchr(field.start, '.', field.end - field.start);

	while (c && ++c < field.end)
		if (*c >= '1' && *c <= '9')
			return true;
	return false;
}

/* Return the reason why a number is invalid. */
const char *lt_problem_of(struct field field)
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
