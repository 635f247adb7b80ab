// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: configfs. Create drives and set their parameters.
 *
 *  mkdir /sys/kernel/config/flashsim/flash0
 *  echo consumer > .../flash0/profile
 *  echo 1 > .../flash0/power              now /dev/flash0 exists
 *  echo 1 > .../flash0/precondition
 *  echo continuous > .../flash0/inject/pattern
 *  echo 1 > .../flash0/inject/arm
 *
 * Parameters can be changed while the drive is off, injection at any time. The
 * subdirectory rules is implemented in rules.c.
 */
#include <linux/module.h>
#include <linux/string.h>

#include "config.h"
#include "disk.h"
#include "drive.h"
#include "flashsim.h"
#include "rules.h"

#define DEFAULT_PROFILE		"enterprise"
#define DEFAULT_SIZE_MB		1024
/* 1 TiB. The mapping's 32-bit numbers would allow 16 times as much. */
#define MAX_SIZE_MB		BIT(20)
/* The widest design among the sources of profile.c. */
#define MAX_CHANNELS		32U

/* Protects power and everything that can only change while it is off. */
static DEFINE_MUTEX(config_mutex);

static struct flashsim_drive *to_drive(struct config_item *item)
{
	return container_of(to_config_group(item), struct flashsim_drive,
			    group);
}

static struct flashsim_drive *inject_to_drive(struct config_item *item)
{
	return container_of(to_config_group(item), struct flashsim_drive,
			    inject_group);
}

/* Set a 32-bit parameter within bounds, on a drive that is off. */
static ssize_t store_param(struct flashsim_drive *drive, const char *name,
			   const char *page, size_t count, u32 *field, u32 min,
			   u32 max)
{
	ssize_t ret = count;
	u32 value;

	if (kstrtou32(page, 0, &value) || value < min || value > max) {
		pr_err("flashsim: %s: must be %u to %u\n", name, min, max);
		return -EINVAL;
	}
	mutex_lock(&config_mutex);
	if (drive->power)
		ret = -EBUSY;
	else
		*field = value;
	mutex_unlock(&config_mutex);
	return ret;
}

#define DRIVE_PARAM(_name, _min, _max)					\
static u32 *drive_##_name##_field(struct config_item *item)		\
{									\
	return &to_drive(item)->params._name;				\
}									\
static ssize_t drive_##_name##_show(struct config_item *item,		\
				    char *page)				\
{									\
	return sysfs_emit(page, "%u\n", *drive_##_name##_field(item));	\
}									\
static ssize_t drive_##_name##_store(struct config_item *item,		\
				     const char *page, size_t count)	\
{									\
	return store_param(to_drive(item), #_name, page, count,		\
			   drive_##_name##_field(item), _min, _max);	\
}									\
static struct configfs_attribute drive_attr_##_name = {			\
	.ca_name	= #_name,					\
	.ca_mode	= 0644,						\
	.ca_owner	= THIS_MODULE,					\
	.show		= drive_##_name##_show,				\
	.store		= drive_##_name##_store,			\
}

/* Name, minimum and maximum of the values that make sense. */
DRIVE_PARAM(channels, 1, MAX_CHANNELS);
DRIVE_PARAM(chips_per_channel, 1, 16);
DRIVE_PARAM(planes, 1, 4);
DRIVE_PARAM(page_kb, 4, 16);
DRIVE_PARAM(pages_per_block, 2, 4096);
DRIVE_PARAM(block_slices, 1, 4096);
DRIVE_PARAM(page_read_ns, 1000, 10000000);
DRIVE_PARAM(page_program_ns, 1000, 100000000);
DRIVE_PARAM(block_erase_ns, 1000, 1000000000);
DRIVE_PARAM(page_spread_pct, 0, 90);
DRIVE_PARAM(program_suspend_ns, 0, 100000000);
DRIVE_PARAM(erase_suspend_ns, 0, 1000000000);
DRIVE_PARAM(channel_transfer_ns, 0, 10000000);
DRIVE_PARAM(controller_ns, 0, 10000000);
DRIVE_PARAM(buffer_ns, 0, 10000000);
DRIVE_PARAM(host_transfer_ns, 0, 10000000);
/* The largest request must fit in addition to the data being programmed. */
DRIVE_PARAM(buffer_mb, 2, 4096);
DRIVE_PARAM(buffer_watermark_pct, 1, 100);
DRIVE_PARAM(flush_interval_us, 100, 60000000);
DRIVE_PARAM(volatile_cache, 0, 1);
DRIVE_PARAM(overprovision_pct, 1, 200);
DRIVE_PARAM(gc_low_blocks, 1, 64);
DRIVE_PARAM(gc_high_blocks, 2, 128);
DRIVE_PARAM(gc_policy, 0, 1);
DRIVE_PARAM(wear_delta, 1, 1000000);
DRIVE_PARAM(reads_ahead, 0, 1000000);
DRIVE_PARAM(queue_depth, 1, 8192);

static ssize_t drive_size_mb_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%u\n", to_drive(item)->size_mb);
}

static ssize_t drive_size_mb_store(struct config_item *item, const char *page,
				   size_t count)
{
	struct flashsim_drive *drive = to_drive(item);

	return store_param(drive, "size_mb", page, count, &drive->size_mb, 1,
			   MAX_SIZE_MB);
}
CONFIGFS_ATTR(drive_, size_mb);

static ssize_t drive_seed_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%llu\n", to_drive(item)->seed);
}

static ssize_t drive_seed_store(struct config_item *item, const char *page,
				size_t count)
{
	struct flashsim_drive *drive = to_drive(item);
	ssize_t ret = count;
	u64 value;

	if (kstrtou64(page, 0, &value))
		return -EINVAL;
	mutex_lock(&config_mutex);
	if (drive->power)
		ret = -EBUSY;
	else
		drive->seed = value;
	mutex_unlock(&config_mutex);
	return ret;
}
CONFIGFS_ATTR(drive_, seed);

static ssize_t drive_profile_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", to_drive(item)->profile);
}

static int set_profile(struct flashsim_drive *drive, const char *name)
{
	const struct flashsim_profile *profile = flashsim_find_profile(name);

	if (!profile) {
		pr_err("flashsim: no profile %s\n", name);
		return -EINVAL;
	}
	strscpy(drive->profile, name, sizeof(drive->profile));
	drive->params = profile->params;
	return 0;
}

static ssize_t drive_profile_store(struct config_item *item, const char *page,
				   size_t count)
{
	struct flashsim_drive *drive = to_drive(item);
	char buf[FLASHSIM_PROFILE_NAME];
	int err = -EBUSY;

	if (strscpy(buf, page, sizeof(buf)) < 0)
		return -EINVAL;
	mutex_lock(&config_mutex);
	if (!drive->power)
		err = set_profile(drive, strim(buf));
	mutex_unlock(&config_mutex);
	return err ? err : count;
}
CONFIGFS_ATTR(drive_, profile);

static ssize_t drive_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", to_drive(item)->power);
}

static ssize_t drive_power_store(struct config_item *item, const char *page,
				 size_t count)
{
	struct flashsim_drive *drive = to_drive(item);
	int err = 0;
	bool on;

	if (kstrtobool(page, &on))
		return -EINVAL;
	mutex_lock(&config_mutex);
	if (on && !drive->power)
		err = flashsim_power_on(drive);
	else if (!on && drive->power)
		flashsim_power_off(drive);
	if (!err)
		drive->power = on;
	mutex_unlock(&config_mutex);
	return err ? err : count;
}
CONFIGFS_ATTR(drive_, power);

static ssize_t drive_precondition_store(struct config_item *item,
					const char *page, size_t count)
{
	struct flashsim_drive *drive = to_drive(item);
	ssize_t ret = count;
	bool on;

	if (kstrtobool(page, &on) || !on)
		return -EINVAL;
	mutex_lock(&config_mutex);
	if (drive->power)
		flashsim_precondition(drive);
	else
		ret = -ENODEV;
	mutex_unlock(&config_mutex);
	return ret;
}
CONFIGFS_ATTR_WO(drive_, precondition);

static struct configfs_attribute *drive_attrs[] = {
	&drive_attr_profile,
	&drive_attr_size_mb,
	&drive_attr_seed,
	&drive_attr_channels,
	&drive_attr_chips_per_channel,
	&drive_attr_planes,
	&drive_attr_page_kb,
	&drive_attr_pages_per_block,
	&drive_attr_block_slices,
	&drive_attr_page_read_ns,
	&drive_attr_page_program_ns,
	&drive_attr_block_erase_ns,
	&drive_attr_page_spread_pct,
	&drive_attr_program_suspend_ns,
	&drive_attr_erase_suspend_ns,
	&drive_attr_channel_transfer_ns,
	&drive_attr_controller_ns,
	&drive_attr_buffer_ns,
	&drive_attr_host_transfer_ns,
	&drive_attr_buffer_mb,
	&drive_attr_buffer_watermark_pct,
	&drive_attr_flush_interval_us,
	&drive_attr_volatile_cache,
	&drive_attr_overprovision_pct,
	&drive_attr_gc_low_blocks,
	&drive_attr_gc_high_blocks,
	&drive_attr_gc_policy,
	&drive_attr_wear_delta,
	&drive_attr_reads_ahead,
	&drive_attr_queue_depth,
	&drive_attr_power,
	&drive_attr_precondition,
	NULL,
};

/* ---- inject/ ---- */

static const char * const pattern_names[] = {
	[FLASHSIM_INJECT_NONE] = "none",
	[FLASHSIM_INJECT_ALL] = "all",
	[FLASHSIM_INJECT_RANDOM] = "random",
	[FLASHSIM_INJECT_CONTINUOUS] = "continuous",
	[FLASHSIM_INJECT_INTERVAL] = "interval",
};

static const char * const shape_names[] = {
	[FLASHSIM_INJECT_CONSTANT] = "constant",
	[FLASHSIM_INJECT_RAMP] = "ramp",
	[FLASHSIM_INJECT_QUEUE] = "queue",
	[FLASHSIM_INJECT_PARETO] = "pareto",
};

static const char * const op_names[] = {
	[FLASHSIM_OP_READ] = "read",
	[FLASHSIM_OP_WRITE] = "write",
	[FLASHSIM_OP_READ | FLASHSIM_OP_WRITE] = "both",
};

/* Unlike sysfs_match_string(), this continues after a number without a name. */
static int find_name(const char * const *names, int n, const char *page)
{
	int i;

	for (i = 0; i < n; i++)
		if (names[i] && sysfs_streq(page, names[i]))
			return i;
	return -EINVAL;
}

#define INJECT_NAME(_name)						\
static ssize_t inject_##_name##_show(struct config_item *item,		\
				     char *page)			\
{									\
	return sysfs_emit(page, "%s\n",					\
			  _name##_names[inject_to_drive(item)->inject._name]); \
}									\
static ssize_t inject_##_name##_store(struct config_item *item,		\
				      const char *page, size_t count)	\
{									\
	struct flashsim_drive *drive = inject_to_drive(item);		\
	int i = find_name(_name##_names, ARRAY_SIZE(_name##_names), page); \
									\
	if (i < 0)							\
		return i;						\
	spin_lock_irq(&drive->lock);					\
	drive->inject._name = i;					\
	spin_unlock_irq(&drive->lock);					\
	return count;							\
}									\
CONFIGFS_ATTR(inject_, _name)

INJECT_NAME(pattern);
INJECT_NAME(shape);
INJECT_NAME(op);

static ssize_t store_inject(struct flashsim_drive *drive, const char *name,
			    const char *page, size_t count, u64 *field, u64 min,
			    u64 max)
{
	u64 value;

	if (kstrtou64(page, 0, &value) || value < min || value > max) {
		pr_err("flashsim: inject/%s: must be %llu to %llu\n", name, min,
		       max);
		return -EINVAL;
	}
	spin_lock_irq(&drive->lock);
	*field = value;
	spin_unlock_irq(&drive->lock);
	return count;
}

#define INJECT_NUMBER(_name, _min, _max)				\
static u64 *inject_##_name##_field(struct config_item *item)		\
{									\
	return &inject_to_drive(item)->inject._name;			\
}									\
static ssize_t inject_##_name##_show(struct config_item *item,		\
				     char *page)			\
{									\
	return sysfs_emit(page, "%llu\n",				\
			  *inject_##_name##_field(item));		\
}									\
static ssize_t inject_##_name##_store(struct config_item *item,		\
				      const char *page, size_t count)	\
{									\
	return store_inject(inject_to_drive(item), #_name, page, count,	\
			    inject_##_name##_field(item), _min, _max);	\
}									\
static struct configfs_attribute inject_attr_##_name = {		\
	.ca_name	= #_name,					\
	.ca_mode	= 0644,						\
	.ca_owner	= THIS_MODULE,					\
	.show		= inject_##_name##_show,			\
	.store		= inject_##_name##_store,			\
}

INJECT_NUMBER(ratio_ppm, 0, 1000000);
INJECT_NUMBER(period_ios, 1, U32_MAX);
INJECT_NUMBER(interval, 1, U32_MAX);
INJECT_NUMBER(latency_us, 0, FLASHSIM_INJECT_MAX_US);
INJECT_NUMBER(at_depth, 1, U16_MAX);
INJECT_NUMBER(tail_milli, 500, 100000);
INJECT_NUMBER(region_sector, 0, U64_MAX);
INJECT_NUMBER(region_sectors, 0, U64_MAX);
INJECT_NUMBER(window_start_us, 0, U64_MAX / NSEC_PER_USEC);
INJECT_NUMBER(window_us, 0, U64_MAX / NSEC_PER_USEC);
INJECT_NUMBER(window_every_us, 0, U64_MAX / NSEC_PER_USEC);
INJECT_NUMBER(window_turns, 1, FLASHSIM_INJECT_MAX_TURNS);
INJECT_NUMBER(window_turn_mask, 0, U64_MAX);

static ssize_t inject_arm_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", inject_to_drive(item)->inject.armed);
}

static ssize_t inject_arm_store(struct config_item *item, const char *page,
				size_t count)
{
	struct flashsim_drive *drive = inject_to_drive(item);
	bool on;
	int err;

	if (kstrtobool(page, &on))
		return -EINVAL;
	spin_lock_irq(&drive->lock);
	err = flashsim_inject_arm(&drive->inject, on,
				  flashsim_now(&drive->clock));
	spin_unlock_irq(&drive->lock);
	return err ? err : count;
}
CONFIGFS_ATTR(inject_, arm);

static struct configfs_attribute *inject_attrs[] = {
	&inject_attr_pattern,
	&inject_attr_shape,
	&inject_attr_ratio_ppm,
	&inject_attr_period_ios,
	&inject_attr_interval,
	&inject_attr_latency_us,
	&inject_attr_at_depth,
	&inject_attr_tail_milli,
	&inject_attr_region_sector,
	&inject_attr_region_sectors,
	&inject_attr_op,
	&inject_attr_window_start_us,
	&inject_attr_window_us,
	&inject_attr_window_every_us,
	&inject_attr_window_turns,
	&inject_attr_window_turn_mask,
	&inject_attr_arm,
	NULL,
};

static const struct config_item_type inject_type = {
	.ct_attrs	= inject_attrs,
	.ct_owner	= THIS_MODULE,
};

/* ---- drives ---- */

/* The last reference may be that of a disk that is still open. */
static void drive_release(struct config_item *item)
{
	kfree(to_drive(item));
}

static struct configfs_item_operations drive_item_ops = {
	.release	= drive_release,
};

static const struct config_item_type drive_type = {
	.ct_item_ops	= &drive_item_ops,
	.ct_attrs	= drive_attrs,
	.ct_owner	= THIS_MODULE,
};

static struct config_group *make_drive(struct config_group *group,
				       const char *name)
{
	struct flashsim_drive *drive;

	if (strncmp(name, "flash", 5) || strlen(name) >= DISK_NAME_LEN)
		return ERR_PTR(-EINVAL);
	drive = kzalloc(sizeof(*drive), GFP_KERNEL);
	if (!drive)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&drive->lock);
	mutex_init(&drive->model_mutex);
	flashsim_inject_init(&drive->inject);
	INIT_LIST_HEAD(&drive->rules);
	set_profile(drive, DEFAULT_PROFILE);
	drive->size_mb = DEFAULT_SIZE_MB;
	config_group_init_type_name(&drive->group, name, &drive_type);
	config_group_init_type_name(&drive->inject_group, "inject",
				    &inject_type);
	configfs_add_default_group(&drive->inject_group, &drive->group);
	config_group_init_type_name(&drive->rules_group, "rules",
				    &flashsim_rules_type);
	configfs_add_default_group(&drive->rules_group, &drive->group);
	return &drive->group;
}

static void drop_drive(struct config_group *group, struct config_item *item)
{
	struct flashsim_drive *drive = to_drive(item);

	mutex_lock(&config_mutex);
	if (drive->power)
		flashsim_power_off(drive);
	drive->power = false;
	mutex_unlock(&config_mutex);
	config_item_put(item);
}

static struct configfs_group_operations root_group_ops = {
	.make_group	= make_drive,
	.drop_item	= drop_drive,
};

static const struct config_item_type root_type = {
	.ct_group_ops	= &root_group_ops,
	.ct_owner	= THIS_MODULE,
};

static struct configfs_subsystem flashsim_subsys = {
	.su_group = {
		.cg_item = {
			.ci_namebuf = "flashsim",
			.ci_type = &root_type,
		},
	},
};

/**
 * flashsim_config_init() - register with configfs
 *
 * Return: 0 or a negative error.
 */
int flashsim_config_init(void)
{
	config_group_init(&flashsim_subsys.su_group);
	mutex_init(&flashsim_subsys.su_mutex);
	return configfs_register_subsystem(&flashsim_subsys);
}

/**
 * flashsim_config_exit() - unregister; all drives are gone by then
 */
void flashsim_config_exit(void)
{
	configfs_unregister_subsystem(&flashsim_subsys);
}
