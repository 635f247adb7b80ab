/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: space. */
#ifndef FLASHSIM_FTL_H
#define FLASHSIM_FTL_H

#include <linux/types.h>

struct flashsim_block;
struct flashsim_counters;
struct flashsim_ftl_chip;
struct flashsim_params;

/* Maximum number of units programmed at once on one chip: 4 planes of 16 KiB. */
#define FLASHSIM_MAX_ROW_UNITS	16U

/**
 * struct flashsim_ftl - the mapping of a drive, see ftl.c
 * @p: the drive's parameters
 * @counters: the drive's counters
 * @nr_units: exported size in units
 * @nr_chips: channels * chips_per_channel
 * @row_units: units programmed at once on one chip (one page of each plane)
 * @block_units: units in a block
 * @chip_blocks: blocks of a chip, spare ones included
 * @chip_valid_max: most valid units a chip may hold, so that collecting
 *	garbage can always make progress
 * @next_chip: chip that receives the next row, round robin
 * @l2p: physical unit of each logical unit, or FLASHSIM_NONE
 * @p2l: logical unit last written to each physical unit
 * @blocks: nr_chips * chip_blocks blocks
 * @chips: per chip state
 */
struct flashsim_ftl {
	const struct flashsim_params *p;
	struct flashsim_counters *counters;
	u32 nr_units;
	u32 nr_chips;
	u32 row_units;
	u32 block_units;
	u32 chip_blocks;
	u32 chip_valid_max;
	u32 next_chip;
	u32 *l2p;
	u32 *p2l;
	struct flashsim_block *blocks;
	struct flashsim_ftl_chip *chips;
};

/**
 * struct flashsim_gc_work - chip time that garbage collection needs
 * @rows_read: rows read
 * @rows_programmed: rows programmed
 * @units_moved: units that crossed the channel, each way
 * @erases: physical erases
 */
struct flashsim_gc_work {
	u32 rows_read;
	u32 rows_programmed;
	u32 units_moved;
	u32 erases;
};

int flashsim_ftl_init(struct flashsim_ftl *ftl, const struct flashsim_params *p,
		      struct flashsim_counters *counters, u32 nr_units);
void flashsim_ftl_destroy(struct flashsim_ftl *ftl);
u32 flashsim_ftl_write_row(struct flashsim_ftl *ftl, const u32 *lpn, u32 n,
			   u32 *row, struct flashsim_gc_work *gc);
void flashsim_ftl_trim(struct flashsim_ftl *ftl, u32 lpn);
void flashsim_ftl_precondition(struct flashsim_ftl *ftl, u64 seed);
void flashsim_ftl_wear(const struct flashsim_ftl *ftl, u32 chip, u32 *free,
		       u32 *valid, u32 *min_erases, u32 *max_erases);

#endif /* FLASHSIM_FTL_H */
