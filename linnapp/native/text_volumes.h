/* SPDX-License-Identifier: MIT */
/* The names of a text trace's volumes, and their numbers of I/Os. */
#ifndef LINNAPP_TEXT_VOLUMES_H
#define LINNAPP_TEXT_VOLUMES_H

#include "text_fields.h"

struct volume {
	char *raw;	/* the text in the lines; the name follows its end */
	size_t length;
	int64_t ios;
};

struct volumes {
	struct volume *of;
	int32_t *slots;		/* hash table: number + 1, or 0 if free */
	int64_t n, last;
	bool is_last_known;	/* false if the last line's volume is one too many */
};

bool lt_count_volume(struct volumes *volumes, struct field field);
const char *lt_volume_name(const struct volumes *volumes, int64_t i);
bool lt_last_volume_is(const struct volumes *volumes, const char *name, struct field last_column);
void lt_free_volumes(struct volumes *volumes);

#endif
