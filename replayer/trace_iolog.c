// SPDX-License-Identifier: MIT
/*
 * fio's iolog, version 3: "timestamp filename action [offset length]" a line, timestamps in
 * microseconds from the job's start (measured with fio 3.33; a fraction is accepted too). File
 * names are ignored: the replayer's home drive follows from the trace's place on the command line.
 * Actions other than read and write are counted, not done.
 */
#include "trace.h"
#include "error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64 * 1024)
#define HEADER "fio version 3 iolog"

struct iolog {
	int fd;
	const char *path;
	char *buffer;
	size_t start, end;
	bool eof;
	uint64_t line, skipped;
	uint64_t last_ns;
};

static bool iolog_matches(const unsigned char *head, unsigned long n)
{
	return n >= strlen(HEADER) && !memcmp(head, HEADER, strlen(HEADER));
}

/* The next line without its newline, or NULL at the end. Valid until the next call. */
static char *next_line(struct iolog *l, size_t *length)
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
			die("trace %s line %llu: longer than %d bytes; not an iolog", l->path,
			    (unsigned long long)l->line + 1, CHUNK);
		n = read(l->fd, l->buffer + l->end, CHUNK - l->end);
		if (n < 0)
			die("trace %s: %s", l->path, strerror(errno));
		if (!n)
			l->eof = true;
		l->end += n;
	}
}

static void *iolog_open(int fd, const char *path)
{
	struct iolog *l = xcalloc(1, sizeof(*l));
	size_t n;

	l->fd = fd;
	l->path = path;
	l->buffer = xmalloc(CHUNK + 1);
	next_line(l, &n);
	return l;
}

static bool parse_u64(char **p, uint64_t *value)
{
	uint64_t v = 0;
	char *s = *p;

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (*s - '0');
	}
	*value = v;
	*p = s;
	return true;
}

/* Microseconds with an optional fraction, to nanoseconds. */
static bool parse_time(char **p, uint64_t *ns)
{
	uint64_t us, fraction = 0, unit = 100;

	if (!parse_u64(p, &us) || us > UINT64_MAX / 1000 - 1)
		return false;
	if (**p == '.') {
		for (++*p; **p >= '0' && **p <= '9'; ++*p, unit /= 10)
			fraction += (**p - '0') * unit;
	}
	*ns = us * 1000 + fraction;
	return true;
}

static bool skip_blanks(char **p)
{
	char *s = *p;

	while (*s == ' ' || *s == '\t')
		s++;
	if (s == *p)
		return false;
	*p = s;
	return true;
}

static void bad_line(struct iolog *l, const char *why)
{
	die("trace %s line %llu: %s; a version 3 line reads \"timestamp_us filename action offset "
	    "length\"",
	    l->path, (unsigned long long)l->line, why);
}

static bool iolog_next(void *state, struct trace_io *io)
{
	struct iolog *l = state;
	uint64_t offset, size;
	size_t n, word;
	char *p, *action;

	for (;;) {
		p = next_line(l, &n);
		if (!p)
			return false;
		if (!*p || *p == '\r')
			continue;
		if (!parse_time(&p, &io->at_ns) || !skip_blanks(&p))
			bad_line(l, "no timestamp");
		p += strcspn(p, " \t");
		if (!skip_blanks(&p))
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
		if (!skip_blanks(&p) || !parse_u64(&p, &offset) || !skip_blanks(&p) ||
		    !parse_u64(&p, &size))
			bad_line(l, "offset or length missing or not a number");
		if (*p && *p != '\r' && *p != ' ')
			bad_line(l, "something follows the length");
		if (!size || size > UINT32_MAX / 2 || offset > INT64_MAX - size)
			bad_line(l, "length is 0 or too large");
		io->offset_bytes = offset;
		io->size_bytes = size;
		/* fio's own logs are written at completion and may step back by a little. */
		if (io->at_ns < l->last_ns)
			io->at_ns = l->last_ns;
		l->last_ns = io->at_ns;
		return true;
	}
}

static uint64_t iolog_skipped(void *state)
{
	return ((struct iolog *)state)->skipped;
}

static void iolog_close(void *state)
{
	struct iolog *l = state;

	close(l->fd);
	free(l->buffer);
	free(l);
}

const struct trace_format trace_iolog = {
	.name = "fio iolog 3",
	.matches = iolog_matches,
	.open = iolog_open,
	.next = iolog_next,
	.skipped = iolog_skipped,
	.close = iolog_close,
};
