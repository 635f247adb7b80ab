// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the predefined drives of the emulator. Their values are in settings.h.
 *
 * They come from publications and are not fitted to any policy or
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
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "profile.h"

static const char * const profile_names[] = {
	/* TLC on SATA: few chips, small volatile buffer, no suspension. */
	"consumer",
	/*
	 * MLC on NVMe, four lanes of PCIe 3, 256 GB: the class of the drives in
	 * the consumer array of Hao et al. It has twice the chips of the profile
	 * above, and is otherwise designed like it.
	 */
	"consumer-nvme",
	/* MLC on NVMe, mixed use: no suspension, greedy. */
	"enterprise-a",
	/* TLC on NVMe, mixed use: erases can be suspended, large buffer flushed often. */
	"enterprise-b",
	/* TLC on NVMe, read-intensive: large rows, little spare flash, rare flushes. */
	"enterprise-c",
};

static const struct {
	size_t offset;
	u32 values[ARRAY_SIZE(profile_names)];
} profile_params[] = {
#define PARAM(_name, _min, _max, ...) \
	{ offsetof(struct flashsim_params, _name), { __VA_ARGS__ } },
#include "settings.h"
};

/**
 * flashsim_set_profile() - set all parameters to those of a profile
 * @params: out: the parameters
 * @name: the profile; "enterprise" stands for "enterprise-a"
 *
 * Return: 0, or -EINVAL if there is no such profile.
 */
int flashsim_set_profile(struct flashsim_params *params, const char *name)
{
	int k, i;

	if (!strcmp(name, "enterprise"))
		name = "enterprise-a";
	k = match_string(profile_names, ARRAY_SIZE(profile_names), name);
	if (k < 0)
		return k;
	for (i = 0; i < ARRAY_SIZE(profile_params); i++)
		*(u32 *)((void *)params + profile_params[i].offset) =
			profile_params[i].values[k];
	return 0;
}
