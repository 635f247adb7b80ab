/* SPDX-License-Identifier: MIT */
/*
 * blktrace's binary events, from files to one order.
 *
 * A trace is one file per CPU, or one file that blkparse -d merged. Each file is read through a
 * fixed buffer; the earliest head of all files is next. Timestamps within a file can be out of
 * order by a little (blkparse writes batches), so events pass through a short window that sorts
 * them; equal times keep their order.
 */
#include "blktrace_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_MAGIC 0x65617400u
#define EVENT_VERSION 0x07u

#ifndef BUFFER_BYTES		/* the fuzzers refill a small one often */
#define BUFFER_BYTES (1u << 20)
#endif

struct lt_source {
	int fd;
	const char *path;
	unsigned char *buffer;
	size_t start, end;
	uint64_t offset;		/* in the file, of buffer[start] */
	bool swapped, eof, at_end;
	struct blk_event head;		/* valid unless at_end */
};

static void swap_event(struct blk_event *e)
{
	e->magic = __builtin_bswap32(e->magic);
	e->sequence = __builtin_bswap32(e->sequence);
	e->time = __builtin_bswap64(e->time);
	e->sector = __builtin_bswap64(e->sector);
	e->bytes = __builtin_bswap32(e->bytes);
	e->action = __builtin_bswap32(e->action);
	e->pid = __builtin_bswap32(e->pid);
	e->device = __builtin_bswap32(e->device);
	e->cpu = __builtin_bswap32(e->cpu);
	e->error = __builtin_bswap16(e->error);
	e->pdu_len = __builtin_bswap16(e->pdu_len);
}

/* How many bytes there are in the buffer, @want of them if the file has as many. */
static size_t fill(struct lt_events *events, struct lt_source *s, size_t want)
{
	while (s->end - s->start < want && !s->eof) {
		ssize_t got;

		memmove(s->buffer, s->buffer + s->start, s->end - s->start);
		s->end -= s->start;
		s->start = 0;
		got = read(s->fd, s->buffer + s->end, BUFFER_BYTES - s->end);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			lt_fail(events->failure, "%s: %s", s->path, strerror(errno));
		s->eof = got <= 0;
		s->end += got > 0 ? got : 0;
	}
	return s->end - s->start;
}

/* Does an event of the version that is known begin here? */
static bool check_magic(struct lt_events *events, struct lt_source *s, size_t have)
{
	unsigned long long at = s->offset;
	uint32_t magic;

	if (have < sizeof(magic)) {
		/* elsewhere such an end is one of an event */
		if (!at)
			lt_fail(events->failure, "%s: not a blktrace file (%zu bytes long)",
				s->path, have);
		return at;
	}
	memcpy(&magic, s->buffer + s->start, sizeof(magic));
	if (!at)
		s->swapped = (magic & ~0xffu) != EVENT_MAGIC;
	if (s->swapped)
		magic = __builtin_bswap32(magic);
	if (magic == (EVENT_MAGIC | EVENT_VERSION))
		return true;
	if ((magic & ~0xffu) == EVENT_MAGIC)
		lt_fail(events->failure, "%s: blktrace version %u at byte %llu, only %u is known",
			s->path, magic & 0xffu, at, EVENT_VERSION);
	else if (!at)
		lt_fail(events->failure, "%s: not a blktrace file (no event magic at its start); "
			"expected what blktrace or `blkparse -d` writes", s->path);
	else
		lt_fail(events->failure, "%s: corrupt at byte %llu: no event magic where an event "
			"should start; record or copy the trace again", s->path, at);
	return false;
}

/* Read the next event of @s, of any kind, into its head; pdus are skipped. */
static void advance_one(struct lt_events *events, struct lt_source *s)
{
	struct blk_event *e = &s->head;
	size_t size = sizeof(*e), have = fill(events, s, size);

	if (have && !check_magic(events, s, have))
		return;
	if (have >= size) {
		memcpy(e, s->buffer + s->start, size);
		if (s->swapped) {
			swap_event(e);
			events->stats->big_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
		}
		size += e->pdu_len;
		have = fill(events, s, size);
	}
	if (lt_failed(events->failure))
		return;
	if (have < size) {
		s->at_end = true;
		if (have && !events->allow_truncated)
			lt_fail(events->failure, "%s: truncated: the event at byte %llu is cut off "
				"after %zu bytes; record or copy the trace again, or pass "
				"`allow_truncated=True` to use what is there", s->path,
				(unsigned long long)s->offset, have);
		return;
	}
	s->start += size;
	s->offset += size;
	events->stats->bytes += size;
}

/*
 * Notes (process names, messages) are dropped at once: blkparse -d makes the times of all other
 * events relative to the first and leaves those of notes absolute.
 */
static void advance(struct lt_events *events, struct lt_source *s)
{
	for (;;) {
		advance_one(events, s);
		if (lt_failed(events->failure) || s->at_end || !(s->head.action & CAT_NOTIFY))
			return;
		events->stats->events++;
		events->stats->notes++;
	}
}

/* The earliest head of all sources; the file of the lower CPU wins a tie. */
static struct lt_source *earliest(struct lt_events *events)
{
	struct lt_source *best = NULL;

	for (struct lt_source *s = events->sources; s < events->sources + events->n_sources; s++)
		if (!s->at_end && (!best || s->head.time < best->head.time))
			best = s;
	return best;
}

/* Put an event where it belongs in the window, which has room. */
static void insert(struct lt_events *events, const struct blk_event *incoming)
{
	int at = events->window_len++;

	for (; at; at--) {
		struct blk_event *before =
			&events->window[(events->window_start + at - 1) % LT_WINDOW];

		if (before->time <= incoming->time)
			break;
		events->window[(events->window_start + at) % LT_WINDOW] = *before;
	}
	if (at != events->window_len - 1)
		events->stats->out_of_order++;
	events->window[(events->window_start + at) % LT_WINDOW] = *incoming;
}

/* The next event in order of time; false at the end, and on a failure. */
bool lt_events_next(struct lt_events *events, struct blk_event *event)
{
	while (events->window_len < LT_WINDOW) {
		struct lt_source *s = earliest(events);
		struct blk_event incoming;

		if (!s)
			break;
		incoming = s->head;
		advance(events, s);
		if (lt_failed(events->failure))
			return false;
		insert(events, &incoming);
	}
	if (!events->window_len)
		return false;
	*event = events->window[events->window_start];
	events->window_start = (events->window_start + 1) % LT_WINDOW;
	events->window_len--;
	return true;
}

/* Open the files and read the first event of each; false when out of memory. */
bool lt_events_open(struct lt_events *events, const char *const *paths, int n_paths)
{
	events->sources = calloc(n_paths, sizeof(*events->sources));
	if (!events->sources)
		return false;
	for (int i = 0; i < n_paths && !lt_failed(events->failure); i++) {
		struct lt_source *s = &events->sources[events->n_sources++];

		s->path = strdup(paths[i]);
		events->path = events->sources->path;
		s->buffer = malloc(BUFFER_BYTES);
		s->fd = lt_packed_open(paths[i], events->failure->why);
		if (s->fd < 0)
			break;
		if (!s->path || !s->buffer)
			return false;
		advance(events, s);
	}
	return true;
}

/* Copy all events of freshly opened files in order; how many, or -1. */
int64_t lt_events_copy(struct lt_events *events, FILE *out)
{
	struct lt_source *s;
	int64_t n = 0;

	while ((s = earliest(events))) {
		/* the head's bytes stay in the buffer until the next one is read */
		size_t size = sizeof(s->head) + s->head.pdu_len;

		if (fwrite(s->buffer + s->start - size, size, 1, out) != 1)
			return -1;
		n++;
		advance(events, s);
		if (lt_failed(events->failure))
			return -1;
	}
	return n;
}

void lt_events_close(struct lt_events *events)
{
	for (struct lt_source *s = events->sources; s < events->sources + events->n_sources; s++) {
		if (s->fd >= 0)
			close(s->fd);
		free((void *)s->path);
		free(s->buffer);
	}
	free(events->sources);
}
