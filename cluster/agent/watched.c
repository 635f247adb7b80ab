// SPDX-License-Identifier: MIT
/*
 * Requests are found by their address. The end of one may not be told: an interrupt that comes
 * while a record is made makes none of its own. So who is issued at an address that is taken has it
 * alone, and on a drive that has nothing in flight what seems to be is dropped.
 */
#include "watched.h"

#include <linux/blk-linnos.h>

/* As drives of the kernel's policy have it unless told otherwise. */
#define PROBE_AFTER_US 10000
/* Records of what has ended since may be on their way. */
#define ON_THE_WAY_NS UINT64_C(1000000)

#define SLOTS_LOG2 14
#define SLOTS (1u << SLOTS_LOG2)
/* One more is not counted. */
#define IN_FLIGHT_MAX (SLOTS / 2)

/* An open-addressed table, by @request; 0 is nobody's. */
static struct in_flight {
	uint64_t request, sector;
	struct watched *of;
	struct linnos_io io;
} slots[SLOTS];
static unsigned int n_in_flight;

static unsigned int home_of(uint64_t request)
{
	return request * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_LOG2);
}

/* Where it is, or would be. */
static struct in_flight *find(uint64_t request)
{
	unsigned int at = home_of(request);

	while (slots[at].request && slots[at].request != request)
		at = (at + 1) % SLOTS;
	return &slots[at];
}

/* Who comes behind takes its slot, unless his home is behind it. */
static void end(struct in_flight *f, uint64_t now_ns, enum observed_end how)
{
	unsigned int free = f - slots;

	observer_ended(&f->of->observer, &f->io, now_ns, how);
	for (unsigned int at = (free + 1) % SLOTS; slots[at].request; at = (at + 1) % SLOTS) {
		if ((at - home_of(slots[at].request)) % SLOTS < (at - free) % SLOTS)
			continue;
		slots[free] = slots[at];
		free = at;
	}
	slots[free].request = 0;
	n_in_flight--;
}

/* Those that were issued before, or not yet; of all drives if none is named. */
static void take_back(const struct watched *w, uint64_t before_ns)
{
	for (unsigned int at = 0; at < SLOTS;)
		if (slots[at].request && (!w || slots[at].of == w) &&
		    slots[at].io.issued_ns < before_ns)
			end(&slots[at], 0, OBSERVED_TAKEN_BACK);
		else
			at++;
}

void watched_lost(void)
{
	take_back(NULL, UINT64_MAX);
}

void watched_begin(struct watched *w, uint32_t disk, uint32_t request_pages_max)
{
	take_back(w, UINT64_MAX);
	observer_init(&w->observer, w->model->overdue_us);
	w->observer.drive.probe_after_us = PROBE_AFTER_US;
	w->request_pages_max = request_pages_max;
	if (w->disk)
		*w->disk = disk;
}

static void begin(struct in_flight *f, struct watched *w, const struct request_record *r)
{
	*f = (struct in_flight){.request = r->request, .sector = r->sector, .of = w};
	linnos_io_begin(&w->observer.drive, &f->io, linnos_region_of(r->sector << 9),
			linnos_pages_of(r->bytes), r->is_read ? LINNOS_IO_READ : 0, r->time_ns);
	n_in_flight++;
}

/* It waits, or is issued; its bios may have become more. */
static void goes_on(struct watched *w, struct in_flight *f, const struct request_record *r)
{
	uint32_t pages = linnos_pages_of(r->bytes);

	/* given again, it is where it was */
	if (f->request && f->io.issued_ns && f->sector != r->sector) {
		end(f, 0, OBSERVED_TAKEN_BACK);
		f = find(r->request);
	}
	if (!f->request && n_in_flight == IN_FLIGHT_MAX)
		return;
	if (!f->request)
		begin(f, w, r);
	else if (pages > f->io.pages)
		linnos_io_grow(&w->observer.drive, &f->io, pages - f->io.pages);
	if (r->event == REQUEST_ISSUED)
		linnos_io_issue(&f->io, r->time_ns);
}

void watched_feed(struct watched *all, const struct request_record *r)
{
	struct in_flight *f = find(r->request);
	enum observed_end how = OBSERVED_TAKEN_BACK;

	if (r->event == REQUEST_WAITS || r->event == REQUEST_ISSUED) {
		goes_on(&all[r->drive], f, r);
		return;
	}
	if (!f->request)
		return;
	/* whose issue was missed tells nothing */
	if (r->event != REQUEST_TAKEN_BACK && f->io.issued_ns)
		how = r->event == REQUEST_FAILED ? OBSERVED_FAILED : OBSERVED_ANSWERED;
	end(f, r->time_ns, how);
}

void watched_ask(struct watched *w, const struct question *question, uint64_t now_ns,
		 struct answer *answer)
{
	uint32_t pages = linnos_pages_of(question->bytes), features[LINNOS_N_FEATURES];
	uint32_t most = pages < w->request_pages_max ? pages : w->request_pages_max;
	bool chooses = linnos_latency_chooses(w->model), stalled;
	struct linnos_load load;

	linnos_see_load(&w->observer.drive, &load);
	if (answer->state & STATE_PENDING_KNOWN && !answer->pending &&
	    load.read_pages + load.write_pages) {
		take_back(w, now_ns - ON_THE_WAY_NS);
		linnos_see_load(&w->observer.drive, &load);
	}
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
		answer->state |= BLK_EXPECT_NO_CHOICE;
	if (stalled)
		answer->state |= BLK_EXPECT_STALLED;
	if (stalled || (chooses && answer->latency_us > w->model->refuse_us))
		answer->state |= BLK_EXPECT_SLOW;
	if (linnos_is_silent(&w->observer.drive, linnos_size_order(most), now_ns))
		answer->state |= BLK_EXPECT_STALE;
}
