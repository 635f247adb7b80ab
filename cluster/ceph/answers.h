/* SPDX-License-Identifier: MIT */
/*
 * Parser for the text answers of the monitors, and Ceph's mapping of objects to placement groups.
 */
#ifndef LINNOS_CEPH_ANSWERS_H
#define LINNOS_CEPH_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLICAS_MAX = 16, NAME_MAX_BYTES = 256 };

/* The location of an object, from `ceph osd map`. */
struct mapped {
	uint32_t epoch, hash, group;
	unsigned int n_osds;
	/* the primary first */
	uint32_t osds[REPLICAS_MAX];
};

/* The location of an OSD, from `ceph osd find`. */
struct found {
	char host[NAME_MAX_BYTES], address[64];
};

/* Return the hash of an object without namespace and locator. */
uint32_t object_hash(const char *name);

/* Return the group of a hash among @n_groups, which need not be a power of two. */
uint32_t group_of(uint32_t hash, uint32_t n_groups);

/* Parse a null-terminated answer. Return false if it has a different format. */
bool read_mapped(const char *answer, struct mapped *mapped);
bool read_found(const char *answer, struct found *found);

/* Read the number after the last occurrence of @words. */
bool read_number(const char *answer, const char *words, uint64_t *number);

/* Escape a text for JSON; return false if it does not fit. */
bool quoted(const char *text, char *quoted, size_t room);

#endif
