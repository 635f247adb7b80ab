// SPDX-License-Identifier: MIT
/* What a model of latencies sees of a drive: see observer.h. */
#include "observer.h"

#include <string.h>

static uint32_t capped(uint64_t v)
{
	return v < LINNOS_LATENCY_CAP ? v : LINNOS_LATENCY_CAP;
}

static uint32_t us_between(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? capped((to_ns - from_ns) / 1000) : 0;
}

void observer_init(struct observer *o, uint32_t overdue_us)
{
	memset(o, 0, sizeof(*o));
	o->overdue_ns = overdue_us * 1000ull;
}

void observer_sent(struct observer *o, struct observed *io, uint64_t now_ns, uint32_t pages,
		   bool is_read)
{
	*io = (struct observed){.start_ns = now_ns, .pages = pages, .is_read = is_read};
	*(is_read ? &o->read_pages : &o->write_pages) += pages;
	io->pending = capped(o->read_pages + o->write_pages);
	if (!is_read)
		return;
	o->reads_in_flight++;
	io->earlier = o->newest;
	*(o->newest ? &o->newest->later : &o->oldest) = io;
	o->newest = io;
	if (!o->due)
		o->due = io;
}

void observer_submitted(struct observed *io, uint64_t now_ns)
{
	io->start_ns = now_ns;
}

static void remember(struct observer *o, const struct observed *io, uint64_t now_ns)
{
	const struct observed_past read = {
		.end_ns = now_ns,
		.latency_us = us_between(io->start_ns, now_ns),
		.pending = io->pending,
		.pages = capped(io->pages),
	};

	/* Reads see those that were not larger in order than themselves. */
	for (uint32_t size = linnos_size_order(io->pages); size < LINNOS_SIZES; size++)
		o->past[size][o->n_past[size]++ % LINNOS_HISTORY] = read;
}

static bool is_late(const struct observer *o, const struct observed *io, uint64_t now_ns)
{
	uint64_t usual_ns = LATE_OVERDUES * o->overdue_ns;

	if (usual_ns < LATE_NS_MIN)
		usual_ns = LATE_NS_MIN;
	/* It had all that was in flight to wait for. */
	return now_ns > io->start_ns + usual_ns + io->pending * LATE_NS_PER_PAGE;
}

bool observer_is_stalled(const struct observer *o, uint64_t now_ns)
{
	return o->oldest && is_late(o, o->oldest, now_ns);
}

static void be_quiet(struct observer *o, const struct observed *io, uint64_t now_ns)
{
	uint64_t took_ns = now_ns > io->start_ns ? now_ns - io->start_ns : 0;
	uint64_t first_ns = QUIET_TIMES * took_ns;
	bool was_bad = o->failing || o->slow;

	/* Those that were under way when one failed are one failure with it. */
	if (was_bad && io->start_ns >= o->heard_ns && 2 * o->quiet_ns > first_ns)
		o->quiet_ns *= 2;
	else if (!was_bad || first_ns > o->quiet_ns)
		o->quiet_ns = first_ns;
	if (o->quiet_ns > QUIET_NS_MAX)
		o->quiet_ns = QUIET_NS_MAX;
}

static void judge(struct observer *o, const struct observed *io, uint64_t now_ns,
		  enum observed_end end)
{
	bool failing = end == OBSERVED_FAILED, slow = is_late(o, io, now_ns);

	if (failing || slow)
		be_quiet(o, io, now_ns);
	else
		o->quiet_ns = 0;
	o->failing = failing;
	o->slow = slow;
}

void observer_ended(struct observer *o, struct observed *io, uint64_t now_ns, enum observed_end end)
{
	*(io->is_read ? &o->read_pages : &o->write_pages) -= io->pages;
	if (!io->is_read)
		return;
	o->reads_in_flight--;
	o->n_overdue -= io->is_overdue;
	if (o->due == io)
		o->due = io->later;
	*(io->earlier ? &io->earlier->later : &o->oldest) = io->later;
	*(io->later ? &io->later->earlier : &o->newest) = io->earlier;
	if (end == OBSERVED_TAKEN_BACK)
		return;
	judge(o, io, now_ns, end);
	o->heard_ns = now_ns;
	if (end == OBSERVED_ANSWERED)
		remember(o, io, now_ns);
}

/* Reads become overdue in the order in which they were sent. */
static void count_overdue(struct observer *o, uint64_t now_ns)
{
	for (; o->due && now_ns > o->due->start_ns + o->overdue_ns; o->due = o->due->later) {
		o->due->is_overdue = true;
		o->n_overdue++;
	}
}

void observer_features(struct observer *o, uint32_t pages, uint64_t now_ns,
		       uint32_t features[LINNOS_N_FEATURES])
{
	uint32_t size = linnos_size_order(pages);
	uint32_t *f = features + LINNOS_PAST;

	count_overdue(o, now_ns);
	features[LINNOS_OWN_PAGES] = capped(pages);
	features[LINNOS_READ_PAGES] = capped(o->read_pages);
	features[LINNOS_WRITE_PAGES] = capped(o->write_pages);
	features[LINNOS_READS_IN_FLIGHT] = capped(o->reads_in_flight);
	features[LINNOS_OLDEST_US] = o->oldest ? us_between(o->oldest->start_ns, now_ns) : 0;
	features[LINNOS_OVERDUE] = capped(o->n_overdue);
	for (unsigned int ago = 1; ago <= LINNOS_HISTORY; ago++, f += LINNOS_N_PAST) {
		const struct observed_past *p =
			&o->past[size][(o->n_past[size] - ago) % LINNOS_HISTORY];
		bool known = ago <= o->n_past[size];

		/* Those that there were not are zeros. */
		f[LINNOS_PAST_LATENCY_US] = p->latency_us;
		f[LINNOS_PAST_PENDING] = p->pending;
		f[LINNOS_PAST_PAGES] = p->pages;
		f[LINNOS_PAST_AGE_US] = known ? us_between(p->end_ns, now_ns) : LINNOS_LATENCY_CAP;
	}
}
