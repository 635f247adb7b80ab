/* SPDX-License-Identifier: MIT */
/*
 * Write I/Os as lines of text.
 *
 * A decimal point is inserted between the digits of a whole number, so that no time is rounded.
 */
#include <stdbool.h>
#include <string.h>

#include "text_trace.h"

#define NUMBER_BYTES 24	/* a 64-bit number with sign, point and a leading zero */

static char *put_text(char *out, const char *text)
{
	size_t length = strlen(text);

	memcpy(out, text, length);
	return out + length;
}

/* Write a number with a point before its last @decimals digits. */
static char *put_number(char *out, int64_t value, int decimals)
{
	char digits[NUMBER_BYTES];
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	int n = 0;

	if (value < 0)
		*out++ = '-';
	do {
		digits[n++] = '0' + rest % 10;
		rest /= 10;
	} while (rest || n <= decimals);
	while (n) {
		if (n == decimals)
			*out++ = '.';
		*out++ = digits[--n];
	}
	return out;
}

/** lt_text_line_bytes() - get the maximum length of a line */
int64_t lt_text_line_bytes(const struct lt_text_line *line)
{
	int64_t bytes = 1;

	for (int i = 0; i < line->n_fields; i++) {
		size_t read = strlen(line->read), write = strlen(line->write);

		bytes += 1;
		if (line->fields[i] == LT_TEXT_LITERAL)
			bytes += strlen(line->literals[i]);
		else if (line->fields[i] == LT_TEXT_TYPE)
			bytes += read > write ? read : write;
		else
			bytes += NUMBER_BYTES;
	}
	return bytes;
}

/**
 * lt_text_write() - write I/Os as lines
 * @line: the format of a line
 * @rows: number of I/Os
 * @columns: the I/Os; the last digits of the times are the requested decimals
 * @out: room for @rows times lt_text_line_bytes()
 *
 * Return: number of bytes written to @out.
 */
int64_t lt_text_write(const struct lt_text_line *line, int64_t rows,
		      const struct lt_text_columns *columns, char *out)
{
	char *at = out;

	for (int64_t row = 0; row < rows; row++) {
		for (int i = 0; i < line->n_fields; i++) {
			if (i)
				*at++ = line->separator;
			switch (line->fields[i]) {
			case LT_TEXT_LITERAL:
				at = put_text(at, line->literals[i]);
				break;
			case LT_TEXT_TIME:
				at = put_number(at, columns->time[row], line->time_decimals);
				break;
			case LT_TEXT_OFFSET:
				at = put_number(at, columns->offset[row], 0);
				break;
			case LT_TEXT_SIZE:
				at = put_number(at, columns->size[row], 0);
				break;
			case LT_TEXT_TYPE:
				at = put_text(at, columns->is_write[row] ? line->write :
									   line->read);
				break;
			}
		}
		*at++ = '\n';
	}
	return at - out;
}
