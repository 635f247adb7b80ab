// SPDX-License-Identifier: GPL-2.0-only
/* flashsim: parse and print a setting of settings.h. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/string.h>

#include "flashsim.h"
#include "setting.h"

const char * const flashsim_op_names[4] = {
	[FLASHSIM_OP_READ] = "read",
	[FLASHSIM_OP_WRITE] = "write",
	[FLASHSIM_OP_READ | FLASHSIM_OP_WRITE] = "both",
};

/**
 * flashsim_setting_print() - print the value of a setting
 * @s: the setting
 * @base: the structure with its member
 * @buf: output
 * @size: size of @buf
 *
 * Return: number of characters.
 */
int flashsim_setting_print(const struct flashsim_setting *s, const void *base,
			   char *buf, size_t size)
{
	const void *member = base + s->offset;
	u64 value = s->size == sizeof(u32) ? *(u32 *)member : *(u64 *)member;

	if (s->words)
		return scnprintf(buf, size, "%s", s->words[value]);
	return scnprintf(buf, size, s->min < 0 ? "%lld" : "%llu", value);
}

/**
 * flashsim_setting_parse() - parse a value for a setting
 * @s: the setting
 * @text: the value, as a person writes it
 * @value: out: the value
 *
 * Return: 0, or -EINVAL; then the kernel log has the accepted range.
 */
int flashsim_setting_parse(const struct flashsim_setting *s, const char *text,
			   u64 *value)
{
	s64 number;

	if (s->words) {
		for (*value = 0; *value <= s->max; ++*value)
			if (s->words[*value] &&
			    sysfs_streq(text, s->words[*value]))
				return 0;
		pr_err("%s: no such value\n", s->name);
		return -EINVAL;
	}
	if (s->min < 0) {
		if (!kstrtos64(text, 0, &number) && number >= s->min &&
		    number <= (s64)s->max) {
			*value = number;
			return 0;
		}
	} else if (!kstrtou64(text, 0, value) && *value >= s->min &&
		   *value <= s->max) {
		return 0;
	}
	pr_err("%s: must be %lld to %llu\n", s->name, s->min, s->max);
	return -EINVAL;
}

/**
 * flashsim_setting_assign() - store a parsed value
 * @s: the setting
 * @base: the structure with its member
 * @value: the value
 */
void flashsim_setting_assign(const struct flashsim_setting *s, void *base,
			     u64 value)
{
	void *member = base + s->offset;

	if (s->size == sizeof(u32))
		*(u32 *)member = value;
	else
		*(u64 *)member = value;
}
