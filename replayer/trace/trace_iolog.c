// SPDX-License-Identifier: MIT
/*
 * fio's iolog, version 3: "timestamp filename action [offset length]" a line, timestamps in
 * microseconds from the job's start (measured with fio 3.33; a fraction is accepted too). File
 * names are ignored: the replayer's home drive follows from the trace's place on the command line.
 * Actions other than read and write are counted, not done, and so are I/Os of no length.
 */
#include "trace.h"
#include "error.h"
#include "number.h"
#include "text_lines.h"

#include <string.h>

#define HEADER "fio version 3 iolog"

static const char *iolog_objection(const unsigned char *head, unsigned long n)
{
	if (n >= strlen(HEADER) && !memcmp(head, HEADER, strlen(HEADER)))
		return NULL;
	return "not \"" HEADER "\"";
}

static void *iolog_open(int fd, const char *path)
{
	struct text_lines *l = text_open(fd, path);
	size_t n;

	text_next(l, &n);
	return l;
}

static void bad_line(struct text_lines *l, const char *why)
{
	die("trace %s line %llu: %s; a version 3 line reads \"timestamp_us filename action offset "
	    "length\"",
	    l->path, (unsigned long long)l->line, why);
}

static bool iolog_next(void *state, struct trace_io *io)
{
	struct text_lines *l = state;
	uint64_t offset, size;
	size_t n, word;
	const char *p, *action;

	for (;;) {
		p = text_next(l, &n);
		if (!p)
			return false;
		if (!*p || *p == '\r')
			continue;
		if (!text_time_ns(&p, 1000, &io->at_ns) || !text_blanks(&p))
			bad_line(l, "no timestamp");
		p += strcspn(p, " \t");
		if (!text_blanks(&p))
			bad_line(l, "no action");
		action = p;
		word = strcspn(p, " \t\r");
		p += word;
		if (word == 4 && !memcmp(action, "read", 4)) {
			io->is_write = false;
		} else if (word == 5 && !memcmp(action, "write", 5)) {
			io->is_write = true;
		} else {
			static const char *const known[] = {"add",  "open",	"close", "trim",
							    "sync", "datasync", "wait"};
			unsigned int i;

			for (i = 0; i < sizeof(known) / sizeof(*known); i++)
				if (strlen(known[i]) == word && !memcmp(known[i], action, word))
					break;
			if (i == sizeof(known) / sizeof(*known))
				bad_line(l, "unknown action");
			/* add, open and close are the format's bookkeeping, not I/Os. */
			if (i > 2)
				l->skipped++;
			continue;
		}
		if (!text_blanks(&p) || !number_take(&p, &offset) || !text_blanks(&p) ||
		    !number_take(&p, &size))
			bad_line(l, "offset or length missing or not a number");
		if (*p && *p != '\r' && *p != ' ')
			bad_line(l, "something follows the length");
		if (size > UINT32_MAX / 2 || offset > INT64_MAX - size)
			bad_line(l, "length or offset too large");
		if (!size) {
			l->skipped++;
			continue;
		}
		io->offset_bytes = offset;
		io->size_bytes = size;
		text_time(l, io->at_ns);
		return true;
	}
}

const struct trace_format trace_iolog = {
	.name = "fio iolog 3",
	/* fio's own logs are written at completion. */
	.steps_back = true,
	.objection = iolog_objection,
	.open = iolog_open,
	.next = iolog_next,
	.skipped = text_skipped,
	.close = text_close,
};
