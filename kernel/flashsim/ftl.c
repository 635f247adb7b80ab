// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the flash translation layer (FTL): the location of each page,
 * garbage collection, and wear leveling.
 *
 * The FTL maps pages: l2p maps every 4 KiB unit of the disk to a physical unit.
 * Flash is written in rows, one page of each plane of one chip. Rows go to the
 * chips in turn, channel first, so that data that are written together can be
 * read in parallel. An overwrite leaves the old unit invalid in its block.
 *
 *   chip   | block 0 | block 1 | ... | spare blocks |
 *   block  | row 0   | row 1   | ...
 *   row    | unit, unit, ... | one page on each plane, programmed at once
 *
 * Each chip collects its own garbage: when gc_low_blocks or fewer of its blocks
 * are free, it empties victims until gc_high_blocks are. Greedy takes the block
 * with the fewest valid units; cost-benefit (Rosenblum and Ousterhout, SOSP
 * '91) weighs the space won against the cost of moving, times the block's age.
 *
 * Wear leveling: new data are written to the least erased free block. Data that survived a garbage
 * collection are probably cold and are written to the most erased free block. If the least erased
 * closed block of a chip lags its most erased block by more than wear_delta erases, the next
 * collection empties it first, however many valid units it holds.
 *
 * The mapping changes at once. The chip time that this takes is passed to the
 * model as struct flashsim_gc_work. The model queues it before the row that
 * needed the space, so that a write waits until the space has been freed.
 */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "flashsim.h"
#include "ftl.h"
#include "profile.h"

/* The number of times that preconditioning overwrites the drive. */
#define PRECONDITION_PASSES	3

#define PRECONDITION_SALT	0x7072656bULL

enum block_state {
	BLOCK_FREE,
	BLOCK_OPEN,
	BLOCK_CLOSED,
};

/**
 * struct flashsim_block - an erase block across the planes of a chip
 * @valid: units that hold current data
 * @erases: how often it was erased
 * @closed_at: the chip's row count when the block was filled, for its age
 * @state: enum block_state
 */
struct flashsim_block {
	u32 valid;
	u32 erases;
	u32 closed_at;
	u8 state;
};

/**
 * struct flashsim_ftl_chip - one chip's share of the mapping
 * @free: free blocks
 * @valid: valid units
 * @rows: rows written since power on
 * @user_block: block that takes new data, or FLASHSIM_NONE
 * @user_row: its next row
 * @gc_block: block that takes moved data, or FLASHSIM_NONE
 * @gc_unit: its next unit
 * @slices: emulated blocks erased since the last physical erase
 */
struct flashsim_ftl_chip {
	u32 free;
	u32 valid;
	u32 rows;
	u32 user_block;
	u32 user_row;
	u32 gc_block;
	u32 gc_unit;
	u32 slices;
};

static u32 chip_first_block(const struct flashsim_ftl *ftl, u32 chip)
{
	return chip * ftl->chip_blocks;
}

/**
 * flashsim_ftl_trim() - discard the contents of a logical unit
 * @ftl: the mapping
 * @lpn: the unit
 */
void flashsim_ftl_trim(struct flashsim_ftl *ftl, u32 lpn)
{
	u32 ppn = ftl->l2p[lpn];
	u32 block;

	if (ppn == FLASHSIM_NONE)
		return;
	block = ppn / ftl->block_units;
	ftl->blocks[block].valid--;
	ftl->chips[block / ftl->chip_blocks].valid--;
	ftl->l2p[lpn] = FLASHSIM_NONE;
}

static void ftl_map(struct flashsim_ftl *ftl, u32 lpn, u32 ppn)
{
	u32 block = ppn / ftl->block_units;

	flashsim_ftl_trim(ftl, lpn);
	ftl->l2p[lpn] = ppn;
	ftl->p2l[ppn] = lpn;
	ftl->blocks[block].valid++;
	ftl->chips[block / ftl->chip_blocks].valid++;
}

static bool ftl_unit_valid(const struct flashsim_ftl *ftl, u32 ppn)
{
	u32 lpn = ftl->p2l[ppn];

	return lpn != FLASHSIM_NONE && ftl->l2p[lpn] == ppn;
}

static void ftl_close(struct flashsim_ftl *ftl, u32 chip, u32 block)
{
	ftl->blocks[block].state = BLOCK_CLOSED;
	ftl->blocks[block].closed_at = ftl->chips[chip].rows;
}

/* Return a free block of the chip; the caller has checked that there is one. */
static u32 ftl_open(struct flashsim_ftl *ftl, u32 chip, bool most_worn)
{
	u32 first = chip_first_block(ftl, chip);
	u32 best = FLASHSIM_NONE, best_erases = 0;
	u32 b;

	for (b = first; b < first + ftl->chip_blocks; b++) {
		const struct flashsim_block *blk = &ftl->blocks[b];

		if (blk->state != BLOCK_FREE)
			continue;
		if (best == FLASHSIM_NONE ||
		    (most_worn ? blk->erases > best_erases :
				 blk->erases < best_erases)) {
			best = b;
			best_erases = blk->erases;
		}
	}
	if (WARN_ON_ONCE(best == FLASHSIM_NONE))
		return first;
	ftl->blocks[best].state = BLOCK_OPEN;
	ftl->chips[chip].free--;
	return best;
}

static void ftl_erase(struct flashsim_ftl *ftl, u32 chip, u32 block,
		      struct flashsim_gc_work *work)
{
	struct flashsim_ftl_chip *c = &ftl->chips[chip];

	ftl->blocks[block].state = BLOCK_FREE;
	ftl->blocks[block].erases++;
	c->free++;
	ftl->counters->erases++;
	if (++c->slices >= ftl->p->block_slices) {
		c->slices = 0;
		ftl->counters->block_erases++;
		work->erases++;
	}
}

/*
 * Return the closed block that has the fewest erases, if it lags the most
 * erased block of the chip by more than wear_delta; otherwise FLASHSIM_NONE.
 */
static u32 ftl_lagging(const struct flashsim_ftl *ftl, u32 chip)
{
	u32 first = chip_first_block(ftl, chip);
	u32 most_erases = 0, least_erases = 0;
	u32 least_worn = FLASHSIM_NONE;
	u32 b;

	for (b = first; b < first + ftl->chip_blocks; b++) {
		const struct flashsim_block *blk = &ftl->blocks[b];

		most_erases = max(most_erases, blk->erases);
		if (blk->state == BLOCK_CLOSED &&
		    (least_worn == FLASHSIM_NONE || blk->erases < least_erases)) {
			least_worn = b;
			least_erases = blk->erases;
		}
	}
	if (least_worn == FLASHSIM_NONE ||
	    most_erases - least_erases <= ftl->p->wear_delta)
		return FLASHSIM_NONE;
	return least_worn;
}

/*
 * Return the closed block with the fewest valid units, or FLASHSIM_NONE if no
 * closed block has garbage.
 */
static u32 ftl_greedy(const struct flashsim_ftl *ftl, u32 chip)
{
	u32 first = chip_first_block(ftl, chip);
	u32 best = FLASHSIM_NONE, least = ftl->block_units;
	u32 b;

	/* Check @valid first: for most blocks it decides alone. */
	for (b = first; b < first + ftl->chip_blocks; b++) {
		const struct flashsim_block *blk = &ftl->blocks[b];

		if (blk->valid < least && blk->state == BLOCK_CLOSED) {
			best = b;
			least = blk->valid;
		}
	}
	return best;
}

/*
 * Return the closed block with the highest cost-benefit score, or FLASHSIM_NONE if no closed block
 * has garbage. The score is (1 - u) / 2u * age, where u is the fraction of valid units. It is
 * computed in 64-bit integers, with 16 fractional bits, so that neither factor is rounded to 0.
 */
static u32 ftl_cost_benefit(const struct flashsim_ftl *ftl, u32 chip)
{
	u32 first = chip_first_block(ftl, chip), now = ftl->chips[chip].rows;
	u32 best = FLASHSIM_NONE;
	u64 best_score = 0;
	u32 b;

	for (b = first; b < first + ftl->chip_blocks; b++) {
		const struct flashsim_block *blk = &ftl->blocks[b];
		u64 won = ftl->block_units - blk->valid, benefit, enough;

		if (blk->state != BLOCK_CLOSED || !won)
			continue;
		if (!blk->valid)
			return b;
		benefit = (won * (now - blk->closed_at + 1)) << 16;
		/*
		 * Divide only for a higher score, because division is slow. If
		 * the product exceeds 64 bits, no benefit reaches it.
		 */
		if (best == FLASHSIM_NONE ||
		    (!check_mul_overflow(best_score + 1, 2ULL * blk->valid,
					 &enough) &&
		     benefit >= enough)) {
			best = b;
			best_score = div_u64(benefit, 2 * blk->valid);
		}
	}
	return best;
}

static u32 ftl_victim(struct flashsim_ftl *ftl, u32 chip, bool level)
{
	u32 lagging = level ? ftl_lagging(ftl, chip) : FLASHSIM_NONE;

	if (lagging != FLASHSIM_NONE) {
		ftl->counters->wear_moves++;
		return lagging;
	}
	return ftl->p->gc_policy ? ftl_cost_benefit(ftl, chip) :
				   ftl_greedy(ftl, chip);
}

/* Move one unit from @victim to the chip's collection block. */
static void ftl_move(struct flashsim_ftl *ftl, u32 chip, u32 victim, u32 lpn,
		     struct flashsim_gc_work *work)
{
	struct flashsim_ftl_chip *c = &ftl->chips[chip];
	u32 ppn;

	if (c->gc_block == FLASHSIM_NONE) {
		c->gc_block = ftl_open(ftl, chip, true);
		c->gc_unit = 0;
	}
	/* Like ftl_map(), except that the blocks are known to be on this chip. */
	ppn = c->gc_block * ftl->block_units + c->gc_unit;
	ftl->l2p[lpn] = ppn;
	ftl->p2l[ppn] = lpn;
	ftl->blocks[victim].valid--;
	ftl->blocks[c->gc_block].valid++;
	work->units_moved++;
	ftl->counters->gc_pages_moved++;
	c->gc_unit++;
	if (c->gc_unit % ftl->row_units == 0) {
		work->rows_programmed++;
		c->rows++;
	}
	if (c->gc_unit == ftl->block_units) {
		ftl_close(ftl, chip, c->gc_block);
		c->gc_block = FLASHSIM_NONE;
	}
}

/* Move the valid units of @victim to the chip's collection block, and erase it. */
static void ftl_collect(struct flashsim_ftl *ftl, u32 chip, u32 victim,
			struct flashsim_gc_work *work)
{
	u32 ppn = victim * ftl->block_units;
	u32 end = ppn + ftl->block_units;
	u32 row_end;

	while (ppn < end) {
		u32 moved = work->units_moved;

		for (row_end = ppn + ftl->row_units; ppn < row_end; ppn++)
			if (ftl_unit_valid(ftl, ppn))
				ftl_move(ftl, chip, victim, ftl->p2l[ppn], work);
		work->rows_read += work->units_moved != moved;
	}
	ftl_erase(ftl, chip, victim, work);
}

static void ftl_gc(struct flashsim_ftl *ftl, u32 chip,
		   struct flashsim_gc_work *work)
{
	struct flashsim_ftl_chip *c = &ftl->chips[chip];
	bool level = true;

	ftl->counters->gc_runs++;
	while (c->free < ftl->p->gc_high_blocks) {
		u32 victim = ftl_victim(ftl, chip, level);

		/* chip_valid_max ensures that there is always garbage. */
		if (WARN_ON_ONCE(victim == FLASHSIM_NONE))
			break;
		ftl_collect(ftl, chip, victim, work);
		level = false;
	}
}

/**
 * flashsim_ftl_write_row() - place units in the next row
 * @ftl: the mapping
 * @lpn: logical units
 * @n: how many, at most row_units; the rest of the row stays empty
 * @row: out: physical row, in units of rows since the start of the drive
 * @gc: in, out: the work of the garbage collections for this row is added to it
 *
 * Return: the chip that has to program the row.
 */
u32 flashsim_ftl_write_row(struct flashsim_ftl *ftl, const u32 *lpn, u32 n,
			   u32 *row, struct flashsim_gc_work *gc)
{
	struct flashsim_ftl_chip *c;
	u32 chip, first, i;

	/* Not all chips can be full: their limits add up to more than the disk. */
	for (i = 0; i < ftl->nr_chips; i++) {
		chip = ftl->next_chip;
		ftl->next_chip = (chip + 1) % ftl->nr_chips;
		if (ftl->chips[chip].valid + n <= ftl->chip_valid_max)
			break;
	}
	c = &ftl->chips[chip];
	if (c->user_block == FLASHSIM_NONE) {
		if (c->free <= ftl->p->gc_low_blocks)
			ftl_gc(ftl, chip, gc);
		c->user_block = ftl_open(ftl, chip, false);
		c->user_row = 0;
	}
	first = c->user_block * ftl->block_units +
		c->user_row * ftl->row_units;
	for (i = 0; i < n; i++)
		ftl_map(ftl, lpn[i], first + i);
	c->rows++;
	if (++c->user_row == ftl->p->pages_per_block) {
		ftl_close(ftl, chip, c->user_block);
		c->user_block = FLASHSIM_NONE;
	}
	*row = first / ftl->row_units;
	return chip;
}

/* Write all units that hold no data, in order. */
static void ftl_fill(struct flashsim_ftl *ftl)
{
	struct flashsim_gc_work work = {};
	u32 lpn[FLASHSIM_MAX_ROW_UNITS];
	u32 next = 0, k, row;

	while (next < ftl->nr_units) {
		for (k = 0; k < ftl->row_units && next < ftl->nr_units; next++)
			if (ftl->l2p[next] == FLASHSIM_NONE)
				lpn[k++] = next;
		if (k)
			flashsim_ftl_write_row(ftl, lpn, k, &row, &work);
	}
}

/**
 * flashsim_ftl_precondition() - age the mapping as random writes would
 * @ftl: the mapping
 * @seed: seed of the drive
 *
 * Overwrite random units until the fraction of valid units in the blocks has
 * settled. This takes no time in the emulated drive.
 */
void flashsim_ftl_precondition(struct flashsim_ftl *ftl, u64 seed)
{
	struct flashsim_gc_work work = {};
	u32 lpn[FLASHSIM_MAX_ROW_UNITS];
	u64 units = (u64)PRECONDITION_PASSES * ftl->nr_units;
	u64 n = 0;
	u32 k, row;

	/* The drive may have been trimmed. */
	ftl_fill(ftl);
	while (n < units) {
		for (k = 0; k < ftl->row_units; k++) {
			u64 r = flashsim_hash(seed ^ PRECONDITION_SALT, n++);

			lpn[k] = ((r >> 32) * ftl->nr_units) >> 32;
		}
		flashsim_ftl_write_row(ftl, lpn, k, &row, &work);
	}
}

/**
 * flashsim_ftl_wear() - get the state of a chip, for debugfs
 * @ftl: the mapping
 * @chip: the chip
 * @free: out: free blocks
 * @valid: out: valid units
 * @min_erases: out: erases of the least erased block
 * @max_erases: out: erases of the most erased block
 */
void flashsim_ftl_wear(const struct flashsim_ftl *ftl, u32 chip, u32 *free,
		       u32 *valid, u32 *min_erases, u32 *max_erases)
{
	u32 first = chip_first_block(ftl, chip);
	u32 b;

	*free = ftl->chips[chip].free;
	*valid = ftl->chips[chip].valid;
	*min_erases = U32_MAX;
	*max_erases = 0;
	for (b = first; b < first + ftl->chip_blocks; b++) {
		*min_erases = min(*min_erases, ftl->blocks[b].erases);
		*max_erases = max(*max_erases, ftl->blocks[b].erases);
	}
}

/**
 * flashsim_ftl_init() - create a mapping with the whole drive written once, in
 * order
 * @ftl: the mapping
 * @p: parameters, which must outlive it
 * @counters: counters, which must outlive it
 * @nr_units: exported size in units
 *
 * Return: 0, -ENOMEM, or -EINVAL if the geometry is invalid.
 */
int flashsim_ftl_init(struct flashsim_ftl *ftl, const struct flashsim_params *p,
		      struct flashsim_counters *counters, u32 nr_units)
{
	u64 share, spare, nr_blocks, nr_phys;
	u32 i;

	*ftl = (struct flashsim_ftl) {
		.p = p,
		.counters = counters,
		.nr_units = nr_units,
		.nr_chips = p->channels * p->chips_per_channel,
		.row_units = p->planes * p->page_kb / 4,
	};
	if (!is_power_of_2(p->page_kb)) {
		pr_err("flashsim: page_kb %u: must be 4, 8 or 16\n", p->page_kb);
		return -EINVAL;
	}
	if (p->gc_high_blocks <= p->gc_low_blocks) {
		pr_err("flashsim: gc_high_blocks %u: must be more than gc_low_blocks %u\n",
		       p->gc_high_blocks, p->gc_low_blocks);
		return -EINVAL;
	}
	ftl->block_units = ftl->row_units * p->pages_per_block;

	/*
	 * The blocks of a chip are its share of the disk and spare blocks. The spare share of a
	 * small drive may be too small for garbage collection (two open blocks, the high watermark,
	 * two blocks of slack between chips). It is then raised to this minimum.
	 */
	share = DIV_ROUND_UP_ULL(nr_units,
				 (u64)ftl->nr_chips * ftl->block_units);
	spare = max_t(u64, div_u64(share * p->overprovision_pct, 100),
		      p->gc_high_blocks + 6);
	nr_blocks = (share + spare) * ftl->nr_chips;
	nr_phys = nr_blocks * ftl->block_units;
	if (nr_phys >= U32_MAX) {
		pr_err("flashsim: flash of this geometry exceeds 16 TiB\n");
		return -EINVAL;
	}
	ftl->chip_blocks = share + spare;
	ftl->chip_valid_max = (ftl->chip_blocks - p->gc_high_blocks - 4) *
			      ftl->block_units;

	ftl->l2p = kvmalloc_array(nr_units, sizeof(u32), GFP_KERNEL);
	ftl->p2l = kvmalloc_array(nr_phys, sizeof(u32), GFP_KERNEL);
	ftl->blocks = kvcalloc(nr_blocks, sizeof(*ftl->blocks), GFP_KERNEL);
	ftl->chips = kvcalloc(ftl->nr_chips, sizeof(*ftl->chips), GFP_KERNEL);
	if (!ftl->l2p || !ftl->p2l || !ftl->blocks || !ftl->chips) {
		flashsim_ftl_destroy(ftl);
		return -ENOMEM;
	}
	memset(ftl->l2p, 0xff, nr_units * sizeof(u32));
	memset(ftl->p2l, 0xff, nr_phys * sizeof(u32));
	for (i = 0; i < ftl->nr_chips; i++) {
		ftl->chips[i].free = ftl->chip_blocks;
		ftl->chips[i].user_block = FLASHSIM_NONE;
		ftl->chips[i].gc_block = FLASHSIM_NONE;
		/* Stagger the chips, so that they do not all erase at once. */
		ftl->chips[i].slices = i * p->block_slices / ftl->nr_chips;
	}
	/* Drives in service are not empty. */
	ftl_fill(ftl);
	return 0;
}

/**
 * flashsim_ftl_destroy() - free a mapping
 * @ftl: the mapping
 */
void flashsim_ftl_destroy(struct flashsim_ftl *ftl)
{
	kvfree(ftl->l2p);
	kvfree(ftl->p2l);
	kvfree(ftl->blocks);
	kvfree(ftl->chips);
	ftl->l2p = NULL;
	ftl->p2l = NULL;
	ftl->blocks = NULL;
	ftl->chips = NULL;
}
