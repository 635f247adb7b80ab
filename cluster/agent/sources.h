/* SPDX-License-Identifier: MIT */
/*
 * A rate for each source of questions, so that one that asks too often, or in whose name somebody
 * else asks, silences no other. The table has a fixed size. Where it is full, the source that could
 * ask again soonest gives its place up: a flood from invented addresses makes the table forget
 * sources, which then may ask at their full rate, but it takes nothing from them.
 */
#ifndef LINNOS_AGENT_SOURCES_H
#define LINNOS_AGENT_SOURCES_H

#include "allowed.h"

#define SOURCE_SETS 1024
#define SOURCES_PER_SET 4

struct source {
	uint64_t id[2]; /* of its address; both 0: none */
	struct rate rate;
};

struct sources {
	uint64_t secret[2]; /* nobody can choose addresses that share a set */
	struct source sets[SOURCE_SETS][SOURCES_PER_SET];
};

/* Returns the rate of an address, of which @limit has the interval. */
struct rate *source_rate(struct sources *sources, const void *address, size_t bytes,
			 const struct rate *limit);

#endif
