// SPDX-License-Identifier: MIT
/* What a model of latencies sees of a drive: see observer.h. */
#include "observer.h"

#include <string.h>

void observer_init(struct observer *o, uint32_t overdue_us)
{
	memset(o, 0, sizeof(*o));
	o->overdue_us = overdue_us;
	o->drive.watching = true;
}

void observer_sent(struct observer *o, struct linnos_io *io, uint64_t now_ns, uint64_t offset_bytes,
		   uint32_t pages, bool is_read)
{
	linnos_io_begin(&o->drive, io, linnos_region_of(offset_bytes), pages,
			is_read ? LINNOS_IO_READ : 0, now_ns);
	linnos_io_issue(io, now_ns);
}

void observer_submitted(struct observer *o, struct linnos_io *io, uint64_t now_ns)
{
	io->issued_ns = now_ns;
	if (io->place)
		o->drive.places.start_ns[io->place - 1] = now_ns;
}

/* It had all that was in flight to wait for. */
static bool is_late(const struct observer *o, uint64_t start_ns, uint64_t now_ns, uint32_t pending)
{
	uint64_t usual_ns = LATE_OVERDUES * o->overdue_us * 1000ull;

	if (usual_ns < LATE_NS_MIN)
		usual_ns = LATE_NS_MIN;
	return now_ns > start_ns + usual_ns + pending * LATE_NS_PER_PAGE;
}

bool observer_is_stalled(const struct observer *o, uint64_t now_ns)
{
	uint64_t oldest_ns = linnos_oldest_ns(&o->drive.places);
	struct linnos_load load;

	if (!oldest_ns)
		return false;
	linnos_see_load(&o->drive, &load);
	return is_late(o, oldest_ns, now_ns, load.read_pages + load.write_pages);
}

static void be_quiet(struct observer *o, const struct linnos_io *io, uint64_t now_ns)
{
	uint64_t took_ns = now_ns > io->issued_ns ? now_ns - io->issued_ns : 0;
	uint64_t first_ns = QUIET_TIMES * took_ns;
	bool was_bad = o->failing || o->slow;

	/* Those that were under way when one failed are one failure with it. */
	if (was_bad && io->issued_ns >= o->heard_ns && 2 * o->quiet_ns > first_ns)
		o->quiet_ns *= 2;
	else if (!was_bad || first_ns > o->quiet_ns)
		o->quiet_ns = first_ns;
	if (o->quiet_ns > QUIET_NS_MAX)
		o->quiet_ns = QUIET_NS_MAX;
}

static void judge(struct observer *o, const struct linnos_io *io, uint64_t now_ns,
		  enum observed_end end)
{
	bool failing = end == OBSERVED_FAILED,
	     slow = is_late(o, io->issued_ns, now_ns, io->pending);

	if (failing || slow)
		be_quiet(o, io, now_ns);
	else
		o->quiet_ns = 0;
	o->failing = failing;
	o->slow = slow;
}

void observer_ended(struct observer *o, struct linnos_io *io, uint64_t now_ns,
		    enum observed_end end)
{
	struct linnos_ended ended;
	bool answered;

	if (end == OBSERVED_ANSWERED)
		io->flags |= LINNOS_IO_ANSWERED;
	answered = linnos_io_end(&o->drive, io, now_ns, &ended);
	if (!(io->flags & LINNOS_IO_READ) || end == OBSERVED_TAKEN_BACK)
		return;
	judge(o, io, now_ns, end);
	o->heard_ns = now_ns;
	if (answered)
		linnos_history_add(&o->drive.history, &ended);
}

void observer_features(const struct observer *o, uint64_t offset_bytes, uint32_t pages,
		       uint64_t now_ns, uint32_t features[LINNOS_N_FEATURES])
{
	struct linnos_view view = {
		.now_ns = now_ns,
		.pages = pages,
		.size = linnos_size_order(pages),
		.in_region = linnos_see_region(&o->drive, linnos_region_of(offset_bytes)),
	};

	linnos_see_load(&o->drive, &view.load);
	linnos_history_see(&o->drive.history, view.size, view.past);
	linnos_view_features(&o->drive.places, &view, o->overdue_us, features);
}
