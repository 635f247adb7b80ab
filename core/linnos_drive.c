// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* LinnOS: the I/O in flight and the last completed reads of a drive; see linnos_drive.h. */
#include "linnos_drive.h"

/* The pages saturate: a replayed log may contain more I/O in flight than any real drive has. */
static void linnos_load_from(s64 load, s64 write_pages,
			     struct linnos_load *seen)
{
	seen->reads = (u64)load >> LINNOS_LOAD_PAGE_BITS;
	seen->read_pages = min_t(u64, load & (LINNOS_LOAD_READ - 1), S32_MAX);
	seen->write_pages = min_t(u64, write_pages, S32_MAX);
}

void linnos_load_snapshot(const struct linnos_drive *drive,
			  struct linnos_load *load)
{
	linnos_load_from(atomic64_read(&drive->load),
			 atomic64_read(&drive->write_pages), load);
}

/* Return the reads in flight in a region, or %LINNOS_LATENCY_CAP if it is unknown. */
u32 linnos_region_reads(const struct linnos_drive *drive, u8 region)
{
	if (unlikely(region == LINNOS_REGION_UNKNOWN))
		return LINNOS_LATENCY_CAP;
	return atomic_read(&drive->in_region[region]);
}

/* Allocate a start slot. Return its index plus 1, or 0 if all slots are taken. */
static u8 linnos_start_slot_get(struct linnos_start_slots *slots, u64 now_ns)
{
	unsigned long *word = slots->taken, free;
	u32 at, bit;

	for (at = 0; at < LINNOS_START_SLOTS; at += BITS_PER_LONG, word++) {
		while ((free = ~READ_ONCE(*word))) {
			bit = __ffs(free);
			/* another CPU has taken it: try the next one */
			if (test_and_set_bit_lock(bit, word))
				continue;
			WRITE_ONCE(slots->start_ns[at + bit], now_ns);
			return at + bit + 1;
		}
	}
	return 0;
}

static void linnos_start_slot_put(struct linnos_start_slots *slots, u8 number)
{
	u32 at = number - 1;

	/* the next read to take the slot must not appear with this start time */
	WRITE_ONCE(slots->start_ns[at], 0);
	clear_bit_unlock(at % BITS_PER_LONG, &slots->taken[at / BITS_PER_LONG]);
}

/* Return true if a caller was asked to send a probe, and the probe is not in flight yet. */
static bool linnos_probe_is_expected(u64 claimed_ns)
{
	return unlikely(claimed_ns && !(claimed_ns & LINNOS_PROBE_SENT));
}

/* Return true if a read of this size class may have been admitted although predicted slow. */
static bool linnos_may_admit_slow(const struct linnos_probe_state *probe)
{
	return READ_ONCE(probe->claimed_ns) || READ_ONCE(probe->window);
}

/*
 * Return the size class of the read that a request belongs to. The request may be smaller than
 * the read, because reads are split at the device's limits (virt_boundary, segments, chunks),
 * depending on the layout of their buffers in memory. If a request was predicted slow, but its own
 * size class cannot have admitted such a read, it must be a part of a larger read whose class can.
 * For other requests the size of the read is not known. A request of class 1 is then assumed to be
 * a part of a read of class 2 if a probe is expected in class 2, but not in class 1.
 */
static u32 linnos_read_size_class(const struct linnos_drive *drive, u32 pages,
				  u8 flags)
{
	const struct linnos_probe_state *probes = drive->probes;
	u32 size = linnos_size_class(pages), larger;

	if (unlikely(flags & LINNOS_IO_SLOW) &&
	    !linnos_may_admit_slow(&probes[size]))
		for (larger = size + 1; larger < LINNOS_SIZE_CLASSES; larger++)
			if (linnos_may_admit_slow(&probes[larger]))
				return larger;
	return size +
	       (size == 1 &&
		linnos_probe_is_expected(READ_ONCE(probes[2].claimed_ns)) &&
		!linnos_probe_is_expected(READ_ONCE(probes[1].claimed_ns)));
}

static void linnos_read_begins(struct linnos_drive *drive, struct linnos_io *io,
			       u64 now_ns)
{
	struct linnos_probe_state *probe =
		&drive->probes[io->flags & LINNOS_IO_SIZE];
	u64 claimed_ns = READ_ONCE(probe->claimed_ns);

	/* may change at any time: the I/O records which of the two it uses */
	if (READ_ONCE(drive->tracks_starts))
		io->start_slot =
			linnos_start_slot_get(&drive->start_slots, now_ns);
	if (READ_ONCE(drive->tracks_starts) &&
	    !READ_ONCE(drive->ignores_regions))
		atomic_inc(&drive->in_region[io->region]);
	else
		io->region = LINNOS_REGION_UNKNOWN;
	if (unlikely(io->flags & LINNOS_IO_SIZE))
		atomic_inc(&probe->in_flight);
	if (unlikely(io->flags & LINNOS_IO_SLOW))
		atomic_inc(&probe->slow_in_flight);
	if (linnos_probe_is_expected(claimed_ns))
		cmpxchg(&probe->claimed_ns, claimed_ns,
			claimed_ns | LINNOS_PROBE_SENT);
}

/*
 * Count an I/O as in flight. @flags is 0 for a write. For a read it is LINNOS_IO_READ, plus
 * LINNOS_IO_FAST or LINNOS_IO_SLOW if the read was predicted; @region is the result of
 * linnos_region_of() for its address, and @now_ns the time at which it starts.
 */
void linnos_io_begin(struct linnos_drive *drive, struct linnos_io *io,
		     u8 region, u32 pages, u8 flags, u64 now_ns)
{
	s64 load, write_pages;
	struct linnos_load seen;

	*io = (struct linnos_io){ .flags = flags | LINNOS_IO_COUNTED,
				  .region = region };
	io->pages = min_t(u32, pages, LINNOS_IO_PAGES_MAX);
	if (flags & LINNOS_IO_READ) {
		io->flags |= linnos_read_size_class(drive, pages, flags);
		linnos_read_begins(drive, io, now_ns);
		load = atomic64_add_return(LINNOS_LOAD_READ + io->pages,
					   &drive->load);
		write_pages = atomic64_read(&drive->write_pages);
	} else {
		write_pages =
			atomic64_add_return(io->pages, &drive->write_pages);
		load = atomic64_read(&drive->load);
	}
	linnos_load_from(load, write_pages, &seen);
	io->pending = min_t(u32, seen.read_pages + seen.write_pages,
			    LINNOS_IO_PAGES_MAX);
}

void linnos_io_grow(struct linnos_drive *drive, struct linnos_io *io, u32 pages)
{
	if (!(io->flags & LINNOS_IO_COUNTED))
		return;
	pages = min_t(u32, pages, LINNOS_IO_PAGES_MAX - io->pages);
	io->pages += pages;
	atomic64_add(pages, io->flags & LINNOS_IO_READ ? &drive->load :
							 &drive->write_pages);
}

static void linnos_count_out(struct linnos_drive *drive, struct linnos_io *io)
{
	struct linnos_probe_state *probe =
		&drive->probes[io->flags & LINNOS_IO_SIZE];

	io->flags &= ~LINNOS_IO_COUNTED;
	if (!(io->flags & LINNOS_IO_READ)) {
		atomic64_add(-(s64)io->pages, &drive->write_pages);
		return;
	}
	atomic64_add(-(LINNOS_LOAD_READ + io->pages), &drive->load);
	if (io->region != LINNOS_REGION_UNKNOWN)
		atomic_dec(&drive->in_region[io->region]);
	if (io->start_slot)
		linnos_start_slot_put(&drive->start_slots, io->start_slot);
	if (unlikely(io->flags & LINNOS_IO_SIZE))
		atomic_dec(&probe->in_flight);
	if (unlikely(io->flags & LINNOS_IO_SLOW))
		atomic_dec(&probe->slow_in_flight);
}

/*
 * @joins, which may be a probe, is merged into @io. Return true if the completion of @io can be
 * taken for that of the probe. It cannot if both are not counted in the same size class, or if @io
 * was issued before a caller was asked for the probe, and has been requeued since.
 */
static bool linnos_can_replace_probe(const struct linnos_probe_state *probe,
				     const struct linnos_io *io,
				     const struct linnos_io *joins)
{
	u64 claimed_ns = READ_ONCE(probe->claimed_ns) & ~LINNOS_PROBE_SENT;

	return !((io->flags ^ joins->flags) &
		 (LINNOS_IO_COUNTED | LINNOS_IO_SIZE)) &&
	       (!io->issued_ns || io->issued_ns >= claimed_ns);
}

/* Merge @joins into @io. @joins is no longer counted, and is not recorded as completed. */
void linnos_io_join(struct linnos_drive *drive, struct linnos_io *io,
		    struct linnos_io *joins)
{
	struct linnos_probe_state *probe =
		&drive->probes[joins->flags & LINNOS_IO_SIZE];

	if (!(joins->flags & LINNOS_IO_COUNTED))
		return;
	if (joins->flags & LINNOS_IO_READ &&
	    !linnos_can_replace_probe(probe, io, joins))
		linnos_probe_failed(probe);
	linnos_io_grow(drive, io, joins->pages);
	linnos_count_out(drive, joins);
}

/*
 * Record the time of issue. If an I/O is issued again after a requeue or a timeout, the first
 * time is kept, so that its latency includes all attempts.
 */
void linnos_io_issue(struct linnos_io *io, u64 now_ns)
{
	if (!io->issued_ns)
		io->issued_ns = now_ns;
}

/*
 * Stop counting an I/O as in flight. Return true if it is a read that the drive completed
 * successfully; @ended then describes it.
 */
bool linnos_io_end(struct linnos_drive *drive, struct linnos_io *io, u64 now_ns,
		   struct linnos_completed_io *ended)
{
	struct linnos_probe_state *probe =
		&drive->probes[io->flags & LINNOS_IO_SIZE];
	u64 us = 0;

	if (!(io->flags & LINNOS_IO_COUNTED))
		return false;
	linnos_count_out(drive, io);
	if (!(io->flags & LINNOS_IO_READ))
		return false;
	if (!(io->flags & LINNOS_IO_ANSWERED) || !io->issued_ns) {
		linnos_probe_failed(probe);
		return false;
	}
	if (now_ns > io->issued_ns)
		us = div_u64(now_ns - io->issued_ns, NSEC_PER_USEC);
	*ended = (struct linnos_completed_io){
		.end_ns = now_ns,
		.latency_us = min_t(u64, us, U32_MAX),
		.pages = io->pages,
		.pending = io->pending,
	};
	return true;
}

void linnos_history_add(struct linnos_history *history,
			const struct linnos_completed_io *ended)
{
	u32 size = linnos_size_class(ended->pages);
	struct linnos_completed_io *last =
		&history->last[size][history->n[size]++ % LINNOS_HISTORY];

	*last = *ended;
	last->nr = ++history->nr;
}

/* Copy the last reads of this and all smaller size classes, oldest first. */
static void linnos_history_last(const struct linnos_history *history, u32 size,
				struct linnos_completed_io past[LINNOS_HISTORY])
{
	const struct linnos_completed_io *newest, *last;
	u32 seen[LINNOS_SIZE_CLASSES] = {};
	u32 k, from;
	int i;

	/* nearly all reads are small, and nothing has to be merged for them */
	if (likely(!size)) {
#pragma GCC unroll 4
		for (i = 0; i < LINNOS_HISTORY; i++)
			past[i] = history->last[0][(history->n[0] + i) %
						   LINNOS_HISTORY];
		return;
	}
	for (i = LINNOS_HISTORY - 1; i >= 0; i--) {
		/* the newest read of all size classes that has not been copied */
		newest = NULL;
		from = 0;
		for (k = 0; k <= size; k++) {
			if (seen[k] == LINNOS_HISTORY)
				continue;
			last = &history->last[k][(history->n[k] - 1 - seen[k]) %
						 LINNOS_HISTORY];
			if (newest && last->nr <= newest->nr)
				continue;
			newest = last;
			from = k;
		}
		past[i] = *newest;
		seen[from]++;
	}
}

/*
 * Copy the state of a drive that a prediction is computed from, except for the start times, which
 * are read later. Called once per read. @history: the history of the drive, or a copy that no
 * other CPU writes.
 */
void linnos_drive_view(const struct linnos_drive *drive,
		       const struct linnos_history *history, u8 region,
		       u32 pages, u64 now_ns,
		       struct linnos_drive_snapshot *view)
{
	view->now_ns = now_ns;
	view->pages = pages;
	view->size = linnos_size_class(pages);
	linnos_load_snapshot(drive, &view->load);
	view->in_region = linnos_region_reads(drive, region);
	linnos_history_last(history, view->size, view->past);
}

static u32 linnos_capped(u64 value)
{
	return min_t(u64, value, LINNOS_LATENCY_CAP);
}

static u32 linnos_us_between(u64 from_ns, u64 to_ns)
{
	if (to_ns <= from_ns)
		return 0;
	return linnos_capped(div_u64(to_ns - from_ns, NSEC_PER_USEC));
}

/*
 * Statistics of the reads in flight: the oldest start time, or 0 if there is none, and the
 * number of reads that started before @due_ns.
 */
struct linnos_starts {
	u64 oldest_ns;
	u64 due_ns;
	u32 overdue;
};

static void linnos_scan_starts(const struct linnos_start_slots *slots,
			       struct linnos_starts *starts)
{
	unsigned long taken;
	u64 start_ns;
	u32 at;

	for (at = 0; at < LINNOS_START_SLOTS; at += BITS_PER_LONG) {
		taken = READ_ONCE(slots->taken[at / BITS_PER_LONG]);
		for (; taken; taken &= taken - 1) {
			start_ns =
				READ_ONCE(slots->start_ns[at + __ffs(taken)]);
			if (!start_ns)
				continue;
			if (!starts->oldest_ns || start_ns < starts->oldest_ns)
				starts->oldest_ns = start_ns;
			starts->overdue += start_ns < starts->due_ns;
		}
	}
}

/* Return the oldest start time of the reads in flight, or 0 if none is known. */
u64 linnos_oldest_ns(const struct linnos_start_slots *slots)
{
	struct linnos_starts starts = {};

	linnos_scan_starts(slots, &starts);
	return starts.oldest_ns;
}

/*
 * Compute the features of a latency model. A read in flight for more than @overdue_us is overdue.
 * If fewer than %LINNOS_HISTORY reads have completed, the age of a missing one is the maximum.
 */
void linnos_compute_features(const struct linnos_start_slots *slots,
			     const struct linnos_drive_snapshot *view,
			     u32 overdue_us, u32 features[LINNOS_N_FEATURES])
{
	u64 overdue_ns = (u64)overdue_us * NSEC_PER_USEC;
	u32 *past = features + LINNOS_PAST;
	struct linnos_starts starts = {};
	int i;

	if (view->now_ns > overdue_ns)
		starts.due_ns = view->now_ns - overdue_ns;
	linnos_scan_starts(slots, &starts);
	features[LINNOS_OWN_PAGES] = linnos_capped(view->pages);
	features[LINNOS_READ_PAGES] = linnos_capped(view->load.read_pages);
	features[LINNOS_WRITE_PAGES] = linnos_capped(view->load.write_pages);
	features[LINNOS_READS_IN_FLIGHT] = view->load.reads;
	features[LINNOS_OLDEST_US] = 0;
	if (starts.oldest_ns)
		features[LINNOS_OLDEST_US] =
			linnos_us_between(starts.oldest_ns, view->now_ns);
	features[LINNOS_OVERDUE] = starts.overdue;
	/* the snapshot begins with the oldest read, the features with the latest */
	for (i = LINNOS_HISTORY - 1; i >= 0; i--, past += LINNOS_N_PAST) {
		const struct linnos_completed_io *ended = &view->past[i];

		past[LINNOS_PAST_LATENCY_US] = linnos_capped(ended->latency_us);
		past[LINNOS_PAST_PENDING] = ended->pending;
		past[LINNOS_PAST_PAGES] = ended->pages;
		past[LINNOS_PAST_AGE_US] = LINNOS_LATENCY_CAP;
		if (ended->end_ns)
			past[LINNOS_PAST_AGE_US] =
				linnos_us_between(ended->end_ns, view->now_ns);
	}
	features[LINNOS_IN_REGION] = view->in_region;
}
