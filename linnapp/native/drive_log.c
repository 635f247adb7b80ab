/* SPDX-License-Identifier: MIT */
/*
 * Simulate a drive whose I/Os are known from a log: compute the state that each of them found.
 *
 * linnapp/trace/reads.py calls it. The drive's state and the inputs of a model are computed by the
 * kernel's code (linnos_drive.h). This file only calls that code in the order of time, with I/Os
 * whose latency is known when they arrive.
 *
 *	I/O ──► sees the state ──► waits for the next instant ──► in flight, a heap by end ──► history
 *
 * 1 ns is added to all times, because in the core a start or an end of 0 means that there was none.
 */
#include <stdlib.h>

#include "blktrace_parser.h"
#include "drive_log.h"
#include "linnos_drive.h"

/* No drive has more I/Os in flight: a log that implies more has wrong times. */
#define LD_IOS_MAX ((1 << 17) - 1)
#define LD_PAGES_MAX ((1 << 23) - 1)

struct ld_io {
	uint64_t end_ns;
	uint64_t nr;
	struct linnos_io io;
};

struct ld_drive {
	struct linnos_drive drive;
	uint32_t overdue_us;
	uint64_t instant_ns;
	uint64_t nr;
	uint64_t pages;
	int in_flight; /* number of I/Os in a heap: the first to end is at 0 */
	int waiting;   /* number of I/Os after the heap */
	struct ld_io ios[LD_IOS_MAX];
};

/* If I/Os end together, the first to arrive is the first in the history. */
static bool ends_before(const struct ld_io *a, const struct ld_io *b)
{
	return a->end_ns < b->end_ns || (a->end_ns == b->end_ns && a->nr < b->nr);
}

/* Put the first waiting I/O in flight. */
static void ld_begin(struct ld_drive *d)
{
	int at = d->in_flight++;
	struct ld_io new = d->ios[at];
	uint64_t start_ns = new.io.issued_ns;
	uint16_t pending = new.io.pending;

	linnos_io_begin(&d->drive, &new.io, new.io.region, new.io.pages, new.io.flags, start_ns);
	linnos_io_issue(&new.io, start_ns);
	new.io.pending = pending;
	d->waiting--;
	for (; at && ends_before(&new, &d->ios[(at - 1) / 2]); at = (at - 1) / 2)
		d->ios[at] = d->ios[(at - 1) / 2];
	d->ios[at] = new;
}

/* End the I/O that ends first; no I/O is waiting. */
static void ld_end(struct ld_drive *d)
{
	struct ld_io *first = &d->ios[0];
	struct ld_io last = d->ios[--d->in_flight];
	struct linnos_completed_io ended;
	int at = 0, next;

	d->pages -= first->io.pages;
	if (linnos_io_end(&d->drive, &first->io, first->end_ns, &ended))
		linnos_history_add(&d->drive.history, &ended);
	while ((next = 2 * at + 1) < d->in_flight) {
		if (next + 1 < d->in_flight && ends_before(&d->ios[next + 1], &d->ios[next]))
			next++;
		if (!ends_before(&d->ios[next], &last))
			break;
		d->ios[at] = d->ios[next];
		at = next;
	}
	d->ios[at] = last;
}

static void ld_history_of(const struct linnos_drive_snapshot *view, int64_t row, const struct ld_seen *seen)
{
	int64_t to = row * LINNOS_HISTORY;

	for (int i = 0; i < LINNOS_HISTORY; i++, to++) {
		if (seen->hist_pending)
			seen->hist_pending[to] = view->past[i].pending;
		if (seen->hist_latency_us)
			seen->hist_latency_us[to] = view->past[i].latency_us;
		if (seen->hist_nr)
			seen->hist_nr[to] = view->past[i].nr;
	}
}

static uint8_t ld_region(const struct ld_ios *ios, int64_t row)
{
	return linnos_region_of(ios->sector[row] * SECTOR_BYTES);
}

/* Store the state that an I/O sees; return the number of pages in flight, including its own. */
static uint32_t ld_note_state(const struct ld_drive *d, const struct ld_ios *ios, int64_t row,
			      const struct ld_seen *seen)
{
	struct linnos_drive_snapshot view;

	linnos_drive_view(&d->drive, &d->drive.history, ld_region(ios, row),
			  linnos_pages_of(ios->bytes[row]), d->instant_ns, &view);
	if (seen->pending)
		seen->pending[row] = linnos_pending(&view);
	if (!(ios->flags[row] & LT_WRITE)) {
		ld_history_of(&view, row, seen);
		if (seen->features)
			linnos_compute_features(&d->drive.start_slots, &view, d->overdue_us,
					     seen->features + row * LINNOS_N_FEATURES);
	}
	return ios->pending ? ios->pending[row] : linnos_pending(&view);
}

/* Let an I/O wait for the next instant; return false if more is in flight than the limits. */
static bool ld_wait(struct ld_drive *d, const struct ld_ios *ios, int64_t row, uint32_t pending)
{
	uint32_t pages = linnos_pages_of(ios->bytes[row]);
	struct ld_io *new = &d->ios[d->in_flight + d->waiting];

	if (d->in_flight + d->waiting == LD_IOS_MAX || d->pages + pages > LD_PAGES_MAX)
		return false;
	d->waiting++;
	d->pages += pages;
	*new = (struct ld_io){
		.end_ns = d->instant_ns + ios->latency_ns[row],
		.nr = d->nr++,
		.io = {
			.issued_ns = d->instant_ns,
			.pages = pages,
			.pending = pending < LINNOS_IO_PAGES_MAX ? pending : LINNOS_IO_PAGES_MAX,
			.region = ld_region(ios, row),
		},
	};
	if (!(ios->flags[row] & LT_WRITE))
		new->io.flags |= LINNOS_IO_READ;
	if (!(ios->flags[row] & LT_ERROR))
		new->io.flags |= LINNOS_IO_ANSWERED;
	return true;
}

struct ld_drive *ld_open(uint32_t overdue_us)
{
	struct ld_drive *d = calloc(1, sizeof(*d));

	if (d) {
		d->drive.tracks_starts = true;
		d->overdue_us = overdue_us;
	}
	return d;
}

bool ld_feed(struct ld_drive *d, const struct ld_ios *ios, const struct ld_seen *seen)
{
	for (int64_t row = 0; row < ios->n; row++) {
		uint64_t now_ns = ios->arrival_ns[row] + 1;
		uint32_t pending;

		if (ios->ties_in_order || now_ns != d->instant_ns) {
			while (d->waiting)
				ld_begin(d);
			while (d->in_flight && d->ios[0].end_ns <= now_ns)
				ld_end(d);
			d->instant_ns = now_ns;
		}
		pending = ld_note_state(d, ios, row, seen);
		if ((ios->flags[row] & (LT_COMPLETED | LT_REVOKED)) == LT_COMPLETED &&
		    !ld_wait(d, ios, row, pending))
			return false;
	}
	return true;
}

void ld_close(struct ld_drive *d)
{
	free(d);
}
