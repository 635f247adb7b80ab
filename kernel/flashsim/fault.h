/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fault rules: which I/Os of a disk are hit, and what happens to them. Emulated drives (config.c,
 * disk.c) and the device-mapper target (module/dm-faults.c) use them.
 */
#ifndef FLASHSIM_FAULT_H
#define FLASHSIM_FAULT_H

#include <linux/list.h>
#include <linux/types.h>

#include "setting.h"

/* Every rule is checked for every I/O, under a spinlock. */
#define FLASHSIM_MAX_RULES	16

/* A mebibyte for each rule. */
#define FLASHSIM_MAX_RANGES	65536

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

/* Index of each setting in flashsim_rule_table. */
enum flashsim_rule_setting {
#define RULE(_name, ...) FLASHSIM_RULE_##_name,
#define RULE_WORD RULE
#include "settings.h"
	FLASHSIM_NR_RULE_SETTINGS
};

/**
 * struct flashsim_rule - a fault rule, see fault.c
 * @list: list of the disk's rules, in the order of their creation
 * @enabled: the rule is applied to I/Os
 * @settings: its settings
 * @nr_ranges: number of ranges; 0 for the whole disk
 * @ranges: sorted and not adjacent
 * @matched: matches since the rule was enabled
 * @injected: hits among them
 *
 * The owner of the disk's rules has a lock for all of this.
 */
struct flashsim_rule {
	struct list_head list;
	bool enabled;
	struct flashsim_rule_settings settings;
	u32 nr_ranges;
	struct flashsim_range *ranges;
	u64 matched;
	u64 injected;
};

/**
 * struct flashsim_fault_io - the properties of an I/O that rules use
 * @op: FLASHSIM_OP_READ or FLASHSIM_OP_WRITE
 * @prio: I/O priority, which contains the tag
 * @start: first sector
 * @end: the one after the last
 */
struct flashsim_fault_io {
	u32 op;
	u16 prio;
	u64 start;
	u64 end;
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

extern const struct flashsim_setting flashsim_rule_table[];

void flashsim_rule_init(struct flashsim_rule *rule);
void flashsim_rule_enable(struct flashsim_rule *rule, bool on);
u32 flashsim_ranges_insert(struct flashsim_range *ranges, u32 n, u64 start,
			   u64 end);

bool flashsim_faults_alloc(struct flashsim_faults *faults, u32 nr_rules,
			   u32 nr_units);
void flashsim_faults_free(struct flashsim_faults *faults);
void flashsim_faults_decide(struct list_head *rules, u64 seed,
			    const struct flashsim_fault_io *io,
			    struct flashsim_faults *faults);
bool flashsim_faults_lost(const struct flashsim_faults *faults, u64 sector);
void flashsim_faults_damage(const struct flashsim_faults *faults, u8 *data,
			    u64 pos, u32 len);

#endif /* FLASHSIM_FAULT_H */
