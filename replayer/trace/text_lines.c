// SPDX-License-Identifier: MIT
/* The lines of a text trace: see text_lines.h. */
#include "text_lines.h"
#include "error.h"
#include "number.h"
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

void *text_open(int fd, const char *path)
{
	struct text_lines *l = xcalloc(1, sizeof(*l));

	*l = (struct text_lines){.fd = fd, .path = path, .buffer = xmalloc(CHUNK + 1)};
	return l;
}

uint64_t text_skipped(void *lines)
{
	return ((struct text_lines *)lines)->skipped;
}

void text_close(void *lines)
{
	struct text_lines *l = lines;

	close(l->fd);
	free(l->buffer);
	free(l);
}

char *text_next(struct text_lines *l, size_t *length)
{
	for (;;) {
		char *from = l->buffer + l->start;
		char *newline = memchr(from, '\n', l->end - l->start);
		ssize_t n;

		if (newline) {
			l->start = newline + 1 - l->buffer;
			l->line++;
			*length = newline - from;
			*newline = 0;
			return from;
		}
		if (l->eof) {
			if (l->start == l->end)
				return NULL;
			/* There is always room for this byte: the buffer is one larger than CHUNK.
			 */
			*length = l->end - l->start;
			l->start = l->end;
			l->line++;
			from[*length] = 0;
			return from;
		}
		memmove(l->buffer, from, l->end - l->start);
		l->end -= l->start;
		l->start = 0;
		if (l->end == CHUNK)
			die("trace %s line %llu: longer than %d bytes; not a text trace", l->path,
			    (unsigned long long)l->line + 1, CHUNK);
		n = read(l->fd, l->buffer + l->end, CHUNK - l->end);
		if (n < 0)
			die("trace %s: %s", l->path, strerror(errno));
		if (!n)
			l->eof = true;
		l->end += n;
	}
}

void text_time(struct text_lines *l, uint64_t at_ns)
{
	if (at_ns + TRACE_STEP_BACK_NS < l->latest_ns)
		die("trace %s line %llu: at %.6f s, %.6f s before line %llu; one of the two time "
		    "stamps is wrong. Correct it, or sort the lines by time",
		    l->path, (unsigned long long)l->line, (double)at_ns / 1e9,
		    (double)(l->latest_ns - at_ns) / 1e9, (unsigned long long)l->latest_line);
	if (at_ns >= l->latest_ns) {
		l->latest_ns = at_ns;
		l->latest_line = l->line;
	}
}

bool text_time_ns(const char **p, uint64_t unit_ns, uint64_t *ns)
{
	uint64_t whole, unit = unit_ns;
	const char *s = *p;

	if (!number_take(&s, &whole) || whole > UINT64_MAX / 2 / unit_ns)
		return false;
	*ns = whole * unit_ns;
	if (*s == '.')
		for (s++; *s >= '0' && *s <= '9'; s++)
			*ns += (*s - '0') * (unit /= 10);
	*p = s;
	return true;
}

bool text_blanks(const char **p)
{
	const char *s = *p;

	while (*s == ' ' || *s == '\t')
		s++;
	if (s == *p)
		return false;
	*p = s;
	return true;
}
