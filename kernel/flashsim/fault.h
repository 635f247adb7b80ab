/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: fault rules. */
#ifndef FLASHSIM_FAULT_H
#define FLASHSIM_FAULT_H

#include <linux/configfs.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>

struct flashsim_drive;
struct request;

/* The effect of a rule on an I/O that it hits. */
enum flashsim_fault {
	FLASHSIM_FAULT_DELAY,
	FLASHSIM_FAULT_BIT_FLIP,
	FLASHSIM_FAULT_ZEROS,
	FLASHSIM_FAULT_ONES,
	FLASHSIM_FAULT_MEDIUM_ERROR,
	FLASHSIM_FAULT_LOST_WRITE,
};

/* The matches that a rule hits. */
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
 * struct flashsim_rule_settings - see settings.h
 */
struct flashsim_rule_settings {
#define RULE(_name, ...) s64 _name;
#define RULE_WORD RULE
#include "settings.h"
};

/**
 * struct flashsim_rule - a fault rule: a directory in configfs, see fault.c
 * @item: the directory
 * @list: list of the drive's rules, in the order of their creation
 * @drive: the drive
 * @enabled: the rule is applied to I/Os
 * @settings: its settings
 * @ranges_mutex: serialises changes of @ranges
 * @nr_ranges: number of ranges; 0 for the whole disk
 * @ranges: sorted and not adjacent
 * @matched: matches since the rule was enabled
 * @injected: hits among them
 */
struct flashsim_rule {
	struct config_item item;
	struct list_head list;
	struct flashsim_drive *drive;
	bool enabled;
	struct flashsim_rule_settings settings;
	struct mutex ranges_mutex; /* taken by writers; readers take @drive->lock */
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
 * struct flashsim_faults - the effects of the rules on a request
 * @extra_ns: delay
 * @medium_error: the request fails
 * @nr_hits: number of damaged parts
 * @max_hits: capacity of @hits
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
