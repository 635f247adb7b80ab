/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: parse and print a setting of settings.h. */
#ifndef FLASHSIM_SETTING_H
#define FLASHSIM_SETTING_H

#include <linux/types.h>

/**
 * struct flashsim_setting - a number or a word, stored in a member of a structure
 * @name: group and name
 * @offset: offset of the member
 * @size: its size: four or eight bytes
 * @min: least value; a negative one means that the member is signed
 * @max: largest value
 * @words: names of the values, some of which may be missing; NULL for a number
 */
struct flashsim_setting {
	const char *name;
	size_t offset;
	size_t size;
	s64 min;
	u64 max;
	const char * const *words;
};

/* The words for a mask of FLASHSIM_OP_. */
extern const char * const flashsim_op_names[4];

int flashsim_setting_print(const struct flashsim_setting *s, const void *base,
			   char *buf, size_t size);
int flashsim_setting_parse(const struct flashsim_setting *s, const char *text,
			   u64 *value);
void flashsim_setting_assign(const struct flashsim_setting *s, void *base,
			     u64 value);

#endif /* FLASHSIM_SETTING_H */
