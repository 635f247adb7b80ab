/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: the parameters of a drive, and named sets of them. */
#ifndef FLASHSIM_PROFILE_H
#define FLASHSIM_PROFILE_H

#include <linux/types.h>

/**
 * struct flashsim_params - the parameters of a drive, each a file in configfs
 * @channels: channels
 * @chips_per_channel: chips (dies) on each
 * @planes: pages programmed at once on a chip, one on each plane
 * @page_kb: size of a flash page
 * @pages_per_block: pages of a plane's share of an emulated block
 * @block_slices: emulated blocks per physical block: one in this many erases
 *	takes chip time
 * @page_read_ns: sensing a page (tR), mean over the pages of a word line
 * @page_program_ns: programming a page (tPROG), mean over the pages of a word
 *	line
 * @block_erase_ns: erasing a block (tBERS)
 * @page_spread_pct: how much faster the first and slower the last page of a
 *	word line is
 * @program_suspend_ns: interval at which a read can interrupt a program; 0 for
 *	never
 * @erase_suspend_ns: interval at which a read can interrupt an erase; 0 for
 *	never
 * @channel_transfer_ns: 4 KiB across a channel
 * @controller_ns: the controller's own time for a command
 * @buffer_ns: moving data into or out of the buffer
 * @host_transfer_ns: 4 KiB between host and drive
 * @buffer_mb: size of the write buffer
 * @buffer_watermark_pct: percentage of dirty units in the buffer at which it is
 *	flushed
 * @flush_interval_us: interval at which it is also flushed
 * @volatile_cache: the buffer needs cache flush commands (no capacitors)
 * @overprovision_pct: spare flash, in percent of the exported size
 * @gc_low_blocks: collect garbage on a chip if it has this few free blocks
 * @gc_high_blocks: collect until it has this many free blocks
 * @gc_policy: victims: 0 greedy, 1 cost-benefit
 * @wear_delta: empty a block that lags another by this number of erases
 * @reads_ahead: reads that may overtake a chip's backlog in a row
 * @queue_depth: commands the drive accepts at once, per hardware queue
 *
 * Values and sources are in profile.c.
 */
struct flashsim_params {
	u32 channels;
	u32 chips_per_channel;
	u32 planes;
	u32 page_kb;
	u32 pages_per_block;
	u32 block_slices;
	u32 page_read_ns;
	u32 page_program_ns;
	u32 block_erase_ns;
	u32 page_spread_pct;
	u32 program_suspend_ns;
	u32 erase_suspend_ns;
	u32 channel_transfer_ns;
	u32 controller_ns;
	u32 buffer_ns;
	u32 host_transfer_ns;
	u32 buffer_mb;
	u32 buffer_watermark_pct;
	u32 flush_interval_us;
	u32 volatile_cache;
	u32 overprovision_pct;
	u32 gc_low_blocks;
	u32 gc_high_blocks;
	u32 gc_policy;
	u32 wear_delta;
	u32 reads_ahead;
	u32 queue_depth;
};

#define FLASHSIM_PROFILE_NAME	16

/**
 * struct flashsim_profile - a named set of parameters
 * @name: value of the attribute profile
 * @params: its values
 */
struct flashsim_profile {
	char name[FLASHSIM_PROFILE_NAME];
	struct flashsim_params params;
};

const struct flashsim_profile *flashsim_find_profile(const char *name);

#endif /* FLASHSIM_PROFILE_H */
