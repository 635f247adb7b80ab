/* SPDX-License-Identifier: MIT */
/* Tables of the reader of `linnapp watch`: names by number, and entries by a numerical key. */
#ifndef LINNAPP_WATCH_TABLES_H
#define LINNAPP_WATCH_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "watch_records.h"

/* An open-addressed hash table from numbers to entries; key 0 is a free one. */
struct lw_entry {
	uint64_t key;
	union {
		struct {
			uint64_t inode;
			uint32_t device;
			int32_t name;
		} file;
		struct {
			uint64_t time_ns;
			int32_t names[LW_N_NAMES];
		} call;
		int64_t first_access_ns;
		int32_t name;
	};
};

struct lw_table {
	struct lw_entry *entries;
	size_t capacity, used;
};

struct lw_names {
	char **text;
	struct lw_table by_hash;
	size_t n, bytes;
	uint64_t left_out;	/* more than are kept in memory */
};

uint64_t lw_mixed(uint64_t key);
struct lw_entry *lw_find_entry(struct lw_table *t, uint64_t key);
struct lw_entry *lw_add_entry(struct lw_table *t, uint64_t key);
int32_t lw_number_of(struct lw_names *names, const char *text, size_t length);
void lw_free_names(struct lw_names *names);

#endif
