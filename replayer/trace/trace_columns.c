// SPDX-License-Identifier: MIT
/*
 * Text traces of five columns, as Heimdall's: "time_ms device offset_bytes size_bytes type" a line,
 * the type 1 for a read and 0 for a write. Times are taken from the first I/O on. The device is
 * ignored: the replayer's home drive follows from the trace's place on the command line. Lines
 * without data (size 0) are counted, not done. All as `linnapp convert` has it.
 */
#include "trace.h"
#include "error.h"
#include "number.h"
#include "text_lines.h"

#include <string.h>

#define MS_NS 1000000

static bool parse(const char *p, struct trace_io *io, const char **why)
{
	uint64_t device, size;

	*why = "no time";
	if (!text_time_ns(&p, MS_NS, &io->at_ns) || !text_blanks(&p))
		return false;
	*why = "no device number";
	if (!number_take(&p, &device) || !text_blanks(&p))
		return false;
	*why = "offset or size missing or not a number";
	if (!number_take(&p, &io->offset_bytes) || !text_blanks(&p) || !number_take(&p, &size) ||
	    !text_blanks(&p))
		return false;
	*why = "size or offset too large";
	if (size > UINT32_MAX / 2 || io->offset_bytes > INT64_MAX - size)
		return false;
	io->size_bytes = size;
	*why = "the type is neither 1 nor 0";
	if (*p != '0' && *p != '1')
		return false;
	io->is_write = *p++ == '0';
	*why = "something follows the type";
	text_blanks(&p);
	return !*p || *p == '\r';
}

static const char *columns_objection(const unsigned char *head, unsigned long n)
{
	struct trace_io io;
	char line[TRACE_HEAD_BYTES + 1];
	const char *why;

	memcpy(line, head, n);
	line[n] = 0;
	if (!memchr(line, '\n', n) && n == TRACE_HEAD_BYTES)
		return "no line is so long";
	line[strcspn(line, "\n")] = 0;
	return parse(line, &io, &why) ? NULL : why;
}

static bool columns_next(void *state, struct trace_io *io)
{
	struct text_lines *l = state;
	const char *why, *p;
	size_t n;

	while ((p = text_next(l, &n))) {
		if (!*p || *p == '\r')
			continue;
		if (!parse(p, io, &why))
			die("trace %s line %llu: %s; a line reads \"time_ms device offset_bytes "
			    "size_bytes type\", the type 1 for a read and 0 for a write",
			    l->path, (unsigned long long)l->line, why);
		if (!io->size_bytes) {
			l->skipped++;
			continue;
		}
		text_time(l, io->at_ns);
		return true;
	}
	return false;
}

const struct trace_format trace_columns = {
	.name = "five columns",
	.since_first = true,
	.steps_back = true,
	.objection = columns_objection,
	.open = text_open,
	.next = columns_next,
	.skipped = text_skipped,
	.close = text_close,
};
