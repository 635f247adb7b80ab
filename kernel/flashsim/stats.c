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
#include "stats.h"

static struct dentry *stats_root;

#define COUNTER(name)	{ #name, offsetof(struct flashsim_counters, name) }

static const struct {
	const char *name;
	size_t offset;
} counter_table[] = {
	COUNTER(reads),
	COUNTER(writes),
	COUNTER(discards),
	COUNTER(cache_flushes),
	COUNTER(read_sectors),
	COUNTER(write_sectors),
	COUNTER(discard_sectors),
	COUNTER(injected_reads),
	COUNTER(injected_writes),
	COUNTER(faulted_reads),
	COUNTER(faulted_writes),
	COUNTER(buffer_hits),
	COUNTER(unmapped_reads),
	COUNTER(page_reads),
	COUNTER(page_programs),
	COUNTER(flushes),
	COUNTER(buffer_full_writes),
	COUNTER(gc_runs),
	COUNTER(gc_pages_moved),
	COUNTER(erases),
	COUNTER(block_erases),
	COUNTER(wear_moves),
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
