// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: /sys/block/<disk>/linnos, with one file per setting or counter. The files are
 * documented in Documentation/ABI/testing/sysfs-block-linnos. No decision is made here.
 */
#include <linux/blkdev.h>
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/time64.h>

#include "blk-linnos-policy.h"

/*
 * A file. If it has no @show and @store functions of its own, it is a u32 of at most @max at offset
 * @at of struct blk_linnos or, if @at is 0, it shows the counter @stat.
 */
struct linnos_file {
	struct attribute attr;
	ssize_t (*show)(struct blk_linnos *linnos, char *page);
	int (*store)(struct blk_linnos *linnos, const char *page);
	size_t at;
	u32 max;
	enum linnos_stat stat;
};

static struct blk_linnos *to_linnos(struct kobject *kobj)
{
	return container_of(kobj, struct blk_linnos, kobj);
}

static ssize_t linnos_file_show(struct kobject *kobj, struct attribute *attr,
				char *page)
{
	struct linnos_file *file = container_of(attr, struct linnos_file, attr);
	struct blk_linnos *linnos = to_linnos(kobj);
	u32 *number = (void *)linnos + file->at;

	if (file->show)
		return file->show(linnos, page);
	if (file->at)
		return sysfs_emit(page, "%u\n", READ_ONCE(*number));
	return sysfs_emit(page, "%llu\n", linnos_stat(linnos, file->stat));
}

static ssize_t linnos_file_store(struct kobject *kobj, struct attribute *attr,
				 const char *page, size_t bytes)
{
	struct linnos_file *file = container_of(attr, struct linnos_file, attr);
	struct blk_linnos *linnos = to_linnos(kobj);
	u32 *number = (void *)linnos + file->at;
	u32 value;
	int ret;

	if (file->store)
		return file->store(linnos, page) ?: bytes;
	ret = kstrtou32(page, 10, &value);
	if (ret)
		return ret;
	if (value > file->max)
		return -ERANGE;
	WRITE_ONCE(*number, value);
	return bytes;
}

static const char *const mode_names[] = {
	[LINNOS_OFF] = "off",
	[LINNOS_OBSERVE] = "observe",
	[LINNOS_ENFORCE] = "enforce",
};

static ssize_t mode_show(struct blk_linnos *linnos, char *page)
{
	return sysfs_emit(page, "%s\n", mode_names[READ_ONCE(linnos->mode)]);
}

static int mode_store(struct blk_linnos *linnos, const char *page)
{
	int mode = sysfs_match_string(mode_names, page);

	if (mode < 0)
		return mode;
	guard(mutex)(&linnos->lock);
	return linnos_set_mode(linnos, mode);
}

static ssize_t model_id_show(struct blk_linnos *linnos, char *page)
{
	struct linnos_model *active;

	guard(rcu)();
	active = rcu_dereference(linnos->model);
	if (!active)
		return sysfs_emit(page, "none\n");
	return sysfs_emit(page, "%08x\n", active->id);
}

static ssize_t model_kind_show(struct blk_linnos *linnos, char *page)
{
	struct linnos_model *active;

	guard(rcu)();
	active = rcu_dereference(linnos->model);
	return sysfs_emit(page, "%s\n",
			  !active	  ? "none" :
			  active->latency ? "latency" :
					    "network");
}

static ssize_t threshold_us_show(struct blk_linnos *linnos, char *page)
{
	u32 us = READ_ONCE(linnos->threshold_us);

	return sysfs_emit(page, "%u\n", us == LINNOS_NO_THRESHOLD ? 0 : us);
}

/* Print all counters in one line, as in the stat file of the disk. */
static ssize_t latency_us_histogram_show(struct blk_linnos *linnos, char *page)
{
	ssize_t at = 0;
	int i;

	/* at most 20 digits and a blank per bucket */
	static_assert(LINNOS_LATENCY_BUCKETS * 21 < PAGE_SIZE);
	for (i = 0; i < LINNOS_LATENCY_BUCKETS; i++)
		at += sysfs_emit_at(page, at, i ? " %llu" : "%llu",
				    linnos_stat(linnos,
						LINNOS_STAT_LATENCY + i));
	return at + sysfs_emit_at(page, at, "\n");
}

/* In kernels newer than 6.12, binary attributes are constant. */
typedef typeof(**((struct attribute_group *)0)->bin_attrs) linnos_bin_attr;

static ssize_t model_read(struct file *file, struct kobject *kobj,
			  linnos_bin_attr *attr, char *buf, loff_t offset,
			  size_t bytes)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	struct linnos_model *active;
	ssize_t ret = 0;
	u8 *image;

	image = kvmalloc(LINNOS_MODEL_BYTES_MAX, GFP_KERNEL);
	if (!image)
		return -ENOMEM;
	mutex_lock(&linnos->lock);
	active = rcu_dereference_protected(linnos->model,
					   lockdep_is_held(&linnos->lock));
	if (active)
		ret = memory_read_from_buffer(buf, bytes, &offset, image,
					      linnos_model_store(active,
								 image));
	mutex_unlock(&linnos->lock);
	kvfree(image);
	return ret;
}

static ssize_t model_write(struct file *file, struct kobject *kobj,
			   linnos_bin_attr *attr, char *buf, loff_t offset,
			   size_t bytes)
{
	struct blk_linnos *linnos = to_linnos(kobj);

	if (offset > LINNOS_MODEL_BYTES_MAX)
		return -EFBIG;
	guard(mutex)(&linnos->lock);
	return linnos_upload_chunk(linnos, file, buf, offset, bytes) ?: bytes;
}

static BIN_ATTR_ADMIN_RW(model, 0);

static linnos_bin_attr *linnos_bin_attrs[] = {
	&bin_attr_model,
	NULL,
};

#define LINNOS_FILE(_name, _mode, ...)                                      \
	(&((struct linnos_file){ .attr = { .name = #_name, .mode = _mode }, \
				 __VA_ARGS__ })                             \
		  .attr)
#define NUMBER(_name, _at, _max, ...)                                    \
	LINNOS_FILE(_name, 0644, .at = offsetof(struct blk_linnos, _at), \
		    .max = (_max), __VA_ARGS__)
#define STAT(_name, _stat) LINNOS_FILE(_name, 0444, .stat = LINNOS_STAT_##_stat)

static struct attribute *linnos_attrs[] = {
	LINNOS_FILE(mode, 0644, .show = mode_show, .store = mode_store),
	LINNOS_FILE(model_id, 0444, .show = model_id_show),
	LINNOS_FILE(model_kind, 0444, .show = model_kind_show),
	LINNOS_FILE(threshold_us, 0444, .show = threshold_us_show),
	NUMBER(probe_after_us, drive.probe_after_us, U32_MAX),
	/* compared with an atomic_t */
	NUMBER(probe_after_revokes, drive.probe_after_refused, INT_MAX),
	NUMBER(failover_us, failover_us, USEC_PER_SEC),
	LINNOS_FILE(latency_us_histogram, 0444,
		    .show = latency_us_histogram_show),
	NULL,
};

static struct attribute *linnos_stat_attrs[] = {
	STAT(reads, READS),
#ifdef CONFIG_BLK_LATCRIT
	STAT(latency_critical, LATENCY_CRITICAL),
	STAT(admitted, ADMITTED),
	STAT(revoked, REVOKED),
	STAT(false_submits, FALSE_SUBMITS),
	STAT(false_revokes, FALSE_REVOKES),
#endif
	STAT(probes, PROBES),
	STAT(slow, SLOW),
	STAT(inferences, INFERENCES),
	STAT(inference_ns, INFERENCE_NS),
	NULL,
};

static const struct attribute_group linnos_group = {
	.attrs = linnos_attrs,
	.bin_attrs = linnos_bin_attrs,
};

static const struct attribute_group linnos_stat_group = {
	.name = "stats",
	.attrs = linnos_stat_attrs,
};

static const struct attribute_group *linnos_groups[] = {
	&linnos_group,
	&linnos_stat_group,
	NULL,
};

static const struct sysfs_ops linnos_sysfs_ops = {
	.show = linnos_file_show,
	.store = linnos_file_store,
};

static void linnos_release(struct kobject *kobj)
{
	linnos_free(to_linnos(kobj));
}

const struct kobj_type linnos_ktype = {
	.default_groups = linnos_groups,
	.sysfs_ops = &linnos_sysfs_ops,
	.release = linnos_release,
};
