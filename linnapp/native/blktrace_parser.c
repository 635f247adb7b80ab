/* SPDX-License-Identifier: MIT */
/* The interface of the blktrace parser, and the event counters; see blktrace_private.h. */
#include "blktrace_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct lt_parser {
	struct lt_options options;
	struct lt_failure failure;
	struct lt_stats stats;
	struct lt_events events;
	struct lt_requests requests;
	bool finished;
};

/* Counter of each action; other actions do not concern I/Os. Requests (G) are not counted. */
static const size_t counters[ACT_MASK + 1] = {
	[ACT_QUEUE] = offsetof(struct lt_stats, queued),
	[ACT_BACKMERGE] = offsetof(struct lt_stats, back_merges),
	[ACT_FRONTMERGE] = offsetof(struct lt_stats, front_merges),
	[ACT_REQUEUE] = offsetof(struct lt_stats, requeues),
	[ACT_ISSUE] = offsetof(struct lt_stats, issued),
	[ACT_COMPLETE] = offsetof(struct lt_stats, completed),
	[ACT_SPLIT] = offsetof(struct lt_stats, splits),
	[ACT_REMAP] = offsetof(struct lt_stats, remaps),
};

void lt_fail(struct lt_failure *failure, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(failure->why, sizeof(failure->why), format, args);
	va_end(args);
}

void *lt_alloc(struct lt_failure *failure, size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		lt_fail(failure, "out of memory for the I/Os in flight");
	return memory;
}

/*
 * Return true if the values of an I/O's event are possible for a drive. Parts of sectors would
 * leave parts of length zero, and a last byte or time that exceeds 63 bits would overflow later.
 */
static bool plausible(struct lt_parser *p, const struct blk_event *e)
{
	const uint64_t last = INT64_MAX;
	const char *wrong = NULL;

	if (e->bytes % SECTOR_BYTES)
		wrong = "the size is not a multiple of 512 bytes";
	else if (e->sector > (last - e->bytes) / SECTOR_BYTES)
		wrong = "the sector is too large for a drive";
	else if (e->time > last)
		wrong = "the time is too large";
	if (wrong)
		lt_fail(&p->failure, "%s: corrupt: event %llu (%u bytes at sector %llu, time %llu "
			"ns): %s; record or copy the trace again", p->events.path,
			(unsigned long long)p->stats.events, e->bytes,
			(unsigned long long)e->sector, (unsigned long long)e->time, wrong);
	return !wrong;
}

/* Count the event for its device; return false if another drive was chosen. */
static bool wanted_device(struct lt_parser *p, const struct blk_event *e)
{
	uint32_t *wanted = &p->options.device;
	struct lt_stats *s = &p->stats;
	uint32_t i = 0;

	while (i < s->n_devices && s->devices[i] != e->device)
		i++;
	if (i == s->n_devices && s->n_devices < LT_MAX_DEVICES)
		s->devices[s->n_devices++] = e->device;
	if (i < LT_MAX_DEVICES)
		s->device_events[i]++;
	if (!*wanted)
		*wanted = e->device;
	if (e->device == *wanted)
		return true;
	s->other_device++;
	return false;
}

static void on_event(struct lt_parser *p, const struct blk_event *e)
{
	uint32_t action = e->action & ACT_MASK;

	const struct blk_event *next = lt_events_peek(&p->events);

	if (next)
		lt_requests_prefetch(&p->requests, next);
	p->stats.events++;
	if (!wanted_device(p, e))
		return;
	lt_requests_advance(&p->requests, e->time);
	if (counters[action])
		++*(uint64_t *)((char *)&p->stats + counters[action]);
	else if (action != ACT_GETRQ)
		return;
	/* It names the device below, and comes before the Q, which already has the new sector. */
	if (action == ACT_REMAP)
		return;
	if (!e->bytes || e->action & (CAT_DISCARD | CAT_PASSTHROUGH | CAT_ZONE_STATE |
				      CAT_WRITE_ZEROES))
		p->stats.not_counted++;
	else if (plausible(p, e))
		lt_requests_process(&p->requests, e);
}

/**
 * lt_open() - start reading a trace
 * @paths: the files, one per CPU, or one merged; not used after the call
 * @n_paths: number of files
 * @options: options for reading
 *
 * Return: a parser, to be closed with lt_close(), which is usable if lt_error() returns an empty
 * string; NULL if out of memory.
 */
struct lt_parser *lt_open(const char *const *paths, int n_paths, const struct lt_options *options)
{
	struct lt_parser *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->options = *options;
	p->requests.options = &p->options;
	p->requests.stats = p->events.stats = &p->stats;
	p->requests.failure = p->events.failure = &p->failure;
	p->events.allow_truncated = options->allow_truncated;
	p->events.device = &p->options.device;
	p->requests.events = &p->events;
	lt_requests_init(&p->requests);
	if (lt_events_open(&p->events, paths, n_paths))
		return p;
	lt_close(p);
	return NULL;
}

/**
 * lt_read() - read the next I/Os in arrival order
 * @p: the parser
 * @n: number of I/Os requested
 * @rows: receives the I/Os
 *
 * Return: the number of I/Os, fewer than @n only at the end of the trace; 0 if there are no
 * more; -1 on an error, which lt_error() describes.
 */
int64_t lt_read(struct lt_parser *p, int64_t n, struct lt_row *rows)
{
	const struct blk_event *event;
	int64_t i = 0;

	while (i < n && !lt_failed(&p->failure)) {
		if (lt_requests_take(&p->requests, p->finished, &rows[i]))
			i++;
		else if (p->finished)
			break;
		else if (!(event = lt_events_next(&p->events)))
			p->finished = true;
		else
			on_event(p, event);
	}
	return lt_failed(&p->failure) ? -1 : i;
}

/**
 * lt_merge() - copy all events of a freshly opened parser's files to one file, in time order
 * @p: the parser; afterwards, only lt_error() and lt_close() may be called
 * @path: the file to create
 * @dropped: number of events that the kernel dropped according to blktrace; noted in the file
 *
 * Return: number of events written, or -1 on an error, which lt_error() describes.
 */
int64_t lt_merge(struct lt_parser *p, const char *path, uint64_t dropped)
{
	FILE *out = lt_failed(&p->failure) ? NULL : fopen(path, "wbe");
	int64_t n = -1;

	if (out)
		n = lt_events_copy(&p->events, out, dropped);
	if ((!out || fclose(out) || n < 0) && !lt_failed(&p->failure))
		lt_fail(&p->failure, "%s: %s", path, strerror(errno));
	return lt_failed(&p->failure) ? -1 : n;
}

/**
 * lt_starts() - get the start times of all reads; complete once lt_read() has returned 0
 * @p: the parser, which was opened with keep_starts
 * @starts: receives them in the order in which the reads were started; valid until lt_close()
 *
 * Return: their number.
 */
int64_t lt_starts(const struct lt_parser *p, const struct lt_start **starts)
{
	*starts = p->requests.starts;
	return p->requests.n_starts;
}

/** lt_stats() - get the counters so far; complete once lt_read() has returned 0 */
void lt_stats(const struct lt_parser *p, struct lt_stats *stats)
{
	*stats = p->stats;
}

/** lt_error() - get the reason for the last failure; an empty string if there was none */
const char *lt_error(const struct lt_parser *p)
{
	return p->failure.why;
}

void lt_close(struct lt_parser *p)
{
	if (!p)
		return;
	lt_requests_close(&p->requests);
	lt_events_close(&p->events);
	free(p);
}
