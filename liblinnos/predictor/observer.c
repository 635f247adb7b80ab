// SPDX-License-Identifier: MIT
/* The state of a drive from which its latency model predicts: see observer.h. */
#include "observer.h"

#include "spin.h"

#include <sched.h>
#include <string.h>

_Static_assert(sizeof(struct linnos_history) % sizeof(u64) == 0,
	       "it is copied in words of 64 bits");

/* Copy this part of the history to where other threads read it. The caller holds the lock. */
static inline void publish(struct observer *o, const void *from, size_t bytes)
{
	const u64 *own = from;
	u64 *seen = (u64 *)((char *)&o->seen + ((const char *)from - (char *)&o->drive.history));

#pragma GCC unroll 3
	for (size_t i = 0; i < (bytes + sizeof(u64) - 1) / sizeof(u64); i++)
		WRITE_ONCE(seen[i], own[i]);
}

static void publish_begin(struct observer *o)
{
	WRITE_ONCE(o->sequence, o->sequence + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void publish_end(struct observer *o)
{
	__atomic_store_n(&o->sequence, o->sequence + 1, __ATOMIC_RELEASE);
}

/* Copy the last reads of this and smaller size classes. */
static void copy_history(const struct observer *o, u32 size, struct linnos_history *h)
{
	const u64 *seen = (const u64 *)&o->seen;
	const size_t words = offsetof(struct linnos_history, last[size + 1]) / sizeof(u64);
	u64 *own = (u64 *)h;
	uint32_t before;

	for (;;) {
		before = __atomic_load_n(&o->sequence, __ATOMIC_ACQUIRE);
#pragma GCC unroll 3
		for (size_t i = 0; i < words; i++)
			own[i] = READ_ONCE(seen[i]);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && READ_ONCE(o->sequence) == before)
			break;
		if (before & 1)
			sched_yield();
	}
}

void observer_reset(struct observer *o)
{
	spin_take(&o->lock);
	memset(&o->drive.history, 0, sizeof(o->drive.history));
	publish_begin(o);
	publish(o, &o->drive.history, sizeof(o->drive.history));
	publish_end(o);
	WRITE_ONCE(o->failing, false);
	WRITE_ONCE(o->slow, false);
	WRITE_ONCE(o->unprobed, true);
	WRITE_ONCE(o->quiet_ns, 0);
	WRITE_ONCE(o->last_completion_ns, 0);
	spin_leave(&o->lock);
}

void observer_init(struct observer *o, uint32_t overdue_us)
{
	memset(o, 0, sizeof(*o));
	o->overdue_us = overdue_us;
	o->drive.tracks_starts = true;
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
	if (io->start_slot)
		WRITE_ONCE(o->drive.start_slots.start_ns[io->start_slot - 1], now_ns);
}

/* The read may have waited for everything in flight, so the limit grows with the pending pages. */
static bool is_late(const struct observer *o, uint64_t start_ns, uint64_t now_ns, uint32_t pending)
{
	uint64_t limit_ns = LATE_OVERDUES * READ_ONCE(o->overdue_us) * 1000ull;

	if (limit_ns < LATE_NS_MIN)
		limit_ns = LATE_NS_MIN;
	return now_ns > start_ns + limit_ns + pending * LATE_NS_PER_PAGE;
}

bool observer_has_late_read(const struct observer *o, uint64_t now_ns)
{
	uint64_t oldest_ns = linnos_oldest_ns(&o->drive.start_slots);
	struct linnos_load load;

	if (!oldest_ns)
		return false;
	linnos_load_snapshot(&o->drive, &load);
	return is_late(o, oldest_ns, now_ns, load.read_pages + load.write_pages);
}

static void extend_quiet_time(struct observer *o, const struct linnos_io *io, uint64_t now_ns)
{
	uint64_t took_ns = now_ns > io->issued_ns ? now_ns - io->issued_ns : 0;
	uint64_t first_ns = QUIET_TIMES * took_ns, quiet_ns = o->quiet_ns;
	bool was_bad = o->failing || o->slow;

	/* Reads that were already in flight when one failed belong to the same failure. */
	if (was_bad && io->issued_ns >= o->last_completion_ns && 2 * quiet_ns > first_ns)
		quiet_ns *= 2;
	else if (!was_bad || first_ns > quiet_ns)
		quiet_ns = first_ns;
	WRITE_ONCE(o->quiet_ns, quiet_ns < QUIET_NS_MAX ? quiet_ns : QUIET_NS_MAX);
}

static void update_health(struct observer *o, const struct linnos_io *io, uint64_t now_ns,
			  enum observed_end end)
{
	bool failing = end == OBSERVED_FAILED,
	     slow = is_late(o, io->issued_ns, now_ns, io->pending);

	if (failing || slow)
		extend_quiet_time(o, io, now_ns);
	else if (o->quiet_ns)
		WRITE_ONCE(o->quiet_ns, 0);
	WRITE_ONCE(o->failing, failing);
	WRITE_ONCE(o->slow, slow);
	WRITE_ONCE(o->unprobed, false);
	if (now_ns > o->last_completion_ns)
		WRITE_ONCE(o->last_completion_ns, now_ns);
}

static void add(struct observer *o, const struct linnos_completed_io *ended)
{
	struct linnos_history *h = &o->drive.history;
	u32 size = linnos_size_class(ended->pages);

	linnos_history_add(h, ended);
	publish_begin(o);
	publish(o, h, offsetof(struct linnos_history, last));
	publish(o, &h->last[size][(h->n[size] - 1) % LINNOS_HISTORY], sizeof(*ended));
	publish_end(o);
}

void observer_ended(struct observer *o, struct linnos_io *io, uint64_t now_ns,
		    enum observed_end end)
{
	struct linnos_completed_io ended;
	bool answered;

	if (end == OBSERVED_ANSWERED)
		io->flags |= LINNOS_IO_ANSWERED;
	answered = linnos_io_end(&o->drive, io, now_ns, &ended);
	if (!(io->flags & LINNOS_IO_READ) || end == OBSERVED_IGNORED)
		return;
	spin_take(&o->lock);
	update_health(o, io, now_ns, end);
	if (answered)
		add(o, &ended);
	spin_leave(&o->lock);
}

bool observer_recent_reads_within(const struct observer *o, uint32_t pages, uint32_t us)
{
	for (u32 size = 0; size <= linnos_size_class(pages); size++)
		for (u32 i = 0; i < LINNOS_HISTORY; i++)
			if (READ_ONCE(o->seen.last[size][i].latency_us) > us)
				return false;
	return true;
}

void observer_features(const struct observer *o, uint64_t offset_bytes, uint32_t pages,
		       uint64_t now_ns, uint32_t features[LINNOS_N_FEATURES])
{
	struct linnos_drive_snapshot view;
	struct linnos_history history;

	copy_history(o, linnos_size_class(pages), &history);
	linnos_drive_view(&o->drive, &history, linnos_region_of(offset_bytes), pages, now_ns,
			  &view);
	linnos_compute_features(&o->drive.start_slots, &view, READ_ONCE(o->overdue_us), features);
}
