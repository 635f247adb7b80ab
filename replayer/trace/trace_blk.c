// SPDX-License-Identifier: MIT
/*
 * blktrace's binary format: a file merged by `blkparse -d`, or the per-CPU files, given by any one
 * of them or by their base name. Events are matched by the same code as in linnapp
 * (linnapp/native/blktrace_parser.c), so that both agree on the I/Os. Only arrival time, offset and
 * direction are used here. Revoked reads are left out: they reached no drive, and the trace of the
 * drive that their user sent the read to contains it.
 */
#include "blktrace_parser.h"
#include "error.h"
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_IOS 4096
/* Traces are read several times, but losses in each are reported once. */
#define REPORTED_MAX 64
/* Longer than the block layer lets a request live. */
#define MAX_AGE_NS 60000000000ull
/* The largest sector whose byte offset, plus the I/O's length, can be represented. */
#define SECTOR_MAX ((INT64_MAX - (uint64_t)UINT32_MAX) / 512)

struct blk {
	struct lt_parser *parser;
	const char *path;
	int missing_files;
	struct lt_row *rows;
	int64_t n, at;
	uint64_t skipped;
};

static void *blk_open(int fd, const char *path, const struct trace_choice *choice)
{
	struct blk *b = xcalloc(1, sizeof(*b));
	struct lt_files files;

	close(fd);
	b->path = path;
	lt_find_files(path, &files);
	b->missing_files = files.missing;
	b->rows = xcalloc(CHUNK_IOS, sizeof(*b->rows));
	b->parser = lt_open((const char *const *)files.names, files.n,
			    &(struct lt_options){.max_age_ns = MAX_AGE_NS});
	if (!b->parser)
		die("out of memory for trace %s", path);
	lt_free_files(&files);
	return b;
}

/* Report once what is missing in a trace that has been read to its end. */
static void report_losses(const struct blk *b)
{
	static char *reported[REPORTED_MAX];
	static unsigned int n;
	struct lt_stats stats;

	lt_stats(b->parser, &stats);
	if (!stats.lost_events && !stats.doubtful_reads && !b->missing_files)
		return;
	for (unsigned int i = 0; i < n; i++)
		if (!strcmp(reported[i], b->path))
			return;
	if (n < REPORTED_MAX)
		reported[n++] = xstrdup(b->path);
	if (b->missing_files)
		fprintf(stderr,
			"replayer: warning: trace %s: the files of %d CPUs are missing, and with "
			"them their I/Os\n",
			b->path, b->missing_files);
	fprintf(stderr,
		"replayer: warning: trace %s: %llu events were lost; an I/O without a submission "
		"event is replayed at the time of its issue event, or not at all if that is "
		"missing, too\n",
		b->path, (unsigned long long)stats.lost_events);
}

static bool blk_next(void *state, struct trace_io *io)
{
	struct blk *b = state;
	const struct lt_row *row;

	for (;; b->at++) {
		if (b->at == b->n) {
			b->n = lt_read(b->parser, CHUNK_IOS, b->rows);
			b->at = 0;
			if (b->n < 0 || *lt_error(b->parser))
				die("trace %s", lt_error(b->parser));
			if (!b->n) {
				report_losses(b);
				return false;
			}
		}
		row = &b->rows[b->at];
		if (!(row->flags & LT_REVOKED))
			break;
		b->skipped++;
	}
	if (row->sector > SECTOR_MAX)
		die("trace %s: the sector of an I/O is %llu, which is larger than any drive; the "
		    "file is damaged",
		    b->path, (unsigned long long)row->sector);
	io->at_ns = row->arrival_ns;
	io->offset_bytes = row->sector * 512;
	io->size_bytes = row->size_bytes;
	io->is_write = row->flags & LT_WRITE;
	b->at++;
	return true;
}

static uint64_t blk_skipped(void *state)
{
	return ((struct blk *)state)->skipped;
}

static void blk_close(void *state)
{
	struct blk *b = state;

	lt_close(b->parser);
	free(b->rows);
	free(b);
}

const struct trace_format trace_blk = {
	.clock_times = true,
	.open = blk_open,
	.next = blk_next,
	.skipped = blk_skipped,
	.close = blk_close,
};
