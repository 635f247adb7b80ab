// SPDX-License-Identifier: MIT
/*
 * Requests are identified by their address. A completion record may be missing, because an
 * interrupt that arrives while a record is made cannot make one of its own. A request that is
 * issued at an address in use therefore replaces the old one, and requests in excess of the
 * kernel's count are dropped.
 */
#include "watched.h"

#include <linux/blk-linnos.h>

/* The default of drives in the kernel's policy. */
#define PROBE_AFTER_US 10000
/* Number of comparisons with the kernel's count before a request is dropped, and their interval. */
#define CHECKS 8
#define CHECK_NS UINT64_C(1000000)

#define SLOTS_LOG2 14
#define SLOTS (1u << SLOTS_LOG2)
/* Further requests are not tracked. */
#define IN_FLIGHT_MAX (SLOTS / 2)

/* An open-addressing hash table, keyed by @request and @of; @request is 0 in a free slot. */
static struct in_flight {
	uint64_t request;
	struct watched *of;
	struct linnos_io io;
	uint32_t sector;
} slots[SLOTS];
static unsigned int n_in_flight;

static unsigned int hash_slot(uint64_t request)
{
	return request * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_LOG2);
}

/* Return the slot of a request, or the free slot where it would be. */
static struct in_flight *find(const struct watched *w, uint64_t request)
{
	unsigned int at = hash_slot(request);

	while (slots[at].request && (slots[at].request != request || slots[at].of != w))
		at = (at + 1) % SLOTS;
	return &slots[at];
}

/*
 * Free a slot. Following entries move forward, unless their hash position is behind the free slot.
 */
static void end(struct in_flight *f, uint64_t now_ns, enum observed_end how)
{
	unsigned int free = f - slots;

	observer_ended(&f->of->observer, &f->io, now_ns, how);
	f->of->n_issued -= f->io.issued_ns > 0;
	for (unsigned int at = (free + 1) % SLOTS; slots[at].request; at = (at + 1) % SLOTS) {
		if ((at - hash_slot(slots[at].request)) % SLOTS < (at - free) % SLOTS)
			continue;
		slots[free] = slots[at];
		free = at;
	}
	slots[free].request = 0;
	n_in_flight--;
}

/* Drop the requests of a drive, or of all drives if @w is NULL. */
static void drop_requests(const struct watched *w)
{
	for (unsigned int at = 0; at < SLOTS;)
		if (slots[at].request && (!w || slots[at].of == w))
			end(&slots[at], 0, OBSERVED_IGNORED);
		else
			at++;
}

void watched_lost(void)
{
	drop_requests(NULL);
}

/*
 * If more requests are tracked than the kernel has in flight, drop the oldest one, whose completion
 * record is assumed lost. This takes several comparisons in a row, because a request may start or
 * complete between the two counts.
 */
static void drop_missed(struct watched *w, uint32_t kernel, uint64_t now_ns)
{
	struct in_flight *oldest = NULL;

	if (w->n_issued <= kernel)
		w->n_excess = 0;
	if (w->n_issued <= kernel || now_ns < w->next_check_ns)
		return;
	w->next_check_ns = now_ns + CHECK_NS;
	if (++w->n_excess < CHECKS)
		return;
	w->n_excess = 0;
	for (struct in_flight *f = slots; f < slots + SLOTS; f++)
		if (f->request && f->of == w && f->io.issued_ns &&
		    (!oldest || f->io.issued_ns < oldest->io.issued_ns))
			oldest = f;
	if (oldest->io.issued_ns + LATE_NS_MIN < now_ns)
		end(oldest, 0, OBSERVED_IGNORED);
}

void watched_begin(struct watched *w, uint32_t disk, uint32_t request_pages_max)
{
	drop_requests(w);
	observer_init(&w->observer, w->model->overdue_us);
	w->observer.drive.probe_after_us = PROBE_AFTER_US;
	w->request_pages_max = request_pages_max;
	*w->disk = disk;
}

static void begin(struct in_flight *f, struct watched *w, const struct request_record *r)
{
	*f = (struct in_flight){.request = r->request, .of = w};
	linnos_io_begin(&w->observer.drive, &f->io, linnos_region_of((uint64_t)r->sector << 9),
			linnos_pages_of(r->bytes), r->is_read ? LINNOS_IO_READ : 0, r->time_ns);
	n_in_flight++;
}

/*
 * Return true if the record belongs to another request at the same address. A request that is
 * issued again has the same sector. A waiting request may have grown by merges, also at its front.
 */
static bool is_other(const struct in_flight *f, const struct request_record *r)
{
	return !(f->io.flags & LINNOS_IO_READ) != !r->is_read ||
	       (f->io.issued_ns && f->sector != r->sector);
}

/* Process the insertion or issue of a request. */
static void process_issue(struct watched *w, struct in_flight *f, const struct request_record *r)
{
	uint32_t pages = linnos_pages_of(r->bytes);

	if (f->request && is_other(f, r)) {
		end(f, 0, OBSERVED_IGNORED);
		f = find(w, r->request);
	}
	if (!f->request && n_in_flight == IN_FLIGHT_MAX)
		return;
	if (!f->request)
		begin(f, w, r);
	else if (pages > f->io.pages)
		linnos_io_grow(&w->observer.drive, &f->io, pages - f->io.pages);
	f->sector = r->sector;
	if (r->event == REQUEST_ISSUED) {
		w->n_issued += !f->io.issued_ns;
		linnos_io_issue(&f->io, r->time_ns);
	}
}

static void feed(struct watched *w, const struct request_record *r)
{
	struct in_flight *f = find(w, r->request);
	enum observed_end how = OBSERVED_IGNORED;

	if (r->event == REQUEST_WAITS || r->event == REQUEST_ISSUED) {
		process_issue(w, f, r);
		return;
	}
	if (!f->request)
		return;
	/* without an issue record the latency is unknown */
	if (r->event != REQUEST_MERGED && f->io.issued_ns)
		how = r->event == REQUEST_FAILED ? OBSERVED_FAILED : OBSERVED_ANSWERED;
	end(f, r->time_ns, how);
}

/* The same drive may be configured twice; each entry keeps its own state. */
void watched_feed(struct watched *all, unsigned int n, const struct request_record *r)
{
	for (struct watched *w = all; w < all + n; w++)
		if (*w->disk == r->disk)
			feed(w, r);
}

void watched_query(struct watched *w, const struct query *query, uint64_t now_ns,
		   struct answer *answer)
{
	uint32_t pages = linnos_pages_of(query->bytes), features[LINNOS_N_FEATURES];
	uint32_t most = pages < w->request_pages_max ? pages : w->request_pages_max;
	bool late;
	struct linnos_load load;

	if (answer->state & STATE_PENDING_KNOWN)
		drop_missed(w, answer->pending, now_ns);
	linnos_load_snapshot(&w->observer.drive, &load);
	observer_features(&w->observer, (uint64_t)query->page * LINNOS_PAGE_BYTES, pages, now_ns,
			  features);
	if (!(query->flags & QUERY_HAS_PAGE))
		features[LINNOS_IN_REGION] = LINNOS_LATENCY_CAP;
	late = observer_has_late_read(&w->observer, now_ns);
	answer->known = BLK_EXPECT_LATENCY;
	answer->latency_us = linnos_latency_us(w->model, features);
	answer->pending = load.read_pages + load.write_pages;
	answer->state = STATE_PENDING_KNOWN | STATE_PENDING_PAGES;
	if (late)
		answer->state |= STATE_READ_LATE;
	if (late || answer->latency_us > w->model->refuse_us)
		answer->state |= BLK_EXPECT_SLOW;
	if (linnos_history_is_stale(&w->observer.drive, linnos_size_class(most), now_ns))
		answer->state |= BLK_EXPECT_STALE;
}
