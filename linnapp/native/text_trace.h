/* SPDX-License-Identifier: MIT */
/*
 * Read text traces, one I/O per line, as columns, and write an iolog.
 *
 * linnapp loads this (linnapp/trace/text.py), and the replayer is linked with it, so
 * that both read the same traces:
 *
 *   text_formats.c  the table of formats
 *   text_detect.c   detects the format of a trace from its first lines
 *   text_fields.h   splits a line into columns and reads words and numbers
 *   text_reader.c   reads lines, checks them and sorts I/Os by time
 *   text_volumes.c  counts the I/Os of each volume
 *   text_writer.c   writes lines of an iolog
 */
#ifndef LINNAPP_TEXT_TRACE_H
#define LINNAPP_TEXT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LT_TEXT_MAX_FIELDS 32
#define LT_TEXT_WHY_BYTES 2048		/* room for any message */
#define LT_TEXT_HEAD_BYTES (256 << 10)	/* lt_text_detect() reads up to this many bytes */
#define LT_TEXT_WINDOW 16384		/* number of lines by which an I/O may be late */

enum lt_text_flags {
	/* The header is a part of the format; times are not relative to the first I/O; an I/O on a
	 * file may have any size; columns are separated by blanks only. */
	LT_TEXT_IOLOG = 1,
	/* The time is that of the completion, so the latency is subtracted. */
	LT_TEXT_AT_END = 2,
	/* The unit of time is too coarse to tell which I/Os were in flight together. */
	LT_TEXT_COARSE = 4,
	/* The volume is a small device number or a name. */
	LT_TEXT_DEVICE = 8,
};

/* The reason why logs of fio without offsets cannot be used, whatever their columns. */
#define LT_TEXT_NO_OFFSETS \
	"the file is a log of fio without offsets. Run fio again with log_offset=1 and without " \
	"log_avg_msec, or with write_iolog"

/* A format: how to read a line. Columns count from 0; lists of words are separated by spaces. */
struct lt_text_format {
	const char *name;
	const char *description;	/* columns in words */
	const char *reads;		/* words of the type column */
	const char *writes;
	const char *passed_over;	/* lines of these types have no I/O; may be NULL */
	const char *skipped;		/* also without an I/O, but counted; may be NULL */
	const char *header;		/* the start of a first line without an I/O, or NULL */
	const char *refusal;		/* reason why such a trace cannot be used, or NULL */
	int32_t n_columns;
	int32_t max_columns;		/* further ones are ignored */
	int32_t time_at;
	int32_t offset_at;
	int32_t size_at;
	int32_t type_at;
	int32_t volume_at;		/* first column of the name */
	int32_t volume_columns;		/* number of columns of the name; 0 if there is none */
	int32_t latency_at;		/* 0 if there is none */
	int32_t same_as_size_at;	/* a column that repeats the size; 0 if there is none */
	int32_t time_digits;		/* the unit is 10^time_digits ns */
	int32_t latency_digits;
	int32_t offset_unit_bytes;
	int32_t size_unit_bytes;
	int32_t flags;
};

/* How the format is known. */
enum lt_text_known_by {
	LT_TEXT_NAMED,		/* named by the user: the first line may be a header */
	LT_TEXT_DETECTED,	/* from the first lines: values that no drive has are refused */
	LT_TEXT_PROBED,		/* only tried */
};

struct lt_text_options {
	const char *volume;	/* the only volume to keep, or NULL */
	int64_t window;		/* as LT_TEXT_WINDOW, which 0 stands for */
	int32_t time_digits;	/* replaces the format's; -1 for none */
	int32_t ties_by_place;	/* sort I/Os of one instant by size and offset, not by line */
	int32_t known_by;	/* enum lt_text_known_by */
};

/* I/Os that lt_text_read() returns or lt_iolog_write() writes. Offsets and sizes are in bytes. */
struct lt_text_columns {
	int64_t *time;
	int64_t *offset;
	int64_t *size;
	uint8_t *is_write;
	int64_t *latency;		/* in ns; may be NULL */
	int64_t *line;			/* line number; may be NULL */
};

struct lt_text_counts {
	int64_t lines;		/* lines read so far */
	int64_t empty;		/* I/Os of length 0, which are left out */
	int64_t skipped;	/* lines of other types, which are left out */
	int64_t out_of_order;	/* I/Os earlier than one on a previous line */
	int64_t most_late_ns;	/* maximum time by which one was late */
	int64_t most_late_line;
	int64_t n_volumes;	/* number of volumes with an I/O */
	int64_t cut_off;	/* 1 if the last line has no end */
	int64_t repeated_line;	/* the first line that repeats the first I/O too late, or 0 */
	int64_t fractions;	/* times with a fractional part */
	int64_t first_units;	/* whole units of the time on the first line with an I/O */
	int64_t start_ns;	/* the time of the earliest I/O, without these units */
};

struct lt_text_reader;

const struct lt_text_format *lt_text_formats(int32_t *n);
const struct lt_text_format *lt_text_find(const char *name, int32_t *time_digits);
const char *lt_text_unit(int32_t digits);
bool lt_text_is_header(const struct lt_text_format *format, const char *start, const char *end);
const struct lt_text_format *lt_text_detect(const char *head, int64_t n, char *why);

struct lt_text_reader *lt_text_open(int fd, const struct lt_text_format *format,
				    const struct lt_text_options *options);
struct lt_text_reader *lt_text_open_memory(const char *text, size_t n,
					   const struct lt_text_format *format,
					   const struct lt_text_options *options);
int64_t lt_text_read(struct lt_text_reader *r, int64_t rows, const struct lt_text_columns *columns);
const char *lt_text_error(const struct lt_text_reader *r);
int64_t lt_text_line_number(const struct lt_text_reader *r);
const struct lt_text_counts *lt_text_counts(struct lt_text_reader *r);
const char *lt_text_volume(const struct lt_text_reader *r, int64_t i, int64_t *ios);
void lt_text_close(struct lt_text_reader *r);

int64_t lt_iolog_line_bytes(const char *device);
int64_t lt_iolog_write(const char *device, int64_t rows, const struct lt_text_columns *columns,
		       char *out);

#endif
