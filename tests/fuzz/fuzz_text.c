/* SPDX-License-Identifier: MIT */
/*
 * Run the readers of text on arbitrary bytes, and the writer on the I/Os that were read: reading
 * the written lines must give the same I/Os.
 *
 * The first byte chooses the test: a format of the table, given by the user or as if detected, the
 * detection of the format, or text of block layer events.
 */
#include "fuzz.h"
#include "../../linnapp/native/packed.h"
#include "../../linnapp/native/text_events.h"
#include "../../linnapp/native/text_trace.h"

#include <string.h>

enum { VOLUME = 0x80, DETECTED = 0x40, FORMATS = 0x3f, FIND = 0x3f, EVENTS = 0x3e };

#define WINDOW 8

static const char device[] = "/dev/flash0";

struct ios {
	int64_t time[FUZZ_ROWS], offset[FUZZ_ROWS], size[FUZZ_ROWS];
	uint8_t is_write[FUZZ_ROWS];
	int64_t latency[FUZZ_ROWS];
};

static struct lt_text_columns columns_of(struct ios *ios)
{
	return (struct lt_text_columns){ ios->time, ios->offset, ios->size, ios->is_write,
					 ios->latency, NULL };
}

static void write_and_read(struct ios *ios, int64_t n)
{
	static const char header[] = "fio version 3 iolog\n";
	const struct lt_text_options options = { .time_digits = -1 };
	struct lt_text_columns columns = columns_of(ios), columns_again;
	char *text = malloc(sizeof(header) + n * lt_iolog_line_bytes(device));
	struct lt_text_reader *reader;
	int32_t digits;
	struct fuzz_file file;
	struct ios again;

	for (int64_t i = 0; i < n; i++)
		ios->time[i] = ios->time[i] / 1000;
	memcpy(text, header, sizeof(header));
	fuzz_file(&file, (uint8_t *)text, sizeof(header) - 1 +
		  lt_iolog_write(device, n, &columns, text + sizeof(header) - 1));
	columns_again = columns_of(&again);
	reader = lt_text_open(file.fd, lt_text_find("iolog", &digits), &options);
	if (!reader || lt_text_read(reader, FUZZ_ROWS, &columns_again) != n)
		abort();
	for (int64_t i = 0; i < n; i++)
		if (again.time[i] / 1000 != ios->time[i] || again.offset[i] != ios->offset[i] ||
		    again.size[i] != ios->size[i] || again.is_write[i] != ios->is_write[i])
			abort();
	lt_text_close(reader);
	close(file.fd);
	free(text);
}

static void read_events(const uint8_t *data, size_t size)
{
	struct fuzz_file text, events;
	char why[LT_PACKED_WHY] = "";

	fuzz_file(&text, data, size);
	fuzz_file(&events, NULL, 0);
	if (lt_events_translate(text.fd, events.fd, text.path, why) != !*why)
		abort();
	if (!*why && lseek(events.fd, 0, SEEK_END)) {
		const char *path = events.path;
		struct lt_options options = { .max_age_ns = 60000000000 };
		struct lt_parser *parser = lt_open(&path, 1, &options);

		if (!parser)
			abort();
		fuzz_read_all(parser);
		lt_close(parser);
	}
	lt_events_are_text((const char *)data, size);
	close(text.fd);
	close(events.fd);
}

static void read_text(const uint8_t *data, size_t size, const struct lt_text_format *format,
		      const struct lt_text_options *options)
{
	const struct lt_text_counts *counts;
	struct lt_text_columns columns;
	struct lt_text_reader *reader;
	struct fuzz_file file;
	int64_t n, last = INT64_MIN, in_volumes = 0, ios_of;
	struct ios ios;

	fuzz_file(&file, data, size);
	reader = lt_text_open(file.fd, format, options);
	if (!reader)
		abort();
	columns = columns_of(&ios);
	while ((n = lt_text_read(reader, FUZZ_ROWS, &columns)) > 0) {
		for (int64_t i = 0; i < n; i++) {
			if (ios.offset[i] < 0 || ios.size[i] <= 0 ||
			    ios.offset[i] + ios.size[i] < 0 || ios.latency[i] < 0 ||
			    ios.time[i] < 0 || ios.time[i] < last)
				abort();
			last = ios.time[i];
		}
		write_and_read(&ios, n);
	}
	if (n < 0 && (n != -1 || !*lt_text_error(reader) ||
		      strlen(lt_text_error(reader)) >= LT_TEXT_WHY_BYTES))
		abort();
	counts = lt_text_counts(reader);
	for (int64_t i = 0; i < counts->n_volumes; i++) {
		if (strlen(lt_text_volume(reader, i, &ios_of)) > size)
			abort();
		in_volumes += ios_of;
	}
	if (in_volumes > counts->lines)
		abort();
	lt_text_close(reader);
	close(file.fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lt_text_options options = { .window = WINDOW, .time_digits = -1 };
	const struct lt_text_format *format;
	char why[LT_TEXT_WHY_BYTES];
	int32_t n_formats;
	uint8_t chosen;

	if (!size)
		return 0;
	chosen = *data++;
	size--;
	if ((chosen & FORMATS) == EVENTS) {
		read_events(data, size);
		return 0;
	}
	if (chosen & VOLUME)
		options.volume = "0";
	format = lt_text_formats(&n_formats) + (chosen & FORMATS) % n_formats;
	options.known_by = chosen & DETECTED ? LT_TEXT_DETECTED : LT_TEXT_NAMED;
	if ((chosen & FORMATS) == FIND) {
		format = lt_text_detect((const char *)data, size, why);
		if (!format != !!*why)
			abort();
		options.known_by = LT_TEXT_DETECTED;
	}
	if (format)
		read_text(data, size, format, &options);
	return 0;
}
