/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LinnOS: what is known of a drive: what is in flight, how its last reads went, and
 * when it was last probed. Whoever uses it tells what happens and when, I/O by I/O.
 *
 *	linnos_io_begin --> in flight --> linnos_io_issue --> linnos_io_end
 *	                        |                                  |
 *	              linnos_load_snapshot               linnos_history_add
 *	                        |                                  |
 *	                        +-> struct linnos_drive_snapshot <-+
 *	                                          |
 *	                digits of the network, features of the trees
 *
 * An I/O is a request of the block layer; of a read that was split each part is one.
 * What is in flight, the places and the looks may be used by several CPUs at once. Of
 * the history, whoever adds to it or copies it sees to it that nobody else writes.
 */
#ifndef _LINNOS_DRIVE_H
#define _LINNOS_DRIVE_H

#include "linnos_model.h"

#define LINNOS_PAGE_BYTES 4096

/*
 * The reads in flight and their pages are counted in one word, the pages of writes in
 * another on the same cache line, so that an I/O pays for one atomic operation. The word
 * overflows at 2^24 reads of %LINNOS_IO_PAGES_MAX pages: the requests alone would take
 * gigabytes of memory.
 */
#define LINNOS_LOAD_PAGE_BITS 40
#define LINNOS_LOAD_READ ((s64)1 << LINNOS_LOAD_PAGE_BITS)

/* What is in flight, in 4 KiB pages, each I/O rounded up. */
struct linnos_load {
	u32 reads;
	u32 read_pages;
	u32 write_pages;
};

/*
 * Reads of one die of flash wait for each other while others pass. Which address is on
 * which die only the drive knows, but it spreads addresses by its own pages: so reads in
 * flight are also counted by 8 KiB of address, modulo 512 KiB, wherever that starts from.
 * A read that spans several is counted in its first. Writes are not: a drive buffers
 * them, and programs them where it likes.
 */
#define LINNOS_REGIONS 64
#define LINNOS_REGION_BYTES_LOG2 13
/* Whoever asks did not say where; or a read is not counted by region. */
#define LINNOS_REGION_UNKNOWN 0xff

static inline u8 linnos_region_of(u64 offset_bytes)
{
	return offset_bytes >> LINNOS_REGION_BYTES_LOG2 & (LINNOS_REGIONS - 1);
}

/* No more pages are counted of one I/O, nor remembered as pending. */
#define LINNOS_IO_PAGES_MAX 0xffff

#define LINNOS_START_SLOTS 128 /* so many reads in flight have one */

/* Of &linnos_io.flags; in the two bits below them the order of a read's size. */
#define LINNOS_IO_SIZE 0x03
#define LINNOS_IO_COUNTED 0x04
#define LINNOS_IO_READ 0x08
#define LINNOS_IO_FAST 0x10 /* by the model's word, when it was decided */
#define LINNOS_IO_SLOW 0x20 /* and admitted against it */
#define LINNOS_IO_ANSWERED 0x40

/* An I/O in flight; all zeros: one that is not counted. */
struct linnos_io {
	u64 issued_ns; /* when the drive was first given it; 0: not yet */
	u16 pages; /* its own, merged ones included */
	u16 pending; /* pages pending when it was counted, its own among them */
	u8 place; /* of a read in struct linnos_start_slots; 0: none */
	u8 flags;
	u8 region; /* of a read, where it is counted */
};

struct linnos_completed_io {
	u64 end_ns; /* 0: there was none */
	u64 nr; /* it was the drive's so manyth */
	u32 latency_us; /* how long the drive took */
	u16 pages;
	u16 pending; /* as in struct linnos_io */
};

/* The last reads of each order of size, at their number modulo LINNOS_HISTORY. */
struct linnos_history {
	u64 end_ns; /* when the last of all ended */
	u64 nr; /* how many there have been */
	u32 n[LINNOS_SIZE_CLASSES]; /* and of each order, as far as 32 bits tell */
	struct linnos_completed_io last[LINNOS_SIZE_CLASSES][LINNOS_HISTORY];
};

/*
 * Since when reads are in flight. The lowest places are taken first: of few reads a
 * decision looks at what is near. Should all be taken, a read goes without.
 */
struct linnos_start_slots {
	unsigned long taken[LINNOS_START_SLOTS / BITS_PER_LONG];
	u64 start_ns[LINNOS_START_SLOTS]; /* 0: for an instant, when just taken */
};

#define LINNOS_PROBE_SENT 1ULL /* in @since_ns: the probe is in flight */

/* Is the drive still slow? See linnos_probe.c. */
struct linnos_probe_state {
	u64 chosen_ns; /* the last read expected to be fast, or answered probe */
	u64 since_ns; /* since when a probe is wanted; 0: none is */
	atomic_t refused; /* since a probe was answered */
	atomic_t asked; /* since one was told to be the probe, and none was sent */
	atomic_t in_flight; /* reads, but not of the smallest order */
	atomic_t against; /* of them admitted against the model */
	u8 window; /* so many of these may be in flight */
	u8 backoff; /* probes were late: wait 2^this times as long */
} ____cacheline_aligned_in_smp;

/*
 * A drive. @load: reads in units of %LINNOS_LOAD_READ, plus their pages. @watching: places
 * and @in_region are kept.
 */
struct linnos_drive {
	/* when to probe; 0: never for that reason */
	u32 probe_after_us;
	u32 probe_after_refused;

	atomic64_t load ____cacheline_aligned_in_smp;
	atomic64_t write_pages;
	bool watching;
	struct linnos_start_slots places;
	atomic_t in_region[LINNOS_REGIONS];
	struct linnos_probe_state look[LINNOS_SIZE_CLASSES];
	struct linnos_history history ____cacheline_aligned_in_smp;
};

/* A drive as a read of so many pages finds it; @past is oldest first. */
struct linnos_drive_snapshot {
	u64 now_ns;
	u32 pages;
	u32 size;
	struct linnos_load load;
	u32 in_region;
	struct linnos_completed_io past[LINNOS_HISTORY];
};

/* With those of the read that asks. */
static inline u32 linnos_pending(const struct linnos_drive_snapshot *view)
{
	return view->load.read_pages + view->load.write_pages + view->pages;
}

static inline u32 linnos_pages_of(u64 bytes)
{
	return min_t(u64, (bytes + LINNOS_PAGE_BYTES - 1) / LINNOS_PAGE_BYTES,
		     LINNOS_IO_PAGES_MAX);
}

void linnos_drive_reset_history(struct linnos_drive *drive, u64 now_ns);
void linnos_load_snapshot(const struct linnos_drive *drive,
			  struct linnos_load *load);
u32 linnos_region_reads(const struct linnos_drive *drive, u8 region);

void linnos_io_begin(struct linnos_drive *drive, struct linnos_io *io,
		     u8 region, u32 pages, u8 flags, u64 now_ns);
void linnos_io_grow(struct linnos_drive *drive, struct linnos_io *io,
		    u32 pages);
void linnos_io_join(struct linnos_drive *drive, struct linnos_io *io,
		    struct linnos_io *joins);
void linnos_io_issue(struct linnos_io *io, u64 now_ns);
bool linnos_io_end(struct linnos_drive *drive, struct linnos_io *io, u64 now_ns,
		   struct linnos_completed_io *ended);

void linnos_history_add(struct linnos_history *history,
			const struct linnos_completed_io *ended);
void linnos_history_snapshot(const struct linnos_history *history, u32 size,
			     struct linnos_completed_io past[LINNOS_HISTORY]);

u64 linnos_oldest_ns(const struct linnos_start_slots *places);
void linnos_encode_digits(const struct linnos_drive_snapshot *view,
			  u8 digits[LINNOS_N_INPUTS]);
void linnos_compute_features(const struct linnos_start_slots *places,
			     const struct linnos_drive_snapshot *view,
			     u32 overdue_us, u32 features[LINNOS_N_FEATURES]);

void linnos_probe_note_fast_read(struct linnos_drive *drive, u32 size,
				 u64 now_ns);
void linnos_probe_close_window(struct linnos_probe_state *look);
bool linnos_probe_window_allows(const struct linnos_drive *drive, u32 size,
				u64 now_ns);
bool linnos_probe_claim(struct linnos_drive *drive, u32 size, bool again,
			u64 now_ns);
void linnos_probe_failed(struct linnos_probe_state *look);
void linnos_probe_complete(struct linnos_drive *drive,
			   const struct linnos_io *io, u64 end_ns, bool late);
bool linnos_history_is_stale(const struct linnos_drive *drive, u32 size,
			     u64 now_ns);

#endif /* _LINNOS_DRIVE_H */
