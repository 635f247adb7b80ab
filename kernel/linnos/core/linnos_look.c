// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LinnOS: is a drive that is called slow still slow?
 *
 * A drive all of whose reads are refused completes nothing, and would be called slow
 * for ever. So when no read was sent there for too long that was expected to be fast,
 * or too many have been refused, one that would be refused is sent all the same, a
 * *probe*:
 *
 *	refused, refused, ... probe ──► late: wait twice as long ──► probe ...
 *	                        │
 *	                        └► in time: another may be in flight, at once
 *
 * Late is what took longer than fast and a failover: less is not lost by who is not
 * refused. A probe that fails, or ends before it reaches the drive, has told nothing.
 *
 * The window. What came in time replaces one of four slow reads in the history; the
 * others must follow quickly, or the drive would be shunned for four waits after it
 * has recovered. So one read at a time may then go against the model's word, until
 * the model says fast by itself. And a model may be wrong for longer: much larger
 * reads are pending, and it has not learnt that small ones pass them. While such are
 * in flight, or have ended just now, each read that went against its word and came in
 * time opens the window by one, and each that was late closes it by ten: it stays
 * open where the model is wrong in more than ten of eleven cases.
 *
 * Each order of size has all of this for itself: what a large read takes tells
 * nothing of small ones, and who reads large does not make a drive seem looked at.
 *
 * Which read is the probe? None has a number. Somebody is told to send one, at
 * @since_ns. The first read of this order that is counted in after that is it,
 * whoever sent it; until then all who ask are told the same, for that is an instant,
 * unless the first does not send his, or is held back by his cgroup, and then another
 * does it for him. As long as it is in flight nobody else is told to. The first read
 * that the drive was given after @since_ns and has answered tells what a probe is to
 * tell, also if it is a third one's: it is of the same order, and the drive, not the
 * host, took the time.
 *
 * What others do to this: they can ask, and send nothing: then whoever else asks is
 * told to send. They can make reads of the same order late by what they have in
 * flight; those are late then. They cannot make the drive seem looked at: the clock
 * is set by reads that were expected to be fast, and by answers.
 */
#include "linnos_drive.h"

/*
 * In a long burst at most one read in 800 of those that are hinted is a probe, or one
 * in 80 ms, by the defaults of 100 refusals and 10 ms, and a drive that recovers is
 * back in use 80 ms later at worst.
 */
#define BACKOFF_MAX 3

#define WINDOW_FIRST 11
#define WINDOW_LOST 10
#define WINDOW_MAX 50

/* Where time alone never makes a probe due, others than probes still need one. */
#define AFTER_US_DEFAULT 10000

static u64 linnos_after_ns(const struct linnos_rules *rules)
{
	return (rules->probe_after_us ? rules->probe_after_us :
					AFTER_US_DEFAULT) *
	       LINNOS_NS_PER_US;
}

/**
 * linnos_look_chosen() - a read is sent there, and expected to be fast
 * @look: of the order of its size
 * @rules: of the drive
 * @now_ns: the time
 *
 * A clock that is right to an eighth of the time that it is asked for is not
 * written by each read.
 */
void linnos_look_chosen(struct linnos_look *look,
			const struct linnos_rules *rules, u64 now_ns)
{
	s64 age_ns = now_ns - READ_ONCE(look->chosen_ns);

	if (age_ns > (s64)(linnos_after_ns(rules) / 8))
		WRITE_ONCE(look->chosen_ns, now_ns);
}

/**
 * linnos_look_fast() - the model says fast by itself
 * @look: of the order of the read's size
 */
void linnos_look_fast(struct linnos_look *look)
{
	if (unlikely(READ_ONCE(look->window) == 1))
		WRITE_ONCE(look->window, 0);
}

/* Are reads of a larger order in flight, or were there just now? */
static bool linnos_has_larger(const struct linnos_drive *drive,
			      const struct linnos_rules *rules, u32 size,
			      u64 now_ns)
{
	const struct linnos_history *history = &drive->history;
	const struct linnos_ended *last;
	u64 end_ns;
	u32 n;

	while (++size < LINNOS_SIZES) {
		if (linnos_read(&drive->look[size].in_flight) > 0)
			return true;
		n = READ_ONCE(history->n[size]);
		if (!n)
			continue;
		last = &history->last[size][(n - 1) % LINNOS_HISTORY];
		end_ns = READ_ONCE(last->end_ns);
		if ((s64)(now_ns - end_ns) < (s64)linnos_after_ns(rules))
			return true;
	}
	return false;
}

/**
 * linnos_look_allows() - may a read go there against the model's word?
 * @drive: the drive
 * @rules: of the drive
 * @size: the order of the read's size
 * @now_ns: the time
 *
 * Return: true if the window is open, and not full.
 */
bool linnos_look_allows(struct linnos_drive *drive,
			const struct linnos_rules *rules, u32 size, u64 now_ns)
{
	struct linnos_look *look = &drive->look[size];
	int window = READ_ONCE(look->window);
	int against = linnos_read(&look->against);

	if (!window)
		return false;
	return against < 1 || (against < window &&
			       linnos_has_larger(drive, rules, size, now_ns));
}

/**
 * linnos_look_claim() - is this read to find out whether the drive is still slow?
 * @look: of the order of its size
 * @rules: of the drive
 * @again: it is due if the last one was in time
 * @now_ns: the time
 *
 * Return: true if it is to be sent there, slow or not.
 */
bool linnos_look_claim(struct linnos_look *look,
		       const struct linnos_rules *rules, bool again, u64 now_ns)
{
	u64 after_ns = (u64)rules->probe_after_us * LINNOS_NS_PER_US;
	u64 refused = linnos_read(&look->refused);
	u8 backoff = READ_ONCE(look->backoff);
	/* a read that was chosen just now may make the age negative */
	s64 age_ns = now_ns - READ_ONCE(look->chosen_ns);
	u64 since_ns = READ_ONCE(look->since_ns);

	if (since_ns)
		return !(since_ns & LINNOS_LOOK_SENT);
	if (!(again && READ_ONCE(look->window)) &&
	    !(after_ns && age_ns > (s64)(after_ns << backoff)) &&
	    !(rules->probe_after_refused &&
	      refused >= (u64)rules->probe_after_refused << backoff))
		return false;
	/* if another was quicker, both send one */
	(void)linnos_swap_if(&look->since_ns, 0ULL,
			     (now_ns | LINNOS_LOOK_SENT) ^ LINNOS_LOOK_SENT);
	return true;
}

/**
 * linnos_look_lost() - a read has ended without an answer of the drive
 * @look: of the order of its size
 *
 * It may have been the probe. The next read may be one.
 */
void linnos_look_lost(struct linnos_look *look)
{
	u64 since_ns = READ_ONCE(look->since_ns);

	if (since_ns & LINNOS_LOOK_SENT)
		(void)linnos_swap_if(&look->since_ns, since_ns, 0ULL);
}

/* Has this read found out what somebody wanted to know, and nobody else has? */
static bool linnos_look_found(struct linnos_look *look,
			      const struct linnos_io *io)
{
	u64 since_ns = READ_ONCE(look->since_ns);

	return since_ns & LINNOS_LOOK_SENT &&
	       io->issued_ns >= (since_ns ^ LINNOS_LOOK_SENT) &&
	       linnos_swap_if(&look->since_ns, since_ns, 0ULL);
}

static void linnos_window_close(struct linnos_look *look, bool larger,
				u64 now_ns)
{
	u8 window = READ_ONCE(look->window);

	if (!window)
		return;
	if (larger && window > WINDOW_LOST) {
		WRITE_ONCE(look->window, window - WINDOW_LOST);
		return;
	}
	WRITE_ONCE(look->window, 0);
	/* the wait begins anew */
	WRITE_ONCE(look->chosen_ns, now_ns);
	linnos_set(&look->refused, 0);
}

static void linnos_window_open(struct linnos_look *look, bool larger)
{
	u8 window = READ_ONCE(look->window);

	if (!larger)
		window = 1;
	else if (window < WINDOW_FIRST)
		window = WINDOW_FIRST;
	else if (window < WINDOW_MAX)
		window++;
	WRITE_ONCE(look->window, window);
	linnos_set(&look->refused, 0);
}

/**
 * linnos_look_ended() - a read has been answered: was it wrong to send it there?
 * @drive: the drive
 * @rules: of the drive
 * @io: the read
 * @ended: how it went
 */
void linnos_look_ended(struct linnos_drive *drive,
		       const struct linnos_rules *rules,
		       const struct linnos_io *io,
		       const struct linnos_ended *ended)
{
	u32 size = io->flags & LINNOS_IO_SIZE;
	struct linnos_look *look = &drive->look[size];
	bool found = linnos_look_found(look, io), late, larger;
	u8 backoff = READ_ONCE(look->backoff);

	if (likely(!found && !(io->flags & LINNOS_IO_SLOW)))
		return;
	late = ended->latency_us > rules->late_us;
	larger = linnos_has_larger(drive, rules, size, ended->end_ns);
	if (found) {
		linnos_set(&look->refused, 0);
		WRITE_ONCE(look->chosen_ns, ended->end_ns);
		if (!late)
			WRITE_ONCE(look->backoff, 0);
		else if (backoff < BACKOFF_MAX)
			WRITE_ONCE(look->backoff, backoff + 1);
	}
	if (late)
		linnos_window_close(look, larger, ended->end_ns);
	else if (found || READ_ONCE(look->window))
		linnos_window_open(look, larger);
}

/**
 * linnos_is_silent() - has it answered no read of this order for long?
 * @drive: the drive
 * @rules: of the drive
 * @size: the order
 * @now_ns: the time
 *
 * Return: true if what is known of it may be old.
 */
bool linnos_is_silent(const struct linnos_drive *drive,
		      const struct linnos_rules *rules, u32 size, u64 now_ns)
{
	const struct linnos_history *history = &drive->history;
	u64 after_ns = (u64)rules->probe_after_us * LINNOS_NS_PER_US;
	u32 n = READ_ONCE(history->n[size]);
	u64 end_ns;

	if (!after_ns)
		return false;
	end_ns =
		READ_ONCE(history->last[size][(n - 1) % LINNOS_HISTORY].end_ns);
	return (s64)(now_ns - end_ns) > (s64)after_ns;
}

/**
 * linnos_drive_forget() - nothing is known of how a drive was until now
 * @drive: the drive; nobody else writes its history meanwhile
 * @now_ns: the time
 *
 * What is in flight remains counted.
 */
void linnos_drive_forget(struct linnos_drive *drive, u64 now_ns)
{
	struct linnos_look *look;

	memset(&drive->history, 0, sizeof(drive->history));
	for (look = drive->look; look < drive->look + LINNOS_SIZES; look++) {
		WRITE_ONCE(look->chosen_ns, now_ns);
		WRITE_ONCE(look->since_ns, 0);
		linnos_set(&look->refused, 0);
		WRITE_ONCE(look->window, 0);
		WRITE_ONCE(look->backoff, 0);
	}
}
