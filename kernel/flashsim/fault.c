// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults by rule. Decide which I/Os are hit, and apply the effects.
 *
 * A rule defines its matches (kind of I/O, ranges of the disk, a tag), which of the matches are hit
 * (all; all after the first n; every n-th), and the fault. Each rule counts its own matches, so a
 * rule does the same on every run that presents the same I/Os.
 *
 * A rule counts requests, or the 4 KiB blocks that they touch. Counting
 * blocks makes a rule independent of how the block layer merged and split what an
 * application wrote, as long as the blocks come in the same order.
 *
 * The tag is the hint field of the I/O priority (bits 3 to 12), which an
 * application sets for itself with ioprio_set(2) or for one I/O in io_uring's
 * sqe->ioprio or libaio's aio_reqprio; it is passed with direct I/O down to here,
 * through file systems, too. The kernel defines the meaning of tags 0 to 7.
 *
 * Faults of a write damage the stored data permanently. Faults of a read damage
 * the returned data once; the stored data stay intact. In both cases only bytes
 * of the request that lie in the rule's ranges are changed.
 *
 *   delay          latency_us is added, as in inject.c
 *   bit_flip       one bit: byte `offset` of the part that is hit (modulo its
 *                  length), bit `bit`; either can be derived from the seed
 *   zeros, ones    all bits of the part
 *   medium_error   the whole request fails; a write stores nothing
 *   lost_write     the part is not stored, and the write reports success
 */
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "fault.h"
#include "flashsim.h"

#define FAULT_SALT	0x6661756c74ULL

/* Bits 3 to 12 of an I/O priority; kernels before 6.5 have no name for them. */
#define IOPRIO_TAG(prio)	(((prio) >> 3) & 0x3ff)

static const char * const fault_names[] = {
	[FLASHSIM_FAULT_DELAY] = "delay",
	[FLASHSIM_FAULT_BIT_FLIP] = "bit_flip",
	[FLASHSIM_FAULT_ZEROS] = "zeros",
	[FLASHSIM_FAULT_ONES] = "ones",
	[FLASHSIM_FAULT_MEDIUM_ERROR] = "medium_error",
	[FLASHSIM_FAULT_LOST_WRITE] = "lost_write",
};

static const char * const frequency_names[] = {
	[FLASHSIM_FREQ_ALL] = "all",
	[FLASHSIM_FREQ_ALL_AFTER] = "all_after",
	[FLASHSIM_FREQ_INTERVAL] = "interval",
};

static const char * const count_names[] = { "request", "block" };

#define op_names flashsim_op_names

/* The settings of a rule, at the offsets in struct flashsim_rule_settings. */
const struct flashsim_setting flashsim_rule_table[] = {
#define RULE_ENTRY(_name, _min, _max, _words)				\
	{								\
		.name	= "rule/" #_name,				\
		.offset	= offsetof(struct flashsim_rule_settings, _name), \
		.size	= sizeof(s64),					\
		.min	= _min,						\
		.max	= _max,						\
		.words	= _words,					\
	},
#define RULE(_name, _min, _max, _default)				\
	RULE_ENTRY(_name, _min, _max, NULL)
#define RULE_WORD(_name, _default)					\
	RULE_ENTRY(_name, 0, ARRAY_SIZE(_name##_names) - 1, _name##_names)
#include "settings.h"
};

/**
 * flashsim_rule_init() - make a rule with the default settings, not enabled
 * @rule: the rule
 */
void flashsim_rule_init(struct flashsim_rule *rule)
{
	*rule = (struct flashsim_rule) {
		.settings = {
#define RULE(_name, _min, _max, _default) ._name = _default,
#define RULE_WORD(_name, _default) ._name = _default,
#include "settings.h"
		},
	};
}

/**
 * flashsim_rule_enable() - apply a rule to I/Os, or no longer
 * @rule: the rule
 * @on: true to apply it; this resets its counters
 */
void flashsim_rule_enable(struct flashsim_rule *rule, bool on)
{
	if (on && !rule->enabled) {
		rule->matched = 0;
		rule->injected = 0;
	}
	rule->enabled = on;
}

/**
 * flashsim_ranges_insert() - insert a range, and merge it with adjacent ones
 * @ranges: sorted ranges, with room for another one
 * @n: number of ranges
 * @start: first sector
 * @end: the one after the last
 *
 * Return: the new number of ranges.
 */
u32 flashsim_ranges_insert(struct flashsim_range *ranges, u32 n, u64 start,
			   u64 end)
{
	u32 i = 0, j;

	while (i < n && ranges[i].end < start)
		i++;
	for (j = i; j < n && ranges[j].start <= end; j++) {
		start = min(start, ranges[j].start);
		end = max(end, ranges[j].end);
	}
	/* Ranges i to j - 1 become one. */
	memmove(ranges + i + 1, ranges + j, (n - j) * sizeof(*ranges));
	ranges[i].start = start;
	ranges[i].end = end;
	return n - (j - i) + 1;
}

/* Get the part of [@start, @end) in a range of the rule; return false if there is none. */
static bool rule_clip(const struct flashsim_rule *rule, u64 *start, u64 *end)
{
	u32 lo = 0, hi = rule->nr_ranges;

	if (!rule->nr_ranges)
		return true;
	/*
	 * Ranges are sorted and disjoint: find the first that ends after
	 * @start.
	 */
	while (lo < hi) {
		u32 mid = (lo + hi) / 2;

		if (rule->ranges[mid].end <= *start)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == rule->nr_ranges || rule->ranges[lo].start >= *end)
		return false;
	*start = max(*start, rule->ranges[lo].start);
	*end = min(*end, rule->ranges[lo].end);
	return true;
}

/* Count a match; return true if the rule hits it. */
static bool rule_next(struct flashsim_rule *rule)
{
	s64 n = ++rule->matched;
	u64 rest;

	switch (rule->settings.frequency) {
	case FLASHSIM_FREQ_ALL:
		return true;
	case FLASHSIM_FREQ_ALL_AFTER:
		return n > rule->settings.n;
	case FLASHSIM_FREQ_INTERVAL:
		div64_u64_rem(n, rule->settings.n, &rest);
		return !rest;
	}
	return false;
}

/* Record the effect of @rule on sectors [@start, @end). */
static void rule_hit(struct flashsim_rule *rule, struct flashsim_faults *faults,
		     u64 seed, u64 start, u64 end)
{
	const struct flashsim_rule_settings *settings = &rule->settings;
	struct flashsim_hit *hit;
	u32 len = (end - start) << SECTOR_SHIFT;
	u64 hash = flashsim_hash(seed ^ FAULT_SALT, rule->matched);

	rule->injected++;
	switch (settings->fault) {
	case FLASHSIM_FAULT_DELAY:
		faults->extra_ns += settings->latency_us * NSEC_PER_USEC;
		return;
	case FLASHSIM_FAULT_MEDIUM_ERROR:
		faults->medium_error = true;
		return;
	default:
		break;
	}
	if (faults->nr_hits == faults->max_hits)
		return;
	hit = &faults->hits[faults->nr_hits++];
	hit->fault = settings->fault;
	hit->sector = start;
	hit->offset = 0;
	hit->len = len;
	hit->mask = 0xff;
	if (settings->fault == FLASHSIM_FAULT_BIT_FLIP) {
		u32 byte = settings->offset < 0 ? hash >> 8 : settings->offset;
		u32 bit = settings->bit < 0 ? hash & 7 : settings->bit;

		hit->offset = byte % len;
		hit->len = 1;
		hit->mask = 1U << bit;
	}
}

/**
 * flashsim_faults_decide() - apply the rules to a request
 * @rules: the disk's rules; the caller holds the lock for them
 * @seed: seed of the disk
 * @io: a read or write
 * @faults: out: the effects on the request
 */
void flashsim_faults_decide(struct list_head *rules, u64 seed,
			    const struct flashsim_fault_io *io,
			    struct flashsim_faults *faults)
{
	u32 tag = IOPRIO_TAG(io->prio);
	struct flashsim_rule *rule;

	list_for_each_entry(rule, rules, list) {
		const struct flashsim_rule_settings *settings = &rule->settings;
		u64 pos;

		if (!rule->enabled || !(settings->op & io->op) ||
		    (settings->tag >= 0 && settings->tag != tag))
			continue;
		if (!settings->count) {
			u64 start = io->start, end = io->end;

			if (rule_clip(rule, &start, &end) && rule_next(rule))
				rule_hit(rule, faults, seed, start, end);
			continue;
		}
		for (pos = io->start; pos < io->end;) {
			u64 next = min(io->end, round_down(pos,
						FLASHSIM_UNIT_SECTORS) +
					     FLASHSIM_UNIT_SECTORS);
			u64 start = pos, end = next;

			if (rule_clip(rule, &start, &end) && rule_next(rule))
				rule_hit(rule, faults, seed, start, end);
			pos = next;
		}
	}
}

/**
 * flashsim_faults_alloc() - allocate memory for the effects of rules on a
 * request
 * @faults: out: initialised, without effects
 * @nr_rules: number of rules of the disk
 * @nr_units: number of units that the request touches
 *
 * Return: false if out of memory; may sleep.
 */
bool flashsim_faults_alloc(struct flashsim_faults *faults, u32 nr_rules,
			   u32 nr_units)
{
	*faults = (struct flashsim_faults) {};
	if (!nr_rules)
		return true;
	faults->max_hits = nr_rules * nr_units;
	faults->hits = kvmalloc_array(faults->max_hits, sizeof(*faults->hits),
				      GFP_NOIO);
	return faults->hits;
}

/**
 * flashsim_faults_free() - free the memory from flashsim_faults_alloc()
 * @faults: the effects
 */
void flashsim_faults_free(struct flashsim_faults *faults)
{
	kvfree(faults->hits);
}

/**
 * flashsim_faults_lost() - check whether a sector of a write is lost
 * @faults: the effects
 * @sector: the sector
 *
 * Return: true if it must not be stored.
 */
bool flashsim_faults_lost(const struct flashsim_faults *faults, u64 sector)
{
	u32 i;

	for (i = 0; i < faults->nr_hits; i++) {
		const struct flashsim_hit *hit = &faults->hits[i];

		if (hit->fault == FLASHSIM_FAULT_LOST_WRITE &&
		    sector >= hit->sector &&
		    sector < hit->sector + (hit->len >> SECTOR_SHIFT))
			return true;
	}
	return false;
}

/**
 * flashsim_faults_damage() - apply the effects to some bytes
 * @faults: the effects
 * @data: the bytes
 * @pos: position of the first on the disk
 * @len: their number
 */
void flashsim_faults_damage(const struct flashsim_faults *faults, u8 *data,
			    u64 pos, u32 len)
{
	u64 end_pos = pos + len;
	u32 i;

	for (i = 0; i < faults->nr_hits; i++) {
		const struct flashsim_hit *hit = &faults->hits[i];
		u64 start = (hit->sector << SECTOR_SHIFT) + hit->offset;
		u64 end = min(start + hit->len, end_pos);

		start = max(start, pos);
		if (start >= end)
			continue;
		switch (hit->fault) {
		case FLASHSIM_FAULT_BIT_FLIP:
			data[start - pos] ^= hit->mask;
			break;
		case FLASHSIM_FAULT_ZEROS:
			memset(data + (start - pos), 0x00, end - start);
			break;
		case FLASHSIM_FAULT_ONES:
			memset(data + (start - pos), 0xff, end - start);
			break;
		default:
			break;
		}
	}
}
