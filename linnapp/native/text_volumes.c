/* SPDX-License-Identifier: MIT */
/* Count the I/Os of each volume of a text trace, and give its name as one word. */
#include "text_volumes.h"

#define MAX_VOLUMES 65536	/* limit of distinct volumes */
#define VOLUME_SLOTS (2 * MAX_VOLUMES)

static bool volume_is(const struct volume *v, struct field field)
{
	return v->length == (size_t)(field.end - field.start) &&
	       !memcmp(v->raw, field.start, v->length);
}

static bool add_volume(struct volumes *volumes, struct field field, uint32_t slot)
{
	int64_t n = volumes->n;
	size_t length = field.end - field.start;
	struct volume *v;
	char *name;

	/* The array doubles when it is full. */
	if (!(n & (n - 1))) {
		v = realloc(volumes->of, (n ? 2 * n : 1) * sizeof(*v));
		if (!v)
			return false;
		volumes->of = v;
	}
	v = &volumes->of[n];
	*v = (struct volume){ .raw = malloc(2 * length + 1), .length = length };
	if (!v->raw)
		return false;
	memcpy(v->raw, field.start, length);
	name = v->raw + length;
	for (const char *c = field.start; c < field.end; c++)
		if (*c == ',' || *c == '"' || (unsigned char)*c <= ' ') {
			if (name > v->raw + length && name[-1] != '_')
				*name++ = '_';
		} else {
			*name++ = *c;
		}
	*name = '\0';
	volumes->slots[slot] = ++volumes->n;
	volumes->last = n;
	return true;
}

/* Count an I/O of a volume; return false if out of memory. */
bool lt_count_volume(struct volumes *volumes, struct field field)
{
	if (!volumes->n || !volume_is(&volumes->of[volumes->last], field)) {
		uint32_t hash = 2166136261u, slot;

		if (!volumes->slots) {
			volumes->slots = calloc(VOLUME_SLOTS, sizeof(*volumes->slots));
			if (!volumes->slots)
				return false;
		}
		for (const char *c = field.start; c < field.end; c++)
			hash = (hash ^ (unsigned char)*c) * 16777619u;
		for (slot = hash % VOLUME_SLOTS; volumes->slots[slot]; slot = (slot + 1) % VOLUME_SLOTS)
			if (volume_is(&volumes->of[volumes->slots[slot] - 1], field))
				break;
		volumes->is_last_known = volumes->slots[slot] || volumes->n < MAX_VOLUMES;
		if (!volumes->is_last_known)
			return true;
		if (volumes->slots[slot])
			volumes->last = volumes->slots[slot] - 1;
		else if (!add_volume(volumes, field, slot))
			return false;
	}
	volumes->is_last_known = true;
	volumes->of[volumes->last].ios++;
	return true;
}

const char *lt_volume_name(const struct volumes *volumes, int64_t i)
{
	return volumes->of[i].raw + volumes->of[i].length;
}

/* Return true if the volume counted last has this full name, or this last column of a name. */
bool lt_last_volume_is(const struct volumes *volumes, const char *name, struct field last_column)
{
	size_t length = last_column.end - last_column.start;

	return (strlen(name) == length && !memcmp(name, last_column.start, length)) ||
	       (volumes->is_last_known && !strcmp(name, lt_volume_name(volumes, volumes->last)));
}

void lt_free_volumes(struct volumes *volumes)
{
	for (int64_t i = 0; i < volumes->n; i++)
		free(volumes->of[i].raw);
	free(volumes->of);
	free(volumes->slots);
}
