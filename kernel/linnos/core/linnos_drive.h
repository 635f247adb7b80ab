/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS: what is known of a drive.
 *
 * What is in flight there, how its last reads went, and when somebody last looked
 * whether it is still slow. All of it is arithmetic: whoever uses it tells what
 * happens and when, I/O by I/O, and it calls nobody.
 *
 *	linnos_io_begin ──► in flight ──► linnos_io_issue ──► linnos_io_end
 *	                        │                                  │
 *	                        ▼                                  ▼
 *	                  linnos_see_load                    linnos_history_add
 *	                        └───────► struct linnos_view ◄─────┘
 *	                                          │
 *	                          digits of the network, features of the trees
 *
 * An I/O is what the drive is given as one: a request of the block layer. Of a read
 * that was split each part is one.
 *
 * Several CPUs. What is in flight, the places and the looks may be used by all of
 * them at once. The history may not: whoever adds to it, or copies it, sees to it
 * that nobody else writes meanwhile.
 */
#ifndef _LINNOS_DRIVE_H
#define _LINNOS_DRIVE_H

#include "linnos_latency.h"
#include "linnos_network.h"
#include "linnos_shim.h"

#define LINNOS_PAGE_BYTES 4096

/*
 * What is in flight is one number, so that an I/O pays for one atomic operation,
 * and whoever counts a read in is told in the same instant what it joins: reads,
 * pages of reads and pages of writes. 32 GiB of either and 2^18 reads are more than
 * any drive is given at once.
 */
#define LINNOS_LOAD_BITS 23
#define LINNOS_LOAD_WRITE_PAGE 1LL
#define LINNOS_LOAD_READ_PAGE ((s64)1 << LINNOS_LOAD_BITS)
#define LINNOS_LOAD_READ ((s64)1 << 2 * LINNOS_LOAD_BITS)

/**
 * struct linnos_load - what is in flight
 * @reads: how many reads
 * @read_pages: their 4 KiB pages, each I/O rounded up
 * @write_pages: those of writes
 */
struct linnos_load {
	u32 reads;
	u32 read_pages;
	u32 write_pages;
};

/* No more pages are counted of one I/O, nor remembered as pending. */
#define LINNOS_IO_PAGES_MAX 0xffff

/* So many reads in flight have a place: see struct linnos_places. */
#define LINNOS_PLACES 128

/* Of &linnos_io.flags; in the two bits below them the order of a read's size. */
#define LINNOS_IO_SIZE 0x03
#define LINNOS_IO_COUNTED 0x04
#define LINNOS_IO_READ 0x08
#define LINNOS_IO_FAST 0x10 /* by the model's word, when it was decided */
#define LINNOS_IO_SLOW 0x20 /* and admitted against it */
#define LINNOS_IO_ANSWERED 0x40

/**
 * struct linnos_io - an I/O in flight; all zeros: one that is not counted
 * @issued_ns: when the drive was first given it; 0: not yet
 * @pages: as many as were counted, merged ones included
 * @pending: pages pending when it was counted, its own among them
 * @place: of a read in struct linnos_places, 0: none
 * @flags: LINNOS_IO_COUNTED and its like
 */
struct linnos_io {
	u64 issued_ns;
	u16 pages;
	u16 pending;
	u8 place;
	u8 flags;
};

/**
 * struct linnos_ended - a read that the drive has answered
 * @end_ns: when; 0: there was none
 * @nr: it was the drive's so manyth
 * @latency_us: how long the drive took
 * @pages: its own
 * @pending: pages pending when it was counted in, its own among them
 */
struct linnos_ended {
	u64 end_ns;
	u64 nr;
	u32 latency_us;
	u16 pages;
	u16 pending;
};

/**
 * struct linnos_history - the last reads of each order of size
 * @end_ns: when the last of all ended
 * @nr: how many there have been
 * @n: and of each order, as far as 32 bits tell
 * @last: the last ones, at their number modulo %LINNOS_HISTORY
 *
 * A read that asks sees those that were not larger in order than itself: how long
 * 1 MiB took says nothing of 4 KiB, and whoever reads large would own the history
 * that others are judged by.
 */
struct linnos_history {
	u64 end_ns;
	u64 nr;
	u32 n[LINNOS_SIZES];
	struct linnos_ended last[LINNOS_SIZES][LINNOS_HISTORY];
};

/**
 * struct linnos_places - since when the reads in flight are
 * @taken: a bit for each place in use
 * @start_ns: since when; 0 for an instant in a place that was just taken
 *
 * In use are the lowest places: with few reads in flight all that a decision looks
 * at is near. Should all be taken, a read goes without: it is neither oldest nor
 * overdue. It came after LINNOS_PLACES others, so too little is said then of a
 * drive with that many, never too much.
 */
struct linnos_places {
	unsigned long taken[LINNOS_PLACES / LINNOS_BITS_PER_LONG];
	u64 start_ns[LINNOS_PLACES];
};

/* In &linnos_look.since_ns: the read that is to find out is in flight. */
#define LINNOS_LOOK_SENT 1ULL

/**
 * struct linnos_look - does anybody know whether the drive is still slow?
 * @chosen_ns: when a read was last sent there that was expected to be fast, or one
 *	that was to find out was answered
 * @since_ns: since when one is to find out, see linnos_look_claim(); 0: none is
 * @refused: reads that were not sent there since one has found out
 * @in_flight: reads in flight; those of the smallest order are not counted
 * @against: of the reads in flight those that were admitted against the model
 * @window: so many of these may be in flight at once
 * @backoff: the last that found out were late: wait 2^this times as long
 */
struct linnos_look {
	u64 chosen_ns;
	u64 since_ns;
	linnos_atomic_t refused;
	linnos_atomic_t in_flight;
	linnos_atomic_t against;
	u8 window;
	u8 backoff;
} __linnos_cacheline;

/**
 * struct linnos_rules - when to look again, and what is late
 * @probe_after_us: when nobody has looked for so long; 0: never for that
 * @probe_after_refused: or so many reads were refused; 0: never for that
 * @late_us: a read that took longer should not have been sent there
 */
struct linnos_rules {
	u32 probe_after_us;
	u32 probe_after_refused;
	u64 late_us;
};

/**
 * struct linnos_drive - a drive
 * @load: what is in flight, see %LINNOS_LOAD_READ
 * @places: of the reads in flight
 * @watching: places are taken
 * @look: for each order of size
 * @history: its last reads
 */
struct linnos_drive {
	linnos_atomic64_t load __linnos_cacheline;
	bool watching;
	struct linnos_places places;
	struct linnos_look look[LINNOS_SIZES];
	struct linnos_history history __linnos_cacheline;
};

/**
 * struct linnos_view - a drive as a read finds it
 * @now_ns: when
 * @pages: the read's own
 * @size: the order of its size
 * @load: what is in flight, without it
 * @past: the last reads that were not larger in order, oldest first
 */
struct linnos_view {
	u64 now_ns;
	u32 pages;
	u32 size;
	struct linnos_load load;
	struct linnos_ended past[LINNOS_HISTORY];
};

/* Pages pending, those of the read that asks among them. */
static inline u32 linnos_pending(const struct linnos_view *view)
{
	return view->load.read_pages + view->load.write_pages + view->pages;
}

static inline u32 linnos_pages_of(u64 bytes)
{
	u64 pages = (bytes + LINNOS_PAGE_BYTES - 1) / LINNOS_PAGE_BYTES;

	return pages < LINNOS_IO_PAGES_MAX ? pages : LINNOS_IO_PAGES_MAX;
}

void linnos_drive_forget(struct linnos_drive *drive, u64 now_ns);
void linnos_see_load(const struct linnos_drive *drive,
		     struct linnos_load *load);

void linnos_io_begin(struct linnos_drive *drive, struct linnos_io *io,
		     u32 pages, u8 flags, u64 now_ns);
void linnos_io_grow(struct linnos_drive *drive, struct linnos_io *io,
		    u32 pages);
void linnos_io_join(struct linnos_drive *drive, struct linnos_io *io,
		    struct linnos_io *joins);
void linnos_io_issue(struct linnos_io *io, u64 now_ns);
bool linnos_io_end(struct linnos_drive *drive, struct linnos_io *io, u64 now_ns,
		   struct linnos_ended *ended);

void linnos_history_add(struct linnos_history *history,
			const struct linnos_ended *ended);
void linnos_history_see(const struct linnos_history *history, u32 size,
			struct linnos_ended past[LINNOS_HISTORY]);

u64 linnos_oldest_ns(const struct linnos_places *places);
void linnos_view_digits(const struct linnos_view *view,
			u8 digits[LINNOS_N_INPUTS]);
void linnos_view_features(const struct linnos_places *places,
			  const struct linnos_view *view, u32 overdue_us,
			  u32 features[LINNOS_N_FEATURES]);

void linnos_look_chosen(struct linnos_look *look,
			const struct linnos_rules *rules, u64 now_ns);
void linnos_look_fast(struct linnos_look *look);
bool linnos_look_allows(struct linnos_drive *drive,
			const struct linnos_rules *rules, u32 size, u64 now_ns);
bool linnos_look_claim(struct linnos_look *look,
		       const struct linnos_rules *rules, bool again,
		       u64 now_ns);
void linnos_look_lost(struct linnos_look *look);
void linnos_look_ended(struct linnos_drive *drive,
		       const struct linnos_rules *rules,
		       const struct linnos_io *io,
		       const struct linnos_ended *ended);
bool linnos_is_silent(const struct linnos_drive *drive,
		      const struct linnos_rules *rules, u32 size, u64 now_ns);

#endif /* _LINNOS_DRIVE_H */
