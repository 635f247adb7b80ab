// SPDX-License-Identifier: MIT
/*
 * Text traces with one I/O per line. The parser is the same as in linnapp
 * (linnapp/native/text_reader.c), so that both accept the same lines and get the same I/Os from
 * them. The replayer ignores the names of files and devices: an I/O's default replica follows from
 * the position of the trace on the command line.
 */
#include "error.h"
#include "text_trace.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_IOS 1024
#define VOLUMES_SHOWN 6

struct text {
	struct lt_text_reader *reader;
	const char *path, *volume;
	int fd;
	int64_t n, at;
	int64_t time[CHUNK_IOS], offset[CHUNK_IOS], size[CHUNK_IOS], line[CHUNK_IOS];
	uint8_t is_write[CHUNK_IOS];
};

/* Return the format given by the user, or detected from the first bytes of the file. */
static const struct lt_text_format *find_format(int fd, const char *path, const char *name,
						struct lt_text_options *options)
{
	const struct lt_text_format *format;
	char why[LT_TEXT_WHY_BYTES], *head;
	ssize_t n;

	if (name) {
		format = lt_text_find(name, &options->time_digits);
		if (!format)
			die("--from %s: there is no such text format; `linnapp help formats` lists "
			    "them, and a unit of time may follow, as in heimdall:us",
			    name);
		return format;
	}
	head = xcalloc(1, LT_TEXT_HEAD_BYTES);
	n = pread(fd, head, LT_TEXT_HEAD_BYTES, 0);
	format = lt_text_detect(head, n > 0 ? n : 0, why);
	free(head);
	if (!format)
		die("trace %s: %s", path, why);
	options->known_by = LT_TEXT_DETECTED;
	return format;
}

static void *text_open(int fd, const char *path, const struct trace_choice *choice)
{
	struct lt_text_options options = {.volume = choice->volume, .time_digits = -1};
	const struct lt_text_format *format = find_format(fd, path, choice->format, &options);
	struct text *t = xcalloc(1, sizeof(*t));

	if (choice->volume && !format->volume_columns)
		die("--volume %s: %s traces have no volumes, and %s is one", choice->volume,
		    format->name, path);
	t->path = path;
	t->volume = choice->volume;
	t->fd = fd;
	t->reader = lt_text_open(fd, format, &options);
	if (!t->reader)
		die("out of memory for trace %s", path);
	return t;
}

static bool text_next(void *state, struct trace_io *io)
{
	struct text *t = state;

	if (t->at == t->n) {
		struct lt_text_columns columns = {t->time,     t->offset, t->size,
						  t->is_write, NULL,	  t->line};

		t->n = lt_text_read(t->reader, CHUNK_IOS, &columns);
		t->at = 0;
		if (t->n < 0)
			die("trace %s line %lld: %s", t->path,
			    (long long)lt_text_line_number(t->reader), lt_text_error(t->reader));
		if (!t->n)
			return false;
	}
	if (t->size[t->at] > UINT32_MAX / 2)
		die("trace %s line %lld: an I/O of %lld bytes is more than the replayer takes",
		    t->path, (long long)t->line[t->at], (long long)t->size[t->at]);
	io->at_ns = t->time[t->at];
	io->offset_bytes = t->offset[t->at];
	io->size_bytes = t->size[t->at];
	io->is_write = t->is_write[t->at];
	t->at++;
	return true;
}

static uint64_t text_skipped(void *state)
{
	const struct lt_text_counts *counts = lt_text_counts(((struct text *)state)->reader);

	return counts->skipped + counts->empty;
}

static void text_warn(void *state)
{
	struct text *t = state;
	const struct lt_text_counts *counts = lt_text_counts(t->reader);
	char *names = xstrdup("");
	int64_t ios;

	if (counts->n_volumes > 1 && !t->volume) {
		for (int64_t i = 0; i < counts->n_volumes && i < VOLUMES_SHOWN; i++) {
			const char *name = lt_text_volume(t->reader, i, &ios);
			char *more = xasprintf("%s%s%s (%lld I/Os)", names, i ? ", " : "", name,
					       (long long)ios);

			free(names);
			names = more;
		}
		warn_user("trace %s: has %lld volumes, which share one address space here: %s%s; "
			  "--volume NAME selects one",
			  t->path, (long long)counts->n_volumes, names,
			  counts->n_volumes > VOLUMES_SHOWN ? ", ..." : "");
	}
	if (counts->out_of_order)
		warn_user("trace %s: %lld I/Os were not in the order of time, by up to %.6f s "
			  "(line %lld); they are sorted",
			  t->path, (long long)counts->out_of_order,
			  (double)counts->most_late_ns / 1e9, (long long)counts->most_late_line);
	if (counts->cut_off)
		warn_user("trace %s: the last line does not end with a newline; the file may be "
			  "truncated",
			  t->path);
	free(names);
}

static void text_close(void *state)
{
	struct text *t = state;

	lt_text_close(t->reader);
	close(t->fd);
	free(t);
}

const struct trace_format trace_text = {
	.open = text_open,
	.next = text_next,
	.skipped = text_skipped,
	.warn = text_warn,
	.close = text_close,
};
