// SPDX-License-Identifier: MIT
/* A rate limit for each source of queries: see sources.h. */
#include "sources.h"

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t hash(uint64_t secret, const uint8_t *address, size_t bytes)
{
	uint64_t x = mix(secret + bytes);

	for (size_t k = 0; k < bytes; k++)
		x = mix((x ^ address[k]) + secret);
	return x;
}

struct rate *source_rate(struct sources *sources, const void *address, size_t bytes,
			 const struct rate *limit)
{
	/* 128 bits, so that an attacker cannot find two addresses with the same hash. */
	const uint64_t id[2] = {hash(sources->secret[0], address, bytes) | 1,
				hash(sources->secret[1], address, bytes)};
	struct source *set = sources->sets[id[1] % SOURCE_SETS], *idle = set;

	for (unsigned int k = 0; k < SOURCES_PER_SET; k++) {
		if (set[k].id[0] == id[0] && set[k].id[1] == id[1])
			return &set[k].rate;
		if (set[k].rate.due_ns < idle->rate.due_ns)
			idle = &set[k];
	}
	*idle = (struct source){.id = {id[0], id[1]}, .rate.interval_ns = limit->interval_ns};
	return &idle->rate;
}
