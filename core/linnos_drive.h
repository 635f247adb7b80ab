/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LinnOS: the state of a drive: the I/O in flight, the last completed reads, and the
 * probes. The caller reports each I/O when it starts, is issued and completes.
 *
 *	linnos_io_begin --> in flight --> linnos_io_issue --> linnos_io_end
 *	                        |                                  |
 *	               linnos_drive_view                 linnos_history_add
 *	                        |                                  |
 *	                        +-> struct linnos_drive_snapshot <-+
 *	                                          |
 *	                digits of the network, features of the trees
 *
 * An I/O is a request of the block layer. If a read was split, each part is an I/O.
 *
 * Locking: several CPUs may use the load counters, the start slots and the probe states
 * concurrently. A caller that adds to the history or copies it has to make sure that no
 * other CPU writes the history meanwhile.
 */
#ifndef _LINNOS_DRIVE_H
#define _LINNOS_DRIVE_H

#include "linnos_model.h"

#define LINNOS_PAGE_BYTES 4096

/*
 * One word counts the reads in flight and their pages. Another word, on the same cache line, counts
 * the pages of writes. An I/O therefore needs one atomic operation. The first word overflows at
 * 2^24 reads of %LINNOS_IO_PAGES_MAX pages, whose requests alone would take gigabytes of memory.
 */
#define LINNOS_LOAD_PAGE_BITS 40
#define LINNOS_LOAD_READ ((s64)1 << LINNOS_LOAD_PAGE_BITS)

/* The I/O in flight, in 4 KiB pages; the size of each I/O is rounded up. */
struct linnos_load {
	u32 reads;
	u32 read_pages;
	u32 write_pages;
};

/*
 * Reads of the same flash die wait for each other, reads of other dies do not. Only the
 * drive knows the die of an address, but it stripes addresses across dies in units of its
 * own pages. Reads in flight are therefore also counted by region. The region is the remainder
 * of the address modulo 512 KiB, in units of 8 KiB; it does not depend on where the drive's
 * striping starts. A read that spans several regions is counted in its first region. Writes are
 * not counted by region, because a drive buffers them and programs them on any die.
 */
#define LINNOS_REGIONS 64
#define LINNOS_REGION_BYTES_LOG2 13
/* The caller did not give the address, or the read is not counted by region. */
#define LINNOS_REGION_UNKNOWN 0xff

static inline u8 linnos_region_of(u64 offset_bytes)
{
	return offset_bytes >> LINNOS_REGION_BYTES_LOG2 & (LINNOS_REGIONS - 1);
}

/* Upper limit of &linnos_io.pages and &linnos_io.pending. */
#define LINNOS_IO_PAGES_MAX 0xffff

#define LINNOS_START_SLOTS 128 /* reads in flight that have a start time */

/* Bits of &linnos_io.flags; %LINNOS_IO_SIZE masks the size class of a read. */
#define LINNOS_IO_SIZE 0x03
#define LINNOS_IO_COUNTED 0x04
#define LINNOS_IO_READ 0x08
#define LINNOS_IO_FAST 0x10 /* predicted fast when the read was admitted */
#define LINNOS_IO_SLOW 0x20 /* predicted slow, but admitted */
#define LINNOS_IO_ANSWERED 0x40

/* An I/O in flight. The other members are valid only if @flags has %LINNOS_IO_COUNTED. */
struct linnos_io {
	u64 issued_ns; /* when it was first issued to the drive; 0 before that */
	u16 pages; /* its size, including merged I/O */
	u16 pending; /* pages in flight when it was counted, including its own pages */
	u8 start_slot; /* index of its start slot, plus 1; 0 if it has none */
	u8 flags;
	u8 region; /* region in which a read is counted */
};

struct linnos_completed_io {
	u64 end_ns; /* 0 if no read has completed */
	u64 nr; /* sequence number of this read on the drive */
	u32 latency_us; /* from issue to completion */
	u16 pages;
	u16 pending; /* as in struct linnos_io */
};

/*
 * The last completed reads of each size class. The n-th read of a class is at index n modulo
 * %LINNOS_HISTORY.
 */
struct linnos_history {
	u64 nr; /* number of completed reads */
	u32 n[LINNOS_SIZE_CLASSES]; /* the same per size class, modulo 2^32 */
	struct linnos_completed_io last[LINNOS_SIZE_CLASSES][LINNOS_HISTORY];
};

/*
 * Start times of the reads in flight. Slots are allocated from the lowest index, so that a decision
 * with few reads in flight touches few cache lines. If all slots are taken, a read has none.
 */
struct linnos_start_slots {
	u64 start_ns[LINNOS_START_SLOTS]; /* still 0 for a moment after a slot is taken */
	unsigned long taken[LINNOS_START_SLOTS / BITS_PER_LONG];
};

#define LINNOS_PROBE_SENT 1ULL /* flag in @claimed_ns: the probe is in flight */

/* The probes of one size class; see linnos_probe.c. */
struct linnos_probe_state {
	/* when the last read expected to be fast was sent, or the last probe completed */
	u64 wait_start_ns;
	u64 claimed_ns; /* when a caller was asked to send the probe; 0 if no caller was */
	atomic_t refused; /* reads refused or redirected since the last completed probe */
	atomic_t queries; /* number of queries since @claimed_ns */
	atomic_t in_flight; /* number of reads; always 0 for the smallest class */
	atomic_t slow_in_flight; /* number of reads that were predicted slow, but admitted */
	u8 window; /* limit of @slow_in_flight; 0 if closed */
	u8 backoff; /* after late probes, wait 2^backoff times as long */
} ____cacheline_aligned_in_smp;

/*
 * A drive. @load is the number of reads times %LINNOS_LOAD_READ, plus their pages. If
 * @tracks_starts is true, @start_slots is maintained and, unless @ignores_regions is true, so is
 * @in_region.
 *
 * The end of @start_slots, the load, the lock and the beginning of the history fill one cache line
 * on 64-bit CPUs. The start of a read writes this line, and its completion writes it twice, for the
 * load and for the history. A CPU thus fetches one line instead of several.
 */
struct linnos_drive {
	/* when to probe: after this time, or after this number of reads; 0 disables either */
	u32 probe_after_us;
	u32 probe_after_refused;
	bool tracks_starts;
	bool ignores_regions; /* the model does not use them */

	struct linnos_start_slots start_slots ____cacheline_aligned_in_smp;
	atomic64_t load;
	atomic64_t write_pages;
	struct linnos_history_lock history_lock;
	struct linnos_history history;

	atomic_t in_region[LINNOS_REGIONS] ____cacheline_aligned_in_smp;
	struct linnos_probe_state probes[LINNOS_SIZE_CLASSES];
};

/* The state of a drive when a read of @pages pages is predicted. @past begins with the oldest. */
struct linnos_drive_snapshot {
	u64 now_ns;
	u32 pages;
	u32 size;
	struct linnos_load load;
	u32 in_region;
	struct linnos_completed_io past[LINNOS_HISTORY];
};

/* Return the pages in flight, including those of the predicted read. */
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
void linnos_drive_view(const struct linnos_drive *drive,
		       const struct linnos_history *history, u8 region,
		       u32 pages, u64 now_ns,
		       struct linnos_drive_snapshot *view);
u64 linnos_oldest_ns(const struct linnos_start_slots *slots);
void linnos_compute_features(const struct linnos_start_slots *slots,
			     const struct linnos_drive_snapshot *view,
			     u32 overdue_us, u32 features[LINNOS_N_FEATURES]);

void linnos_probe_note_fast_read(struct linnos_drive *drive, u32 size,
				 u64 now_ns);
void linnos_probe_close_window(struct linnos_probe_state *probe);
bool linnos_probe_window_allows(const struct linnos_drive *drive, u32 size,
				u64 now_ns);
bool linnos_probe_claim(struct linnos_drive *drive, u32 size, bool again,
			u64 now_ns);
void linnos_probe_failed(struct linnos_probe_state *probe);
void linnos_probe_complete(struct linnos_drive *drive,
			   const struct linnos_io *io, u64 end_ns, bool late);
bool linnos_history_is_stale(const struct linnos_drive *drive, u32 size,
			     u64 now_ns);

#endif /* _LINNOS_DRIVE_H */
