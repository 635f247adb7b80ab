/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: faults, by rule.
 */
#ifndef FLASHSIM_FAULT_H
#define FLASHSIM_FAULT_H

#include <linux/configfs.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>

struct flashsim_drive;
struct request;

/* What happens to an I/O that a rule hits. */
enum flashsim_fault {
	FLASHSIM_FAULT_DELAY,
	FLASHSIM_FAULT_BIT_FLIP,
	FLASHSIM_FAULT_ZEROS,
	FLASHSIM_FAULT_ONES,
	FLASHSIM_FAULT_MEDIUM_ERROR,
	FLASHSIM_FAULT_LOST_WRITE,
};

/* Which of its matches a rule hits. */
enum flashsim_frequency {
	FLASHSIM_FREQ_ALL,
	FLASHSIM_FREQ_ALL_AFTER,
	FLASHSIM_FREQ_INTERVAL,
};

/**
 * struct flashsim_range - sectors from @start to before @end
 * @start: first sector
 * @end: the one after the last
 */
struct flashsim_range {
	u64 start;
	u64 end;
};

/**
 * struct flashsim_rule_knobs - what a rule does; each a file in configfs
 * @op: mask of FLASHSIM_OP_*
 * @tag: I/O tag that matches; -1: any
 * @count: count requests (0) or 4 KiB blocks (1)
 * @frequency: which matches are hit: enum flashsim_frequency
 * @n: parameter of @frequency
 * @fault: what happens to them: enum flashsim_fault
 * @latency_us: for a delay
 * @offset: for a bit flip: which byte; -1: from the seed
 * @bit: for a bit flip: which bit; -1: from the seed
 */
struct flashsim_rule_knobs {
	s64 op;
	s64 tag;
	s64 count;
	s64 frequency;
	s64 n;
	s64 fault;
	s64 latency_us;
	s64 offset;
	s64 bit;
};

/**
 * struct flashsim_rule - a fault rule: a directory in configfs, see fault.c
 * @item: the directory
 * @list: place among the drive's rules, in the order they were made
 * @drive: the drive
 * @enabled: it looks at I/Os
 * @knobs: what it does
 * @ranges_mutex: serialises those who replace @ranges
 * @nr_ranges: ranges; 0: the whole disk
 * @ranges: sorted, and none touches the next
 * @matched: matches since the rule was enabled
 * @injected: hits among them
 */
struct flashsim_rule {
	struct config_item item;
	struct list_head list;
	struct flashsim_drive *drive;
	bool enabled;
	struct flashsim_rule_knobs knobs;
	struct mutex ranges_mutex; /* of writers; @drive->lock for readers */
	u32 nr_ranges;
	struct flashsim_range *ranges;
	u64 matched;
	u64 injected;
};

/**
 * struct flashsim_hit - damage to a part of a request
 * @sector: where the part begins
 * @offset: byte in the part where the damage begins
 * @len: bytes damaged
 * @mask: for a bit flip
 * @fault: which damage
 */
struct flashsim_hit {
	u64 sector;
	u32 offset;
	u32 len;
	u8 mask;
	u8 fault;
};

/**
 * struct flashsim_faults - what the rules decided about a request
 * @extra_ns: delay
 * @medium_error: it fails
 * @nr_hits: damaged parts
 * @max_hits: room for them
 * @hits: the parts
 */
struct flashsim_faults {
	u64 extra_ns;
	bool medium_error;
	u32 nr_hits;
	u32 max_hits;
	struct flashsim_hit *hits;
};

bool flashsim_faults_alloc(struct flashsim_faults *faults, u32 nr_rules,
			   u32 nr_units);
void flashsim_faults_free(struct flashsim_faults *faults);
void flashsim_faults_decide(struct list_head *rules, u64 seed,
			    struct request *rq, struct flashsim_faults *faults);
bool flashsim_faults_lost(const struct flashsim_faults *faults, u64 sector);
void flashsim_faults_damage(const struct flashsim_faults *faults, u8 *data,
			    u64 sector, u32 len);

#endif /* FLASHSIM_FAULT_H */
