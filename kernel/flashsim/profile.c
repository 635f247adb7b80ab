// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the drives that ship with the emulator.
 *
 * The values come from published figures and are not fitted to any policy or
 * experiment:
 *
 *   channels, chips		4 to 32 channels of 4 to 16 chips: Chen, Lee and
 *				Zhang, HPCA '11; Hao et al., OSDI '20
 *   page_read_ns (tR)		45 to 100 us, MLC and TLC: Grupp, Davis and Swanson,
 *				FAST '12; 3D NAND at ISSCC 2014 to 2019
 *   page_program_ns (tPROG)	500 to 1000 us a page, averaged over the pages that
 *				share a word line; the same sources
 *   block_erase_ns (tBERS)	3 to 10 ms; the same sources; MQSim (FAST '18)
 *				uses 3.8 ms
 *   page_spread_pct		first and last page of a word line differ from the
 *				mean by 10 to 50 %: Grupp et al., FAST '12
 *   *_suspend_ns		Wu and He, FAST '12; MQSim uses 700 us for an erase
 *   channel_transfer_ns	4 KiB at 400 to 800 MB/s: ONFI 3 and 4 interfaces
 *   host_transfer_ns		4 KiB at the host: 550 MB/s (SATA 6 Gb/s), or 3.2 GB/s
 *				(four lanes of PCIe 3)
 *   controller_ns, buffer_ns	8 to 12 us of firmware and 3 us of DRAM: the
 *				difference between tR + transfer and the 4 KiB read
 *				latency on data sheets (80 to 110 us)
 *   buffer_mb			12 to 256 MB, flush_interval_us 8 ms to 1 s
 *   overprovision_pct		7 (consumer: GB against GiB) or 28 (enterprise)
 *
 * Scaled, because the emulated drive has about 1 GiB and not 1 TB:
 *
 *   pages_per_block		4 to 8 instead of 256 to 1536, so that each chip still
 *				has some tens of blocks to choose from. To keep the
 *				share of time that goes into erases, only one in
 *				block_slices emulated erases takes chip time, but that
 *				one takes all of tBERS: an emulated block is a slice of
 *				a physical one.
 *   gc_low/high_blocks		in emulated blocks: a collection moves less at once,
 *				and comes more often, than on a large drive.
 *   wear			counted in emulated blocks.
 *
 * Buffer, flush interval and all times are those of a drive of normal size.
 */
#include <linux/string.h>

#include "flashsim.h"

static const struct flashsim_profile profiles[] = {
	{
		/* TLC on SATA, small volatile buffer, nothing suspended. */
		.name = "consumer",
		.params = {
			.channels = 4,
			.chips_per_channel = 4,
			.planes = 2,
			.page_kb = 16,
			.pages_per_block = 8,
			.block_slices = 64,
			.page_read_ns = 78000,
			.page_program_ns = 900000,
			.block_erase_ns = 5000000,
			.page_spread_pct = 20,
			.program_suspend_ns = 0,
			.erase_suspend_ns = 0,
			.channel_transfer_ns = 10240,
			.controller_ns = 8000,
			.buffer_ns = 3000,
			.host_transfer_ns = 7447,
			.buffer_mb = 12,
			.buffer_watermark_pct = 50,
			.flush_interval_us = 1000000,
			.volatile_cache = 1,
			.overprovision_pct = 7,
			.gc_low_blocks = 3,
			.gc_high_blocks = 6,
			.gc_policy = 0,
			.wear_delta = 100,
			.reads_ahead = 64,
			.queue_depth = 1024,
		},
	}, {
		/* MLC on NVMe, many chips, nothing suspended. */
		.name = "enterprise-a",
		.params = {
			.channels = 16,
			.chips_per_channel = 8,
			.planes = 2,
			.page_kb = 16,
			.pages_per_block = 4,
			.block_slices = 64,
			.page_read_ns = 65000,
			.page_program_ns = 600000,
			.block_erase_ns = 3800000,
			.page_spread_pct = 15,
			.program_suspend_ns = 0,
			.erase_suspend_ns = 0,
			.channel_transfer_ns = 6144,
			.controller_ns = 8000,
			.buffer_ns = 3000,
			.host_transfer_ns = 1280,
			.buffer_mb = 128,
			.buffer_watermark_pct = 50,
			.flush_interval_us = 64000,
			.volatile_cache = 0,
			.overprovision_pct = 28,
			.gc_low_blocks = 3,
			.gc_high_blocks = 6,
			.gc_policy = 0,
			.wear_delta = 100,
			.reads_ahead = 64,
			.queue_depth = 1024,
		},
	},
};

/**
 * flashsim_find_profile() - a profile by its name
 * @name: the name; "enterprise" stands for "enterprise-a"
 *
 * Return: the profile, or NULL.
 */
const struct flashsim_profile *flashsim_find_profile(const char *name)
{
	int i;

	if (!strcmp(name, "enterprise"))
		name = "enterprise-a";
	for (i = 0; i < ARRAY_SIZE(profiles); i++)
		if (!strcmp(name, profiles[i].name))
			return &profiles[i];
	return NULL;
}
