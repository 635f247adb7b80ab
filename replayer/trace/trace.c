// SPDX-License-Identifier: MIT
/*
 * Read a trace with the parsers of linnapp, so that both programs agree on the I/Os:
 *
 *   recordings  blktrace's binary format: a file merged by `blkparse -d`, or the per-CPU files,
 *               given by any one of them or by their base name. Only arrival time, offset, size and
 *               direction are used. Revoked reads are left out: they reached no drive, and the
 *               trace of the drive to which the read was then sent contains it.
 *   texts       one I/O per line. The names of files and devices are ignored: an I/O's default
 *               replica follows from the position of the trace on the command line.
 */
#include "trace.h"
#include "blktrace_parser.h"
#include "error.h"
#include "packed.h"
#include "text_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number of I/Os that are read at a time from a recording, and from a text. */
#define CHUNK_IOS 4096
#define TEXT_IOS 1024
/* Twice the block layer's usual timeout of a request. */
#define MAX_AGE_NS 60000000000ull
/* The largest sector whose byte offset, plus the I/O's length, can be represented. */
#define SECTOR_MAX ((INT64_MAX - (uint64_t)UINT32_MAX) / 512)
#define VOLUMES_SHOWN 6

struct trace {
	char *path;
	const char *volume;
	struct lt_parser *recording; /* NULL for a text */
	struct lt_text_reader *text; /* NULL for a recording */
	int fd;			     /* of a text */
	int missing_files;
	uint64_t n_revoked, zero_ns;
	struct trace_io ios[CHUNK_IOS];
	unsigned int n, at; /* I/Os in @ios, and the next of them */
};

/* ---- recordings ---- */

static void open_recording(struct trace *t)
{
	struct lt_files files;

	if (t->volume)
		die("--volume %s: blktrace traces have no volumes, and %s is one", t->volume,
		    t->path);
	lt_find_files(t->path, &files);
	t->missing_files = files.missing;
	t->recording = lt_open((const char *const *)files.names, files.n,
			       &(struct lt_options){.max_age_ns = MAX_AGE_NS});
	if (!t->recording)
		die("out of memory for trace %s", t->path);
	lt_free_files(&files);
}

static void read_recording(struct trace *t)
{
	struct lt_row rows[CHUNK_IOS];
	int64_t n_rows;

	/* All of a chunk may have been revoked. */
	do {
		n_rows = lt_read(t->recording, CHUNK_IOS, rows);
		if (n_rows < 0 || *lt_error(t->recording))
			die("trace %s", lt_error(t->recording));
		for (const struct lt_row *row = rows; row < rows + n_rows; row++) {
			if (row->flags & LT_REVOKED) {
				t->n_revoked++;
				continue;
			}
			if (row->sector > SECTOR_MAX)
				die("trace %s: the sector of an I/O is %llu, which is larger than "
				    "any drive; the file is damaged",
				    t->path, (unsigned long long)row->sector);
			t->ios[t->n++] = (struct trace_io){row->arrival_ns, row->sector * 512,
							   row->size_bytes, row->flags & LT_WRITE};
		}
	} while (!t->n && n_rows);
}

static void warn_about_recording(const struct trace *t)
{
	char lost[24] = "some";
	struct lt_stats stats;

	lt_stats(t->recording, &stats);
	if (t->missing_files)
		warn_user("trace %s: the files of %d CPUs are missing, and with them their I/Os",
			  t->path, t->missing_files);
	/* Events that do not fit together are signs of losses that their numbers do not show. */
	if (stats.lost_events)
		snprintf(lost, sizeof(lost), "%llu", (unsigned long long)stats.lost_events);
	if (stats.lost_events || stats.doubtful_reads || t->missing_files)
		warn_user("trace %s: %s events were lost; an I/O without a submission event is "
			  "replayed at the time of its issue event, or not at all if that is "
			  "missing, too",
			  t->path, lost);
}

/* ---- texts ---- */

/* Return the format given by the user, or detected from the first bytes of the file. */
static const struct lt_text_format *find_format(const struct trace *t, const char *name,
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
	n = pread(t->fd, head, LT_TEXT_HEAD_BYTES, 0);
	format = lt_text_detect(head, n > 0 ? n : 0, why);
	free(head);
	if (!format)
		die("trace %s: %s", t->path, why);
	options->known_by = LT_TEXT_DETECTED;
	return format;
}

static void open_text(struct trace *t, const char *format_name)
{
	struct lt_text_options options = {.volume = t->volume, .time_digits = -1};
	const struct lt_text_format *format = find_format(t, format_name, &options);

	if (t->volume && !format->volume_columns)
		die("--volume %s: %s traces have no volumes, and %s is one", t->volume,
		    format->name, t->path);
	t->text = lt_text_open(t->fd, format, &options);
	if (!t->text)
		die("out of memory for trace %s", t->path);
}

static void read_text(struct trace *t)
{
	int64_t time[TEXT_IOS], offset[TEXT_IOS], size[TEXT_IOS], line[TEXT_IOS], n;
	uint8_t is_write[TEXT_IOS];
	struct lt_text_columns columns = {time, offset, size, is_write, NULL, line};

	n = lt_text_read(t->text, TEXT_IOS, &columns);
	if (n < 0)
		die("trace %s line %lld: %s", t->path, (long long)lt_text_line_number(t->text),
		    lt_text_error(t->text));
	for (t->n = 0; t->n < n; t->n++) {
		if (size[t->n] > UINT32_MAX / 2)
			die("trace %s line %lld: an I/O of %lld bytes is more than the replayer "
			    "takes",
			    t->path, (long long)line[t->n], (long long)size[t->n]);
		t->ios[t->n] =
			(struct trace_io){time[t->n], offset[t->n], size[t->n], is_write[t->n]};
	}
}

static void warn_about_text(const struct trace *t)
{
	const struct lt_text_counts *counts = lt_text_counts(t->text);
	char *names = xstrdup("");
	int64_t ios;

	for (int64_t i = 0; i < counts->n_volumes && i < VOLUMES_SHOWN; i++) {
		const char *name = lt_text_volume(t->text, i, &ios);

		names = xasprintf("%s%s%s (%lld I/Os)", names, i ? ", " : "", name, (long long)ios);
	}
	if (counts->n_volumes > 1 && !t->volume)
		warn_user("trace %s: has %lld volumes, which share one address space here: %s%s; "
			  "--volume NAME selects one",
			  t->path, (long long)counts->n_volumes, names,
			  counts->n_volumes > VOLUMES_SHOWN ? ", ..." : "");
	if (counts->out_of_order)
		warn_user("trace %s: %lld I/Os were not in the order of time, by up to %.6f s "
			  "(line %lld); they are sorted",
			  t->path, (long long)counts->out_of_order,
			  (double)counts->most_late_ns / 1e9, (long long)counts->most_late_line);
	if (counts->repeated_line)
		warn_user("trace %s: line %lld repeats the first I/O; the file may contain a trace "
			  "twice",
			  t->path, (long long)counts->repeated_line);
	if (counts->cut_off)
		warn_user("trace %s: the last line does not end with a newline; the file may be "
			  "truncated",
			  t->path);
}

/* ---- both ---- */

/* Open the trace; for a recording with a file per CPU, the first one that is not empty. */
static int open_first_file(const char *path)
{
	char why[LT_PACKED_WHY];
	struct lt_files files;
	struct stat st;
	int fd = -1, i = 0;

	lt_find_files(path, &files);
	do {
		if (fd >= 0)
			close(fd);
		fd = lt_packed_open(files.n ? files.names[i] : path, why);
	} while (fd >= 0 && ++i < files.n && !fstat(fd, &st) && !st.st_size);
	lt_free_files(&files);
	if (fd < 0)
		die("trace %s", why);
	return fd;
}

/*
 * Return true if a file begins with blktrace's magic in either byte order; one of its bytes is the
 * version.
 */
static bool is_recording(const struct trace *t)
{
	unsigned char head[4];
	ssize_t n = pread(t->fd, head, sizeof(head), 0);

	if (n < 0)
		die("trace %s: %s (a trace must be a file; pipes cannot be read twice)", t->path,
		    strerror(errno));
	return n >= 4 && (!memcmp(head + 1, "tae", 3) || !memcmp(head, "eat", 3));
}

static void read_chunk(struct trace *t)
{
	t->n = t->at = 0;
	if (t->recording)
		read_recording(t);
	else
		read_text(t);
}

struct trace *trace_open(const char *path, const char *format, const char *volume)
{
	struct trace *t = xcalloc(1, sizeof(*t));

	t->fd = open_first_file(path);
	t->path = xstrdup(path);
	t->volume = volume;
	if (is_recording(t)) {
		close(t->fd); /* the parser opens the files itself */
		open_recording(t);
	} else {
		open_text(t, format);
	}
	read_chunk(t);
	return t;
}

bool trace_next(struct trace *t, struct trace_io *io)
{
	if (t->at == t->n)
		read_chunk(t);
	if (t->at == t->n)
		return false;
	*io = t->ios[t->at++];
	io->at_ns -= io->at_ns < t->zero_ns ? io->at_ns : t->zero_ns;
	return true;
}

bool trace_clock_start(const struct trace *t, uint64_t *at_ns)
{
	*at_ns = t->ios[0].at_ns;
	return t->recording && t->n;
}

void trace_set_zero(struct trace *t, uint64_t zero_ns)
{
	t->zero_ns = zero_ns;
}

uint64_t trace_skipped(const struct trace *t)
{
	if (t->recording)
		return t->n_revoked;
	return lt_text_counts(t->text)->skipped + lt_text_counts(t->text)->empty;
}

void trace_warn(const struct trace *t)
{
	if (t->recording)
		warn_about_recording(t);
	else
		warn_about_text(t);
}

const char *trace_path(const struct trace *t)
{
	return t->path;
}

void trace_close(struct trace *t)
{
	if (!t)
		return;
	if (t->recording) {
		lt_close(t->recording);
	} else {
		lt_text_close(t->text);
		close(t->fd);
	}
	free(t->path);
	free(t);
}

bool trace_is_file(const char *path, const struct stat *file)
{
	struct stat st;

	return path && !stat(path, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

bool trace_has_file(const char *path, const struct stat *file)
{
	struct lt_files files;
	bool has = trace_is_file(path, file);

	lt_find_files(path, &files);
	for (int i = 0; i < files.n; i++)
		has |= trace_is_file(files.names[i], file);
	lt_free_files(&files);
	return has;
}
