/* SPDX-License-Identifier: MIT */
/*
 * Find the parts of I/Os that an event affects, and count their requests in the drive's state. The
 * comment at the head of blktrace_requests.c explains parts and requests.
 */
#include "blktrace_parts.h"

#include <stdlib.h>

/* The score of a part in exactly the state that an event should find. */
#define RIGHT_STATE 6

static bool is_counted(const struct request *r)
{
	return r->io.flags & LINNOS_IO_COUNTED;
}

/* Scores of a part that is queued, has a request, or is issued; a negative one excludes it. */
static const int suits[][3] = {
	[QUEUED] = { 6, 3, -9 }, [REQUESTED] = { 3, 6, -9 }, [ISSUED] = { 0, 3, 6 },
	[REFUSED] = { 6, 3, 0 },
};

#define BEST_SCORE 8
#define SAME_REQUEST 10

/* ---- requests in the drive's state, in which a time of 0 means none ---- */

/* Keep the start time of a read that has a slot. */
static void keep_start(struct lt_requests *p, struct request *r)
{
	uint64_t n = p->n_starts;

	/* the capacity is the next power of two */
	if (!(n & (n - 1))) {
		void *grown = realloc(p->starts, (n ? 2 * n : 1) * sizeof(*p->starts));

		if (!grown) {
			lt_fail(p->failure, "out of memory for the start times of reads");
			return;
		}
		p->starts = grown;
	}
	r->start = p->n_starts++;
	p->starts[r->start] = (struct lt_start){ p->now_ns + 1, UINT64_MAX };
}

/* Count the part's request as in flight from now on. */
void lt_count_request(struct lt_requests *p, const struct lt_part *part)
{
	if (is_counted(part->request) || part->request->over)
		return;
	linnos_io_begin(&p->drive, &part->request->io,
			linnos_region_of(part->sector * SECTOR_BYTES), linnos_pages_of(part->bytes),
			is_write(part) ? 0 : LINNOS_IO_READ, p->now_ns + 1);
	if (p->options->keep_starts && part->request->io.start_slot)
		keep_start(p, part->request);
}

void lt_uncount_request(struct lt_requests *p, struct request *r)
{
	struct linnos_completed_io ended;

	if (p->options->keep_starts && is_counted(r) && r->io.start_slot)
		p->starts[r->start].until = p->stats->reads + p->stats->writes;
	if (linnos_io_end(&p->drive, &r->io, p->now_ns + 1, &ended))
		linnos_history_add(&p->drive.history, &ended);
}

static void leave(struct lt_requests *p, struct request *r)
{
	if (--r->n_parts)
		return;
	lt_uncount_request(p, r);
	p->n_suspects -= r->suspect && !r->over;
	p->n_ended++;
	free(r);
}

/* End the load of a request that may still complete. */
void lt_end_load(struct lt_requests *p, struct lt_part *part)
{
	struct request *r = part->request;

	if (r->over)
		return;
	part->io->doubt_until_ns = p->now_ns;
	r->io.flags &= ~LINNOS_IO_ANSWERED;
	lt_uncount_request(p, r);
	r->over = true;
	p->n_suspects -= r->suspect;
}

/* Let the part join another part's request. */
void lt_join_request(struct lt_requests *p, struct lt_part *part, struct request *r)
{
	p->n_ended -= part->request->n_parts == 1;
	leave(p, part->request);
	linnos_io_grow(&p->drive, &r->io, linnos_pages_of(part->bytes));
	part->request = r;
	r->n_parts++;
}

/* ---- parts ---- */

struct lt_part *lt_add_part(struct lt_requests *p, struct lt_io *io, uint64_t sector,
				uint32_t bytes, struct request *r)
{
	struct lt_part *part = lt_alloc(p->failure, sizeof(*part));

	if (!r)
		r = lt_alloc(p->failure, sizeof(*r));
	if (!part || !r)
		return NULL;
	if (!r->n_parts)
		r->ended_before = p->n_ended;
	r->n_parts++;
	part->io = io;
	part->request = r;
	part->sector = sector;
	part->bytes = bytes;
	part->touched_ns = p->now_ns;
	TAILQ_INSERT_TAIL(chain_of(p, sector, is_write(part)), part, chain);
	TAILQ_INSERT_TAIL(&p->in_flight, part, in_flight);
	TAILQ_INSERT_TAIL(&io->parts, part, of_io);
	return part;
}

void lt_drop_part(struct lt_requests *p, struct lt_part *part)
{
	leave(p, part->request);
	TAILQ_REMOVE(chain_of(p, part->sector, is_write(part)), part, chain);
	TAILQ_REMOVE(&p->in_flight, part, in_flight);
	TAILQ_REMOVE(&part->io->parts, part, of_io);
	free(part);
}

/* Split a part so that one starts at @sector. */
static struct lt_part *cut(struct lt_requests *p, struct lt_part *part, uint64_t sector,
			   bool splits)
{
	uint32_t bytes = (end_of(part->sector, part->bytes) - sector) * SECTOR_BYTES;
	struct request *r = part->request, old = *r;
	struct lt_part *later = lt_add_part(p, part->io, sector, bytes, splits ? NULL : r);

	if (!later)
		return NULL;
	part->bytes -= bytes;
	later->requested_ns = part->requested_ns;
	if (!splits)
		return later;
	part->io->row.flags |= LT_SPLIT;
	later->request->issued = old.issued;
	later->request->issued_ns = old.issued_ns;
	later->request->over = old.over;
	later->request->suspect = old.suspect;
	p->n_suspects += old.suspect && !old.over;
	if (is_counted(r)) {
		r->io.flags &= ~LINNOS_IO_ANSWERED;
		lt_uncount_request(p, r);
		lt_count_request(p, part);
		lt_count_request(p, later);
		r->io.issued_ns = later->request->io.issued_ns = old.io.issued_ns;
	}
	return later;
}

int lt_score_part(const struct lt_part *part, const struct range *range)
{
	const struct request *r = part->request;

	if (is_write(part) != range->write)
		return -1;
	/* the part before it has just been issued, and with it the request of both */
	if (r == range->request && range->state == REQUESTED)
		return RIGHT_STATE;
	return suits[range->state][r->issued ? ISSUED : is_counted(r) ? REQUESTED : QUEUED];
}

/*
 * Choose among the parts that start where the range does. Their request counts most, then the
 * state, then the length: the whole range, part of it (a merge), more (a partial completion).
 */
static struct lt_part *find(struct lt_requests *p, const struct range *range)
{
	struct lt_parts *chain = chain_of(p, range->sector, range->write);
	int best_score = -1, enough = BEST_SCORE + (range->request ? SAME_REQUEST : 0);
	bool youngest = range->state == REFUSED;
	struct lt_part *part = youngest ? TAILQ_LAST(chain, lt_parts) : TAILQ_FIRST(chain);
	struct lt_part *best = NULL;
	int n = 0;

	for (; part && best_score < enough && n < CHAIN_LIMIT; n++) {
		int score = lt_score_part(part, range);

		if (part->sector == range->sector && score >= 0) {
			score += part->bytes == range->bytes ? 2 : part->bytes < range->bytes;
			score += part->request == range->request ? SAME_REQUEST : 0;
			best = score > best_score ? part : best;
			best_score = score > best_score ? score : best_score;
		}
		part = youngest ? TAILQ_PREV(part, lt_parts, chain) : TAILQ_NEXT(part, chain);
	}
	p->crowded = !best && n == CHAIN_LIMIT;
	return best;
}

/* Return the youngest part around the start of the range, or directly before or after the range. */
struct lt_part *lt_find_near(struct lt_requests *p, const struct range *range, enum where where)
{
	struct lt_part *part;
	int n = 0;

	TAILQ_FOREACH_REVERSE(part, &p->in_flight, lt_parts, in_flight) {
		uint64_t end = end_of(part->sector, part->bytes);

		if (n++ == SCAN_LIMIT)
			break;
		if (lt_score_part(part, range) >= (where == AROUND ? 0 : RIGHT_STATE) &&
		    (where == BEFORE ? end == range->sector :
		     where == AFTER ? part->sector == end_of(range->sector, range->bytes) :
		     part->sector < range->sector && range->sector < end))
			return part;
	}
	return NULL;
}

/* Remove the part with which the range starts, at most the whole range, from the range. */
struct lt_part *lt_take_part(struct lt_requests *p, struct range *range)
{
	struct lt_part *part = find(p, range);

	if (!part && !p->crowded) {
		/* its split is not in the trace */
		part = lt_find_near(p, range, AROUND);
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
