/* SPDX-License-Identifier: MIT */
/*
 * Tables of the reader of `linnapp watch`; see watch_tables.h.
 *
 * Names are stored once and identified by numbers. Their memory is bounded by MAX_NAME_BYTES.
 */
#include <errno.h>
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

static int grow_names(struct lw_names *names)
{
	size_t capacity = names->capacity ? 2 * names->capacity : 1024;
	char **text = realloc(names->text, capacity * sizeof(*text));
	uint32_t *slots;

	if (!text)
		return -ENOMEM;
	names->text = text;
	slots = calloc(2 * capacity, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t n = 0; n < names->n; n++) {
		size_t i = hashed(text[n], strlen(text[n]));

		while (slots[i & (2 * capacity - 1)])
			i++;
		slots[i & (2 * capacity - 1)] = n + 1;
	}
	free(names->slots);
	names->slots = slots;
	names->capacity = capacity;
	return 0;
}

/* Return the number of a name; LW_NO_NAME if no more names can be stored. */
int32_t lw_number_of(struct lw_names *names, const char *text, size_t length)
{
	size_t i;

	if (names->n == names->capacity && names->n < MAX_NAMES && grow_names(names))
		goto left_out;
	for (i = hashed(text, length);; i++) {
		uint32_t n = names->slots[i & (2 * names->capacity - 1)];

		if (!n)
			break;
		if (!strncmp(names->text[n - 1], text, length) && !names->text[n - 1][length])
			return n - 1;
	}
	if (names->n == MAX_NAMES || names->bytes + length > MAX_NAME_BYTES)
		goto left_out;
	names->text[names->n] = strndup(text, length);
	if (!names->text[names->n])
		goto left_out;
	names->bytes += length + 1;
	names->slots[i & (2 * names->capacity - 1)] = ++names->n;
	return names->n - 1;
left_out:
	names->left_out++;
	return LW_NO_NAME;
}

void lw_free_names(struct lw_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->text[i]);
	free(names->text);
	free(names->slots);
}
