// SPDX-License-Identifier: MIT
/*
 * Requests are found by their address. The end of one may not be told: an interrupt that comes
 * while a record is made makes none of its own. So who is issued at an address that is taken has it
 * alone, and what is more than the kernel has in flight is dropped.
 */
#include "watched.h"

#include <linux/blk-linnos.h>

/* As drives of the kernel's policy have it unless told otherwise. */
#define PROBE_AFTER_US 10000
/* Looks at what the kernel has in flight, and between two of them. */
#define LOOKS 8
#define LOOK_NS UINT64_C(1000000)

#define SLOTS_LOG2 14
#define SLOTS (1u << SLOTS_LOG2)
/* One more is not counted. */
#define IN_FLIGHT_MAX (SLOTS / 2)

/* An open-addressed table, by @request and @of; 0 is nobody's. */
static struct in_flight {
	uint64_t request;
	struct watched *of;
	struct linnos_io io;
	uint32_t sector;
} slots[SLOTS];
static unsigned int n_in_flight;

static unsigned int home_of(uint64_t request)
{
	return request * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_LOG2);
}

/* Where it is, or would be. */
static struct in_flight *find(const struct watched *w, uint64_t request)
{
	unsigned int at = home_of(request);

	while (slots[at].request && (slots[at].request != request || slots[at].of != w))
		at = (at + 1) % SLOTS;
	return &slots[at];
}

/* Who comes behind takes its slot, unless his home is behind it. */
static void end(struct in_flight *f, uint64_t now_ns, enum observed_end how)
{
	unsigned int free = f - slots;

	observer_ended(&f->of->observer, &f->io, now_ns, how);
	f->of->n_issued -= f->io.issued_ns > 0;
	for (unsigned int at = (free + 1) % SLOTS; slots[at].request; at = (at + 1) % SLOTS) {
		if ((at - home_of(slots[at].request)) % SLOTS < (at - free) % SLOTS)
			continue;
		slots[free] = slots[at];
		free = at;
	}
	slots[free].request = 0;
	n_in_flight--;
}

/* Of all drives if none is named. */
static void take_back(const struct watched *w)
{
	for (unsigned int at = 0; at < SLOTS;)
		if (slots[at].request && (!w || slots[at].of == w))
			end(&slots[at], 0, OBSERVED_IGNORED);
		else
			at++;
}

void watched_lost(void)
{
	take_back(NULL);
}

/*
 * If the drive has been given more than the kernel says, again and again, for one that begins or
 * ends between the two counts is no reason, the oldest is taken for one whose end was missed.
 */
static void drop_missed(struct watched *w, uint32_t kernel, uint64_t now_ns)
{
	struct in_flight *oldest = NULL;

	if (w->n_issued <= kernel)
		w->n_more = 0;
	if (w->n_issued <= kernel || now_ns < w->look_ns)
		return;
	w->look_ns = now_ns + LOOK_NS;
	if (++w->n_more < LOOKS)
		return;
	w->n_more = 0;
	for (struct in_flight *f = slots; f < slots + SLOTS; f++)
		if (f->request && f->of == w && f->io.issued_ns &&
		    (!oldest || f->io.issued_ns < oldest->io.issued_ns))
			oldest = f;
	if (oldest->io.issued_ns + LATE_NS_MIN < now_ns)
		end(oldest, 0, OBSERVED_IGNORED);
}

void watched_begin(struct watched *w, uint32_t disk, uint32_t request_pages_max)
{
	take_back(w);
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

/* Given again, it is where it was; what waits may have become more, in front, too. */
static bool is_other(const struct in_flight *f, const struct request_record *r)
{
	return !(f->io.flags & LINNOS_IO_READ) != !r->is_read ||
	       (f->io.issued_ns && f->sector != r->sector);
}

/* It waits, or is issued. */
static void goes_on(struct watched *w, struct in_flight *f, const struct request_record *r)
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
		goes_on(w, f, r);
		return;
	}
	if (!f->request)
		return;
	/* whose issue was missed tells nothing */
	if (r->event != REQUEST_MERGED && f->io.issued_ns)
		how = r->event == REQUEST_FAILED ? OBSERVED_FAILED : OBSERVED_ANSWERED;
	end(f, r->time_ns, how);
}

/* A drive may be named twice: of two daemons on it each has its own. */
void watched_feed(struct watched *all, unsigned int n, const struct request_record *r)
{
	for (struct watched *w = all; w < all + n; w++)
		if (*w->disk == r->disk)
			feed(w, r);
}

void watched_ask(struct watched *w, const struct question *question, uint64_t now_ns,
		 struct answer *answer)
{
	uint32_t pages = linnos_pages_of(question->bytes), features[LINNOS_N_FEATURES];
	uint32_t most = pages < w->request_pages_max ? pages : w->request_pages_max;
	bool chooses = linnos_latency_is_validated(w->model), stalled;
	struct linnos_load load;

	if (answer->state & STATE_PENDING_KNOWN)
		drop_missed(w, answer->pending, now_ns);
	linnos_load_snapshot(&w->observer.drive, &load);
	observer_features(&w->observer, (uint64_t)question->page * LINNOS_PAGE_BYTES, pages, now_ns,
			  features);
	if (!(question->flags & QUESTION_AT))
		features[LINNOS_IN_REGION] = LINNOS_LATENCY_CAP;
	stalled = observer_is_stalled(&w->observer, now_ns);
	answer->known = BLK_EXPECT_LATENCY;
	answer->latency_us = linnos_latency_us(w->model, features);
	answer->pending = load.read_pages + load.write_pages;
	answer->state = STATE_PENDING_KNOWN | STATE_PENDING_PAGES;
	if (!chooses)
		answer->state |= BLK_EXPECT_UNVALIDATED;
	if (stalled)
		answer->state |= BLK_EXPECT_STALLED;
	if (stalled || (chooses && answer->latency_us > w->model->refuse_us))
		answer->state |= BLK_EXPECT_SLOW;
	if (linnos_history_is_stale(&w->observer.drive, linnos_size_class(most), now_ns))
		answer->state |= BLK_EXPECT_STALE;
}
