/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: counters of a drive. */
#ifndef FLASHSIM_COUNTERS_H
#define FLASHSIM_COUNTERS_H

#include <linux/types.h>

/**
 * struct flashsim_counters - the operations of a drive since it was switched on
 *
 * Reads and writes are requests that reached the drive, after merging and
 * splitting by the block layer. Page counts are in 4 KiB units, erases count
 * emulated blocks (a physical erase happens every block_slices of them).
 */
struct flashsim_counters {
	u64 reads;
	u64 writes;
	u64 discards;
	u64 cache_flushes;
	u64 read_sectors;
	u64 write_sectors;
	u64 discard_sectors;
	u64 injected_reads;
	u64 injected_writes;
	u64 faulted_reads;
	u64 faulted_writes;
	u64 buffer_hits;
	u64 unmapped_reads;
	u64 page_reads;
	u64 page_programs;
	u64 flushes;
	u64 buffer_full_writes;
	u64 gc_runs;
	u64 gc_pages_moved;
	u64 erases;
	u64 block_erases;
	u64 wear_moves;
};

#endif /* FLASHSIM_COUNTERS_H */
