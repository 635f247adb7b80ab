// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: what a model of latencies sees of a drive (linnos_latency.h).
 *
 * The network of the paper sees how many pages are pending and how the last
 * reads went. A model of latencies also sees which of the pages are to be
 * written, how large the last reads were and how long ago they completed, and
 * of the reads in flight how many there are, for how long the oldest of them
 * has been, and how many for longer than is usual. Most of it is counted where
 * the network's numbers are, in blk-linnos.c. Here is the rest: since when each
 * read in flight is, and the numbers as the model wants them.
 *
 * Each read that arrives takes a place, whose number its bio bears, and leaves it
 * when it ends. It is in flight from its own request on, that of its last part
 * if it was split:
 *
 *	taken	1 1 0 1 0 ...		a bit set: one atomic operation, no lock
 *	start	7 3 0 9 0 ...		oldest: 3; overdue: those before some time
 *
 * Whoever asks looks at the places that are taken: as many as reads are in
 * flight, a load each, and there is nothing to be kept in order meanwhile. All
 * numbers are exact on a drive that does not change while one looks. A read that
 * has its place but not its time yet is passed over: it waits for a request, or
 * came an instant later.
 *
 * Should all places be taken, by reads in flight and those that wait for a
 * request, a read goes without one, for as long as it takes. It counts among the
 * reads and pages in flight, but is neither oldest nor overdue. When it arrived
 * it was the youngest of all; it can only be the oldest when those
 * LINNOS_WATCHED before it have been answered, and then the oldest of the others
 * that have a place is shown. So too little is said of a drive with more reads
 * than that, never too much.
 *
 * A probe's bio bears the probe's number and has no room for another. There is
 * one at a time of each order of size, and a place for it. One that was given up
 * and is in flight all the same is not seen.
 */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/time64.h>

#include "blk-linnos-policy.h"

static_assert(LINNOS_WATCHED % BITS_PER_LONG == 0);
static_assert((LINNOS_BIO_NUMBER >> 21) >=
	      LINNOS_WATCHED * LINNOS_SIZES + LINNOS_SIZES - 1);

/**
 * linnos_watch_take() - a read has arrived, and has no request yet
 * @watch: the drive's places
 * @pages: of the whole read
 *
 * Context: Any.
 * Return: its number, from which linnos_place() has its place; 0 if all are taken.
 */
u32 linnos_watch_take(struct linnos_watch *watch, u32 pages)
{
	unsigned long free;
	unsigned int word, bit, place;

	for (word = 0; word < ARRAY_SIZE(watch->taken); word++) {
		while ((free = ~READ_ONCE(watch->taken[word]))) {
			bit = __ffs(free);
			/* not if another was quicker: look again */
			if (test_and_set_bit_lock(bit, &watch->taken[word]))
				continue;
			place = word * BITS_PER_LONG + bit;
			WRITE_ONCE(watch->pages[LINNOS_SIZES + place], pages);
			return place + 1;
		}
	}
	return 0;
}

/**
 * linnos_watch_probe() - a probe has arrived, and has no request yet
 * @watch: the drive's places
 * @size: the order of its size
 * @pages: of the whole read
 *
 * Context: Any.
 */
void linnos_watch_probe(struct linnos_watch *watch, u32 size, u32 pages)
{
	atomic64_set(&watch->start_ns[size], 0);
	WRITE_ONCE(watch->pages[size], pages);
}

/**
 * linnos_watch_probe_since() - since when is a probe in flight?
 * @watch: the drive's places
 * @size: the order of its size
 *
 * Context: Any.
 * Return: since when, 0 if none is.
 */
u64 linnos_watch_probe_since(struct linnos_watch *watch, u32 size)
{
	return atomic64_read(&watch->start_ns[size]);
}

/**
 * linnos_watch_probe_gone() - that one has been given up
 * @watch: the drive's places
 * @size: the order of its size
 * @since_ns: what linnos_watch_probe_since() returned then: its successor may be
 *	in its place by now
 *
 * Context: Any.
 */
void linnos_watch_probe_gone(struct linnos_watch *watch, u32 size, u64 since_ns)
{
	atomic64_cmpxchg(&watch->start_ns[size], since_ns, 0);
}

/**
 * linnos_watch_start() - a read, or the last part of it, is in flight now
 * @watch: the drive's places
 * @place: linnos_place() of it
 * @now_ns: the time
 *
 * Context: Any.
 */
void linnos_watch_start(struct linnos_watch *watch, u32 place, u64 now_ns)
{
	atomic64_set(&watch->start_ns[place], now_ns);
}

/**
 * linnos_watch_end() - a read is not in flight any more
 * @watch: the drive's places
 * @place: linnos_place() of it
 *
 * Context: Any.
 * Return: pages of the whole read, or 0 of a probe that was never in flight.
 */
u32 linnos_watch_end(struct linnos_watch *watch, u32 place)
{
	u32 pages = READ_ONCE(watch->pages[place]);
	u32 bit = place - LINNOS_SIZES;

	if (place < LINNOS_SIZES && !atomic64_read(&watch->start_ns[place]))
		return 0;
	/* whoever takes it next finds no time in it */
	atomic64_set(&watch->start_ns[place], 0);
	if (place >= LINNOS_SIZES)
		clear_bit_unlock(bit % BITS_PER_LONG,
				 &watch->taken[bit / BITS_PER_LONG]);
	return pages;
}

/* Of the reads in flight: the first start, or 0, and how many before a time. */
struct linnos_starts {
	u64 oldest_ns;
	u64 due_ns;
	u32 overdue;
};

static void linnos_watch_one(const struct linnos_watch *watch, u32 place,
			     struct linnos_starts *starts)
{
	u64 start_ns = atomic64_read(&watch->start_ns[place]);

	if (!start_ns)
		return;
	if (!starts->oldest_ns || start_ns < starts->oldest_ns)
		starts->oldest_ns = start_ns;
	if (start_ns < starts->due_ns)
		starts->overdue++;
}

static void linnos_watch_all(const struct linnos_watch *watch,
			     struct linnos_starts *starts)
{
	unsigned long taken;
	unsigned int word, first;

	for (first = 0; first < LINNOS_SIZES; first++)
		linnos_watch_one(watch, first, starts);
	for (word = 0; word < ARRAY_SIZE(watch->taken); word++) {
		first = LINNOS_SIZES + word * BITS_PER_LONG;
		taken = READ_ONCE(watch->taken[word]);
		for (; taken; taken &= taken - 1)
			linnos_watch_one(watch, first + __ffs(taken), starts);
	}
}

static u32 linnos_capped(u64 value)
{
	return min_t(u64, value, LINNOS_LATENCY_CAP);
}

/* A read that started or completed just now may be later than @to_ns. */
static u32 linnos_us_between(u64 from_ns, u64 to_ns)
{
	if (to_ns <= from_ns)
		return 0;
	return linnos_capped(div_u64(to_ns - from_ns, NSEC_PER_USEC));
}

/* Of one of the last reads, of which nothing may be known: it is endless ago. */
static void linnos_past_features(const struct linnos_view *view, int i,
				 u32 *past)
{
	u64 end_ns = view->answered.end_ns[i];

	if (!end_ns) {
		past[LINNOS_PAST_LATENCY_US] = 0;
		past[LINNOS_PAST_PENDING] = 0;
		past[LINNOS_PAST_PAGES] = 0;
		past[LINNOS_PAST_AGE_US] = LINNOS_LATENCY_CAP;
		return;
	}
	past[LINNOS_PAST_LATENCY_US] =
		linnos_capped(view->history.latency_us[i]);
	past[LINNOS_PAST_PENDING] = view->history.pending[i];
	past[LINNOS_PAST_PAGES] = linnos_capped(view->answered.pages[i]);
	past[LINNOS_PAST_AGE_US] = linnos_us_between(end_ns, view->now_ns);
}

/**
 * linnos_features() - what a model of latencies sees of a read
 * @watch: where the reads in flight are
 * @view: the read, when it comes, what is in flight, and the last completed reads;
 *	the features are filled in
 * @overdue_us: a read in flight for longer is overdue
 *
 * Context: Any.
 */
void linnos_features(const struct linnos_watch *watch, struct linnos_view *view,
		     u32 overdue_us)
{
	u64 overdue_ns = (u64)overdue_us * NSEC_PER_USEC;
	u32 *features = view->features, *past = features + LINNOS_PAST;
	struct linnos_starts starts = {
		.due_ns = view->now_ns > overdue_ns ?
				  view->now_ns - overdue_ns :
				  0,
	};
	u32 write_pages;
	int i;

	linnos_watch_all(watch, &starts);
	/* the two counts are not of the same instant */
	write_pages = min_t(u64, view->seen.write_pages, view->seen.pages);
	features[LINNOS_OWN_PAGES] = linnos_capped(view->pages);
	features[LINNOS_READ_PAGES] =
		linnos_capped(view->seen.pages - write_pages);
	features[LINNOS_WRITE_PAGES] = linnos_capped(write_pages);
	features[LINNOS_READS_IN_FLIGHT] = view->seen.reads;
	features[LINNOS_OLDEST_US] = 0;
	if (starts.oldest_ns)
		features[LINNOS_OLDEST_US] =
			linnos_us_between(starts.oldest_ns, view->now_ns);
	features[LINNOS_OVERDUE] = starts.overdue;
	/* the history has its last read at the end, a model at the beginning */
	for (i = LINNOS_HISTORY - 1; i >= 0; i--, past += LINNOS_N_PAST)
		linnos_past_features(view, i, past);
	view->n_features = LINNOS_N_FEATURES;
}
