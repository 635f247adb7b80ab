/* SPDX-License-Identifier: MIT */
/*
 * A rate limit for each source of queries, so that a source that queries too often, or whose
 * address is forged, does not block others. The table has a fixed size. If it is full, the source
 * that could query again first is replaced. A flood from forged addresses therefore makes the table
 * forget sources, which may then query at their full rate, but does not block them.
 */
#ifndef LINNOS_AGENT_SOURCES_H
#define LINNOS_AGENT_SOURCES_H

#include "allowed.h"

#define SOURCE_SETS 1024
#define SOURCES_PER_SET 4

struct source {
	uint64_t id[2]; /* hash of its address; both are 0 if the entry is free */
	struct rate rate;
};

struct sources {
	uint64_t secret[2]; /* prevents choosing addresses that share a set */
	struct source sets[SOURCE_SETS][SOURCES_PER_SET];
};

/* Return the rate of an address; a new one gets the interval of @limit. */
struct rate *source_rate(struct sources *sources, const void *address, size_t bytes,
			 const struct rate *limit);

#endif
