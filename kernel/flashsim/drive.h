/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: a drive, with the state that configfs (config.c), the disk (disk.c)
 * and debugfs (stats.c) share.
 */
#ifndef FLASHSIM_DRIVE_H
#define FLASHSIM_DRIVE_H

#include <linux/atomic.h>
#include <linux/blk-mq.h>
#include <linux/configfs.h>
#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "inject.h"
#include "model.h"
#include "profile.h"
#include "store.h"

/**
 * struct flashsim_drive - one drive: a directory in configfs, and its disk
 * @group: the directory
 * @inject_group: its subdirectory inject
 * @rules_group: its subdirectory rules
 * @profile: name of the profile chosen last
 * @params: parameters, fixed while powered
 * @power: true if the disk exists; changes under config_mutex
 * @lock: protects the members below that change during I/O
 * @model_mutex: held during work on the model that is too long for @lock
 * @clock: the drive's clock
 * @in_flight: requests in the drive
 * @inject: injection
 * @rules: fault rules
 * @nr_rules: number of fault rules
 * @counters: counters
 * @model: time and space of the drive
 * @timer: advances the model while requests wait for it
 * @store: data
 * @tag_set: block layer tags
 * @disk: the disk
 * @debugfs: its directory in debugfs
 *
 * The other members are settings, see settings.h.
 */
struct flashsim_drive {
	struct config_group group;
	struct config_group inject_group;
	struct config_group rules_group;
	char profile[FLASHSIM_PROFILE_NAME];
	struct flashsim_params params;
#define DRIVE(_type, _name, ...) _type _name;
#include "settings.h"
	bool power;

	/* Taken in interrupts: the model, injection, counters. */
	spinlock_t lock;
	/* Taken before lock, for work on the model that is too long for it. */
	struct mutex model_mutex;
	struct flashsim_clock clock;
	atomic_t in_flight;
	struct flashsim_inject inject;
	struct list_head rules;
	u32 nr_rules;
	struct flashsim_counters counters;
	struct flashsim_model *model;
	struct hrtimer timer;
	struct flashsim_store store;
	struct blk_mq_tag_set tag_set;
	struct gendisk *disk;
	struct dentry *debugfs;
};

/* disk.c */
int flashsim_power_on(struct flashsim_drive *drive);
void flashsim_power_off(struct flashsim_drive *drive);
void flashsim_precondition(struct flashsim_drive *drive);

/* stats.c */
void flashsim_stats_init(void);
void flashsim_stats_exit(void);
void flashsim_stats_add(struct flashsim_drive *drive);
void flashsim_stats_remove(struct flashsim_drive *drive);

#endif /* FLASHSIM_DRIVE_H */
