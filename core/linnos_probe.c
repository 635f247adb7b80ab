// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LinnOS: probe whether a drive that is predicted slow is still slow.
 *
 * If all reads of a drive are refused, none completes, and the drive would be predicted
 * slow forever. A read that is predicted slow is therefore admitted as a *probe* if too much
 * time has passed since a read that was expected to be fast was sent to the drive, or if too
 * many reads were refused. A probe is late if it took longer than the slow threshold plus the
 * cost of a failover:
 *
 *	refused, refused, ... probe ──► late: wait twice as long ──► probe ...
 *	                        │
 *	                        └► in time: the next probe may follow at once
 *
 * The window is the maximum number of reads in flight that were predicted slow, but admitted.
 * After a probe in time it is one, so that more such reads are admitted, one at a time, until
 * the model predicts a fast read. That takes longer if small reads overtake much larger ones
 * and the model, which was not trained on such reads, is wrong. While larger reads are in
 * flight, or completed a short time ago, the window is therefore larger: it begins at
 * %WINDOW_FIRST, each read in time increases it by one, and each late read decreases it by ten.
 * It thus stays open if the model is wrong in more than ten of eleven cases. Each size class has
 * its own probes and its own window.
 *
 * A probe has no identifier. When a probe is due, the first caller that queries the drive is
 * asked to send it, and the time is stored in @claimed_ns. The second caller is asked, too, if
 * it queries the drive soon, in case the first one does not send its read. The next read of
 * this size class that is counted as in flight is taken for the probe, whichever caller sent
 * it. While it is in flight, no other caller is asked. The first read of this size class that
 * was issued after @claimed_ns and completes successfully decides whether the probe was late.
 * It need not be the probe: its latency says as much about the drive. A read that fails
 * decides nothing.
 *
 * The reads of the callers that were asked may never be counted: they may not have been sent,
 * may wait for a tag, or may have been split or merged into requests of another size class.
 * When a probe would be due again, another caller is therefore asked, and the wait doubles as
 * after a late probe. A slow drive thus gets barely more reads than it would if all probes
 * were late.
 *
 * Consequently, a caller that queries the drive but sends no read delays probes by no more
 * than late probes would. A caller that reads without a query does not delay probes, because
 * the wait starts again only when a read that was expected to be fast is sent, or a read that
 * was predicted slow but admitted completes. Its I/O in flight can make probes late, however.
 */
#include "linnos_drive.h"

/* After late probes, the wait is up to 2^3 times as long: by default 800 refused reads or 80 ms. */
#define BACKOFF_MAX 3

#define WINDOW_FIRST 11
#define WINDOW_LATE_STEP 10
#define WINDOW_MAX 50

/* A second caller is asked to send the probe if it queries the drive this soon after the first. */
#define SECOND_CALLER_NS (500 * NSEC_PER_USEC)

/*
 * If @probe_after_us is 0, probes are due only because of refused reads. Other intervals that are
 * derived from it have this length then.
 */
#define AFTER_US_DEFAULT 10000

static s64 linnos_probe_interval_ns(const struct linnos_drive *drive)
{
	u32 after_us = READ_ONCE(drive->probe_after_us) ?: AFTER_US_DEFAULT;

	return after_us * NSEC_PER_USEC;
}

/*
 * Record that a read that is expected to be fast is sent to the drive. The time is updated at
 * most once per eighth of the interval, to save writes to the cache line.
 */
void linnos_probe_note_fast_read(struct linnos_drive *drive, u32 size,
				 u64 now_ns)
{
	struct linnos_probe_state *probe = &drive->probes[size];
	s64 age_ns = now_ns - READ_ONCE(probe->wait_start_ns);

	if (age_ns > linnos_probe_interval_ns(drive) / 8)
		WRITE_ONCE(probe->wait_start_ns, now_ns);
}

void linnos_probe_close_window(struct linnos_probe_state *probe)
{
	if (unlikely(READ_ONCE(probe->window) == 1))
		WRITE_ONCE(probe->window, 0);
}

/* Return the time of the last completion in this size class, or 0 if there was none. */
static u64 linnos_last_completion_ns(const struct linnos_history *history,
				     u32 size)
{
	u32 n = READ_ONCE(history->n[size]);

	return READ_ONCE(history->last[size][(n - 1) % LINNOS_HISTORY].end_ns);
}

/* Return true if reads of a larger size class are in flight or completed a short time ago. */
static bool linnos_larger_reads_active(const struct linnos_drive *drive,
				       u32 size, u64 now_ns)
{
	s64 after_ns = linnos_probe_interval_ns(drive);
	u64 end_ns;

	while (++size < LINNOS_SIZE_CLASSES) {
		end_ns = linnos_last_completion_ns(&drive->history, size);
		if (atomic_read(&drive->probes[size].in_flight) > 0 ||
		    (end_ns && (s64)(now_ns - end_ns) < after_ns))
			return true;
	}
	return false;
}

/* Return true if the window is open and not full: a read that is predicted slow may be admitted. */
bool linnos_probe_window_allows(const struct linnos_drive *drive, u32 size,
				u64 now_ns)
{
	int window = READ_ONCE(drive->probes[size].window);
	int in_flight = atomic_read(&drive->probes[size].slow_in_flight);

	if (!window)
		return false;
	return in_flight < 1 ||
	       (in_flight < window &&
		linnos_larger_reads_active(drive, size, now_ns));
}

/*
 * Return true if a probe is due. @age_ns: time since the wait started. @reads: number of reads
 * refused since a probe completed. If a caller has been asked to send a probe, @age_ns and @reads
 * are the time and the number of queries since then.
 */
static bool linnos_probe_is_due(const struct linnos_drive *drive,
				const struct linnos_probe_state *probe,
				s64 age_ns, u32 reads)
{
	u64 after_ns = READ_ONCE(drive->probe_after_us) * NSEC_PER_USEC;
	u64 most = READ_ONCE(drive->probe_after_refused);
	u8 backoff = READ_ONCE(probe->backoff);

	return (after_ns && age_ns > (s64)(after_ns << backoff)) ||
	       (most && reads >= most << backoff);
}

static void linnos_back_off(struct linnos_probe_state *probe)
{
	u8 backoff = READ_ONCE(probe->backoff);

	WRITE_ONCE(probe->backoff, min_t(u8, backoff + 1, BACKOFF_MAX));
}

/*
 * Return true if the caller should send its read as a probe. If several callers query the drive,
 * this is true for the first one and, if it follows soon, for the second one. In rare cases it is
 * true for a third one, too, because another CPU has just reset @queries. @again: while the window
 * is open, i.e. after a probe in time, do not wait.
 */
bool linnos_probe_claim(struct linnos_drive *drive, u32 size, bool again,
			u64 now_ns)
{
	struct linnos_probe_state *probe = &drive->probes[size];
	u64 claimed_ns = READ_ONCE(probe->claimed_ns);
	/* negative if another CPU has just recorded a later read */
	s64 age_ns = now_ns - (claimed_ns ?: READ_ONCE(probe->wait_start_ns));
	u32 reads;

	if (claimed_ns & LINNOS_PROBE_SENT)
		return false;
	reads = claimed_ns ? atomic_inc_return(&probe->queries) :
			     atomic_read(&probe->refused);
	if (claimed_ns && reads == 1 && age_ns <= SECOND_CALLER_NS)
		return true;
	if (!(again && !claimed_ns && READ_ONCE(probe->window)) &&
	    !linnos_probe_is_due(drive, probe, age_ns, reads))
		return false;
	/* in the kernel, cmpxchg() is a full barrier: CPUs that see @claimed_ns see this, too */
	atomic_set(&probe->queries, 0);
	if (cmpxchg(&probe->claimed_ns, claimed_ns,
		    now_ns & ~LINNOS_PROBE_SENT) != claimed_ns)
		return false;
	/* the callers that were asked before have sent no read that was counted */
	if (claimed_ns)
		linnos_back_off(probe);
	return true;
}

/* Handle a read that ended without success. If it was the probe, allow another probe. */
void linnos_probe_failed(struct linnos_probe_state *probe)
{
	u64 claimed_ns = READ_ONCE(probe->claimed_ns);

	if (claimed_ns & LINNOS_PROBE_SENT)
		cmpxchg(&probe->claimed_ns, claimed_ns, 0ULL);
}

/* Change the window of a size class after a read that was in time or late. */
static void linnos_window_move(struct linnos_drive *drive, u32 size, bool late,
			       u64 now_ns)
{
	struct linnos_probe_state *probe = &drive->probes[size];
	bool larger = linnos_larger_reads_active(drive, size, now_ns);
	u8 window = READ_ONCE(probe->window);

	if (late && larger && window > WINDOW_LATE_STEP) {
		WRITE_ONCE(probe->window, window - WINDOW_LATE_STEP);
		return;
	}
	if (late) {
		/* the wait for the next probe starts now */
		WRITE_ONCE(probe->wait_start_ns, now_ns);
		window = 0;
	} else if (!larger) {
		window = 1;
	} else {
		window = clamp_t(u8, window + 1, WINDOW_FIRST, WINDOW_MAX);
	}
	WRITE_ONCE(probe->window, window);
	atomic_set(&probe->refused, 0);
}

/*
 * Handle the completion of a read. @late: it took longer than the slow threshold plus the time
 * of a failover.
 */
void linnos_probe_complete(struct linnos_drive *drive,
			   const struct linnos_io *io, u64 end_ns, bool late)
{
	u32 size = io->flags & LINNOS_IO_SIZE;
	struct linnos_probe_state *probe = &drive->probes[size];
	u64 claimed_ns = READ_ONCE(probe->claimed_ns);
	bool found;

	/* if several reads qualify, only one is taken for the probe */
	found = claimed_ns & LINNOS_PROBE_SENT &&
		io->issued_ns >= (claimed_ns ^ LINNOS_PROBE_SENT) &&
		cmpxchg(&probe->claimed_ns, claimed_ns, 0ULL) == claimed_ns;
	if (likely(!found && !(io->flags & LINNOS_IO_SLOW)))
		return;
	if (found) {
		atomic_set(&probe->refused, 0);
		WRITE_ONCE(probe->wait_start_ns, end_ns);
		if (late)
			linnos_back_off(probe);
		else
			WRITE_ONCE(probe->backoff, 0);
	}
	if (READ_ONCE(probe->window) || (found && !late))
		linnos_window_move(drive, size, late, end_ns);
}

/*
 * Return true if no read of this size class completed within probe_after_us, so that the history
 * may be stale.
 */
bool linnos_history_is_stale(const struct linnos_drive *drive, u32 size,
			     u64 now_ns)
{
	s64 after_ns = READ_ONCE(drive->probe_after_us) * NSEC_PER_USEC;
	u64 end_ns = linnos_last_completion_ns(&drive->history, size);

	return after_ns && (s64)(now_ns - end_ns) > after_ns;
}

/*
 * Reset the history and the probes. I/O in flight remains counted. The caller makes sure that
 * no other CPU writes the history meanwhile.
 */
void linnos_drive_reset_history(struct linnos_drive *drive, u64 now_ns)
{
	struct linnos_probe_state *probe;

	memset(&drive->history, 0, sizeof(drive->history));
	for (probe = drive->probes; probe < drive->probes + LINNOS_SIZE_CLASSES;
	     probe++) {
		WRITE_ONCE(probe->wait_start_ns, now_ns);
		WRITE_ONCE(probe->claimed_ns, 0);
		atomic_set(&probe->refused, 0);
		WRITE_ONCE(probe->window, 0);
		WRITE_ONCE(probe->backoff, 0);
	}
}
