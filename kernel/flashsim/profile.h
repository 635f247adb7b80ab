/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: the parameters of a drive, and sets of them that have a name.
 */
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
 * @block_slices: emulated blocks to a physical block: one in so many erases takes
 *	chip time
 * @page_read_ns: sensing a page (tR), mean over the pages of a word line
 * @page_program_ns: programming a page (tPROG), likewise
 * @block_erase_ns: erasing a block (tBERS)
 * @page_spread_pct: first and last page of a word line: so much faster and slower
 * @program_suspend_ns: a read can interrupt a program every so often; 0: never
 * @erase_suspend_ns: likewise an erase
 * @channel_transfer_ns: 4 KiB across a channel
 * @controller_ns: the controller's own time for a command
 * @buffer_ns: moving data into or out of the buffer
 * @host_transfer_ns: 4 KiB between host and drive
 * @buffer_mb: size of the write buffer
 * @buffer_watermark_pct: dirty share of the buffer at which it is flushed
 * @flush_interval_us: it is also flushed every so often
 * @volatile_cache: the buffer needs cache flush commands (no capacitors)
 * @overprovision_pct: spare flash, in percent of the exported size
 * @gc_low_blocks: collect garbage on a chip with so few free blocks
 * @gc_high_blocks: until it has so many
 * @gc_policy: victims: 0 greedy, 1 cost-benefit
 * @wear_delta: empty a block that was erased so many times less than another
 * @reads_ahead: reads that may overtake a chip's backlog in a row
 * @queue_depth: commands the drive takes at once, per hardware queue
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
 * @name: as written to the attribute profile
 * @params: its values
 */
struct flashsim_profile {
	char name[FLASHSIM_PROFILE_NAME];
	struct flashsim_params params;
};

const struct flashsim_profile *flashsim_find_profile(const char *name);

#endif /* FLASHSIM_PROFILE_H */
