/* SPDX-License-Identifier: MIT */
/*
 * The reader of text traces on any bytes, and the writer on what it read: the lines, read again,
 * must be the same I/Os.
 *
 * The first byte chooses one of the formats that linnapp/trace/formats/conversion.py and iolog.py describe.
 */
#include "fuzz.h"
#include "../../linnapp/native/text_trace.h"

#include <string.h>

enum { VOLUME = 0x80 };

static const struct lt_text_format formats[] = {
	{ 0, 0, 3, 4, 2, 0, 3, 0, 1, 1, "read", "write",
	  "add open close wait trim sync datasync", "fio version 3 iolog", NULL },
	{ 0, 0, 2, 3, 4, 1, 6, 1, 1, 1, "1", "0", "", NULL, NULL },
	{ ',', 0, 4, 5, 3, 2, 2, 1, 1, 1, "Read", "Write", "", NULL, NULL },
	{ ',', 4, 2, 3, 1, 0, 3, 1, 1, 1, "R", "W", "", "device_id,", NULL },
	{ ',', 0, 1, 2, 3, 4, 9, 1, 512, 512, "0", "1", "", "Timestamp,Offset", NULL },
	{ ',', 0, 4, 5, 2, 3, 9, 1, 1, 1, "R", "W", "", "Timestamp,Response", NULL },
	{ ',', 5, 4, 3, 2, 0, 6, 1, 1, 1, "1", "0", "", NULL, NULL, 1, 1, 3 },
};

static const struct lt_text_line line = {
	.separator = ' ',
	.n_fields = 5,
	.time_decimals = 0,
	.fields = { LT_TEXT_TIME, LT_TEXT_LITERAL, LT_TEXT_TYPE, LT_TEXT_OFFSET, LT_TEXT_SIZE },
	.literals = { "", "/dev/flash0", "", "", "" },
	.read = "read",
	.write = "write",
};

struct ios {
	int64_t time[FUZZ_ROWS], offset[FUZZ_ROWS], size[FUZZ_ROWS];
	uint8_t is_write[FUZZ_ROWS];
	int64_t latency[FUZZ_ROWS];
};

static struct lt_text_columns columns_of(struct ios *ios)
{
	return (struct lt_text_columns){ ios->time, ios->offset, ios->size, ios->is_write,
					 ios->latency };
}

/* Times of a format that counts from its first I/O may be negative; an iolog's are not. */
static void write_and_read(struct ios *ios, int64_t n)
{
	struct lt_text_columns columns = columns_of(ios), columns_again;
	char *text = malloc(n * lt_text_line_bytes(&line));
	struct lt_text_format format = formats[0];
	struct lt_text_reader *reader;
	struct fuzz_file file;
	struct ios again;

	for (int64_t i = 0; i < n; i++)
		ios->time[i] = llabs(ios->time[i] / 1000);
	fuzz_file(&file, (uint8_t *)text, lt_text_write(&line, n, &columns, text));
	columns_again = columns_of(&again);
	format.header = NULL;
	reader = lt_text_open(file.fd, &format);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lt_text_format format;
	struct lt_text_columns columns;
	struct lt_text_reader *reader;
	struct fuzz_file file;
	struct ios ios;
	int64_t n;

	if (!size)
		return 0;
	format = formats[(data[0] & ~VOLUME) % (sizeof(formats) / sizeof(*formats))];
	if (data[0] & VOLUME)
		format.volume = "0";
	fuzz_file(&file, data + 1, size - 1);
	reader = lt_text_open(file.fd, &format);
	if (!reader)
		abort();
	columns = columns_of(&ios);
	while ((n = lt_text_read(reader, FUZZ_ROWS, &columns)) > 0) {
		for (int64_t i = 0; i < n; i++)
			if (ios.offset[i] < 0 || ios.size[i] <= 0 || ios.offset[i] + ios.size[i] < 0 ||
			    (format.has_latency && ios.latency[i] < 0))
				abort();
		write_and_read(&ios, n);
	}
	if (n < 0 && (n != -1 || strlen(lt_text_line_text(reader)) > 200))
		abort();
	lt_text_close(reader);
	close(file.fd);
	return 0;
}
