/* SPDX-License-Identifier: MIT */
/* What monitors say, as words; and how Ceph spreads objects over placement groups. */
#ifndef LINNOS_CEPH_ANSWERS_H
#define LINNOS_CEPH_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLICAS_MAX = 16, NAME_MAX_BYTES = 256 };

/* Where an object lies, as `ceph osd map` says it. */
struct mapped {
	uint32_t epoch, hash, group;
	unsigned int n_osds;
	/* the primary first */
	uint32_t osds[REPLICAS_MAX];
};

/* Where an OSD is, as `ceph osd find` says it. */
struct found {
	char host[NAME_MAX_BYTES], address[64];
};

/* Of an object without namespace and locator. */
uint32_t object_hash(const char *name);

/* Which of n groups a hash belongs to; n need not be a power of two. */
uint32_t group_of(uint32_t hash, uint32_t n_groups);

/* Answers end with a zero. false: it is no such answer. */
bool read_mapped(const char *answer, struct mapped *mapped);
bool read_found(const char *answer, struct found *found);

/* The number behind the last place where these words are. */
bool read_number(const char *answer, const char *words, uint64_t *number);

/* Text as it is to stand between quotes; false: no room. */
bool quoted(const char *text, char *quoted, size_t room);

#endif
