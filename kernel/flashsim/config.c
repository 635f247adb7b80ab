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

/* Every rule is checked for every I/O, under the drive's lock. */
#define MAX_RULES	16

/* A mebibyte for each rule. */
#define MAX_RANGES	65536

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

static struct flashsim_rule *to_rule(struct config_item *item)
{
	return container_of(item, struct flashsim_rule, item);
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

static const char * const op_names[] = {
	[FLASHSIM_OP_READ] = "read",
	[FLASHSIM_OP_WRITE] = "write",
	[FLASHSIM_OP_READ | FLASHSIM_OP_WRITE] = "both",
};

static const char * const fault_names[] = {
	[FLASHSIM_FAULT_DELAY] = "delay",
	[FLASHSIM_FAULT_BIT_FLIP] = "bit_flip",
	[FLASHSIM_FAULT_ZEROS] = "zeros",
	[FLASHSIM_FAULT_ONES] = "ones",
	[FLASHSIM_FAULT_MEDIUM_ERROR] = "medium_error",
	[FLASHSIM_FAULT_LOST_WRITE] = "lost_write",
};

static const char * const frequency_names[] = {
	[FLASHSIM_FREQ_ALL] = "all",
	[FLASHSIM_FREQ_ALL_AFTER] = "all_after",
	[FLASHSIM_FREQ_INTERVAL] = "interval",
};

static const char * const count_names[] = { "request", "block" };

/**
 * struct setting - a number or a word, stored in a member of a structure
 * @name: group and name
 * @offset: offset of the member
 * @size: its size: four or eight bytes
 * @min: least value; a negative one means that the member is signed
 * @max: largest value
 * @words: names of the values, some of which may be missing; NULL for a number
 */
struct setting {
	const char *name;
	size_t offset;
	size_t size;
	s64 min;
	u64 max;
	const char * const *words;
};

static ssize_t setting_show(const struct setting *s, const void *base,
			    char *page)
{
	const void *member = base + s->offset;
	u64 value = s->size == sizeof(u32) ? *(u32 *)member : *(u64 *)member;

	if (s->words)
		return sysfs_emit(page, "%s\n", s->words[value]);
	return sysfs_emit(page, s->min < 0 ? "%lld\n" : "%llu\n", value);
}

static int setting_parse(const struct setting *s, const char *page, u64 *value)
{
	s64 number;

	if (s->words) {
		for (*value = 0; *value <= s->max; ++*value)
			if (s->words[*value] &&
			    sysfs_streq(page, s->words[*value]))
				return 0;
		pr_err("flashsim: %s: no such value\n", s->name);
		return -EINVAL;
	}
	if (s->min < 0) {
		if (!kstrtos64(page, 0, &number) && number >= s->min &&
		    number <= (s64)s->max) {
			*value = number;
			return 0;
		}
	} else if (!kstrtou64(page, 0, value) && *value >= s->min &&
		   *value <= s->max) {
		return 0;
	}
	pr_err("flashsim: %s: must be %lld to %llu\n", s->name, s->min, s->max);
	return -EINVAL;
}

/* Change a setting at @base, unless @fixed is true at that time. */
static ssize_t setting_store(const struct setting *s,
			     struct flashsim_drive *drive, void *base,
			     const bool *fixed, const char *page, size_t count)
{
	void *member = base + s->offset;
	ssize_t ret;
	u64 value;

	ret = setting_parse(s, page, &value);
	if (ret)
		return ret;
	mutex_lock(&config_mutex);
	spin_lock_irq(&drive->lock);
	ret = count;
	if (fixed && *fixed)
		ret = -EBUSY;
	else if (s->size == sizeof(u32))
		*(u32 *)member = value;
	else
		*(u64 *)member = value;
	spin_unlock_irq(&drive->lock);
	mutex_unlock(&config_mutex);
	return ret;
}

/* Each group of settings defines to_GROUP_base() and GROUP_store(). */
#define SETTING(_group, _type, _name, _member, _min, _max, _words)	\
static const struct setting _group##_##_name = {			\
	.name	= #_group "/" #_name,					\
	.offset	= offsetof(_type, _member),				\
	.size	= sizeof_field(_type, _member),				\
	.min	= _min,							\
	.max	= _max,							\
	.words	= _words,						\
};									\
static ssize_t _group##_##_name##_show(struct config_item *item,	\
				       char *page)			\
{									\
	return setting_show(&_group##_##_name, to_##_group##_base(item), \
			    page);					\
}									\
static ssize_t _group##_##_name##_store(struct config_item *item,	\
					const char *page, size_t count)	\
{									\
	return _group##_store(&_group##_##_name, item, page, count);	\
}									\
CONFIGFS_ATTR(_group##_, _name)

static void *to_drive_base(struct config_item *item)
{
	return to_drive(item);
}

static ssize_t drive_store(const struct setting *s, struct config_item *item,
			   const char *page, size_t count)
{
	struct flashsim_drive *drive = to_drive(item);

	return setting_store(s, drive, drive, &drive->power, page, count);
}

static void *to_inject_base(struct config_item *item)
{
	return &inject_to_drive(item)->inject;
}

static ssize_t inject_store(const struct setting *s, struct config_item *item,
			    const char *page, size_t count)
{
	struct flashsim_drive *drive = inject_to_drive(item);

	return setting_store(s, drive, &drive->inject, NULL, page, count);
}

static void *to_rule_base(struct config_item *item)
{
	return &to_rule(item)->settings;
}

static ssize_t rule_store(const struct setting *s, struct config_item *item,
			  const char *page, size_t count)
{
	struct flashsim_rule *rule = to_rule(item);

	return setting_store(s, rule->drive, &rule->settings, &rule->enabled,
			     page, count);
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
#define RULE(_name, _min, _max, _default)				\
	SETTING(rule, struct flashsim_rule_settings, _name, _name, _min, _max, \
		NULL);
#define RULE_WORD(_name, _default)					\
	SETTING(rule, struct flashsim_rule_settings, _name, _name, 0,	\
		ARRAY_SIZE(_name##_names) - 1, _name##_names);
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
	struct flashsim_rule *rule = to_rule(item);
	bool on;

	if (kstrtobool(page, &on))
		return -EINVAL;
	spin_lock_irq(&rule->drive->lock);
	if (on && !rule->enabled) {
		rule->matched = 0;
		rule->injected = 0;
	}
	rule->enabled = on;
	spin_unlock_irq(&rule->drive->lock);
	return count;
}
CONFIGFS_ATTR(rule_, enabled);

static ssize_t rule_ranges_show(struct config_item *item, char *page)
{
	struct flashsim_rule *rule = to_rule(item);
	ssize_t len = 0;
	u32 i;

	spin_lock_irq(&rule->drive->lock);
	for (i = 0; i < rule->nr_ranges && len < PAGE_SIZE - 64; i++)
		len += sysfs_emit_at(page, len, "%llu %llu\n",
				     rule->ranges[i].start,
				     rule->ranges[i].end -
				     rule->ranges[i].start);
	spin_unlock_irq(&rule->drive->lock);
	return len;
}

/* Insert a range into the sorted array, and merge it with adjacent ones. */
static u32 join_range(struct flashsim_range *ranges, u32 n, u64 start, u64 end)
{
	u32 i = 0, j;

	while (i < n && ranges[i].end < start)
		i++;
	for (j = i; j < n && ranges[j].start <= end; j++) {
		start = min(start, ranges[j].start);
		end = max(end, ranges[j].end);
	}
	/* Ranges i to j - 1 become one. */
	memmove(ranges + i + 1, ranges + j, (n - j) * sizeof(*ranges));
	ranges[i].start = start;
	ranges[i].end = end;
	return n - (j - i) + 1;
}

/*
 * Parse two numbers in a line and nothing else; sscanf() would continue in the
 * next line.
 */
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
	struct flashsim_rule *rule = to_rule(item);
	struct flashsim_range *ranges, *old;
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
	mutex_lock(&rule->ranges_mutex);
	n = rule->nr_ranges;
	if (sysfs_streq(page, "none"))
		n = 0;
	ret = -E2BIG;
	if (n + lines > MAX_RANGES)
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
		n = join_range(ranges, n, start, start + len);
		p = strchrnul(p, '\n');
		p += *p == '\n';
	}
	ret = count;
	spin_lock_irq(&rule->drive->lock);
	if (rule->enabled) {
		ret = -EBUSY;
	} else {
		old = rule->ranges;
		rule->ranges = ranges;
		rule->nr_ranges = n;
		ranges = old;
	}
	spin_unlock_irq(&rule->drive->lock);
out:
	kvfree(ranges);
out_unlock:
	mutex_unlock(&rule->ranges_mutex);
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
	struct flashsim_rule *rule = to_rule(item);

	kvfree(rule->ranges);
	kfree(rule);
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
	struct flashsim_rule *rule = kzalloc(sizeof(*rule), GFP_KERNEL);

	if (!rule)
		return ERR_PTR(-ENOMEM);
	rule->drive = drive;
	mutex_init(&rule->ranges_mutex);
	rule->settings = (struct flashsim_rule_settings) {
#define RULE(_name, _min, _max, _default) ._name = _default,
#define RULE_WORD(_name, _default) ._name = _default,
#include "settings.h"
	};
	config_item_init_type_name(&rule->item, name, &rule_type);

	spin_lock_irq(&drive->lock);
	if (drive->nr_rules < MAX_RULES) {
		list_add_tail(&rule->list, &drive->rules);
		drive->nr_rules++;
		spin_unlock_irq(&drive->lock);
		return &rule->item;
	}
	spin_unlock_irq(&drive->lock);
	config_item_put(&rule->item);
	return ERR_PTR(-ENOSPC);
}

static void drop_rule(struct config_group *group, struct config_item *item)
{
	struct flashsim_rule *rule = to_rule(item);

	spin_lock_irq(&rule->drive->lock);
	list_del(&rule->list);
	rule->drive->nr_rules--;
	spin_unlock_irq(&rule->drive->lock);
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
