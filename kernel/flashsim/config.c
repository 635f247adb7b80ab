// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the module, and configfs. Create drives, and set their parameters,
 * injection and fault rules.
 *
 *  mkdir /sys/kernel/config/flashsim/flash0
 *  echo consumer > .../flash0/profile
 *  echo 1 > .../flash0/power              now /dev/flash0 exists
 *  echo 1 > .../flash0/precondition
 *  echo continuous > .../flash0/inject/pattern
 *  echo 1 > .../flash0/inject/arm
 *
 *  mkdir .../flash0/rules/r1
 *  echo write > .../r1/op
 *  echo interval > .../r1/frequency
 *  echo 500 > .../r1/n
 *  echo bit_flip > .../r1/fault
 *  echo "2048 8192" > .../r1/ranges       first sector and length; again to add
 *  echo 1 > .../r1/enabled                zeroes its counters
 *  cat .../r1/matched .../r1/injected
 *
 * Parameters can be changed while the drive is off, injection at any time, and
 * the settings of a rule while the rule is disabled. Rules are kept at power
 * off, and then apply to the next disk of the drive.
 */
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "drive.h"
#include "fault.h"
#include "flashsim.h"

#define DEFAULT_PROFILE		"enterprise"

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

/**
 * struct rule_dir - a fault rule of a drive: a directory in configfs
 * @item: the directory
 * @drive: the drive, whose lock protects @rule
 * @ranges_mutex: serialises changes of the rule's ranges
 * @rule: the rule
 */
struct rule_dir {
	struct config_item item;
	struct flashsim_drive *drive;
	struct mutex ranges_mutex;
	struct flashsim_rule rule;
};

static struct rule_dir *to_rule_dir(struct config_item *item)
{
	return container_of(item, struct rule_dir, item);
}

static struct flashsim_rule *to_rule(struct config_item *item)
{
	return &to_rule_dir(item)->rule;
}

/* ---- settings: the files that settings.h lists ---- */

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

#define op_names flashsim_op_names

static ssize_t setting_show(const struct flashsim_setting *s, const void *base,
			    char *page)
{
	ssize_t len = flashsim_setting_print(s, base, page, PAGE_SIZE - 1);

	page[len++] = '\n';
	return len;
}

/* Change a setting at @base, unless @fixed is true at that time. */
static ssize_t setting_store(const struct flashsim_setting *s,
			     struct flashsim_drive *drive, void *base,
			     const bool *fixed, const char *page, size_t count)
{
	ssize_t ret;
	u64 value;

	ret = flashsim_setting_parse(s, page, &value);
	if (ret)
		return ret;
	mutex_lock(&config_mutex);
	spin_lock_irq(&drive->lock);
	ret = count;
	if (fixed && *fixed)
		ret = -EBUSY;
	else
		flashsim_setting_assign(s, base, value);
	spin_unlock_irq(&drive->lock);
	mutex_unlock(&config_mutex);
	return ret;
}

/* Each group of settings defines to_GROUP_base() and GROUP_store(). */
#define SETTING(_group, _type, _name, _member, _min, _max, _words)	\
static const struct flashsim_setting _group##_##_name = {		\
	.name	= #_group "/" #_name,					\
	.offset	= offsetof(_type, _member),				\
	.size	= sizeof_field(_type, _member),				\
	.min	= _min,							\
	.max	= _max,							\
	.words	= _words,						\
};									\
SETTING_FILE(_group, _name, _group##_##_name)

#define SETTING_FILE(_group, _name, _setting)				\
static ssize_t _group##_##_name##_show(struct config_item *item,	\
				       char *page)			\
{									\
	return setting_show(&_setting, to_##_group##_base(item), page);	\
}									\
static ssize_t _group##_##_name##_store(struct config_item *item,	\
					const char *page, size_t count)	\
{									\
	return _group##_store(&_setting, item, page, count);		\
}									\
CONFIGFS_ATTR(_group##_, _name)

static void *to_drive_base(struct config_item *item)
{
	return to_drive(item);
}

static ssize_t drive_store(const struct flashsim_setting *s,
			   struct config_item *item, const char *page,
			   size_t count)
{
	struct flashsim_drive *drive = to_drive(item);

	return setting_store(s, drive, drive, &drive->power, page, count);
}

static void *to_inject_base(struct config_item *item)
{
	return &inject_to_drive(item)->inject;
}

static ssize_t inject_store(const struct flashsim_setting *s,
			    struct config_item *item, const char *page,
			    size_t count)
{
	struct flashsim_drive *drive = inject_to_drive(item);

	return setting_store(s, drive, &drive->inject, NULL, page, count);
}

static void *to_rule_base(struct config_item *item)
{
	return &to_rule(item)->settings;
}

static ssize_t rule_store(const struct flashsim_setting *s,
			  struct config_item *item, const char *page,
			  size_t count)
{
	struct flashsim_rule *rule = to_rule(item);

	return setting_store(s, to_rule_dir(item)->drive, &rule->settings,
			     &rule->enabled, page, count);
}

#define PARAM(_name, _min, _max, ...)					\
	SETTING(drive, struct flashsim_drive, _name, params._name, _min, _max, \
		NULL);
#define DRIVE(_type, _name, _min, _max, _default)			\
	SETTING(drive, struct flashsim_drive, _name, _name, _min, _max, NULL);
#define INJECT(_name, _min, _max, _default)				\
	SETTING(inject, struct flashsim_inject, _name, _name, _min, _max, NULL);
#define INJECT_WORD(_name, _default)					\
	SETTING(inject, struct flashsim_inject, _name, _name, 0,	\
		ARRAY_SIZE(_name##_names) - 1, _name##_names);
#define RULE(_name, ...)						\
	SETTING_FILE(rule, _name, flashsim_rule_table[FLASHSIM_RULE_##_name]);
#define RULE_WORD RULE
#include "settings.h"

/* ---- other files of a drive ---- */

static ssize_t drive_profile_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%s\n", to_drive(item)->profile);
}

static int set_profile(struct flashsim_drive *drive, const char *name)
{
	int err = flashsim_set_profile(&drive->params, name);

	if (err)
		pr_err("flashsim: no profile %s\n", name);
	else
		strscpy(drive->profile, name, sizeof(drive->profile));
	return err;
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
#define DRIVE(_type, _name, ...) &drive_attr_##_name,
#define PARAM(_name, ...) &drive_attr_##_name,
#include "settings.h"
	&drive_attr_power,
	&drive_attr_precondition,
	NULL,
};

/* ---- inject/ ---- */

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
#define INJECT(_name, ...) &inject_attr_##_name,
#define INJECT_WORD INJECT
#include "settings.h"
	&inject_attr_arm,
	NULL,
};

static const struct config_item_type inject_type = {
	.ct_attrs	= inject_attrs,
	.ct_owner	= THIS_MODULE,
};

/* ---- rules/ ---- */

static ssize_t rule_matched_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%llu\n", READ_ONCE(to_rule(item)->matched));
}
CONFIGFS_ATTR_RO(rule_, matched);

static ssize_t rule_injected_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%llu\n", READ_ONCE(to_rule(item)->injected));
}
CONFIGFS_ATTR_RO(rule_, injected);

static ssize_t rule_enabled_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", to_rule(item)->enabled);
}

static ssize_t rule_enabled_store(struct config_item *item, const char *page,
				  size_t count)
{
	struct flashsim_drive *drive = to_rule_dir(item)->drive;
	bool on;

	if (kstrtobool(page, &on))
		return -EINVAL;
	spin_lock_irq(&drive->lock);
	flashsim_rule_enable(to_rule(item), on);
	spin_unlock_irq(&drive->lock);
	return count;
}
CONFIGFS_ATTR(rule_, enabled);

static ssize_t rule_ranges_show(struct config_item *item, char *page)
{
	struct flashsim_drive *drive = to_rule_dir(item)->drive;
	struct flashsim_rule *rule = to_rule(item);
	ssize_t len = 0;
	u32 i;

	spin_lock_irq(&drive->lock);
	for (i = 0; i < rule->nr_ranges && len < PAGE_SIZE - 64; i++)
		len += sysfs_emit_at(page, len, "%llu %llu\n",
				     rule->ranges[i].start,
				     rule->ranges[i].end -
				     rule->ranges[i].start);
	spin_unlock_irq(&drive->lock);
	return len;
}

/* Parse two numbers in a line and nothing else; sscanf() would continue in the next line. */
static bool parse_range(const char *p, u64 *start, u64 *len)
{
	const char *end = strchrnul(p, '\n');
	char line[48], *second;

	if (end - p >= sizeof(line))
		return false;
	strscpy(line, p, end - p + 1);
	second = strim(line);
	p = strsep(&second, " \t");
	return second && !kstrtou64(p, 10, start) &&
	       !kstrtou64(skip_spaces(second), 10, len) && *len &&
	       *start <= U64_MAX - *len;
}

static ssize_t rule_ranges_store(struct config_item *item, const char *page,
				 size_t count)
{
	struct rule_dir *dir = to_rule_dir(item);
	struct flashsim_rule *rule = &dir->rule;
	struct flashsim_range *ranges;
	unsigned int lines = 1;
	const char *p;
	ssize_t ret;
	u32 n;

	for (p = page; *p; p++)
		lines += *p == '\n';
	/*
	 * configfs serialises the writes of one open file only, and memory
	 * cannot be allocated under the drive's spinlock.
	 */
	mutex_lock(&dir->ranges_mutex);
	n = rule->nr_ranges;
	if (sysfs_streq(page, "none"))
		n = 0;
	ret = -E2BIG;
	if (n + lines > FLASHSIM_MAX_RANGES)
		goto out_unlock;
	ret = -ENOMEM;
	ranges = kvmalloc_array(n + lines, sizeof(*ranges), GFP_KERNEL);
	if (!ranges)
		goto out_unlock;
	ret = -EINVAL;
	if (n)
		memcpy(ranges, rule->ranges, n * sizeof(*ranges));
	for (p = page; !sysfs_streq(page, "none") && *p;) {
		u64 start, len;

		if (!parse_range(p, &start, &len))
			goto out;
		n = flashsim_ranges_insert(ranges, n, start, start + len);
		p = strchrnul(p, '\n');
		p += *p == '\n';
	}
	ret = count;
	spin_lock_irq(&dir->drive->lock);
	if (rule->enabled) {
		ret = -EBUSY;
	} else {
		swap(rule->ranges, ranges);
		rule->nr_ranges = n;
	}
	spin_unlock_irq(&dir->drive->lock);
out:
	kvfree(ranges);
out_unlock:
	mutex_unlock(&dir->ranges_mutex);
	return ret;
}
CONFIGFS_ATTR(rule_, ranges);

static struct configfs_attribute *rule_attrs[] = {
	&rule_attr_enabled,
	&rule_attr_ranges,
#define RULE(_name, ...) &rule_attr_##_name,
#define RULE_WORD RULE
#include "settings.h"
	&rule_attr_matched,
	&rule_attr_injected,
	NULL,
};

static void rule_release(struct config_item *item)
{
	struct rule_dir *dir = to_rule_dir(item);

	kvfree(dir->rule.ranges);
	kfree(dir);
}

static struct configfs_item_operations rule_item_ops = {
	.release	= rule_release,
};

static const struct config_item_type rule_type = {
	.ct_item_ops	= &rule_item_ops,
	.ct_attrs	= rule_attrs,
	.ct_owner	= THIS_MODULE,
};

static struct config_item *make_rule(struct config_group *group,
				     const char *name)
{
	struct flashsim_drive *drive = container_of(group,
						    struct flashsim_drive,
						    rules_group);
	struct rule_dir *dir = kzalloc(sizeof(*dir), GFP_KERNEL);

	if (!dir)
		return ERR_PTR(-ENOMEM);
	dir->drive = drive;
	mutex_init(&dir->ranges_mutex);
	flashsim_rule_init(&dir->rule);
	config_item_init_type_name(&dir->item, name, &rule_type);

	spin_lock_irq(&drive->lock);
	if (drive->nr_rules < FLASHSIM_MAX_RULES) {
		list_add_tail(&dir->rule.list, &drive->rules);
		drive->nr_rules++;
		spin_unlock_irq(&drive->lock);
		return &dir->item;
	}
	spin_unlock_irq(&drive->lock);
	config_item_put(&dir->item);
	return ERR_PTR(-ENOSPC);
}

static void drop_rule(struct config_group *group, struct config_item *item)
{
	struct flashsim_drive *drive = to_rule_dir(item)->drive;

	spin_lock_irq(&drive->lock);
	list_del(&to_rule(item)->list);
	drive->nr_rules--;
	spin_unlock_irq(&drive->lock);
	config_item_put(item);
}

static struct configfs_group_operations rules_group_ops = {
	.make_item	= make_rule,
	.drop_item	= drop_rule,
};

static const struct config_item_type rules_type = {
	.ct_group_ops	= &rules_group_ops,
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
#define DRIVE(_type, _name, _min, _max, _default) drive->_name = _default;
#include "settings.h"
	config_group_init_type_name(&drive->group, name, &drive_type);
	config_group_init_type_name(&drive->inject_group, "inject",
				    &inject_type);
	configfs_add_default_group(&drive->inject_group, &drive->group);
	config_group_init_type_name(&drive->rules_group, "rules",
				    &rules_type);
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

static int __init flashsim_init(void)
{
	int err;

	flashsim_stats_init();
	config_group_init(&flashsim_subsys.su_group);
	mutex_init(&flashsim_subsys.su_mutex);
	err = configfs_register_subsystem(&flashsim_subsys);
	if (err)
		flashsim_stats_exit();
	return err;
}

/* All drives are gone by then. */
static void __exit flashsim_exit(void)
{
	configfs_unregister_subsystem(&flashsim_subsys);
	flashsim_stats_exit();
}

module_init(flashsim_init);
module_exit(flashsim_exit);
MODULE_DESCRIPTION("Flash drive emulator");
MODULE_LICENSE("GPL");
