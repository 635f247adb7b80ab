// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LinnOS: is a drive that is called slow still slow?
 *
 * A drive all of whose reads are refused completes nothing, and would be called slow
 * for ever. So when no read was sent there for too long that was expected to be fast,
 * or too many have been refused, one is sent all the same, a *probe*. It is late if it
 * took longer than fast and a failover:
 *
 *	refused, refused, ... probe ──► late: wait twice as long ──► probe ...
 *	                        │
 *	                        └► in time: another may be in flight, at once
 *
 * The window: how many reads may be in flight against the model's word. After a probe in
 * time others follow, one at a time, until the model says fast by itself. A model that
 * has not learnt that small reads pass much larger ones is wrong for longer: while these
 * are in flight, or have ended just now, a read in time opens the window by one and a
 * late one closes it by ten, so that it stays open where the model is wrong in more than
 * ten of eleven cases. All of this is by order of size.
 *
 * A probe has no number. Whoever asks first when one is wanted is told to send it, at
 * @since_ns, and so is the next caller, should the first not do so. The next read of this
 * order that is counted in is taken for the probe, whoever sent it, and while it is in
 * flight nobody else is told to send one. The first read that the drive was given after
 * @since_ns and has answered tells what the probe was to tell: it is of the same order, and
 * the drive took the time. One that fails tells nothing.
 *
 * The reads of the callers that were told may never be counted in: they were not sent, or
 * they wait for a tag, or they were split or merged into requests of another order. So
 * others are told when a probe would be due again, and the wait doubles as after a late
 * probe: a slow drive gets hardly more reads than it would if all probes were late.
 *
 * So a caller that asks and sends nothing delays probes by no more than late probes
 * would, and one that reads without asking does not make the drive seem probed: the
 * clock is set by reads that were expected to be fast, and by answers. But such a caller
 * can make probes late by what else it has in flight.
 */
#include "linnos_drive.h"

#define BACKOFF_MAX \
	3 /* one hinted read in 800 is a probe then, or one in 80 ms */

#define WINDOW_FIRST 11
#define WINDOW_LOST 10
#define WINDOW_MAX 50

/* A second caller is told to send the probe if it asks so soon after the first. */
#define SECOND_CALLER_NS (500 * NSEC_PER_USEC)

/* Where time alone never makes a probe due, others than probes still need one. */
#define AFTER_US_DEFAULT 10000

static s64 linnos_probe_interval_ns(const struct linnos_drive *drive)
{
	u32 after_us = READ_ONCE(drive->probe_after_us) ?: AFTER_US_DEFAULT;

	return after_us * NSEC_PER_USEC;
}

/* A read is sent there, and expected to be fast. Not each one sets the clock. */
void linnos_probe_note_fast_read(struct linnos_drive *drive, u32 size,
				 u64 now_ns)
{
	struct linnos_probe_state *look = &drive->look[size];
	s64 age_ns = now_ns - READ_ONCE(look->chosen_ns);

	if (age_ns > linnos_probe_interval_ns(drive) / 8)
		WRITE_ONCE(look->chosen_ns, now_ns);
}

void linnos_probe_close_window(struct linnos_probe_state *look)
{
	if (unlikely(READ_ONCE(look->window) == 1))
		WRITE_ONCE(look->window, 0);
}

/* 0: there was none. */
static u64 linnos_last_completion_ns(const struct linnos_history *history,
				     u32 size)
{
	u32 n = READ_ONCE(history->n[size]);

	return READ_ONCE(history->last[size][(n - 1) % LINNOS_HISTORY].end_ns);
}

/* Are reads of a larger order in flight, or were there just now? */
static bool linnos_larger_reads_active(const struct linnos_drive *drive,
				       u32 size, u64 now_ns)
{
	s64 after_ns = linnos_probe_interval_ns(drive);
	u64 end_ns;

	while (++size < LINNOS_SIZE_CLASSES) {
		end_ns = linnos_last_completion_ns(&drive->history, size);
		if (atomic_read(&drive->look[size].in_flight) > 0 ||
		    (end_ns && (s64)(now_ns - end_ns) < after_ns))
			return true;
	}
	return false;
}

/* May a read go there against the model's word? The window is open, and not full. */
bool linnos_probe_window_allows(const struct linnos_drive *drive, u32 size,
				u64 now_ns)
{
	int window = READ_ONCE(drive->look[size].window);
	int against = atomic_read(&drive->look[size].against);

	if (!window)
		return false;
	return against < 1 || (against < window &&
			       linnos_larger_reads_active(drive, size, now_ns));
}

/* Is it time for a probe? @age_ns, @reads: since the drive was last known, or probed. */
static bool linnos_probe_is_due(const struct linnos_drive *drive,
				const struct linnos_probe_state *look,
				s64 age_ns, u32 reads)
{
	u64 after_ns = READ_ONCE(drive->probe_after_us) * NSEC_PER_USEC;
	u64 most = READ_ONCE(drive->probe_after_refused);
	u8 backoff = READ_ONCE(look->backoff);

	return (after_ns && age_ns > (s64)(after_ns << backoff)) ||
	       (most && reads >= most << backoff);
}

static void linnos_back_off(struct linnos_probe_state *look)
{
	u8 backoff = READ_ONCE(look->backoff);

	WRITE_ONCE(look->backoff, min_t(u8, backoff + 1, BACKOFF_MAX));
}

/*
 * Is this read to be sent there as a probe? Of several callers two are told so.
 * @again: also if the last probe was in time.
 */
bool linnos_probe_claim(struct linnos_drive *drive, u32 size, bool again,
			u64 now_ns)
{
	struct linnos_probe_state *look = &drive->look[size];
	u64 since_ns = READ_ONCE(look->since_ns);
	/* a read that was chosen just now may make the age negative */
	s64 age_ns = now_ns - (since_ns ?: READ_ONCE(look->chosen_ns));
	u32 reads;

	if (since_ns & LINNOS_PROBE_SENT)
		return false;
	reads = since_ns ? atomic_inc_return(&look->asked) :
			   atomic_read(&look->refused);
	if (since_ns && reads == 1 && age_ns <= SECOND_CALLER_NS)
		return true;
	if (!(again && !since_ns && READ_ONCE(look->window)) &&
	    !linnos_probe_is_due(drive, look, age_ns, reads))
		return false;
	/* before others see that one has been told */
	atomic_set(&look->asked, 0);
	if (cmpxchg(&look->since_ns, since_ns, now_ns & ~LINNOS_PROBE_SENT) !=
	    since_ns)
		return false;
	/* those who were told have not sent their reads */
	if (since_ns)
		linnos_back_off(look);
	return true;
}

/* A read has ended without an answer. If it was the probe, the next may be one. */
void linnos_probe_failed(struct linnos_probe_state *look)
{
	u64 since_ns = READ_ONCE(look->since_ns);

	if (since_ns & LINNOS_PROBE_SENT)
		cmpxchg(&look->since_ns, since_ns, 0ULL);
}

static void linnos_window_move(struct linnos_probe_state *look, bool late,
			       bool larger, u64 now_ns)
{
	u8 window = READ_ONCE(look->window);

	if (late && larger && window > WINDOW_LOST) {
		WRITE_ONCE(look->window, window - WINDOW_LOST);
		return;
	}
	if (late) {
		/* the wait begins anew */
		WRITE_ONCE(look->chosen_ns, now_ns);
		window = 0;
	} else if (!larger) {
		window = 1;
	} else {
		window = clamp_t(u8, window + 1, WINDOW_FIRST, WINDOW_MAX);
	}
	WRITE_ONCE(look->window, window);
	atomic_set(&look->refused, 0);
}

/* A read has been answered. @late: it was wrong to send it there. */
void linnos_probe_complete(struct linnos_drive *drive,
			   const struct linnos_io *io, u64 end_ns, bool late)
{
	u32 size = io->flags & LINNOS_IO_SIZE;
	struct linnos_probe_state *look = &drive->look[size];
	u64 since_ns = READ_ONCE(look->since_ns);
	bool found, larger;

	/* is it the probe's answer? only once */
	found = since_ns & LINNOS_PROBE_SENT &&
		io->issued_ns >= (since_ns ^ LINNOS_PROBE_SENT) &&
		cmpxchg(&look->since_ns, since_ns, 0ULL) == since_ns;
	if (likely(!found && !(io->flags & LINNOS_IO_SLOW)))
		return;
	larger = linnos_larger_reads_active(drive, size, end_ns);
	if (found) {
		atomic_set(&look->refused, 0);
		WRITE_ONCE(look->chosen_ns, end_ns);
		if (late)
			linnos_back_off(look);
		else
			WRITE_ONCE(look->backoff, 0);
	}
	if (READ_ONCE(look->window) || (found && !late))
		linnos_window_move(look, late, larger, end_ns);
}

/* Has it answered no read of this order for so long that what is known may be old? */
bool linnos_history_is_stale(const struct linnos_drive *drive, u32 size,
			     u64 now_ns)
{
	s64 after_ns = READ_ONCE(drive->probe_after_us) * NSEC_PER_USEC;
	u64 end_ns = linnos_last_completion_ns(&drive->history, size);

	return after_ns && (s64)(now_ns - end_ns) > after_ns;
}

/* What is in flight remains counted. Nobody else writes the history meanwhile. */
void linnos_drive_reset_history(struct linnos_drive *drive, u64 now_ns)
{
	struct linnos_probe_state *look;

	memset(&drive->history, 0, sizeof(drive->history));
	for (look = drive->look; look < drive->look + LINNOS_SIZE_CLASSES;
	     look++) {
		WRITE_ONCE(look->chosen_ns, now_ns);
		WRITE_ONCE(look->since_ns, 0);
		atomic_set(&look->refused, 0);
		WRITE_ONCE(look->window, 0);
		WRITE_ONCE(look->backoff, 0);
	}
}
