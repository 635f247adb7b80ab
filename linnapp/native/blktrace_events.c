/* SPDX-License-Identifier: MIT */
/*
 * blktrace's binary events, merged from files into one order.
 *
 * A trace is one file per CPU, or one file that blkparse -d merged. Each file is read through a
 * fixed buffer, and the earliest head of all files is next. Timestamps within a file can be
 * slightly out of order (blkparse writes batches), so events are sorted while they are read ahead.
 * Events with equal times keep their order. A file that goes back further is refused: it consists
 * of two recordings, one after the other.
 */
#include "blktrace_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_MAGIC 0x65617400u

/* Limits of the time between two events of a CPU, whose clock never goes back. */
#define MOST_BACK_NS 10000000000ull
#define MOST_AHEAD_NS (366ull * 24 * 3600 * 1000000000)

#ifndef BUFFER_BYTES		/* the fuzzers define a small one, which is refilled often */
#define BUFFER_BYTES (1u << 20)
#endif

/* struct blk_io_trace2: version 8 */
struct event_v8 {
	uint32_t magic, sequence;
	uint64_t time, sector;
	uint32_t bytes, pid;
	uint64_t action;
	uint32_t device, cpu;
	uint16_t error, pdu_len;
	uint8_t pad[12];
};

_Static_assert(sizeof(struct blk_event_v7) == 48 && sizeof(struct event_v8) == 64, "the kernel's");

struct lt_source {
	int fd;
	const char *path;
	unsigned char *buffer;
	size_t start, end;
	uint64_t offset;		/* file position of buffer[start] */
	uint32_t version;
	bool swapped, eof, at_end;
	struct blk_event head;		/* valid unless at_end */
	size_t head_bytes;		/* its size in the file */
};

/* A number in the byte order of this machine. */
#define IN_ORDER(number)						\
	(!s->swapped ? (number) :					\
	 sizeof(number) == 8 ? __builtin_bswap64(number) :		\
	 sizeof(number) == 4 ? __builtin_bswap32(number) : __builtin_bswap16(number))

#define DECODE(layout) do {						\
	struct layout raw;						\
									\
	memcpy(&raw, s->buffer + s->start, sizeof(raw));		\
	*e = (struct blk_event){					\
		.time = IN_ORDER(raw.time),				\
		.sector = IN_ORDER(raw.sector),				\
		.action = IN_ORDER(raw.action),				\
		.bytes = IN_ORDER(raw.bytes),				\
		.sequence = IN_ORDER(raw.sequence),			\
		.device = IN_ORDER(raw.device),				\
		.cpu = IN_ORDER(raw.cpu),				\
		.error = IN_ORDER(raw.error),				\
		.pdu_len = IN_ORDER(raw.pdu_len),			\
	};								\
} while (0)

static size_t event_bytes(const struct lt_source *s)
{
	return s->version == 8 ? sizeof(struct event_v8) : sizeof(struct blk_event_v7);
}

/* Fill the buffer with @want bytes if the file has as many; return how many it contains. */
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

/* Return true if an event with a known version begins here, the same version in all files. */
static bool check_magic(struct lt_events *events, struct lt_source *s, size_t have)
{
	const struct lt_source *first = events->sources;
	unsigned long long at = s->offset;
	uint32_t magic;

	if (have < sizeof(magic)) {
		/* elsewhere, such an end is an event that is cut off */
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
	if (magic == (EVENT_MAGIC | s->version))
		return true;
	if ((magic & ~0xffu) != EVENT_MAGIC) {
		if (!at)
			lt_fail(events->failure, "%s: not a blktrace file: it does not begin with "
						 "an event, as files of blktrace and `blkparse -d` "
						 "do; `linnapp trace` records one", s->path);
		else
			lt_fail(events->failure, "%s: corrupt at byte %llu: no event magic where "
				"an event should start; record or copy the trace again", s->path,
				at);
		return false;
	}
	magic &= 0xff;
	if (magic != 7 && magic != 8) {
		lt_fail(events->failure, "%s: blktrace version %u at byte %llu is not supported, "
					 "only versions 7 and 8 are", s->path, magic, at);
		return false;
	}
	if (at) {
		lt_fail(events->failure, "%s: blktrace version %u at byte %llu, after events of "
					 "version %u: the file contains two recordings; read them "
					 "separately", s->path, magic, at,
			s->version);
		return false;
	}
	/* the file of an idle CPU is empty */
	while (first < s && !first->version)
		first++;
	s->version = magic;
	if (first->version != magic || first->swapped != s->swapped) {
		lt_fail(events->failure, "%s: the version of blktrace or the byte order differs "
					 "from that of %s: they belong to different recordings",
			s->path, first->path);
		return false;
	}
	return true;
}

/* Read the next event of @s, of any kind, into its head; payloads are skipped. */
static void advance_one(struct lt_events *events, struct lt_source *s)
{
	struct blk_event *e = &s->head;
	size_t have = fill(events, s, sizeof(struct blk_event_v7)), size;

	if (have && !check_magic(events, s, have))
		return;
	size = event_bytes(s);
	have = fill(events, s, size);
	if (have >= size) {
		if (s->version == 8)
			DECODE(event_v8);
		else
			DECODE(blk_event_v7);
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
	s->head_bytes = size;
	events->stats->bytes += size;
}

#define NOTE_MESSAGE 2
#define NOTE_DROPPED "linnapp: events dropped: "

/* Read lt_events_copy()'s note about events that the kernel dropped and did not number. */
static void read_note(struct lt_events *events, const struct lt_source *s)
{
	const struct blk_event *e = &s->head;
	const char *words = (const char *)s->buffer + s->start - e->pdu_len;
	char number[24] = "";
	size_t n = strlen(NOTE_DROPPED);

	if ((e->action & ACT_MASK) != NOTE_MESSAGE || e->pdu_len <= n ||
	    e->pdu_len >= n + sizeof(number) || memcmp(words, NOTE_DROPPED, n))
		return;
	memcpy(number, words + n, e->pdu_len - n);
	events->stats->dropped_events += strtoull(number, NULL, 10);
	events->stats->lost_events += strtoull(number, NULL, 10);
}

/* Write a note in the byte order and version of the events. */
static bool write_note(const struct lt_source *like, uint64_t dropped, FILE *out)
{
	const struct blk_event *first = &like->head;
	char words[64];
	uint16_t n = snprintf(words, sizeof(words), NOTE_DROPPED "%llu",
			      (unsigned long long)dropped);
	struct blk_event_v7 v7 = {
		.magic = EVENT_MAGIC | 7, .time = first->time, .device = first->device,
		.action = CAT_NOTIFY | NOTE_MESSAGE, .pdu_len = n,
	};
	struct event_v8 v8 = {
		.magic = EVENT_MAGIC | 8, .time = first->time, .device = first->device,
		.action = CAT_NOTIFY | NOTE_MESSAGE, .pdu_len = n,
	};

	return (like->version == 8 ? fwrite(&v8, sizeof(v8), 1, out) :
				     fwrite(&v7, sizeof(v7), 1, out)) == 1 &&
	       fwrite(words, n, 1, out) == 1;
}

/*
 * Notes (process names, messages) are skipped immediately, because blkparse -d makes the times of
 * all other events relative to the first event and leaves those of notes absolute.
 */
static void advance(struct lt_events *events, struct lt_source *s)
{
	for (;;) {
		advance_one(events, s);
		if (lt_failed(events->failure) || s->at_end || !(s->head.action & CAT_NOTIFY))
			return;
		events->stats->events++;
		events->stats->notes++;
		read_note(events, s);
	}
}

/* Return the source with the earliest head; in a tie, the one of the lowest CPU. */
static struct lt_source *earliest(struct lt_events *events)
{
	struct lt_source *best = NULL;

	for (struct lt_source *s = events->sources; s < events->sources + events->n_sources; s++)
		if (!s->at_end && (!best || s->head.time < best->head.time))
			best = s;
	return best;
}

/* ---- read-ahead ---- */

/* Return true if an event of the device is on exactly these sectors. */
static bool is_on(const struct lt_events *events, const struct blk_event *e, uint64_t sector,
		  uint32_t bytes, bool write)
{
	return e->sector == sector && e->bytes == bytes && !(e->action & CAT_WRITE) == !write &&
	       e->device == *events->device;
}

/**
 * lt_events_lost() - find out whether the completion of a request was lost
 * @sector: first sector of the request, whose length and direction are @bytes and @write
 * @in_flight: number of requests in flight on exactly these sectors
 * @until_ns: time by which all have completed if no completion was lost
 *
 * Return: true if some of them have no completion until then, or until the end of the read-ahead.
 * If several requests are on the same sectors at the same time, all of them complete.
 */
bool lt_events_lost(const struct lt_events *events, uint64_t sector, uint32_t bytes, bool write,
		    uint32_t in_flight, uint64_t until_ns)
{
	for (uint32_t i = 0; i < events->len; i++) {
		const struct blk_event *e = &events->ahead[(events->start + i) % LT_AHEAD];
		uint32_t action = e->action & ACT_MASK;

		if (e->time > until_ns)
			return true;
		if (!is_on(events, e, sector, bytes, write))
			continue;
		if (action == ACT_COMPLETE || action == ACT_REQUEUE) {
			if (!--in_flight)
				return false;
		} else if (action == (events->has_issue ? ACT_ISSUE : ACT_QUEUE)) {
			in_flight++;
		}
	}
	return true;
}

/**
 * lt_events_issued_again() - find out whether a request that is issued now was issued before
 * @sector: first sector of the request, whose length and direction are @bytes and @write
 * @in_flight: number of requests in flight on exactly these sectors, if this is another one
 * @now_ns: the current time
 * @slowest_ns: latency that only very few requests exceed
 * @end_ns: time without an event on the sectors that suffices at the end of the trace
 *
 * Return: true if one completion is missing when no further event occurs on the sectors for longer
 * than @slowest_ns, or until the end of the trace. While requests on the same sectors are in flight
 * all the time, or the read-ahead is too short, there is no evidence.
 */
bool lt_events_issued_again(struct lt_events *events, uint64_t sector, uint32_t bytes, bool write,
			    uint32_t in_flight, uint64_t now_ns, uint64_t slowest_ns,
			    uint64_t end_ns)
{
	const struct blk_event *e = NULL;
	uint64_t last_ns = now_ns;

	for (uint32_t i = 0; i < events->len; i++) {
		uint32_t action;

		e = &events->ahead[(events->start + i) % LT_AHEAD];
		if (in_flight == 1 && e->time > last_ns + slowest_ns)
			return true;
		if (!is_on(events, e, sector, bytes, write))
			continue;
		last_ns = e->time;
		action = e->action & ACT_MASK;
		if ((action == ACT_COMPLETE || action == ACT_REQUEUE) && !--in_flight)
			return false;
		in_flight += action == ACT_ISSUE;
	}
	return e && in_flight == 1 && !earliest(events) && e->time - last_ns >= end_ns;
}

/* Return true if an event was counted as missing: it follows later events of its numbering. */
static bool fills_gap(struct lt_events *events, const struct blk_event *e, uint32_t numbering)
{
	/* A file that is out of order has a gap for each late event. */
	for (uint32_t i = events->gaps_len; i && i + LT_REORDER > events->gaps_len; i--) {
		struct lt_gap *gap = &events->gaps[(events->gaps_start + i - 1) % LT_AHEAD];

		if (gap->cpu != numbering || e->sequence - gap->first >= 1u << 31)
			continue;
		if (!gap->missing)
			return false;
		gap->missing--;
		events->stats->lost_events--;
		return true;
	}
	return false;
}

/*
 * Return the CPU whose numbers continue with an event. The kernel numbers the events of each CPU. If
 * another program has numbered them all, those of a second CPU begin after those of the first.
 */
static uint32_t find_numbering(struct lt_events *events, const struct blk_event *e)
{
	const struct lt_sequence *first = &events->sequences[events->first_cpu];

	if (!first->any)
		events->first_cpu = e->cpu;
	else if (!events->numbering && e->cpu != events->first_cpu)
		events->numbering = e->sequence == first->last + 1 ? LT_NUMBERED_AT_ONCE :
								     LT_NUMBERED_BY_CPU;
	return events->numbering == LT_NUMBERED_AT_ONCE ? events->first_cpu : e->cpu;
}

/*
 * A gap in the numbers of a CPU's events, which wrap around, shows how many are missing. Return
 * false and fail if a second recording begins, or if a time is wrong.
 */
static bool check_sequence(struct lt_events *events, const struct lt_source *s,
			   const struct blk_event *e)
{
	unsigned long long at = s->offset - s->head_bytes;
	struct lt_sequence *cpu;
	struct lt_gap *gap;
	uint32_t numbering;
	int32_t step;

	if (e->cpu >= LT_MAX_CPUS || e->time > INT64_MAX)
		return true;	/* the parser refuses such a time */
	numbering = find_numbering(events, e);
	cpu = &events->sequences[numbering];
	step = e->sequence - cpu->last;
	if (cpu->any && step < 0 && fills_gap(events, e, numbering))
		return true;
	if (cpu->any && step < 0 && e->time < cpu->time) {
		lt_fail(events->failure, "%s: the event at byte %llu is earlier than the one "
					 "before it by %.6f s, and the numbers of CPU %u start "
					 "again: a second recording begins there; read them "
					 "separately", s->path, at,
			(cpu->time - e->time) / 1e9, e->cpu);
		return false;
	}
	if (cpu->any &&
	    (cpu->time > e->time + MOST_BACK_NS || e->time > cpu->time + MOST_AHEAD_NS)) {
		bool is_earlier = e->time < cpu->time;

		lt_fail(events->failure, "%s: the event at byte %llu is %s than the one before it "
					 "on CPU %u by %.6f s: one of the two time stamps is "
					 "wrong; record or copy the trace again", s->path, at,
			is_earlier ? "earlier" : "later", e->cpu,
			(is_earlier ? cpu->time - e->time : e->time - cpu->time) / 1e9);
		return false;
	}
	if (cpu->any && step > 1 && events->gaps_len < LT_AHEAD) {
		gap = &events->gaps[(events->gaps_start + events->gaps_len++) % LT_AHEAD];
		*gap = (struct lt_gap){
			.from_ns = cpu->time < e->time ? cpu->time : e->time,
			.until_ns = e->time,
			.cpu = numbering,
			.first = cpu->last + 1,
			.missing = step - 1,
		};
		events->stats->lost_events += step - 1;
	}
	*cpu = (struct lt_sequence){ .time = e->time, .last = e->sequence, .any = true };
	return true;
}

/* Insert the head of a source into the sorted read-ahead if there is room. */
static bool insert(struct lt_events *events, const struct lt_source *s)
{
	const struct blk_event *incoming = &s->head;
	uint32_t at = events->len++, moved = 0;

	if (!*events->device)
		*events->device = incoming->device;
	if (incoming->device == *events->device) {
		if (!check_sequence(events, s, incoming))
			return false;
		events->has_queue |= (incoming->action & ACT_MASK) == ACT_QUEUE;
		events->has_issue |= (incoming->action & ACT_MASK) == ACT_ISSUE;
	}
	for (; at && moved <= LT_REORDER; at--, moved++) {
		struct blk_event *before = &events->ahead[(events->start + at - 1) % LT_AHEAD];

		if (before->time <= incoming->time)
			break;
		events->ahead[(events->start + at) % LT_AHEAD] = *before;
	}
	if (moved > LT_REORDER || incoming->time < events->given_ns) {
		lt_fail(events->failure, "%s: the event at byte %llu is too late to be sorted: an "
					 "event before it is later by %.6f s; if the file contains "
					 "two recordings, read them separately",
			s->path, (unsigned long long)(s->offset - s->head_bytes),
			(events->ahead[(events->start + events->len - 1) % LT_AHEAD].time -
			 incoming->time) / 1e9);
		return false;
	}
	events->stats->out_of_order += moved > 0;
	events->ahead[(events->start + at) % LT_AHEAD] = *incoming;
	return true;
}

/* Return the next event in order of time; NULL at the end and on a failure. */
const struct blk_event *lt_events_next(struct lt_events *events)
{
	const struct blk_event *event;

	while (events->len < LT_AHEAD) {
		struct lt_source *s = earliest(events);

		if (!s)
			break;
		if (!insert(events, s))
			return NULL;
		advance(events, s);
		if (lt_failed(events->failure))
			return NULL;
	}
	if (!events->len)
		return NULL;
	event = &events->ahead[events->start];
	events->given_ns = event->time;
	events->start = (events->start + 1) % LT_AHEAD;
	events->len--;
	return event;
}

/* Return the event LT_PEEK events later, if there is one, to prefetch the memory of its part. */
const struct blk_event *lt_events_peek(const struct lt_events *events)
{
	return events->len > LT_PEEK ? &events->ahead[(events->start + LT_PEEK) % LT_AHEAD] : NULL;
}

/* Return the number of events missing from now on, or from an earlier time, and the gap's end. */
uint32_t lt_events_gap(struct lt_events *events, uint64_t now_ns, uint64_t *until_ns)
{
	while (events->gaps_len) {
		const struct lt_gap *gap = &events->gaps[events->gaps_start];

		/* an event with the time of the gap's start came before the gap */
		if (gap->from_ns >= now_ns && gap->until_ns > now_ns)
			return 0;
		events->gaps_start = (events->gaps_start + 1) % LT_AHEAD;
		events->gaps_len--;
		if (gap->missing) {
			*until_ns = gap->until_ns;
			return gap->missing;
		}
	}
	return 0;
}

/* Fail if an earlier file has events of the same CPU; each CPU has one file. */
static void check_cpu(struct lt_events *events, const struct lt_source *s)
{
	for (const struct lt_source *other = events->sources; other < s; other++)
		if (!s->at_end && !other->at_end && s->head.cpu == other->head.cpu)
			lt_fail(events->failure, "%s: contains events of CPU %u, as %s does: one of "
						 "the two files is a copy or belongs to another "
						 "recording; move it to another folder", s->path,
				s->head.cpu, other->path);
}

/* Open the files and read the first event of each; return false if out of memory. */
bool lt_events_open(struct lt_events *events, const char *const *paths, int n_paths)
{
	events->sources = calloc(n_paths, sizeof(*events->sources));
	events->ahead = malloc(LT_AHEAD * sizeof(*events->ahead));
	events->gaps = malloc(LT_AHEAD * sizeof(*events->gaps));
	if (!events->sources || !events->ahead || !events->gaps)
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
		if (!lt_failed(events->failure))
			check_cpu(events, s);
	}
	return true;
}

/*
 * Copy all events of freshly opened files in order, and a note with the number of dropped events.
 * Return the number of events, or -1.
 */
int64_t lt_events_copy(struct lt_events *events, FILE *out, uint64_t dropped)
{
	struct lt_source *s = earliest(events);
	int64_t n = 0;

	/* The note has the byte order of this machine, as do recordings made on it. */
	if (dropped && s && !s->swapped && !write_note(s, dropped, out))
		return -1;

	while ((s = earliest(events))) {
		/* the head's bytes stay in the buffer until the next one is read */
		size_t size = s->head_bytes;

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
	free(events->ahead);
	free(events->gaps);
}
