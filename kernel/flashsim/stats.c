// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: debugfs. /sys/kernel/debug/flashsim/<name>
 *
 *  counters   operations since the drive was switched on, `name value` per line
 *  state      the present state of the model: buffer, then one line per chip
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "drive.h"

static struct dentry *stats_root;

static const struct {
	const char *name;
	size_t offset;
} counter_table[] = {
#define COUNTER(_name) \
	{ #_name, offsetof(struct flashsim_counters, _name) },
#include "settings.h"
};

static int counters_show(struct seq_file *s, void *unused)
{
	struct flashsim_drive *drive = s->private;
	struct flashsim_counters c;
	int i;

	spin_lock_irq(&drive->lock);
	c = drive->counters;
	spin_unlock_irq(&drive->lock);
	for (i = 0; i < ARRAY_SIZE(counter_table); i++)
		seq_printf(s, "%s %llu\n", counter_table[i].name,
			   *(u64 *)((char *)&c + counter_table[i].offset));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

static int state_show(struct seq_file *s, void *unused)
{
	struct flashsim_drive *drive = s->private;

	mutex_lock(&drive->model_mutex);
	spin_lock_irq(&drive->lock);
	flashsim_model_advance(drive->model, flashsim_now(&drive->clock));
	flashsim_model_show(drive->model, s);
	spin_unlock_irq(&drive->lock);
	mutex_unlock(&drive->model_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(state);

/**
 * flashsim_stats_add() - create the directory of a drive that was switched on
 * @drive: the drive
 */
void flashsim_stats_add(struct flashsim_drive *drive)
{
	drive->debugfs = debugfs_create_dir(drive->disk->disk_name, stats_root);
	debugfs_create_file("counters", 0444, drive->debugfs, drive,
			    &counters_fops);
	debugfs_create_file("state", 0444, drive->debugfs, drive, &state_fops);
}

/**
 * flashsim_stats_remove() - remove the directory before the drive is switched
 * off
 * @drive: the drive
 */
void flashsim_stats_remove(struct flashsim_drive *drive)
{
	debugfs_remove_recursive(drive->debugfs);
	drive->debugfs = NULL;
}

/**
 * flashsim_stats_init() - create the driver's directory
 */
void flashsim_stats_init(void)
{
	stats_root = debugfs_create_dir("flashsim", NULL);
}

/**
 * flashsim_stats_exit() - remove it
 */
void flashsim_stats_exit(void)
{
	debugfs_remove_recursive(stats_root);
}
