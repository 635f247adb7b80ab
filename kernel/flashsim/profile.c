// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the predefined drives of the emulator.
 *
 * The values come from publications and are not fitted to any policy or
 * experiment:
 *
 *   channels, chips		4 to 32 channels of 4 to 16 chips: the range of the
 *				designs in Chen, Lee and Zhang, HPCA '11, and Hao et
 *				al., OSDI '20
 *   page_read_ns (tR)		45 to 100 us, MLC and TLC: Grupp, Davis and Swanson,
 *				FAST '12; MQSim (Tavakkol et al., FAST '18) ships 75 us
 *   page_program_ns (tPROG)	500 to 1300 us for one page of each plane, averaged
 *				over the pages of a word line: Grupp et al.
 *				consumer-nvme: chosen so that 32 chips write 1260 MB/s,
 *				the rate of an SM951 of 256 GB
 *   block_erase_ns (tBERS)	3 to 10 ms: Grupp et al.; MQSim ships 3.8 ms
 *   page_spread_pct		the pages of a word line differ in speed, the first
 *				and last by tens of percent: Grupp et al.
 *   erase_suspend_ns		700 us in MQSim; Wu and He, FAST '12
 *   channel_transfer_ns	4 KiB at 400 to 800 MB/s: ONFI 3 and 4 interfaces
 *   host_transfer_ns		4 KiB at 550 MB/s (SATA 6 Gb/s), or 3.2 GB/s (PCIe
 *				3, four lanes)
 *				consumer-nvme: 2150 MB/s, as Samsung's SM951 reads
 *   controller_ns, buffer_ns	remainder of data sheet latencies: Intel P4500
 *				85 us random read, 10 us buffered read, 13 us write;
 *				Samsung 850 EVO 100 us read and 25 us write at queue
 *				depth 1
 *   buffer_mb			12 to 256 MB, flush_interval_us 8 ms to 1 s
 *   overprovision_pct		7 (consumer: GB against GiB; also MQSim), 12 to 28
 *				(enterprise, read-intensive to mixed use)
 *
 * Scaled, because the emulated drive has about 1 GiB and not 1 TB:
 *
 *   pages_per_block		2 to 8 instead of 256 to 1536, so that each chip still
 *				has tens of blocks to choose from. To keep the fraction
 *				of time spent on erases, only one in block_slices
 *				emulated erases takes chip time, but that one takes all
 *				of tBERS: an emulated block is a slice of a physical one.
 *   gc_low/high_blocks		in emulated blocks: a collection moves less at once, and
 *				comes more often, than on a large drive.
 *   wear			counted in emulated blocks.
 *
 * Buffer, flush interval and all times are those of a drive of normal size.
 */
#include <linux/kernel.h>
#include <linux/string.h>

#include "profile.h"

static const struct flashsim_profile profiles[] = {
	{
		/*
		 * TLC on SATA: few chips, small volatile buffer, no suspension.
		 */
		.name = "consumer",
		.params = {
			.channels = 4,
			.chips_per_channel = 4,
			.planes = 2,
			.page_kb = 16,
			.pages_per_block = 8,
			.block_slices = 64,
			.page_read_ns = 74000,
			.page_program_ns = 900000,
			.block_erase_ns = 5000000,
			.page_spread_pct = 20,
			.program_suspend_ns = 0,
			.erase_suspend_ns = 0,
			.channel_transfer_ns = 10240,
			.controller_ns = 9000,
			.buffer_ns = 7000,
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
		/*
		 * MLC on NVMe, four lanes of PCIe 3, 256 GB: the class of the
		 * drives in the consumer array of Hao et al. It has twice the
		 * chips of the profile above, and is otherwise designed like
		 * it.
		 */
		.name = "consumer-nvme",
		.params = {
			.channels = 8,
			.chips_per_channel = 4,
			.planes = 2,
			.page_kb = 16,
			.pages_per_block = 4,
			.block_slices = 64,
			.page_read_ns = 60000,
			.page_program_ns = 830000,
			.block_erase_ns = 5000000,
			.page_spread_pct = 20,
			.program_suspend_ns = 0,
			.erase_suspend_ns = 0,
			.channel_transfer_ns = 10240,
			.controller_ns = 9000,
			.buffer_ns = 7000,
			.host_transfer_ns = 1905,
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
		/* MLC on NVMe, mixed use: no suspension, greedy. */
		.name = "enterprise-a",
		.params = {
			.channels = 16,
			.chips_per_channel = 8,
			.planes = 2,
			.page_kb = 16,
			.pages_per_block = 4,
			.block_slices = 64,
			.page_read_ns = 68000,
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
	}, {
		/*
		 * TLC on NVMe, mixed use: erases can be suspended, large buffer
		 * flushed often.
		 */
		.name = "enterprise-b",
		.params = {
			.channels = 8,
			.chips_per_channel = 16,
			.planes = 2,
			.page_kb = 16,
			.pages_per_block = 4,
			.block_slices = 128,
			.page_read_ns = 75000,
			.page_program_ns = 750000,
			.block_erase_ns = 5000000,
			.page_spread_pct = 20,
			.program_suspend_ns = 0,
			.erase_suspend_ns = 700000,
			.channel_transfer_ns = 7680,
			.controller_ns = 7000,
			.buffer_ns = 3000,
			.host_transfer_ns = 1280,
			.buffer_mb = 256,
			.buffer_watermark_pct = 75,
			.flush_interval_us = 8000,
			.volatile_cache = 0,
			.overprovision_pct = 28,
			.gc_low_blocks = 3,
			.gc_high_blocks = 6,
			.gc_policy = 1,
			.wear_delta = 100,
			.reads_ahead = 64,
			.queue_depth = 1024,
		},
	}, {
		/*
		 * TLC on NVMe, read-intensive: large rows, little spare flash,
		 * rare flushes.
		 */
		.name = "enterprise-c",
		.params = {
			.channels = 32,
			.chips_per_channel = 4,
			.planes = 4,
			.page_kb = 16,
			.pages_per_block = 2,
			.block_slices = 256,
			.page_read_ns = 60000,
			.page_program_ns = 1200000,
			.block_erase_ns = 8000000,
			.page_spread_pct = 30,
			.program_suspend_ns = 0,
			.erase_suspend_ns = 1000000,
			.channel_transfer_ns = 5120,
			.controller_ns = 9000,
			.buffer_ns = 4000,
			.host_transfer_ns = 1280,
			.buffer_mb = 64,
			.buffer_watermark_pct = 50,
			.flush_interval_us = 250000,
			.volatile_cache = 0,
			.overprovision_pct = 12,
			.gc_low_blocks = 3,
			.gc_high_blocks = 6,
			.gc_policy = 1,
			.wear_delta = 100,
			.reads_ahead = 64,
			.queue_depth = 1024,
		},
	},
};

/**
 * flashsim_find_profile() - find a profile by its name
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
