/* SPDX-License-Identifier: MIT */
/*
 * Tables of the reader of `linnapp watch`; see watch_tables.h.
 *
 * Names are stored once and identified by numbers. Their memory is bounded by MAX_NAME_BYTES.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "watch.h"
#include "watch_tables.h"

#define MAX_NAME_BYTES (128 << 20)
#define MAX_NAMES (1 << 20)

/* Spread the bits of a key over all bits. */
uint64_t lw_mixed(uint64_t key)
{
	key ^= key >> 33;
	key *= 0xff51afd7ed558ccdULL;
	key ^= key >> 33;
	return key;
}

/* Return the entry of a key, or the free entry for it; NULL if out of memory. */
struct lw_entry *lw_find_entry(struct lw_table *t, uint64_t key)
{
	if (2 * (t->used + 1) > t->capacity) {
		struct lw_table larger = { .capacity = t->capacity ? 2 * t->capacity : 1024 };

		larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
		if (!larger.entries)
			return NULL;
		for (size_t i = 0; i < t->capacity; i++) {
			if (t->entries[i].key) {
				*lw_find_entry(&larger, t->entries[i].key) = t->entries[i];
				larger.used++;
			}
		}
		free(t->entries);
		*t = larger;
	}
	for (size_t i = lw_mixed(key);; i++) {
		struct lw_entry *e = &t->entries[i & (t->capacity - 1)];

		if (!e->key || e->key == key)
			return e;
	}
}

/* Return the entry of a key, which is added if needed; NULL if out of memory. */
struct lw_entry *lw_add_entry(struct lw_table *t, uint64_t key)
{
	struct lw_entry *e = lw_find_entry(t, key);

	if (e && !e->key) {
		e->key = key;
		t->used++;
	}
	return e;
}

static uint64_t hashed(const char *text, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ULL;
	return lw_mixed(hash);
}

/* Store a name as the next number; return false if no more names can be stored. */
static bool add_name(struct lw_names *names, const char *text, size_t length)
{
	char **room;

	if (names->n == MAX_NAMES || names->bytes + length > MAX_NAME_BYTES)
		return false;
	/* The array doubles when it is full. */
	if (!(names->n & (names->n - 1))) {
		room = realloc(names->text, (names->n ? 2 * names->n : 1) * sizeof(*room));
		if (!room)
			return false;
		names->text = room;
	}
	names->text[names->n] = strndup(text, length);
	if (!names->text[names->n])
		return false;
	names->n++;
	names->bytes += length + 1;
	return true;
}

/* Return the number of a name; LW_NO_NAME if no more names can be stored. */
int32_t lw_number_of(struct lw_names *names, const char *text, size_t length)
{
	/* Key 0 is a free entry. A name with the same hash as another one takes the next key. */
	uint64_t key = hashed(text, length) ?: 1;
	struct lw_entry *e = lw_find_entry(&names->by_hash, key);

	while (e && e->key) {
		if (!strncmp(names->text[e->name], text, length) && !names->text[e->name][length])
			return e->name;
		key = key + 1 ?: 1;
		e = lw_find_entry(&names->by_hash, key);
	}
	if (!e || !add_name(names, text, length)) {
		names->left_out++;
		return LW_NO_NAME;
	}
	e->key = key;
	e->name = names->n - 1;
	names->by_hash.used++;
	return e->name;
}

void lw_free_names(struct lw_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->text[i]);
	free(names->text);
	free(names->by_hash.entries);
}
