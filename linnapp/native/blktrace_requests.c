/* SPDX-License-Identifier: MIT */
/*
 * Convert blktrace's events to requests of a drive, and to I/Os with the state that they saw.
 *
 * blktrace does not identify requests, it only gives (direction, sector, bytes). So an I/O is
 * followed as the runs of sectors that it waits for, its parts. Each part belongs to a request,
 * which is counted in the drive's state:
 *
 *	Q  an I/O with one part; its request is not in the state yet, because I/Os that the host
 *	   holds back are not load
 *	X  a part is split in two, and the second one has its own request
 *	G  the state has the request (at Q in a trace without G)
 *	M  F  a part joins the request before or after it, which grows
 *	D  the drive is given the request: the whole range is one request, whatever came before
 *	R  the drive has returned it and will be given it again; the time in between counts
 *	C  parts, or the front of one, are completed; the request ends with the last one
 *
 * An I/O sees the state at its Q, and ends when it waits for no more parts.
 *
 * Two I/Os in flight on the same sectors cannot be distinguished: an event takes the part in the
 * state that it should have before that event. If there are several, it takes the one that waited
 * longest. A refusal (EBUSY, EAGAIN) takes the youngest, because it immediately follows its
 * submission.
 *
 * I/Os are returned in order of arrival, so one that never completes would hold back all later
 * ones: after max_age_ns of trace time it is given up.
 *
 * The kernel drops events when its buffers are full. Usually this is only visible in events that do
 * not fit together, so:
 *
 *	- An I/O whose completion was lost is over when the next one on exactly its sectors
 *	  comes, unless all I/Os in flight on them complete within the read-ahead: those are
 *	  concurrent. Otherwise each later completion would be assigned to the I/O before.
 *	- A request that has not completed for long, while many later ones have, is no longer load.
 *	- A request that is issued without a submission is an I/O that arrives at that time.
 *	- In a trace without submissions, a request that is issued twice in a short time and
 *	  completes once was requeued.
 *
 * If event numbers are missing, all requests in flight at that time are suspect: they are given up
 * as soon as a few later requests have ended. The following reads are doubtful (LT_DOUBTFUL): those
 * in flight, and those that arrive before no suspect is left and four reads of their size that came
 * after the gap have ended, as many as the history holds. Reads that counted an I/O as load that
 * never completed are doubtful as well, as are those without an issue in a trace that has issues.
 */
#include "blktrace_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Age from which an I/O that may still complete no longer counts as load. A drive's slowest reads
 * take that long, but the read-ahead then nearly always contains their completions, because few
 * other I/Os complete meanwhile.
 */
#define OVER_NS 20000000ull
#define OVER_MEANS 64
#define OVER_ENDED 64
/* Requests that must end before suspects are given up, plus two for each suspect. */
#define SUSPECT_ENDED 32
/* Time without an event on an I/O's sectors, in mean latencies, after which it is over. */
#define QUIET_MEANS 2
/* The same before its issue, in means of the time for which the host held back recent I/Os. */
#define HELD_MEANS 16
/* A request issued without submission this early belongs to an I/O from before the trace. */
#define EARLY_NS 1000000000ull

/* ---- missing events ---- */

static void suspect(struct lt_requests *p, struct lt_part *part)
{
	struct request *r = part->request;

	part->io->row.flags |= LT_DOUBTFUL;
	p->n_suspects += !r->suspect && !r->over;
	r->suspect |= !r->over;
}

/* Begin a gap: events are missing from now on, or from an earlier time, until @until_ns. */
static void begin_gap(struct lt_requests *p, uint64_t until_ns, uint32_t missing)
{
	struct lt_part *part;

	p->doubt = true;
	if (until_ns > p->gap_until_ns)
		p->gap_until_ns = until_ns;
	p->sure_from_ns = 0;
	TAILQ_FOREACH(part, &p->in_flight, in_flight)
		suspect(p, part);
	p->doubt_ended = 0;
	/* In that case all events of a request except its completion may be missing. */
	p->gap_hides |= missing > p->events->has_issue;
}

/* Return true if the state that an I/O saw on its arrival may be wrong. */
static bool is_doubtful(const struct lt_requests *p, const struct lt_row *row)
{
	return !p->sure_from_ns ||
	       p->sure_reads[linnos_size_class(linnos_pages_of(row->size_bytes))] < LT_HISTORY;
}

/* A read was added to the history: count those that arrived when everything was certain again. */
static void count_sure(struct lt_requests *p, const struct lt_row *row, uint32_t pages, bool sure)
{
	sure &= p->sure_from_ns && row->arrival_ns >= p->sure_from_ns;
	for (int size = linnos_size_class(pages); size < LINNOS_SIZE_CLASSES; size++)
		p->sure_reads[size] = sure ? p->sure_reads[size] + 1 : 0;
	p->doubt = !p->sure_from_ns || p->sure_reads[0] < LT_HISTORY;
}

/* Give up suspects whose completion does not come. */
static void end_suspects(struct lt_requests *p)
{
	struct lt_part *part;

	if (p->now_ns <= p->gap_until_ns || p->sure_from_ns)
		return;
	if (!p->doubt_ended)
		p->doubt_ended = p->n_ended + SUSPECT_ENDED + 2 * p->n_suspects;
	if (p->n_ended >= p->doubt_ended || p->now_ns - p->gap_until_ns > EARLY_NS)
		TAILQ_FOREACH(part, &p->in_flight, in_flight)
			if (part->request->suspect)
				lt_end_load(p, part);
	if (p->n_suspects || (p->gap_hides && p->n_ended < p->doubt_ended))
		return;
	p->gap_hides = false;
	p->sure_from_ns = p->now_ns;
	memset(p->sure_reads, 0, sizeof(p->sure_reads));
}

/* ---- I/Os ---- */

/* Compute the state that an arriving I/O sees, and for a read the inputs of models. */
static void note_state(struct lt_requests *p, struct lt_row *row)
{
	struct linnos_drive_snapshot view;

	linnos_drive_view(&p->drive, &p->drive.history, linnos_region_of(row->sector * SECTOR_BYTES),
			  linnos_pages_of(row->size_bytes), p->now_ns + 1, &view);
	row->pending = linnos_pending(&view);
	if (row->flags & LT_WRITE)
		return;
	linnos_compute_features(&p->drive.start_slots, &view, p->options->overdue_us, row->features);
	for (int i = 0; i < LT_HISTORY; i++) {
		row->hist_pending[i] = view.past[i].pending;
		row->hist_latency_us[i] = view.past[i].latency_us;
	}
}

static struct lt_io *submit(struct lt_requests *p, const struct range *range, uint16_t flags)
{
	struct lt_io *io = lt_alloc(p->failure, sizeof(*io));
	struct lt_part *part;

	if (!io)
		return NULL;
	io->row.arrival_ns = p->now_ns;
	io->row.sector = range->sector;
	io->row.size_bytes = io->left_bytes = range->bytes;
	io->row.flags = flags | (range->write ? LT_WRITE : 0);
	io->open = true;
	TAILQ_INIT(&io->parts);
	TAILQ_INSERT_TAIL(&p->ios, io, arrival);
	*(range->write ? &p->stats->writes : &p->stats->reads) += 1;
	note_state(p, &io->row);
	if (p->doubt)
		io->row.flags |= is_doubtful(p, &io->row) ? LT_DOUBTFUL : 0;
	part = lt_add_part(p, io, range->sector, range->bytes, NULL);
	/* in a trace without G events, the bio has its request from now on */
	if (part && !p->has_requests)
		lt_count_request(p, part);
	if (part && p->doubt && p->now_ns <= p->gap_until_ns)
		suspect(p, part);
	return io;
}

/* Record the times of a part's layers over those of earlier parts; 0 if its issue is unknown. */
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

/* Update the mean of recent latencies, in which outliers are limited to 8 times the mean. */
static void learn_mean(struct lt_requests *p, const struct lt_part *part)
{
	uint64_t *mean_ns = &p->mean_ns[is_write(part)];
	uint64_t took_ns = ns_since(part->request->issued ? part->request->issued_ns :
				    part->io->row.arrival_ns, p->now_ns);

	if (*mean_ns && took_ns > 8 * *mean_ns)
		took_ns = 8 * *mean_ns;
	*mean_ns = *mean_ns ? *mean_ns - *mean_ns / 16 + took_ns / 16 : took_ns + 1;
}

/* Add a request to the history that was no longer load, but has completed after all. */
static void remember_late(struct lt_requests *p, const struct lt_part *part, uint64_t took_ns)
{
	const struct request *r = part->request;

	if (r->n_parts != 1 || is_write(part))
		return;
	if (p->doubt)
		count_sure(p, &part->io->row, r->io.pages, false);
	linnos_history_add(&p->drive.history, &(struct linnos_completed_io){
		.end_ns = p->now_ns + 1,
		.latency_us = took_ns / 1000 < UINT32_MAX ? took_ns / 1000 : UINT32_MAX,
		.pages = r->io.pages,
		.pending = r->io.pending,
	});
}

static void answer(struct lt_requests *p, struct lt_part *part, int error)
{
	struct request *r = part->request;
	struct lt_row *row = &part->io->row;
	uint64_t took_ns = r->io.issued_ns ? ns_since(r->io.issued_ns, p->now_ns + 1) : 0;

	if (error)
		row->flags |= error == EBUSY && !r->issued ? LT_REVOKED : LT_ERROR;
	if (!r->issued && p->has_issues && part->requested_ns && !error)
		row->flags |= LT_DOUBTFUL;
	if (took_ns > row->latency_ns)
		row->latency_ns = took_ns;
	learn_mean(p, part);
	note_layers(p, row, part);
	part->io->left_bytes -= part->bytes;
	if (!part->io->left_bytes)
		close_io(p, part->io);

	if (r->over) {
		/* if no events are missing, it was only slow */
		part->io->doubt_until_ns = r->suspect ? p->now_ns : 0;
		if (!error)
			remember_late(p, part, took_ns);
		lt_drop_part(p, part);
		return;
	}
	lt_count_request(p, part);
	/* if no issue was traced, the latency counts from the arrival */
	linnos_io_issue(&r->io, row->arrival_ns + 1);
	/* the last completion decides whether the request has succeeded */
	r->io.flags &= ~LINNOS_IO_ANSWERED;
	r->io.flags |= error ? 0 : LINNOS_IO_ANSWERED;
	if (p->doubt && !error && !is_write(part) && r->n_parts == 1)
		count_sure(p, row, r->io.pages, !r->suspect);
	lt_drop_part(p, part);
}

/* Return a latency that only very few I/Os exceed. */
static uint64_t slowest_ns(const struct lt_requests *p, bool write)
{
	uint64_t ns = OVER_MEANS * (p->mean_ns[write] + p->held_mean_ns);

	return ns > OVER_NS ? ns : OVER_NS;
}

/* Give up an I/O whose completion was lost: it is no longer load and does not hold back others. */
static void give_up(struct lt_requests *p, struct lt_io *io, bool lost)
{
	struct lt_part *part;

	io->open = false;
	io->row.latency_ns = 0;
	p->stats->missing_completions++;
	while ((part = TAILQ_FIRST(&io->parts))) {
		if (!part->request->over && lost)
			io->doubt_until_ns = p->now_ns;
		part->request->io.flags &= ~LINNOS_IO_ANSWERED;
		p->n_ended -= part->request->n_parts == 1;
		lt_drop_part(p, part);
	}
}

/*
 * An I/O arrives on exactly these sectors: find out whether the one before it was lost, or is the
 * same one, whose request is issued again. It was lost if no event has occurred on those sectors for
 * some time, and some of their requests do not complete within the read-ahead. If the new I/O is
 * issued now, it may be the only one there itself.
 */
static void give_up_lost(struct lt_requests *p, const struct range *range, bool issued)
{
	uint64_t touched_ns = 0, mean_ns = p->mean_ns[range->write];
	struct lt_part *part, *oldest = NULL;
	int n = 0, n_alike = 0, n_issued = 0;

	TAILQ_FOREACH(part, chain_of(p, range->sector, range->write), chain) {
		if (n++ == CHAIN_LIMIT)
			break;
		if (part->sector != range->sector || part->bytes != range->bytes ||
		    is_write(part) != range->write)
			continue;
		n_alike++;
		n_issued += part->request->issued || !p->events->has_issue;
		if (!oldest)
			oldest = part;
		if (part->touched_ns > touched_ns)
			touched_ns = part->touched_ns;
	}
	if (!oldest || (n_alike == 1 && issued && !oldest->request->issued))
		return;
	/*
	 * One request was issued again if there are too few completions for two. After a longer
	 * time, its completion was lost more probably.
	 */
	if (issued && !p->events->has_queue && oldest->request->issued && !oldest->request->suspect &&
	    p->now_ns - touched_ns <= (mean_ns ? QUIET_MEANS * mean_ns : OVER_NS) &&
	    lt_events_issued_again(p->events, range->sector, range->bytes, range->write,
				   n_issued + 1, p->now_ns, slowest_ns(p, range->write),
				   QUIET_MEANS * mean_ns)) {
		oldest->io->row.flags |= LT_REQUEUED;
		oldest->request->issued = false;
		return;
	}
	if (!mean_ns)
		return;
	if (oldest->request->issued || !p->events->has_issue) {
		if (!oldest->request->suspect && p->now_ns - touched_ns <= QUIET_MEANS * mean_ns)
			return;
		if (lt_events_lost(p->events, range->sector, range->bytes, range->write,
				   n_issued + issued, p->now_ns + slowest_ns(p, range->write)))
			give_up(p, oldest->io, true);
	} else if (p->now_ns - touched_ns > QUIET_MEANS * mean_ns + (oldest->request->suspect ? 0 :
		   HELD_MEANS * p->held_mean_ns)) {
		/* the host can hold it back for longer than the drive needs */
		give_up(p, oldest->io, true);
	}
}

/* Return the first I/O in order of arrival if it has ended, or must have @at_end. */
bool lt_requests_take(struct lt_requests *p, bool at_end, struct lt_row *row)
{
	const uint16_t kind = LT_WRITE | LT_COMPLETED | LT_ERROR | LT_REVOKED | LT_DOUBTFUL;
	struct lt_io *io = TAILQ_FIRST(&p->ios);

	if (!io || (io->open && !at_end))
		return false;
	if (io->open)
		give_up(p, io, false);
	if (p->doubt_until_ns && io->row.arrival_ns <= p->doubt_until_ns)
		io->row.flags |= LT_DOUBTFUL;
	/* the I/Os that arrived after it saw it in flight until then */
	if (io->doubt_until_ns > p->doubt_until_ns)
		p->doubt_until_ns = io->doubt_until_ns;
	*row = io->row;
	p->stats->doubtful_reads += !io->early && (row->flags & kind) == (LT_COMPLETED | LT_DOUBTFUL);
	TAILQ_REMOVE(&p->ios, io, arrival);
	free(io);
	return true;
}

/* End the load of requests that have not completed for long, while many later ones have. */
static void end_old_loads(struct lt_requests *p)
{
	struct lt_part *part;
	int n = 0;

	p->old_from_ns = p->now_ns + OVER_NS / 16;
	TAILQ_FOREACH(part, &p->in_flight, in_flight) {
		const struct request *r = part->request;
		uint64_t age_ns = ns_since(part->io->row.arrival_ns, p->now_ns);

		if (age_ns <= OVER_NS || n++ == CHAIN_LIMIT)
			return;
		if (r->over || age_ns <= slowest_ns(p, is_write(part)) ||
		    p->n_ended - r->ended_before < OVER_ENDED)
			continue;
		if (!r->issued || lt_events_lost(p->events, part->sector, part->bytes,
						 is_write(part), 1, UINT64_MAX))
			lt_end_load(p, part);
	}
}

/* Advance the time, and give up I/Os that are too old. */
void lt_requests_advance(struct lt_requests *p, uint64_t now_ns)
{
	struct lt_part *oldest = TAILQ_FIRST(&p->in_flight);
	uint64_t until_ns;
	uint32_t missing;
	struct lt_io *io;

	p->now_ns = now_ns;
	if (!p->first_ns)
		p->first_ns = now_ns + 1;
	while ((missing = lt_events_gap(p->events, now_ns, &until_ns)))
		begin_gap(p, until_ns, missing);
	if (p->doubt)
		end_suspects(p);
	if (oldest && now_ns > p->old_from_ns &&
	    ns_since(oldest->io->row.arrival_ns, now_ns) > OVER_NS)
		end_old_loads(p);
	TAILQ_FOREACH(io, &p->ios, arrival) {
		if (ns_since(io->row.arrival_ns, now_ns) <= p->options->max_age_ns)
			return;
		if (io->open)
			give_up(p, io, true);
	}
}

/* ---- events ---- */

/* The first G: the trace shows when I/Os get a request, so those that wait for one are not load. */
static void has_requests(struct lt_requests *p)
{
	struct lt_part *part;

	p->has_requests = true;
	TAILQ_FOREACH(part, &p->in_flight, in_flight)
		if (!part->request->issued)
			lt_uncount_request(p, part->request);
}

/* Apply an event to a part; @r is the request of the event's whole range, if one is known. */
static void on_part(struct lt_requests *p, uint32_t action, struct lt_part *part,
		    struct request *r, int error)
{
	part->touched_ns = p->now_ns;
	switch (action) {
	case ACT_BACKMERGE:
	case ACT_FRONTMERGE:
		part->io->row.flags |= LT_MERGED;
		/* fallthrough */
	case ACT_GETRQ:
		/* of two equal I/Os, the time of the first is kept */
		if (!part->requested_ns)
			part->requested_ns = p->now_ns;
		/* fallthrough */
	case ACT_ISSUE:
		if (r && r != part->request && !part->request->issued)
			lt_join_request(p, part, r);
		lt_count_request(p, part);
		if (action != ACT_ISSUE)
			break;
		part->io->row.flags |= LT_ISSUED;
		if (!part->request->issued)
			p->held_mean_ns += ns_since(part->io->row.arrival_ns, p->now_ns) / 16 -
					   p->held_mean_ns / 16;
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

/*
 * The front of a range is issued without a submission: its Q is missing, or came before the
 * trace began, or the trace has no Q events, in which case this is no reason for doubt.
 */
static void submit_issued(struct lt_requests *p, const struct range *issued)
{
	struct range range = *issued;
	struct lt_part *part;
	struct lt_io *io;
	int n = 0;

	TAILQ_FOREACH(part, &p->in_flight, in_flight) {
		if (n++ == SCAN_LIMIT)
			break;
		/* With submissions, merged requests that are issued again are more probable. */
		if (is_write(part) == range.write &&
		    (p->events->has_queue || lt_score_part(part, &range) >= 0) &&
		    part->sector > range.sector &&
		    part->sector < end_of(range.sector, range.bytes))
			range.bytes = (part->sector - range.sector) * SECTOR_BYTES;
	}
	io = submit(p, &range, p->events->has_queue ? LT_DOUBTFUL : 0);
	/* every trace begins with some of these */
	if (io)
		io->early = !p->doubt && ns_since(p->first_ns, p->now_ns) < EARLY_NS;
}

void lt_requests_prefetch(struct lt_requests *p, const struct blk_event *e)
{
	__builtin_prefetch(chain_of(p, e->sector, e->action & CAT_WRITE));
}

static enum state state_before(uint32_t action, int error)
{
	if (action == ACT_ISSUE)
		return REQUESTED;
	if (action != ACT_COMPLETE && action != ACT_REQUEUE)
		return QUEUED;
	return error == EBUSY || error == EAGAIN ? REFUSED : ISSUED;
}

/* Process an event of an I/O with data, at the time of lt_requests_advance(). */
void lt_requests_process(struct lt_requests *p, const struct blk_event *e)
{
	/* The kernel logs the negative errno in 16 bits; some versions log it positive. */
	int error = e->error > 0x8000 ? 0x10000 - e->error : e->error;
	uint32_t action = e->action & ACT_MASK;
	struct range range = {
		.sector = e->sector, .bytes = e->bytes, .write = e->action & CAT_WRITE,
		/* a request of which a part has completed is still one request */
		.splits = action != ACT_COMPLETE && action != ACT_REQUEUE,
		/* the state of a possible merge partner */
		.state = REQUESTED,
	};
	struct lt_part *part = NULL;
	struct request *r = NULL;

	if (action == ACT_QUEUE || action == ACT_ISSUE)
		give_up_lost(p, &range, action == ACT_ISSUE);
	if (action == ACT_QUEUE) {
		(void)submit(p, &range, 0);
		return;
	}
	if (action == ACT_GETRQ && !p->has_requests)
		has_requests(p);
	p->has_issues |= action == ACT_ISSUE;
	if (action == ACT_BACKMERGE || action == ACT_FRONTMERGE)
		part = lt_find_near(p, &range, action == ACT_BACKMERGE ? BEFORE : AFTER);
	if (part)
		r = part->request;
	range.state = state_before(action, error);
	while (range.bytes && !lt_failed(p->failure)) {
		part = lt_take_part(p, &range);
		if (!part && (action != ACT_ISSUE || p->crowded))
			break;
		if (!part) {
			submit_issued(p, &range);
			continue;
		}
		if (action == ACT_ISSUE && !r)
			r = part->request;
		on_part(p, action, part, r, error);
	}
	if (action == ACT_COMPLETE && range.bytes == e->bytes) {
		p->stats->unmatched_completions++;
		/* a read that ends now is not in the history */
		if (p->gap_until_ns) {
			p->doubt = true;
			memset(p->sure_reads, 0, sizeof(p->sure_reads));
		}
	}
}

void lt_requests_init(struct lt_requests *p)
{
	TAILQ_INIT(&p->ios);
	TAILQ_INIT(&p->in_flight);
	for (int i = 0; i < LT_CHAINS; i++)
		TAILQ_INIT(&p->chains[i]);
	p->drive.tracks_starts = true;
}

void lt_requests_close(struct lt_requests *p)
{
	struct lt_row left;

	while (lt_requests_take(p, true, &left))
		;
	free(p->starts);
}
