// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: /sys/block/<disk>/linnos, one file a setting or a counter.
 * Documented in Documentation/ABI/testing/sysfs-block-linnos. No decision is
 * made here.
 */
#include <linux/blkdev.h>
#include <linux/kobject.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/time64.h>

#include "blk-linnos-policy.h"

static struct blk_linnos *to_linnos(struct kobject *kobj)
{
	return container_of(kobj, struct blk_linnos, kobj);
}

static const char *const mode_names[] = {
	[LINNOS_OFF] = "off",
	[LINNOS_OBSERVE] = "observe",
	[LINNOS_ENFORCE] = "enforce",
};

static ssize_t mode_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *page)
{
	return sysfs_emit(page, "%s\n",
			  mode_names[READ_ONCE(to_linnos(kobj)->mode)]);
}

static ssize_t mode_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *page, size_t bytes)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	int mode = sysfs_match_string(mode_names, page);
	int ret;

	if (mode < 0)
		return mode;
	mutex_lock(&linnos->lock);
	ret = linnos_set_mode(linnos, mode);
	mutex_unlock(&linnos->lock);
	return ret ?: bytes;
}

static ssize_t model_id_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *page)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	struct linnos_active_model *active;
	ssize_t ret;

	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	if (active)
		ret = sysfs_emit(page, "%08x\n", active->id);
	else
		ret = sysfs_emit(page, "none\n");
	rcu_read_unlock();
	return ret;
}

static ssize_t model_kind_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *page)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	struct linnos_active_model *active;
	const char *kind = "none";

	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	if (active)
		kind = active->latency ? "latency" : "network";
	rcu_read_unlock();
	return sysfs_emit(page, "%s\n", kind);
}

static ssize_t threshold_us_show(struct kobject *kobj,
				 struct kobj_attribute *attr, char *page)
{
	u32 threshold_us = READ_ONCE(to_linnos(kobj)->threshold_us);

	return sysfs_emit(page, "%u\n",
			  threshold_us == LINNOS_NO_THRESHOLD ? 0 :
								threshold_us);
}

/* A number in decimal, @max at most; who reads it uses READ_ONCE(). */
static ssize_t linnos_store_number(const char *page, size_t bytes, u32 max,
				   u32 *number)
{
	u32 value;
	int ret = kstrtou32(page, 10, &value);

	if (ret)
		return ret;
	if (value > max)
		return -ERANGE;
	WRITE_ONCE(*number, value);
	return bytes;
}

#define LINNOS_NUMBER(_name, _max)                                           \
	static ssize_t _name##_show(struct kobject *kobj,                    \
				    struct kobj_attribute *attr, char *page) \
	{                                                                    \
		return sysfs_emit(page, "%u\n",                              \
				  READ_ONCE(to_linnos(kobj)->_name));        \
	}                                                                    \
	static ssize_t _name##_store(struct kobject *kobj,                   \
				     struct kobj_attribute *attr,            \
				     const char *page, size_t bytes)         \
	{                                                                    \
		return linnos_store_number(page, bytes, _max,                \
					   &to_linnos(kobj)->_name);         \
	}                                                                    \
	static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

LINNOS_NUMBER(probe_after_us, U32_MAX);
/* compared with an atomic_t */
LINNOS_NUMBER(probe_after_revokes, INT_MAX);
LINNOS_NUMBER(failover_us, USEC_PER_SEC);

static ssize_t stall_us_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *page)
{
	return sysfs_emit(page, "%u\n", READ_ONCE(to_linnos(kobj)->stall_us));
}

static ssize_t stall_us_store(struct kobject *kobj, struct kobj_attribute *attr,
			      const char *page, size_t bytes)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	u32 value;
	int ret = kstrtou32(page, 10, &value);

	if (ret)
		return ret;
	mutex_lock(&linnos->lock);
	WRITE_ONCE(linnos->stall_since_ns, ktime_get_ns());
	WRITE_ONCE(linnos->stall_us, value);
	linnos_set_watching(linnos);
	mutex_unlock(&linnos->lock);
	return bytes;
}

static ssize_t peers_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *page)
{
	return linnos_show_peers(to_linnos(kobj), page);
}

static ssize_t peers_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *page, size_t bytes)
{
	return linnos_set_peers(to_linnos(kobj), page) ?: bytes;
}

static ssize_t model_read(struct file *file, struct kobject *kobj,
			  struct bin_attribute *attr, char *buf, loff_t offset,
			  size_t bytes)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	struct linnos_active_model *active;
	size_t model_bytes;
	ssize_t ret = 0;
	u8 *image;

	image = kvmalloc(LINNOS_NETWORK_BYTES, GFP_KERNEL);
	if (!image)
		return -ENOMEM;
	mutex_lock(&linnos->lock);
	active = rcu_dereference_protected(linnos->model,
					   lockdep_is_held(&linnos->lock));
	if (active) {
		model_bytes = linnos_active_store(active, image);
		ret = memory_read_from_buffer(buf, bytes, &offset, image,
					      model_bytes);
	}
	mutex_unlock(&linnos->lock);
	kvfree(image);
	return ret;
}

static ssize_t model_write(struct file *file, struct kobject *kobj,
			   struct bin_attribute *attr, char *buf, loff_t offset,
			   size_t bytes)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	int ret;

	mutex_lock(&linnos->lock);
	if (offset > LINNOS_NETWORK_BYTES)
		ret = -EFBIG;
	else
		ret = linnos_upload_chunk(linnos, file, buf, offset, bytes);
	mutex_unlock(&linnos->lock);
	return ret ?: bytes;
}

/* An array of counters in a line, as the disk's own stat. */
static ssize_t latency_us_histogram_show(struct kobject *kobj,
					 struct kobj_attribute *attr,
					 char *page)
{
	struct blk_linnos *linnos = to_linnos(kobj);
	ssize_t at = 0;
	int i;

	/* 20 digits and a blank each at most: less than a page */
	for (i = 0; i < LINNOS_LATENCY_BUCKETS; i++)
		at += sysfs_emit_at(page, at, i ? " %llu" : "%llu",
				    linnos_stat(linnos,
						LINNOS_STAT_LATENCY + i));
	at += sysfs_emit_at(page, at, "\n");
	return at;
}

static_assert(LINNOS_LATENCY_BUCKETS * 21 < PAGE_SIZE);

static struct kobj_attribute mode_attr = __ATTR_RW(mode);
static struct kobj_attribute model_id_attr = __ATTR_RO(model_id);
static struct kobj_attribute model_kind_attr = __ATTR_RO(model_kind);
static struct kobj_attribute threshold_us_attr = __ATTR_RO(threshold_us);
static struct kobj_attribute stall_us_attr = __ATTR_RW(stall_us);
static struct kobj_attribute peers_attr = __ATTR_RW(peers);
static struct kobj_attribute latency_us_histogram_attr =
	__ATTR_RO(latency_us_histogram);
static struct bin_attribute model_attr =
	__BIN_ATTR(model, 0600, model_read, model_write, 0);

static struct attribute *linnos_attrs[] = {
	&mode_attr.attr,
	&model_id_attr.attr,
	&model_kind_attr.attr,
	&threshold_us_attr.attr,
	&probe_after_us_attr.attr,
	&probe_after_revokes_attr.attr,
	&stall_us_attr.attr,
	&peers_attr.attr,
	&failover_us_attr.attr,
	&latency_us_histogram_attr.attr,
	NULL,
};

static struct bin_attribute *linnos_bin_attrs[] = {
	&model_attr,
	NULL,
};

static const struct attribute_group linnos_group = {
	.attrs = linnos_attrs,
	.bin_attrs = linnos_bin_attrs,
};

struct stat_attribute {
	struct kobj_attribute attr;
	enum linnos_stat stat;
};

static ssize_t stat_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *page)
{
	struct stat_attribute *stat =
		container_of(attr, struct stat_attribute, attr);

	return sysfs_emit(page, "%llu\n",
			  linnos_stat(to_linnos(kobj), stat->stat));
}

#define STAT_ATTR(_stat, _name)                               \
	[_stat] = {                                           \
		.attr = __ATTR(_name, 0444, stat_show, NULL), \
		.stat = (_stat),                              \
	}

static struct stat_attribute stat_attrs[] = {
	STAT_ATTR(LINNOS_STAT_READS, reads),
	STAT_ATTR(LINNOS_STAT_LATENCY_CRITICAL, latency_critical),
	STAT_ATTR(LINNOS_STAT_ADMITTED, admitted),
	STAT_ATTR(LINNOS_STAT_REVOKED, revoked),
	STAT_ATTR(LINNOS_STAT_STALLED, stalled),
	STAT_ATTR(LINNOS_STAT_KEPT, kept),
	STAT_ATTR(LINNOS_STAT_EXPECTED_GAIN_US, expected_gain_us),
	STAT_ATTR(LINNOS_STAT_PROBES, probes),
	STAT_ATTR(LINNOS_STAT_SLOW, slow),
	STAT_ATTR(LINNOS_STAT_FALSE_SUBMITS, false_submits),
	STAT_ATTR(LINNOS_STAT_FALSE_REVOKES, false_revokes),
	STAT_ATTR(LINNOS_STAT_INFERENCES, inferences),
	STAT_ATTR(LINNOS_STAT_INFERENCE_NS, inference_ns),
};

static struct attribute *linnos_stat_attrs[] = {
	&stat_attrs[LINNOS_STAT_READS].attr.attr,
	&stat_attrs[LINNOS_STAT_LATENCY_CRITICAL].attr.attr,
	&stat_attrs[LINNOS_STAT_ADMITTED].attr.attr,
	&stat_attrs[LINNOS_STAT_REVOKED].attr.attr,
	&stat_attrs[LINNOS_STAT_STALLED].attr.attr,
	&stat_attrs[LINNOS_STAT_KEPT].attr.attr,
	&stat_attrs[LINNOS_STAT_EXPECTED_GAIN_US].attr.attr,
	&stat_attrs[LINNOS_STAT_PROBES].attr.attr,
	&stat_attrs[LINNOS_STAT_SLOW].attr.attr,
	&stat_attrs[LINNOS_STAT_FALSE_SUBMITS].attr.attr,
	&stat_attrs[LINNOS_STAT_FALSE_REVOKES].attr.attr,
	&stat_attrs[LINNOS_STAT_INFERENCES].attr.attr,
	&stat_attrs[LINNOS_STAT_INFERENCE_NS].attr.attr,
	NULL,
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

static void linnos_release(struct kobject *kobj)
{
	linnos_free(to_linnos(kobj));
}

const struct kobj_type linnos_ktype = {
	.default_groups = linnos_groups,
	.sysfs_ops = &kobj_sysfs_ops,
	.release = linnos_release,
};
