/* SPDX-License-Identifier: MIT */
/*
 * Text traces, one I/O a line, to columns and back.
 *
 * The interface that linnapp/trace/formats/text_trace.py loads through ctypes. Which column means what is told
 * by the caller; see text_reader.c and text_writer.c.
 */
#ifndef LINNAPP_TEXT_TRACE_H
#define LINNAPP_TEXT_TRACE_H

#include <stdint.h>

#define LT_TEXT_MAX_FIELDS 32

/* What a line holds. Columns count from 0; lists of words are separated by spaces. */
struct lt_text_format {
	int32_t delimiter;		/* 0: white space */
	int32_t time_at;
	int32_t offset_at;
	int32_t size_at;
	int32_t type_at;
	int32_t volume_at;		/* looked at only when @volume is set */
	int32_t time_decimals;		/* the time column's unit is 10^time_decimals ns */
	int32_t since_first;		/* times from the first I/O on, not as they stand */
	int32_t offset_unit_bytes;
	int32_t size_unit_bytes;
	const char *reads;		/* words of the type column */
	const char *writes;
	const char *passed_over;	/* lines of these types hold no I/O */
	const char *header;		/* start of a first line that is none, or NULL */
	const char *volume;		/* the only volume to keep, or NULL */
	int32_t has_latency;
	int32_t latency_at;		/* looked at only when there is one */
	int32_t latency_decimals;	/* its unit, as time_decimals */
};

/*
 * Where lt_text_read() puts I/Os, and lt_text_write() takes them from; rows of each. The reader
 * gives offsets and sizes in bytes, the writer takes them in the units of its format.
 */
struct lt_text_columns {
	int64_t *time;
	int64_t *offset;
	int64_t *size;
	uint8_t *is_write;
	int64_t *latency;		/* in ns; not looked at where the format has none */
};

/* A line to be written: literals, with the columns of an I/O among them. */
enum lt_text_field {
	LT_TEXT_LITERAL,
	LT_TEXT_TIME,
	LT_TEXT_OFFSET,
	LT_TEXT_SIZE,
	LT_TEXT_TYPE,
};

struct lt_text_line {
	int32_t separator;
	int32_t n_fields;
	int32_t time_decimals;		/* digits after the point of a time */
	int32_t fields[LT_TEXT_MAX_FIELDS];	/* enum lt_text_field */
	const char *literals[LT_TEXT_MAX_FIELDS];
	const char *read;
	const char *write;
};

struct lt_text_reader;

int64_t lt_text_format_bytes(void);
struct lt_text_reader *lt_text_open(int fd, const struct lt_text_format *format);
int64_t lt_text_read(struct lt_text_reader *r, int64_t rows, const struct lt_text_columns *columns);
int64_t lt_text_line_number(const struct lt_text_reader *r);
const char *lt_text_line_text(const struct lt_text_reader *r);
int64_t lt_text_empty(const struct lt_text_reader *r);
void lt_text_close(struct lt_text_reader *r);

int64_t lt_text_line_bytes(const struct lt_text_line *line);
int64_t lt_text_write(const struct lt_text_line *line, int64_t rows,
		      const struct lt_text_columns *columns, char *out);

#endif
