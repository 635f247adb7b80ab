// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: configfs of the fault rules.
 *
 *   mkdir .../flash0/rules/r1
 *   echo write > .../r1/op
 *   echo interval > .../r1/frequency
 *   echo 500 > .../r1/n
 *   echo bit_flip > .../r1/fault
 *   echo "2048 8192" > .../r1/ranges       first sector and length; again to add
 *   echo 1 > .../r1/enabled                zeroes its counters
 *   cat .../r1/matched .../r1/injected
 *
 * All settings but `enabled` can be changed only while the rule is disabled. Rules
 * are kept at power off, and then apply to the next disk of the drive.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "drive.h"
#include "fault.h"
#include "flashsim.h"
#include "rules.h"

/* Every rule is checked for every I/O, under the drive's lock. */
#define MAX_RULES	16

/* A mebibyte for each rule. */
#define MAX_RANGES	65536

static struct flashsim_rule *to_rule(struct config_item *item)
{
	return container_of(item, struct flashsim_rule, item);
}

/* Change a setting of a disabled rule. */
static ssize_t rule_set(struct flashsim_rule *rule, s64 *field, s64 value,
			size_t count)
{
	ssize_t ret = count;

	spin_lock_irq(&rule->drive->lock);
	if (rule->enabled)
		ret = -EBUSY;
	else
		*field = value;
	spin_unlock_irq(&rule->drive->lock);
	return ret;
}

/* ---- words ---- */

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

static ssize_t rule_store_word(struct config_item *item, const char *page,
			       size_t count, s64 *field,
			       const char * const *names, int nr_names)
{
	int i;

	for (i = 0; i < nr_names; i++)
		if (names[i] && sysfs_streq(page, names[i]))
			return rule_set(to_rule(item), field, i, count);
	return -EINVAL;
}

#define RULE_WORD(_name)						\
static s64 *rule_##_name##_field(struct config_item *item)		\
{									\
	return &to_rule(item)->knobs._name;					\
}									\
static ssize_t rule_##_name##_show(struct config_item *item, char *page) \
{									\
	return sysfs_emit(page, "%s\n",					\
			  _name##_names[*rule_##_name##_field(item)]);	\
}									\
static ssize_t rule_##_name##_store(struct config_item *item,		\
				    const char *page, size_t count)	\
{									\
	return rule_store_word(item, page, count,			\
			       rule_##_name##_field(item),		\
			       _name##_names, ARRAY_SIZE(_name##_names)); \
}									\
static struct configfs_attribute rule_attr_##_name = {			\
	.ca_name	= #_name,					\
	.ca_mode	= 0644,						\
	.ca_owner	= THIS_MODULE,					\
	.show		= rule_##_name##_show,				\
	.store		= rule_##_name##_store,				\
}

RULE_WORD(op);
RULE_WORD(fault);
RULE_WORD(frequency);
RULE_WORD(count);

/* ---- numbers ---- */

static ssize_t rule_store_number(struct config_item *item, const char *name,
				 const char *page, size_t count, s64 *field,
				 s64 min, s64 max)
{
	s64 value;

	if (kstrtos64(page, 0, &value) || value < min || value > max) {
		pr_err("flashsim: rule's %s: must be %lld to %lld\n", name, min,
		       max);
		return -EINVAL;
	}
	return rule_set(to_rule(item), field, value, count);
}

#define RULE_NUMBER(_name, _min, _max)					\
static s64 *rule_##_name##_field(struct config_item *item)		\
{									\
	return &to_rule(item)->knobs._name;					\
}									\
static ssize_t rule_##_name##_show(struct config_item *item, char *page) \
{									\
	return sysfs_emit(page, "%lld\n", *rule_##_name##_field(item));	\
}									\
static ssize_t rule_##_name##_store(struct config_item *item,		\
				    const char *page, size_t count)	\
{									\
	return rule_store_number(item, #_name, page, count,		\
				 rule_##_name##_field(item), _min, _max); \
}									\
static struct configfs_attribute rule_attr_##_name = {			\
	.ca_name	= #_name,					\
	.ca_mode	= 0644,						\
	.ca_owner	= THIS_MODULE,					\
	.show		= rule_##_name##_show,				\
	.store		= rule_##_name##_store,				\
}

RULE_NUMBER(tag, -1, 1023);
RULE_NUMBER(n, 1, S64_MAX);
RULE_NUMBER(latency_us, 0, 60000000);
RULE_NUMBER(offset, -1, S32_MAX);
RULE_NUMBER(bit, -1, 7);

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

/* ---- ranges ---- */

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

/* ---- rules ---- */

static struct configfs_attribute *rule_attrs[] = {
	&rule_attr_enabled,
	&rule_attr_op,
	&rule_attr_tag,
	&rule_attr_ranges,
	&rule_attr_count,
	&rule_attr_frequency,
	&rule_attr_n,
	&rule_attr_fault,
	&rule_attr_latency_us,
	&rule_attr_offset,
	&rule_attr_bit,
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
	rule->knobs = (struct flashsim_rule_knobs) {
		.op = FLASHSIM_OP_READ | FLASHSIM_OP_WRITE,
		.tag = -1,
		.n = 1,
		.latency_us = 1000,
		.offset = -1,
		.bit = -1,
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

const struct config_item_type flashsim_rules_type = {
	.ct_group_ops	= &rules_group_ops,
	.ct_owner	= THIS_MODULE,
};
