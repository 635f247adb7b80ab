/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: all settings of a drive that are numbers or words, and its counters. This table is
 * included several times, with different definitions of its macros: it declares the members of the
 * structures, their defaults, the files in configfs with the values that these accept, and the
 * lines of the file counters in debugfs.
 */
#ifndef PARAM
#define PARAM(...)
#endif
#ifndef DRIVE
#define DRIVE(...)
#endif
#ifndef INJECT
#define INJECT(...)
#endif
#ifndef INJECT_WORD
#define INJECT_WORD(...)
#endif
#ifndef RULE
#define RULE(...)
#endif
#ifndef RULE_WORD
#define RULE_WORD(...)
#endif
#ifndef COUNTER
#define COUNTER(...)
#endif

/*
 * PARAM(name, minimum, maximum, value of each profile), a u32. The profiles are,
 * in this order, consumer, consumer-nvme and enterprise-a to -c. profile.c has
 * the sources of the values.
 *
 * channels, chips_per_channel: chips are dies
 * planes: pages programmed at once on a chip, one on each plane
 * pages_per_block: pages of a plane's share of an emulated block
 * block_slices: emulated blocks per physical block: one in this many erases
 *	takes chip time
 * page_read_ns: sensing a page (tR), mean over the pages of a word line
 * page_program_ns: programming a page (tPROG), mean over the pages of a word
 *	line
 * block_erase_ns: erasing a block (tBERS)
 * page_spread_pct: how much faster the first and slower the last page of a word
 *	line is
 * program_suspend_ns, erase_suspend_ns: interval at which a read can interrupt a
 *	program or an erase; 0 for never
 * channel_transfer_ns, host_transfer_ns: 4 KiB across a channel, and between
 *	host and drive
 * controller_ns: the controller's own time for a command
 * buffer_ns: moving data into or out of the write buffer
 * buffer_watermark_pct, flush_interval_us: the buffer is flushed at this
 *	percentage of dirty units, and at this interval
 * volatile_cache: the buffer needs cache flush commands (no capacitors)
 * overprovision_pct: spare flash, in percent of the exported size
 * gc_low_blocks, gc_high_blocks: collect garbage on a chip that has this few
 *	free blocks, until it has this many
 * gc_policy: victims: 0 greedy, 1 cost-benefit
 * wear_delta: empty a block that lags another by this number of erases
 * reads_ahead: reads that may overtake a chip's backlog in a row
 * queue_depth: commands the drive accepts at once, per hardware queue
 */
PARAM(channels, 1, 32, 4, 8, 16, 8, 32)
PARAM(chips_per_channel, 1, 16, 4, 4, 8, 16, 4)
PARAM(planes, 1, 4, 2, 2, 2, 2, 4)
PARAM(page_kb, 4, 16, 16, 16, 16, 16, 16)
PARAM(pages_per_block, 2, 4096, 8, 4, 4, 4, 2)
PARAM(block_slices, 1, 4096, 64, 64, 64, 128, 256)
PARAM(page_read_ns, 1000, 10000000, 74000, 60000, 68000, 75000, 60000)
PARAM(page_program_ns, 1000, 100000000, 900000, 830000, 600000, 750000, 1200000)
PARAM(block_erase_ns, 1000, 1000000000, 5000000, 5000000, 3800000, 5000000, 8000000)
PARAM(page_spread_pct, 0, 90, 20, 20, 15, 20, 30)
PARAM(program_suspend_ns, 0, 100000000, 0, 0, 0, 0, 0)
PARAM(erase_suspend_ns, 0, 1000000000, 0, 0, 0, 700000, 1000000)
PARAM(channel_transfer_ns, 0, 10000000, 10240, 10240, 6144, 7680, 5120)
PARAM(controller_ns, 0, 10000000, 9000, 9000, 8000, 7000, 9000)
PARAM(buffer_ns, 0, 10000000, 7000, 7000, 3000, 3000, 4000)
PARAM(host_transfer_ns, 0, 10000000, 7447, 1905, 1280, 1280, 1280)
/* The largest request must fit in addition to the data being programmed. */
PARAM(buffer_mb, 2, 4096, 12, 12, 128, 256, 64)
PARAM(buffer_watermark_pct, 1, 100, 50, 50, 50, 75, 50)
PARAM(flush_interval_us, 100, 60000000, 1000000, 1000000, 64000, 8000, 250000)
PARAM(volatile_cache, 0, 1, 1, 1, 0, 0, 0)
PARAM(overprovision_pct, 1, 200, 7, 7, 28, 28, 12)
PARAM(gc_low_blocks, 1, 64, 3, 3, 3, 3, 3)
PARAM(gc_high_blocks, 2, 128, 6, 6, 6, 6, 6)
PARAM(gc_policy, 0, 1, 0, 0, 0, 1, 1)
PARAM(wear_delta, 1, 1000000, 100, 100, 100, 100, 100)
PARAM(reads_ahead, 0, 1000000, 64, 64, 64, 64, 64)
PARAM(queue_depth, 1, 8192, 1024, 1024, 1024, 1024, 1024)

/*
 * DRIVE(type, name, minimum, maximum, default)
 *
 * size_mb: exported size, at most 1 TiB; the mapping's 32-bit numbers would
 *	allow 16 times as much
 * seed: seed of all random choices of the drive
 */
DRIVE(u32, size_mb, 1, BIT(20), 1024)
DRIVE(u64, seed, 0, U64_MAX, 0)

/*
 * INJECT(name, minimum, maximum, default), a u64; and INJECT_WORD(name,
 * default), an index into the names in config.c. inject.c explains them.
 *
 * op: mask of FLASHSIM_OP_
 * ratio_ppm: fraction of matching I/Os that are hit
 * period_ios: length of the cycle of the continuous pattern
 * interval: distance between hits of the interval pattern
 * latency_us: latency added to an I/O that is hit: at the ramp's peak, at the
 *	queue shape's depth, as the Pareto distribution's median
 * occupy: the added latency occupies what serves the I/O (1) or nothing (0)
 * at_depth: queue: number of I/Os in the drive for which latency_us is added
 * tail_milli: Pareto: the tail index, in thousandths
 * region_sector, region_sectors: the slow region; 0 sectors for the whole drive
 * window_start_us: start of the first window, after arming
 * window_us: length of a window; 0 for always
 * window_every_us: from the start of one window to the next; 0 for a single
 *	window
 * window_turns, window_turn_mask: number of turns in which windows are assigned
 *	to drives, and the turns of this drive
 */
INJECT_WORD(pattern, FLASHSIM_INJECT_NONE)
INJECT_WORD(shape, FLASHSIM_INJECT_CONSTANT)
INJECT_WORD(op, FLASHSIM_OP_READ | FLASHSIM_OP_WRITE)
INJECT(ratio_ppm, 0, 1000000, 10000)
INJECT(period_ios, 1, U32_MAX, 100000)
INJECT(interval, 1, U32_MAX, 100)
INJECT(latency_us, 0, FLASHSIM_INJECT_MAX_US, 1000)
INJECT(occupy, 0, 1, 0)
INJECT(at_depth, 1, U16_MAX, 8)
INJECT(tail_milli, 500, 100000, 1500)
INJECT(region_sector, 0, U64_MAX, 0)
INJECT(region_sectors, 0, U64_MAX, 0)
INJECT(window_start_us, 0, U64_MAX / NSEC_PER_USEC, 0)
INJECT(window_us, 0, U64_MAX / NSEC_PER_USEC, 0)
INJECT(window_every_us, 0, U64_MAX / NSEC_PER_USEC, 0)
INJECT(window_turns, 1, FLASHSIM_INJECT_MAX_TURNS, 1)
INJECT(window_turn_mask, 0, U64_MAX, 1)

/*
 * RULE(name, minimum, maximum, default) and RULE_WORD(name, default), an s64.
 * fault.c explains them.
 *
 * op: mask of FLASHSIM_OP_
 * tag: I/O tag that matches; -1 for any
 * count: count requests (0) or 4 KiB blocks (1)
 * frequency, n: which matches are hit: enum flashsim_frequency, and its
 *	parameter
 * fault: the effect on them: enum flashsim_fault
 * latency_us: for a delay
 * offset, bit: for a bit flip: the byte and the bit; -1 to derive it from the
 *	seed
 */
RULE_WORD(op, FLASHSIM_OP_READ | FLASHSIM_OP_WRITE)
RULE(tag, -1, 1023, -1)
RULE_WORD(count, 0)
RULE_WORD(frequency, FLASHSIM_FREQ_ALL)
RULE(n, 1, S64_MAX, 1)
RULE_WORD(fault, FLASHSIM_FAULT_DELAY)
RULE(latency_us, 0, 60000000, 1000)
RULE(offset, -1, S32_MAX, -1)
RULE(bit, -1, 7, -1)

/*
 * COUNTER(name), a u64: operations of a drive since it was switched on. Reads
 * and writes are requests that reached the drive, after merging and splitting by
 * the block layer. Page counts are in 4 KiB units, erases count emulated blocks
 * (a physical erase happens every block_slices of them).
 */
COUNTER(reads)
COUNTER(writes)
COUNTER(discards)
COUNTER(cache_flushes)
COUNTER(read_sectors)
COUNTER(write_sectors)
COUNTER(discard_sectors)
COUNTER(injected_reads)
COUNTER(injected_writes)
COUNTER(faulted_reads)
COUNTER(faulted_writes)
COUNTER(buffer_hits)
COUNTER(unmapped_reads)
COUNTER(page_reads)
COUNTER(page_programs)
COUNTER(flushes)
COUNTER(buffer_full_writes)
COUNTER(gc_runs)
COUNTER(gc_pages_moved)
COUNTER(erases)
COUNTER(block_erases)
COUNTER(wear_moves)

#undef PARAM
#undef DRIVE
#undef INJECT
#undef INJECT_WORD
#undef RULE
#undef RULE_WORD
#undef COUNTER
