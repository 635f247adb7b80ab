/* SPDX-License-Identifier: MIT */
/* Write I/Os as lines of an iolog. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text_trace.h"

#define NUMBERS_BYTES 72	/* three 64-bit numbers, blanks, the longer action, the line's end */

/** lt_iolog_line_bytes() - get the maximum length of a line, and the NUL behind it */
int64_t lt_iolog_line_bytes(const char *device)
{
	return (int64_t)strlen(device) + NUMBERS_BYTES;
}

/**
 * lt_iolog_write() - write I/Os as lines of an iolog
 * @device: the drive's name
 * @rows: number of I/Os
 * @columns: the I/Os; times are in us
 * @out: room for @rows times lt_iolog_line_bytes()
 *
 * Return: number of bytes written to @out.
 */
int64_t lt_iolog_write(const char *device, int64_t rows, const struct lt_text_columns *columns,
		       char *out)
{
	char *at = out;

	for (int64_t row = 0; row < rows; row++)
		at += sprintf(at, "%" PRId64 " %s %s %" PRId64 " %" PRId64 "\n", columns->time[row],
			      device, columns->is_write[row] ? "write" : "read",
			      columns->offset[row], columns->size[row]);
	return at - out;
}
