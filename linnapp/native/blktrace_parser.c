/* SPDX-License-Identifier: MIT */
/*
 * From blktrace's binary events to I/Os with the features that the kernel saw.
 *
 *   files -> events in time order -> fragments in flight -> I/Os in arrival order
 *
 * Reading. A trace is one file per CPU, or one file that blkparse -d merged. Each file is read
 * through a fixed buffer; the earliest head of all files is next. Timestamps within a file can be
 * out of order by a little (blkparse writes batches), so events pass through a short window that
 * sorts them; equal times keep their order.
 *
 * Matching. blktrace names no request, only (direction, sector, bytes), so an I/O is followed as
 * the sectors that it still waits for. A Q opens an I/O with one fragment, its whole range. An X
 * (split) cuts a fragment in two, since the pieces may complete in any order. A D marks the
 * fragments in its range issued, a requeue takes that back. A C covers a range of sectors: one
 * fragment, several (merged bios share a request), or the front of one (partial completion). When
 * nothing of an I/O is left it is complete. M and F end nothing: the Q of a merged bio already
 * opened its I/O, and the C of the request covers it.
 *
 * Two I/Os in flight on the same sectors cannot be told apart; a completion takes the issued one
 * that waited longest, and one with EBUSY or EAGAIN takes the youngest not issued, because a
 * refusal follows its submission at once.
 *
 * Features. Pending pages rise when a fragment gets its request (G) or is merged into one (M, F),
 * and fall when it completes; in a trace without G they rise at Q. The latency is the drive's, from
 * D to C, or to R if it was requeued: of the fragment and the try that took longest, and from Q only
 * where no D was traced. A read that completes without error enters the history, with what was
 * pending when its first fragment was counted: what the host held it back by is in neither. A
 * revoked I/O (EBUSY and no issue) leaves neither. There is a history for each order of size, of
 * the reads up to it; a read sees that of its own.
 *
 * Memory. I/Os leave in arrival order, so one that never completes would hold back all that came
 * later: after max_age_ns of trace time it is given up and counted as missing its completion.
 */
#include "blktrace_parser.h"
#include "linnos_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The on-disk event, as in linux/blktrace_api.h; repeated so that no kernel headers are needed. */
struct blk_event {
	uint32_t magic;
	uint32_t sequence;
	uint64_t time;
	uint64_t sector;
	uint32_t bytes;
	uint32_t action;
	uint32_t pid;
	uint32_t device;
	uint32_t cpu;
	uint16_t error;
	uint16_t pdu_len;
};

_Static_assert(sizeof(struct blk_event) == 48, "the layout is the kernel's");

#define EVENT_MAGIC 0x65617400u
#define EVENT_VERSION 0x07u

#define ACT_MASK 0xffu
enum { ACT_QUEUE = 1, ACT_BACKMERGE, ACT_FRONTMERGE, ACT_GETRQ, ACT_SLEEPRQ, ACT_REQUEUE,
       ACT_ISSUE, ACT_COMPLETE, ACT_PLUG, ACT_UNPLUG_IO, ACT_UNPLUG_TIMER, ACT_INSERT,
       ACT_SPLIT, ACT_BOUNCE, ACT_REMAP, ACT_ABORT, ACT_DRV_DATA };

#define CATEGORY(bit) (1u << (16 + (bit)))
#define CAT_WRITE CATEGORY(1)
#define CAT_PASSTHROUGH CATEGORY(9)
#define CAT_NOTIFY CATEGORY(10)
#define CAT_DISCARD CATEGORY(13)

#define SECTOR_BYTES 512u
#define PAGE_BYTES 4096u

/* blkparse writes a merged trace in batches; within one the order is right. */
#define WINDOW 128

#ifndef BUFFER_BYTES		/* the fuzzers refill a small one often */
#define BUFFER_BYTES (1u << 20)
#endif
#define MAX_CPUS 4096

/*
 * How far to look for the I/O of an event: among those in flight, and among fragments whose sectors
 * hash alike. No drive has that many, but a trace that lost its completions does, and must not take
 * time squared.
 */
#define SCAN_LIMIT 4096
#define CHAIN_LIMIT 256

#define NIL UINT32_MAX
#define NO_IO UINT64_MAX

struct source {
	int fd;
	const char *path;
	unsigned char *buffer;
	size_t start, end;
	uint64_t offset;		/* in the file, of buffer[start] */
	bool swapped, eof, at_end;
	struct blk_event head;		/* valid unless at_end */
};

struct io {
	uint64_t arrival_ns;
	uint64_t latency_ns;
	uint64_t sector;
	uint32_t bytes;
	uint32_t left_bytes;
	uint64_t served_ns;		/* the longest that the drive took over a part */
	uint32_t pending;		/* when it arrived */
	uint32_t counted_pending;	/* when its first part was counted; 0 before */
	uint32_t held_pages;		/* of its last part, which has completed */
	uint64_t to_request_ns;		/* of the part that ended last: Q to G */
	uint64_t to_issue_ns;		/* G to D */
	uint64_t to_completion_ns;	/* and D to C */
	uint8_t flags;
	bool open;			/* still in flight */
	bool served;
	uint32_t fragments;		/* list of those that it waits for */
	uint64_t next_open, prev_open;	/* absolute indices */
	uint32_t hist_pending[LT_MAX_HISTORY];
	uint32_t hist_latency_us[LT_MAX_HISTORY];
};

/* A run of sectors that an I/O still waits for, in the hash chain of its first sector. */
struct fragment {
	uint64_t sector;
	uint32_t bytes;
	uint32_t next, prev;		/* chain, oldest first */
	uint32_t io_next, io_prev;	/* of the same I/O */
	uint64_t io;			/* absolute index */
	uint64_t requested_ns;		/* 0: not told */
	uint64_t issued_ns;
	uint32_t pages;			/* pending, if it is counted */
	bool write, issued, counted;
};

struct parser_history {
	uint32_t pending[LT_MAX_HISTORY];
	uint32_t latency_us[LT_MAX_HISTORY];
};

struct lt_parser {
	struct source *sources;
	int n_sources;
	int history;
	uint32_t device;		/* 0: the first one seen */
	uint64_t max_age_ns;
	bool allow_truncated;
	bool failed, finished;
	char error[512];

	struct blk_event window[WINDOW];
	int window_start, window_len;
	uint64_t last_time;

	/* I/Os in arrival order: absolute indices head .. tail - 1, a ring of capacity 2^n */
	struct io *ios;
	uint64_t capacity, head, tail;
	uint64_t first_open, last_open;

	struct fragment *fragments;
	uint32_t n_fragments, free_fragment;
	uint32_t *chain_head, *chain_tail;
	uint32_t n_chains;

	uint64_t pending_pages;
	bool has_requests;		/* the trace has G events */
	struct parser_history past[LINNOS_SIZES];	/* of reads up to an order of size */

	uint32_t *first_sequence, *last_sequence;
	uint64_t *sequenced;

	struct lt_stats stats;
};

static void fail(struct lt_parser *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->error, sizeof(p->error), format, args);
	va_end(args);
	p->failed = true;
}

/* ---- reading ---- */

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

/* Have at least @want bytes in the buffer, or as many as the file has left. */
static size_t fill(struct lt_parser *p, struct source *s, size_t want)
{
	while (s->end - s->start < want && !s->eof) {
		ssize_t got;

		if (s->start) {
			memmove(s->buffer, s->buffer + s->start, s->end - s->start);
			s->end -= s->start;
			s->start = 0;
		}
		got = read(s->fd, s->buffer + s->end, BUFFER_BYTES - s->end);
		if (got < 0) {
			if (errno == EINTR)
				continue;
			fail(p, "%s: %s", s->path, strerror(errno));
			return 0;
		}
		if (!got)
			s->eof = true;
		s->end += got;
	}
	return s->end - s->start;
}

static void truncated(struct lt_parser *p, struct source *s, size_t have)
{
	s->at_end = true;
	if (p->allow_truncated)
		return;
	fail(p, "%s: truncated: the event at byte %llu is cut off after %zu bytes; record or copy "
	     "the trace again, or pass --allow-truncated to use what is there", s->path,
	     (unsigned long long)s->offset, have);
}

/* Read the next event of @s, of any kind, into its head; pdus are skipped. */
static void advance_one(struct lt_parser *p, struct source *s)
{
	struct blk_event *e = &s->head;
	size_t have = fill(p, s, sizeof(*e));

	if (p->failed)
		return;
	if (!have) {
		s->at_end = true;
		return;
	}
	if (have >= 4) {
		uint32_t magic;

		memcpy(&magic, s->buffer + s->start, sizeof(magic));
		if (!s->offset)
			s->swapped = (magic & 0xffffff00u) != EVENT_MAGIC;
		if (s->swapped)
			magic = __builtin_bswap32(magic);
		if ((magic & 0xffffff00u) != EVENT_MAGIC) {
			if (!s->offset)
				fail(p, "%s: not a blktrace file (no event magic at its start); "
				     "expected what blktrace or `blkparse -d` writes", s->path);
			else
				fail(p, "%s: corrupt at byte %llu: no event magic where an event "
				     "should start; record or copy the trace again", s->path,
				     (unsigned long long)s->offset);
			return;
		}
		if ((magic & 0xffu) != EVENT_VERSION) {
			fail(p, "%s: blktrace version %u at byte %llu, only %u is known", s->path,
			     magic & 0xffu, (unsigned long long)s->offset, EVENT_VERSION);
			return;
		}
	} else if (!s->offset) {
		fail(p, "%s: not a blktrace file (%zu bytes long)", s->path, have);
		return;
	}
	if (have < sizeof(*e)) {
		truncated(p, s, have);
		return;
	}
	memcpy(e, s->buffer + s->start, sizeof(*e));
	if (s->swapped) {
		swap_event(e);
		p->stats.big_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	}
	have = fill(p, s, sizeof(*e) + e->pdu_len);
	if (p->failed)
		return;
	if (have < sizeof(*e) + e->pdu_len) {
		truncated(p, s, have);
		return;
	}
	s->start += sizeof(*e) + e->pdu_len;
	s->offset += sizeof(*e) + e->pdu_len;
	p->stats.bytes += sizeof(*e) + e->pdu_len;
}

/*
 * Notes (process names, messages) are dropped at once: blkparse -d makes the times of all other
 * events relative to the first and leaves those of notes absolute.
 */
static void advance(struct lt_parser *p, struct source *s)
{
	for (;;) {
		advance_one(p, s);
		if (p->failed || s->at_end || !(s->head.action & CAT_NOTIFY))
			return;
		p->stats.events++;
		p->stats.notes++;
	}
}

/* The earliest head of all sources; the file of the lower CPU wins a tie. */
static bool next_unsorted(struct lt_parser *p, struct blk_event *event)
{
	struct source *best = NULL;

	for (int i = 0; i < p->n_sources; i++) {
		struct source *s = &p->sources[i];

		if (!s->at_end && (!best || s->head.time < best->head.time))
			best = s;
	}
	if (!best)
		return false;
	*event = best->head;
	advance(p, best);
	return !p->failed;
}

/* Next event in time order. */
static bool next_event(struct lt_parser *p, struct blk_event *event)
{
	while (p->window_len < WINDOW) {
		struct blk_event incoming;
		int at;

		if (!next_unsorted(p, &incoming)) {
			if (p->failed)
				return false;
			break;
		}
		at = p->window_len;
		while (at) {
			struct blk_event *before =
				&p->window[(p->window_start + at - 1) % WINDOW];

			if (before->time <= incoming.time)
				break;
			p->window[(p->window_start + at) % WINDOW] = *before;
			at--;
		}
		if (at != p->window_len)
			p->stats.out_of_order++;
		p->window[(p->window_start + at) % WINDOW] = incoming;
		p->window_len++;
	}
	if (!p->window_len)
		return false;
	*event = p->window[p->window_start];
	p->window_start = (p->window_start + 1) % WINDOW;
	p->window_len--;
	return true;
}

/* ---- I/Os and their fragments in flight ---- */

static struct io *io_at(struct lt_parser *p, uint64_t index)
{
	return &p->ios[index & (p->capacity - 1)];
}

static bool push_io(struct lt_parser *p)
{
	if (p->tail - p->head == p->capacity) {
		struct io *bigger = calloc(p->capacity * 2, sizeof(*bigger));

		if (!bigger) {
			fail(p, "out of memory with %llu I/Os in flight",
			     (unsigned long long)p->capacity);
			return false;
		}
		for (uint64_t i = p->head; i < p->tail; i++)
			bigger[i & (p->capacity * 2 - 1)] = *io_at(p, i);
		free(p->ios);
		p->ios = bigger;
		p->capacity *= 2;
	}
	p->tail++;
	return true;
}

static uint32_t chain_of(const struct lt_parser *p, uint64_t sector, bool write)
{
	return ((sector * 2 + write) * 0x9e3779b97f4a7c15ull) >> 32 & (p->n_chains - 1);
}

static void link_fragment(struct lt_parser *p, uint32_t index)
{
	struct fragment *f = &p->fragments[index];
	uint32_t chain = chain_of(p, f->sector, f->write);

	f->next = NIL;
	f->prev = p->chain_tail[chain];
	if (f->prev == NIL)
		p->chain_head[chain] = index;
	else
		p->fragments[f->prev].next = index;
	p->chain_tail[chain] = index;
}

static void unlink_fragment(struct lt_parser *p, uint32_t index)
{
	struct fragment *f = &p->fragments[index];
	uint32_t chain = chain_of(p, f->sector, f->write);

	if (f->prev == NIL)
		p->chain_head[chain] = f->next;
	else
		p->fragments[f->prev].next = f->next;
	if (f->next == NIL)
		p->chain_tail[chain] = f->prev;
	else
		p->fragments[f->next].prev = f->prev;
}

static uint32_t add_fragment(struct lt_parser *p, uint64_t io, uint64_t sector, uint32_t bytes,
			     bool write, bool issued)
{
	uint32_t index = p->free_fragment;
	uint32_t *first = &io_at(p, io)->fragments;

	if (index == NIL) {
		uint32_t n = p->n_fragments * 2;
		struct fragment *bigger = realloc(p->fragments, (size_t)n * sizeof(*bigger));

		if (!bigger) {
			fail(p, "out of memory with %u fragments in flight", p->n_fragments);
			return NIL;
		}
		p->fragments = bigger;
		for (uint32_t i = p->n_fragments; i < n; i++)
			bigger[i].next = i + 1 < n ? i + 1 : NIL;
		index = p->n_fragments;
		p->n_fragments = n;
	}
	p->free_fragment = p->fragments[index].next;
	p->fragments[index] = (struct fragment){
		.sector = sector, .bytes = bytes, .io = io, .io_next = *first, .io_prev = NIL,
		.write = write, .issued = issued,
	};
	if (*first != NIL)
		p->fragments[*first].io_prev = index;
	*first = index;
	link_fragment(p, index);
	return index;
}

static void drop_fragment(struct lt_parser *p, uint32_t index)
{
	struct fragment *f = &p->fragments[index];

	unlink_fragment(p, index);
	if (f->io_prev == NIL)
		io_at(p, f->io)->fragments = f->io_next;
	else
		p->fragments[f->io_prev].io_next = f->io_next;
	if (f->io_next != NIL)
		p->fragments[f->io_next].io_prev = f->io_prev;
	f->next = p->free_fragment;
	p->free_fragment = index;
}

/* The I/O at the tail is now in flight. */
static void link_open(struct lt_parser *p, struct io *io)
{
	io->next_open = NO_IO;
	io->prev_open = p->last_open;
	if (p->last_open == NO_IO)
		p->first_open = p->tail - 1;
	else
		io_at(p, p->last_open)->next_open = p->tail - 1;
	p->last_open = p->tail - 1;
}

static void unlink_open(struct lt_parser *p, struct io *io)
{
	if (io->prev_open == NO_IO)
		p->first_open = io->next_open;
	else
		io_at(p, io->prev_open)->next_open = io->next_open;
	if (io->next_open == NO_IO)
		p->last_open = io->prev_open;
	else
		io_at(p, io->next_open)->prev_open = io->prev_open;
	io->open = false;
}

enum preference { PREFER_ISSUED, PREFER_UNISSUED, PREFER_YOUNGEST_UNISSUED };

#define BEST_SCORE 6

/*
 * Choose among the fragments that start at @sector. The state (issued or not) counts most, then
 * the length: all of the range, then part of it (a merge), then more than it (a partial
 * completion). Of equals the oldest wins, or the youngest for a refusal.
 */
static uint32_t find_fragment(struct lt_parser *p, uint64_t sector, uint32_t bytes, bool write,
			      enum preference preference)
{
	bool youngest = preference == PREFER_YOUNGEST_UNISSUED;
	uint32_t chain = chain_of(p, sector, write);
	uint32_t i = youngest ? p->chain_tail[chain] : p->chain_head[chain];
	uint32_t best = NIL;
	int best_score = -1;

	for (int scanned = 0; i != NIL && best_score < BEST_SCORE && scanned < CHAIN_LIMIT;
	     scanned++) {
		const struct fragment *f = &p->fragments[i];
		int score;

		if (f->sector == sector && f->write == write) {
			score = f->bytes == bytes ? 2 : f->bytes < bytes ? 1 : 0;
			if (f->issued == (preference == PREFER_ISSUED))
				score += 4;
			if (score > best_score) {
				best = i;
				best_score = score;
			}
		}
		i = youngest ? f->prev : f->next;
	}
	return best;
}

static uint32_t pages_of(uint32_t bytes)
{
	return bytes / PAGE_BYTES + !!(bytes % PAGE_BYTES);
}

/* The fragment has a request, or shares one: it is pending from now on. */
static void count_fragment(struct lt_parser *p, uint32_t index)
{
	struct fragment *f = &p->fragments[index];
	struct io *io = io_at(p, f->io);
	uint64_t pending = p->pending_pages + pages_of(io->bytes);

	if (f->counted)
		return;
	f->counted = true;
	f->pages = pages_of(f->bytes);
	p->pending_pages += f->pages;
	if (!io->counted_pending)
		io->counted_pending = pending > UINT32_MAX ? UINT32_MAX : pending;
}

/*
 * Nothing is left of the fragment. Its pages are no longer pending, but for the last part of an
 * I/O, which in the kernel is the I/O itself and waits for the others.
 */
static void end_fragment(struct lt_parser *p, uint32_t index)
{
	struct fragment *f = &p->fragments[index];
	struct io *io = io_at(p, f->io);

	if (f->sector + f->bytes / SECTOR_BYTES == io->sector + io->bytes / SECTOR_BYTES)
		io->held_pages += f->pages;
	else
		p->pending_pages -= f->pages;
	drop_fragment(p, index);
}

/* Cut fragment @index so that one starts at @sector; returns the later part. */
static uint32_t cut_fragment(struct lt_parser *p, uint32_t index, uint64_t sector)
{
	struct fragment *f = &p->fragments[index];
	uint32_t front = (sector - f->sector) * SECTOR_BYTES;
	uint64_t io = f->io;
	uint32_t rest = f->bytes - front;
	bool write = f->write, issued = f->issued, counted = f->counted;
	uint64_t issued_ns = f->issued_ns, requested_ns = f->requested_ns;
	uint32_t pages = 0, later;

	if (counted) {
		pages = f->pages < pages_of(rest) ? f->pages : pages_of(rest);
		f->pages -= pages;
	}
	f->bytes = front;
	later = add_fragment(p, io, sector, rest, write, issued);
	if (later != NIL) {
		p->fragments[later].issued_ns = issued_ns;
		p->fragments[later].counted = counted;
		p->fragments[later].requested_ns = requested_ns;
		p->fragments[later].pages = pages;
	}
	return later;
}

/*
 * The fragment that starts at @sector, or, when the trace does not hold the split that made it,
 * the one that contains @sector, cut there.
 */
static uint32_t find_or_cut(struct lt_parser *p, uint64_t sector, uint32_t bytes, bool write,
			    enum preference preference)
{
	uint32_t found = find_fragment(p, sector, bytes, write, preference);
	int scanned = 0;

	if (found != NIL)
		return found;
	for (uint64_t i = p->first_open; i != NO_IO && scanned < SCAN_LIMIT; scanned++) {
		struct io *io = io_at(p, i);

		i = io->next_open;
		if (!!(io->flags & LT_WRITE) != write || sector <= io->sector ||
		    sector >= io->sector + io->bytes / SECTOR_BYTES)
			continue;
		for (uint32_t f = io->fragments; f != NIL && scanned < SCAN_LIMIT; scanned++) {
			const struct fragment *candidate = &p->fragments[f];

			if (candidate->sector < sector &&
			    sector < candidate->sector + candidate->bytes / SECTOR_BYTES) {
				io->flags |= LT_SPLIT;
				return cut_fragment(p, f, sector);
			}
			f = candidate->io_next;
		}
	}
	return NIL;
}

/* ---- events ---- */

static void remember(struct lt_parser *p, const struct io *io)
{
	int last = p->history - 1;
	uint64_t latency_us = io->latency_ns / 1000;

	for (u32 size = linnos_size_order(pages_of(io->bytes)); size < LINNOS_SIZES; size++) {
		struct parser_history *past = &p->past[size];

		for (int i = 0; i < last; i++) {
			past->pending[i] = past->pending[i + 1];
			past->latency_us[i] = past->latency_us[i + 1];
		}
		past->pending[last] = io->counted_pending ? io->counted_pending : io->pending;
		past->latency_us[last] = latency_us > UINT32_MAX ? UINT32_MAX : latency_us;
	}
}

static void close_io(struct lt_parser *p, struct io *io, const struct blk_event *e)
{
	unlink_open(p, io);
	io->flags |= LT_COMPLETED;
	if (io->served)
		io->latency_ns = io->served_ns;
	else
		io->latency_ns = e->time > io->arrival_ns ? e->time - io->arrival_ns : 0;
	p->pending_pages -= io->held_pages;
	if (io->flags & LT_REVOKED)
		p->stats.revoked++;
	else if (io->flags & LT_ERROR)
		p->stats.errors++;
	else if (!(io->flags & LT_WRITE))
		remember(p, io);
}

/* Give up I/Os whose completion was lost, so that they neither count nor hold back others. */
static void expire(struct lt_parser *p, uint64_t now)
{
	struct io *io = io_at(p, p->head);

	if (!io->open || now - io->arrival_ns <= p->max_age_ns || now < io->arrival_ns)
		return;
	while (io->fragments != NIL) {
		p->pending_pages -= p->fragments[io->fragments].pages;
		drop_fragment(p, io->fragments);
	}
	unlink_open(p, io);
	p->pending_pages -= io->held_pages;
	p->stats.missing_completions++;
}

static void on_queue(struct lt_parser *p, const struct blk_event *e, bool write)
{
	uint64_t pending = p->pending_pages + pages_of(e->bytes);
	uint32_t fragment;
	struct io *io;

	if (!push_io(p))
		return;
	io = io_at(p, p->tail - 1);
	*io = (struct io){
		.arrival_ns = e->time, .sector = e->sector, .bytes = e->bytes,
		.left_bytes = e->bytes, .open = true, .flags = write ? LT_WRITE : 0,
		.pending = pending > UINT32_MAX ? UINT32_MAX : pending, .fragments = NIL,
	};
	link_open(p, io);
	if (write) {
		p->stats.writes++;
	} else {
		const struct parser_history *past = &p->past[linnos_size_order(pages_of(e->bytes))];

		p->stats.reads++;
		for (int i = 0; i < p->history; i++) {
			io->hist_pending[i] = past->pending[i];
			io->hist_latency_us[i] = past->latency_us[i];
		}
	}
	fragment = add_fragment(p, p->tail - 1, e->sector, e->bytes, write, false);
	/* a trace that does not tell when a bio has its request */
	if (fragment != NIL && !p->has_requests)
		count_fragment(p, fragment);
}

static void has_request(struct lt_parser *p, uint32_t index, uint64_t now)
{
	/* of two I/Os alike the first one's stays */
	if (!p->fragments[index].requested_ns)
		p->fragments[index].requested_ns = now;
	count_fragment(p, index);
}

static void on_getrq(struct lt_parser *p, const struct blk_event *e, bool write)
{
	uint32_t found = find_fragment(p, e->sector, e->bytes, write, PREFER_UNISSUED);

	p->has_requests = true;
	if (found != NIL)
		has_request(p, found, e->time);
}

static void on_split(struct lt_parser *p, const struct blk_event *e, bool write)
{
	uint32_t found = find_fragment(p, e->sector, e->bytes, write, PREFER_UNISSUED);

	if (found == NIL)
		return;
	io_at(p, p->fragments[found].io)->flags |= LT_SPLIT;
	if (p->fragments[found].bytes > e->bytes)
		cut_fragment(p, found, e->sector + e->bytes / SECTOR_BYTES);
}

/* A merge: the fragment shares a request from now on, and completes with it. */
static void on_merge(struct lt_parser *p, const struct blk_event *e, bool write)
{
	uint32_t found = find_fragment(p, e->sector, e->bytes, write, PREFER_UNISSUED);

	if (found == NIL)
		return;
	has_request(p, found, e->time);
	io_at(p, p->fragments[found].io)->flags |= LT_MERGED;
}

/* The drive has had the fragment until now. */
static void served(struct io *io, const struct fragment *f, uint64_t now)
{
	uint64_t ns = now > f->issued_ns ? now - f->issued_ns : 0;

	if (ns > io->served_ns)
		io->served_ns = ns;
	io->served = true;
}

/* Where the time of a part went; that of the last one stays. Zeros: its issue is not known. */
static void note_layers(struct io *io, const struct fragment *f, uint64_t now)
{
	uint64_t requested_ns =
		f->requested_ns > io->arrival_ns ? f->requested_ns : io->arrival_ns;

	if (!f->issued) {
		io->to_request_ns = io->to_issue_ns = io->to_completion_ns = 0;
		return;
	}
	io->to_request_ns = requested_ns - io->arrival_ns;
	io->to_issue_ns = f->issued_ns > requested_ns ? f->issued_ns - requested_ns : 0;
	io->to_completion_ns = now > f->issued_ns ? now - f->issued_ns : 0;
}

static void on_issue(struct lt_parser *p, const struct blk_event *e, bool write, bool requeue)
{
	uint64_t sector = e->sector;
	uint32_t left = e->bytes;

	while (left) {
		uint32_t found = find_or_cut(p, sector, left, write,
					     requeue ? PREFER_ISSUED : PREFER_UNISSUED);
		uint32_t step;

		if (found == NIL || p->failed)
			return;
		step = p->fragments[found].bytes;
		if (step > left) {
			/* an untraced split: only its front is in this request */
			cut_fragment(p, found, sector + left / SECTOR_BYTES);
			if (p->failed)
				return;
			io_at(p, p->fragments[found].io)->flags |= LT_SPLIT;
			step = left;
		}
		if (requeue && p->fragments[found].issued)
			served(io_at(p, p->fragments[found].io), &p->fragments[found], e->time);
		p->fragments[found].issued = !requeue;
		if (!requeue) {
			p->fragments[found].issued_ns = e->time;
			count_fragment(p, found);
		}
		io_at(p, p->fragments[found].io)->flags |= requeue ? LT_REQUEUED : LT_ISSUED;
		sector += step / SECTOR_BYTES;
		left -= step;
	}
}

static void on_complete(struct lt_parser *p, const struct blk_event *e, bool write)
{
	/* The kernel logs the negative errno in 16 bits; some versions log it positive. */
	int error = e->error > 0x8000 ? 0x10000 - e->error : e->error;
	bool refused = error == EBUSY || error == EAGAIN;
	uint64_t sector = e->sector;
	uint32_t left = e->bytes;
	bool matched = false;

	while (left) {
		uint32_t found = find_or_cut(p, sector, left, write,
					     refused ? PREFER_YOUNGEST_UNISSUED : PREFER_ISSUED);
		struct fragment *f;
		struct io *io;
		uint32_t step;

		if (found == NIL || p->failed)
			break;
		matched = true;
		f = &p->fragments[found];
		io = io_at(p, f->io);
		step = f->bytes < left ? f->bytes : left;
		if (error)
			io->flags |= error == EBUSY && !f->issued ? LT_REVOKED : LT_ERROR;
		if (!error && f->issued)
			served(io, f, e->time);
		note_layers(io, f, e->time);
		if (step == f->bytes) {
			end_fragment(p, found);
		} else {
			unlink_fragment(p, found);
			f->sector += step / SECTOR_BYTES;
			f->bytes -= step;
			link_fragment(p, found);
		}
		io->left_bytes -= step;
		if (!io->left_bytes)
			close_io(p, io, e);
		sector += step / SECTOR_BYTES;
		left -= step;
	}
	if (!matched)
		p->stats.unmatched_completions++;
}

/*
 * Whether an I/O's event can be one of a drive's. Parts of sectors would leave fragments of no
 * length, and what is behind the last byte or time that fits 63 bits wraps in whoever reads on.
 */
static bool plausible(struct lt_parser *p, const struct blk_event *e)
{
	const uint64_t last = INT64_MAX;
	const char *wrong = NULL;

	if (e->bytes % SECTOR_BYTES)
		wrong = "not whole sectors of 512 bytes";
	else if (e->sector > (last - e->bytes) / SECTOR_BYTES)
		wrong = "no drive has that sector";
	else if (e->time > last)
		wrong = "no clock shows that time";
	if (wrong)
		fail(p, "%s: corrupt: event %llu (%u bytes at sector %llu, time %llu ns): %s; "
			"record or copy the trace again", p->sources[0].path,
		     (unsigned long long)p->stats.events, e->bytes,
		     (unsigned long long)e->sector, (unsigned long long)e->time, wrong);
	return !wrong;
}

/* Count the event for its device; false when it belongs to another drive than the one wanted. */
static bool wanted_device(struct lt_parser *p, const struct blk_event *e)
{
	struct lt_stats *s = &p->stats;
	uint32_t i;

	for (i = 0; i < s->n_devices; i++)
		if (s->devices[i] == e->device)
			break;
	if (i == s->n_devices && s->n_devices < LT_MAX_DEVICES)
		s->devices[s->n_devices++] = e->device;
	if (i < LT_MAX_DEVICES)
		s->device_events[i]++;
	if (!p->device)
		p->device = e->device;
	if (e->device == p->device)
		return true;
	s->other_device++;
	return false;
}

/* Per CPU the kernel numbers the events, so a gap counts what its buffers dropped. */
static void count_sequence(struct lt_parser *p, const struct blk_event *e)
{
	if (e->cpu >= MAX_CPUS)
		return;
	if (!p->sequenced[e->cpu]++) {
		p->first_sequence[e->cpu] = e->sequence;
		p->last_sequence[e->cpu] = e->sequence;
	} else if ((int32_t)(e->sequence - p->last_sequence[e->cpu]) > 0) {
		p->last_sequence[e->cpu] = e->sequence;
	} else if ((int32_t)(e->sequence - p->first_sequence[e->cpu]) < 0) {
		p->first_sequence[e->cpu] = e->sequence;
	}
}

static void on_event(struct lt_parser *p, const struct blk_event *e)
{
	uint32_t act = e->action & ACT_MASK;
	bool write = e->action & CAT_WRITE;

	p->stats.events++;
	if (!wanted_device(p, e))
		return;
	count_sequence(p, e);
	if (e->time < p->last_time)
		p->stats.out_of_order++;
	p->last_time = e->time;
	if (p->head != p->tail)
		expire(p, e->time);

	switch (act) {
	case ACT_QUEUE:
		p->stats.queued++;
		break;
	case ACT_ISSUE:
		p->stats.issued++;
		break;
	case ACT_COMPLETE:
		p->stats.completed++;
		break;
	case ACT_BACKMERGE:
		p->stats.back_merges++;
		break;
	case ACT_FRONTMERGE:
		p->stats.front_merges++;
		break;
	case ACT_SPLIT:
		p->stats.splits++;
		break;
	case ACT_REMAP:
		/* Of the device below, written before the Q, which has the new sector already. */
		p->stats.remaps++;
		return;
	case ACT_REQUEUE:
		p->stats.requeues++;
		break;
	case ACT_GETRQ:
		break;
	default:
		return;
	}
	if (!e->bytes || e->action & (CAT_DISCARD | CAT_PASSTHROUGH)) {
		p->stats.not_counted++;
		return;
	}
	if (!plausible(p, e))
		return;
	switch (act) {
	case ACT_QUEUE:
		on_queue(p, e, write);
		break;
	case ACT_ISSUE:
		on_issue(p, e, write, false);
		break;
	case ACT_REQUEUE:
		on_issue(p, e, write, true);
		break;
	case ACT_COMPLETE:
		on_complete(p, e, write);
		break;
	case ACT_BACKMERGE:
	case ACT_FRONTMERGE:
		on_merge(p, e, write);
		break;
	case ACT_SPLIT:
		on_split(p, e, write);
		break;
	case ACT_GETRQ:
		on_getrq(p, e, write);
		break;
	}
}

/* ---- interface ---- */

/**
 * lt_open() - start reading a trace
 * @paths: the files, one per CPU, or one merged
 * @n_paths: how many
 * @history: past reads in the features, 1 to LT_MAX_HISTORY
 * @device: kernel device number (major << 20 | minor) to keep, 0 for the first in the trace
 * @max_age_ns: give an I/O up when it has not completed after so long
 * @allow_truncated: take an event that is cut off as the end of its file
 *
 * Return: a parser, to be closed with lt_close(); lt_error() tells whether it is usable. NULL when
 * out of memory.
 */
struct lt_parser *lt_open(const char *const *paths, int n_paths, int history, uint32_t device,
			  uint64_t max_age_ns, int allow_truncated)
{
	struct lt_parser *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->history = history;
	p->device = device;
	p->max_age_ns = max_age_ns;
	p->allow_truncated = allow_truncated;
	p->capacity = 1024;
	p->first_open = NO_IO;
	p->last_open = NO_IO;
	p->n_fragments = 1024;
	p->n_chains = 1 << 14;
	p->ios = calloc(p->capacity, sizeof(*p->ios));
	p->fragments = calloc(p->n_fragments, sizeof(*p->fragments));
	p->chain_head = malloc(p->n_chains * sizeof(*p->chain_head));
	p->chain_tail = malloc(p->n_chains * sizeof(*p->chain_tail));
	p->first_sequence = calloc(MAX_CPUS, sizeof(*p->first_sequence));
	p->last_sequence = calloc(MAX_CPUS, sizeof(*p->last_sequence));
	p->sequenced = calloc(MAX_CPUS, sizeof(*p->sequenced));
	p->sources = calloc(n_paths, sizeof(*p->sources));
	if (!p->ios || !p->fragments || !p->chain_head || !p->chain_tail || !p->sources ||
	    !p->first_sequence || !p->last_sequence || !p->sequenced) {
		lt_close(p);
		return NULL;
	}
	memset(p->chain_head, 0xff, p->n_chains * sizeof(*p->chain_head));
	memset(p->chain_tail, 0xff, p->n_chains * sizeof(*p->chain_tail));
	for (uint32_t i = 0; i < p->n_fragments; i++)
		p->fragments[i].next = i + 1 < p->n_fragments ? i + 1 : NIL;

	if (history < 1 || history > LT_MAX_HISTORY) {
		fail(p, "history %d, accepted are 1 to %d", history, LT_MAX_HISTORY);
		return p;
	}
	for (int i = 0; i < n_paths && !p->failed; i++) {
		struct source *s = &p->sources[i];

		p->n_sources = i + 1;
		s->path = strdup(paths[i]);
		s->buffer = malloc(BUFFER_BYTES);
		s->fd = open(paths[i], O_RDONLY | O_CLOEXEC);
		if (s->fd < 0 || !s->buffer || !s->path) {
			fail(p, "%s: %s", paths[i], s->fd < 0 ? strerror(errno) : "out of memory");
			return p;
		}
		advance(p, s);
	}
	return p;
}

/**
 * lt_read() - the next I/Os in arrival order
 * @p: the parser
 * @rows: room in the columns
 * @columns: where to put them
 *
 * Return: how many I/Os were written, fewer than @rows only at the end of the trace; 0 when there
 * are no more; -1 on an error, which lt_error() tells.
 */
int64_t lt_read(struct lt_parser *p, int64_t rows, const struct lt_columns *columns)
{
	int64_t row = 0;

	while (row < rows) {
		struct blk_event event;
		struct io *io = io_at(p, p->head);

		if (p->head != p->tail && (!io->open || p->finished)) {
			size_t past = (size_t)row * p->history;

			if (io->open)
				p->stats.missing_completions++;
			columns->arrival_ns[row] = io->arrival_ns;
			columns->latency_ns[row] = io->latency_ns;
			columns->sector[row] = io->sector;
			columns->bytes[row] = io->bytes;
			columns->pending[row] = io->pending;
			columns->flags[row] = io->flags;
			memcpy(columns->hist_pending + past, io->hist_pending,
			       p->history * sizeof(uint32_t));
			memcpy(columns->hist_latency_us + past, io->hist_latency_us,
			       p->history * sizeof(uint32_t));
			if (columns->to_request_ns)
				columns->to_request_ns[row] = io->to_request_ns;
			if (columns->to_issue_ns)
				columns->to_issue_ns[row] = io->to_issue_ns;
			if (columns->to_completion_ns)
				columns->to_completion_ns[row] = io->to_completion_ns;
			p->head++;
			row++;
			continue;
		}
		if (p->finished)
			break;
		if (!next_event(p, &event)) {
			if (p->failed)
				return -1;
			p->finished = true;
			continue;
		}
		on_event(p, &event);
		if (p->failed)
			return -1;
	}
	return row;
}

/**
 * lt_merge() - copy all events of a freshly opened parser's files to one file, in time order
 * @p: the parser; of no more use afterwards but for lt_error() and lt_close()
 * @path: the file to create
 *
 * Return: events written, or -1 on an error, which lt_error() tells.
 */
int64_t lt_merge(struct lt_parser *p, const char *path)
{
	FILE *out = p->failed ? NULL : fopen(path, "wbe");
	int64_t events = 0;

	if (!out) {
		if (!p->failed)
			fail(p, "%s: %s", path, strerror(errno));
		return -1;
	}
	for (;;) {
		struct source *best = NULL;
		size_t bytes;

		for (int i = 0; i < p->n_sources; i++) {
			struct source *s = &p->sources[i];

			if (!s->at_end && (!best || s->head.time < best->head.time))
				best = s;
		}
		if (!best)
			break;
		/* the head's bytes stay in the buffer until the next one is read */
		bytes = sizeof(best->head) + best->head.pdu_len;
		if (fwrite(best->buffer + best->start - bytes, bytes, 1, out) != 1) {
			fail(p, "%s: %s", path, strerror(errno));
			break;
		}
		events++;
		advance(p, best);
		if (p->failed)
			break;
	}
	if (fclose(out) && !p->failed)
		fail(p, "%s: %s", path, strerror(errno));
	return p->failed ? -1 : events;
}

/** lt_stats() - what was seen so far; complete once lt_read() returned 0 */
void lt_stats(const struct lt_parser *p, struct lt_stats *stats)
{
	*stats = p->stats;
	stats->lost_events = 0;
	for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
		uint64_t span = p->last_sequence[cpu] - p->first_sequence[cpu] + 1u;

		if (p->sequenced[cpu] && span > p->sequenced[cpu])
			stats->lost_events += span - p->sequenced[cpu];
	}
}

/** lt_error() - why the last call failed; an empty string when it did not */
const char *lt_error(const struct lt_parser *p)
{
	return p->error;
}

void lt_close(struct lt_parser *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->n_sources; i++) {
		if (p->sources[i].fd >= 0)
			close(p->sources[i].fd);
		free((void *)p->sources[i].path);
		free(p->sources[i].buffer);
	}
	free(p->sources);
	free(p->ios);
	free(p->fragments);
	free(p->chain_head);
	free(p->chain_tail);
	free(p->first_sequence);
	free(p->last_sequence);
	free(p->sequenced);
	free(p);
}
