/* SPDX-License-Identifier: MIT */
/*
 * blktrace's events as requests of a drive, and as I/Os with what they saw of it.
 *
 * blktrace names no request, only (direction, sector, bytes), so an I/O is followed as the runs of
 * sectors that it waits for, its parts. Each is in a request, of which the drive's state knows:
 *
 *	Q  an I/O, with one part; the state does not have its request yet, what the host holds
 *	   back is no load
 *	X  a part is cut in two, and the later one has a request of its own
 *	G  the state has the request (at Q in a trace without G)
 *	M  F  a part shares the request before or behind it, which grows
 *	D  the drive is given the request: all of the range is one, whatever came before
 *	R  the drive has handed it back, and is given it again; it took the time in between
 *	C  parts, or the front of one, are answered; the request ends with the last one
 *
 * An I/O sees the state at its Q, and ends when it waits for no part any more.
 *
 * Two I/Os in flight on the same sectors cannot be told apart: an event takes the part that is in
 * the state it should be in before that event, of several the one that waited longest; a refusal
 * (EBUSY, EAGAIN) the youngest, because it follows its submission at once.
 *
 * I/Os leave in order of arrival, so one that never completes would hold back all that came later:
 * after max_age_ns of trace time it is given up.
 */
#include "blktrace_private.h"

#include <errno.h>
#include <stdlib.h>

/*
 * How far to look for the part of an event: among those in flight, and among those whose sectors
 * hash alike. No drive has that many, but a trace that lost its completions does, and must not take
 * time squared.
 */
#define SCAN_LIMIT 4096
#define CHAIN_LIMIT 256

struct request {
	struct linnos_io io;		/* in the drive's state, when it is counted */
	uint64_t issued_ns;		/* the last time */
	uint32_t n_parts;
	bool issued;
};

struct lt_part {
	TAILQ_ENTRY(lt_part) chain, in_flight, of_io;
	struct lt_io *io;
	struct request *request;
	uint64_t sector;
	uint64_t requested_ns;		/* 0: not told */
	uint32_t bytes;
};

/* An I/O as it was submitted. */
struct lt_io {
	TAILQ_ENTRY(lt_io) arrival;
	struct lt_parts parts;		/* that it waits for */
	uint32_t left_bytes;
	bool open;			/* it has neither ended nor been given up */
	struct lt_row row;
};

/* What an event should find a part in. */
enum state { QUEUED, REQUESTED, ISSUED, REFUSED };

/* How well a part suits that is queued, has a request, is issued; not below 0. */
static const int suits[][3] = {
	[QUEUED] = { 6, 3, -9 }, [REQUESTED] = { 3, 6, 0 }, [ISSUED] = { 0, 3, 6 },
	[REFUSED] = { 6, 3, 0 },
};

#define RIGHT_STATE 6
#define BEST_SCORE 8
#define SAME_REQUEST 10

/* What is left of an event's sectors, and what they are looked for in. */
struct range {
	uint64_t sector;
	uint32_t bytes;
	bool write;
	bool splits;			/* what is cut off has a request of its own */
	enum state state;
	const struct request *request;	/* of the part before, if more are in it */
};

static uint64_t end_of(uint64_t sector, uint32_t bytes)
{
	return sector + bytes / SECTOR_BYTES;
}

static bool is_write(const struct lt_part *part)
{
	return part->io->row.flags & LT_WRITE;
}

static struct lt_parts *chain_of(struct lt_requests *p, uint64_t sector, bool write)
{
	return &p->chains[((sector * 2 + write) * 0x9e3779b97f4a7c15ull) >> 32 & (LT_CHAINS - 1)];
}

static uint64_t ns_since(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* ---- requests in the drive's state, where zero is no time ---- */

static bool is_counted(const struct request *r)
{
	return r->io.flags & LINNOS_IO_COUNTED;
}

/* It is in flight from now on. */
static void count(struct lt_requests *p, const struct lt_part *part)
{
	if (!is_counted(part->request))
		linnos_io_begin(&p->drive, &part->request->io,
				linnos_region_of(part->sector * SECTOR_BYTES),
				linnos_pages_of(part->bytes),
				is_write(part) ? 0 : LINNOS_IO_READ, p->now_ns + 1);
}

static void uncount(struct lt_requests *p, struct request *r)
{
	struct linnos_ended ended;

	if (linnos_io_end(&p->drive, &r->io, p->now_ns + 1, &ended))
		linnos_history_add(&p->drive.history, &ended);
}

static void leave(struct lt_requests *p, struct request *r)
{
	if (--r->n_parts)
		return;
	uncount(p, r);
	free(r);
}

/* The part shares another one's request from now on. */
static void join(struct lt_requests *p, struct lt_part *part, struct request *r)
{
	leave(p, part->request);
	linnos_io_grow(&p->drive, &r->io, linnos_pages_of(part->bytes));
	part->request = r;
	r->n_parts++;
}

/* ---- parts ---- */

static struct lt_part *add_part(struct lt_requests *p, struct lt_io *io, uint64_t sector,
				uint32_t bytes, struct request *r)
{
	struct lt_part *part = lt_alloc(p->failure, sizeof(*part));

	if (!r)
		r = lt_alloc(p->failure, sizeof(*r));
	if (!part || !r)
		return NULL;
	r->n_parts++;
	part->io = io;
	part->request = r;
	part->sector = sector;
	part->bytes = bytes;
	TAILQ_INSERT_TAIL(chain_of(p, sector, is_write(part)), part, chain);
	TAILQ_INSERT_TAIL(&p->in_flight, part, in_flight);
	TAILQ_INSERT_TAIL(&io->parts, part, of_io);
	return part;
}

static void drop_part(struct lt_requests *p, struct lt_part *part)
{
	leave(p, part->request);
	TAILQ_REMOVE(chain_of(p, part->sector, is_write(part)), part, chain);
	TAILQ_REMOVE(&p->in_flight, part, in_flight);
	TAILQ_REMOVE(&part->io->parts, part, of_io);
	free(part);
}

/* Cut a part so that one starts at @sector. */
static struct lt_part *cut(struct lt_requests *p, struct lt_part *part, uint64_t sector, bool splits)
{
	uint32_t bytes = (end_of(part->sector, part->bytes) - sector) * SECTOR_BYTES;
	struct request *r = part->request, old = *r;
	struct lt_part *later = add_part(p, part->io, sector, bytes, splits ? NULL : r);

	if (!later)
		return NULL;
	part->bytes -= bytes;
	later->requested_ns = part->requested_ns;
	if (!splits)
		return later;
	part->io->row.flags |= LT_SPLIT;
	later->request->issued = old.issued;
	later->request->issued_ns = old.issued_ns;
	if (is_counted(r)) {
		r->io.flags &= ~LINNOS_IO_ANSWERED;
		uncount(p, r);
		count(p, part);
		count(p, later);
		r->io.issued_ns = later->request->io.issued_ns = old.io.issued_ns;
	}
	return later;
}

static int suitable(const struct lt_part *part, const struct range *range)
{
	const struct request *r = part->request;

	if (is_write(part) != range->write)
		return -1;
	return suits[range->state][r->issued ? ISSUED : is_counted(r) ? REQUESTED : QUEUED];
}

/*
 * Choose among the parts that start where the range does. Their request counts most, then the
 * state, then the length: all of the range, part of it (a merge), more (a partial completion).
 */
static struct lt_part *find(struct lt_requests *p, const struct range *range)
{
	struct lt_parts *chain = chain_of(p, range->sector, range->write);
	int best_score = -1, enough = BEST_SCORE + (range->request ? SAME_REQUEST : 0);
	bool youngest = range->state == REFUSED;
	struct lt_part *part = youngest ? TAILQ_LAST(chain, lt_parts) : TAILQ_FIRST(chain);
	struct lt_part *best = NULL;

	for (int n = 0; part && best_score < enough && n < CHAIN_LIMIT; n++) {
		int score = suitable(part, range);

		if (part->sector == range->sector && score >= 0) {
			score += part->bytes == range->bytes ? 2 : part->bytes < range->bytes;
			score += part->request == range->request ? SAME_REQUEST : 0;
			best = score > best_score ? part : best;
			best_score = score > best_score ? score : best_score;
		}
		part = youngest ? TAILQ_PREV(part, lt_parts, chain) : TAILQ_NEXT(part, chain);
	}
	return best;
}

enum where { AROUND, BEFORE, BEHIND };

/* The youngest part around the start of the range, or right before or behind all of it. */
static struct lt_part *find_near(struct lt_requests *p, const struct range *range, enum where where)
{
	struct lt_part *part;
	int n = 0;

	TAILQ_FOREACH_REVERSE(part, &p->in_flight, lt_parts, in_flight) {
		uint64_t end = end_of(part->sector, part->bytes);

		if (n++ == SCAN_LIMIT)
			break;
		if (suitable(part, range) >= (where == AROUND ? 0 : RIGHT_STATE) &&
		    (where == BEFORE ? end == range->sector :
		     where == BEHIND ? part->sector == end_of(range->sector, range->bytes) :
		     part->sector < range->sector && range->sector < end))
			return part;
	}
	return NULL;
}

/* The part that the range starts with, no longer than it; it is taken from the range. */
static struct lt_part *take(struct lt_requests *p, struct range *range)
{
	struct lt_part *part = find(p, range);

	if (!part) {
		/* its split was not traced */
		part = find_near(p, range, AROUND);
		if (part)
			part = cut(p, part, range->sector, range->splits);
	}
	if (!part || (part->bytes > range->bytes &&
		      !cut(p, part, end_of(range->sector, range->bytes), range->splits)))
		return NULL;
	range->sector = end_of(part->sector, part->bytes);
	range->bytes -= part->bytes;
	range->request = part->request->n_parts > 1 ? part->request : NULL;
	return part;
}

/* ---- I/Os ---- */

/* What a model sees of a read that arrives. */
static void look(struct lt_requests *p, struct lt_row *row)
{
	struct linnos_view view = {
		.now_ns = p->now_ns + 1,
		.pages = linnos_pages_of(row->bytes),
		.size = linnos_size_order(linnos_pages_of(row->bytes)),
	};

	linnos_see_load(&p->drive, &view.load);
	row->pending = linnos_pending(&view);
	if (row->flags & LT_WRITE)
		return;
	view.in_region =
		linnos_see_region(&p->drive, linnos_region_of(row->sector * SECTOR_BYTES));
	linnos_history_see(&p->drive.history, view.size, view.past);
	linnos_view_features(&p->drive.places, &view, p->options->overdue_us, row->features);
	for (int i = 0; i < LT_HISTORY; i++) {
		row->hist_pending[i] = view.past[i].pending;
		row->hist_latency_us[i] = view.past[i].latency_us;
	}
}

static void submit(struct lt_requests *p, const struct range *range)
{
	struct lt_io *io = lt_alloc(p->failure, sizeof(*io));
	struct lt_part *part;

	if (!io)
		return;
	io->row.arrival_ns = p->now_ns;
	io->row.sector = range->sector;
	io->row.bytes = io->left_bytes = range->bytes;
	io->row.flags = range->write ? LT_WRITE : 0;
	io->open = true;
	TAILQ_INIT(&io->parts);
	TAILQ_INSERT_TAIL(&p->ios, io, arrival);
	*(range->write ? &p->stats->writes : &p->stats->reads) += 1;
	look(p, &io->row);
	part = add_part(p, io, range->sector, range->bytes, NULL);
	/* a trace that does not tell when a bio has its request */
	if (part && !p->has_requests)
		count(p, part);
}

/* Where the time of a part went; that of the last one stays. Zeros: its issue is not known. */
static void note_layers(struct lt_requests *p, struct lt_row *row, const struct lt_part *part)
{
	uint64_t issued_ns = part->request->issued_ns;
	bool known = part->request->issued;

	row->to_request_ns = known ? ns_since(row->arrival_ns, part->requested_ns) : 0;
	row->to_issue_ns = known ? ns_since(row->arrival_ns + row->to_request_ns, issued_ns) : 0;
	row->to_completion_ns = known ? ns_since(issued_ns, p->now_ns) : 0;
}

static void close_io(struct lt_requests *p, struct lt_io *io)
{
	io->open = false;
	io->row.flags |= LT_COMPLETED;
	if (!(io->row.flags & LT_ISSUED))
		io->row.latency_ns = ns_since(io->row.arrival_ns, p->now_ns);
	if (io->row.flags & LT_REVOKED)
		p->stats->revoked++;
	else if (io->row.flags & LT_ERROR)
		p->stats->errors++;
}

static void answer(struct lt_requests *p, struct lt_part *part, int error)
{
	struct request *r = part->request;
	struct lt_row *row = &part->io->row;
	uint64_t took_ns = r->io.issued_ns ? ns_since(r->io.issued_ns, p->now_ns + 1) : 0;

	if (error)
		row->flags |= error == EBUSY && !r->issued ? LT_REVOKED : LT_ERROR;
	if (took_ns > row->latency_ns)
		row->latency_ns = took_ns;
	note_layers(p, row, part);
	part->io->left_bytes -= part->bytes;
	if (!part->io->left_bytes)
		close_io(p, part->io);

	count(p, part);
	/* from its arrival where no issue was traced */
	linnos_io_issue(&r->io, row->arrival_ns + 1);
	/* the last answer counts */
	r->io.flags &= ~LINNOS_IO_ANSWERED;
	r->io.flags |= error ? 0 : LINNOS_IO_ANSWERED;
	drop_part(p, part);
}

/* Its completion was lost: it neither counts any longer nor holds back others. */
static void give_up(struct lt_requests *p, struct lt_io *io)
{
	struct lt_part *part;

	io->open = false;
	io->row.latency_ns = 0;
	p->stats->missing_completions++;
	while ((part = TAILQ_FIRST(&io->parts))) {
		part->request->io.flags &= ~LINNOS_IO_ANSWERED;
		drop_part(p, part);
	}
}

/* The I/O that arrived first of those that are left, if it has ended, or must have @at_end. */
bool lt_requests_take(struct lt_requests *p, bool at_end, struct lt_row *row)
{
	struct lt_io *io = TAILQ_FIRST(&p->ios);

	if (!io || (io->open && !at_end))
		return false;
	if (io->open)
		give_up(p, io);
	*row = io->row;
	TAILQ_REMOVE(&p->ios, io, arrival);
	free(io);
	return true;
}

/* So late it is: what is older than an I/O can be is given up. */
void lt_requests_advance(struct lt_requests *p, uint64_t now_ns)
{
	struct lt_io *io;

	p->now_ns = now_ns;
	TAILQ_FOREACH(io, &p->ios, arrival) {
		if (ns_since(io->row.arrival_ns, now_ns) <= p->options->max_age_ns)
			return;
		if (io->open)
			give_up(p, io);
	}
}

/* ---- events ---- */

/* The first G: the trace tells who has a request, and who waits for one is no load. */
static void has_requests(struct lt_requests *p)
{
	struct lt_part *part;

	p->has_requests = true;
	TAILQ_FOREACH(part, &p->in_flight, in_flight)
		if (!part->request->issued)
			uncount(p, part->request);
}

/* An event happens to a part; @r is the request of all of the event's range, if one is known. */
static void on_part(struct lt_requests *p, uint32_t action, struct lt_part *part,
		    struct request *r, int error)
{
	switch (action) {
	case ACT_BACKMERGE:
	case ACT_FRONTMERGE:
		part->io->row.flags |= LT_MERGED;
		/* fallthrough */
	case ACT_GETRQ:
		/* of two I/Os alike the first one's stays */
		if (!part->requested_ns)
			part->requested_ns = p->now_ns;
		/* fallthrough */
	case ACT_ISSUE:
		if (r && r != part->request && !part->request->issued)
			join(p, part, r);
		count(p, part);
		if (action != ACT_ISSUE)
			break;
		part->io->row.flags |= LT_ISSUED;
		part->request->issued = true;
		part->request->issued_ns = p->now_ns;
		linnos_io_issue(&part->request->io, p->now_ns + 1);
		break;
	case ACT_REQUEUE:
		part->io->row.flags |= LT_REQUEUED;
		part->request->issued = false;
		break;
	case ACT_COMPLETE:
		answer(p, part, error);
		break;
	}
}

static enum state state_before(uint32_t action, int error)
{
	if (action == ACT_ISSUE)
		return REQUESTED;
	if (action != ACT_COMPLETE && action != ACT_REQUEUE)
		return QUEUED;
	return error == EBUSY || error == EAGAIN ? REFUSED : ISSUED;
}

/* Something has happened, at the time of lt_requests_advance(), to an I/O with data. */
void lt_requests_see(struct lt_requests *p, const struct blk_event *e)
{
	/* The kernel logs the negative errno in 16 bits; some versions log it positive. */
	int error = e->error > 0x8000 ? 0x10000 - e->error : e->error;
	uint32_t action = e->action & ACT_MASK;
	struct range range = {
		.sector = e->sector, .bytes = e->bytes, .write = e->action & CAT_WRITE,
		/* what has been answered in part is still one request */
		.splits = action != ACT_COMPLETE && action != ACT_REQUEUE,
		/* what can be merged with */
		.state = REQUESTED,
	};
	struct lt_part *part = NULL;
	struct request *r = NULL;

	if (action == ACT_QUEUE) {
		submit(p, &range);
		return;
	}
	if (action == ACT_GETRQ && !p->has_requests)
		has_requests(p);
	if (action == ACT_BACKMERGE || action == ACT_FRONTMERGE)
		part = find_near(p, &range, action == ACT_BACKMERGE ? BEFORE : BEHIND);
	if (part)
		r = part->request;
	range.state = state_before(action, error);
	while (range.bytes && (part = take(p, &range))) {
		if (action == ACT_ISSUE && !r)
			r = part->request;
		on_part(p, action, part, r, error);
	}
	if (action == ACT_COMPLETE && range.bytes == e->bytes)
		p->stats->unmatched_completions++;
}

void lt_requests_init(struct lt_requests *p)
{
	TAILQ_INIT(&p->ios);
	TAILQ_INIT(&p->in_flight);
	for (int i = 0; i < LT_CHAINS; i++)
		TAILQ_INIT(&p->chains[i]);
	p->drive.watching = true;
}
