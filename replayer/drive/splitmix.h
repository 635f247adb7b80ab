/* SPDX-License-Identifier: MIT */
/* splitmix64: generates the contents of the drives and all random choices from --seed. */
#ifndef REPLAYER_SPLITMIX_H
#define REPLAYER_SPLITMIX_H

#include <stdint.h>

#define SPLITMIX_STEP 0x9e3779b97f4a7c15ull

/* The finaliser: every input bit affects every output bit. */
static inline uint64_t splitmix_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Return the next pseudo-random number; the initial state is the seed. */
static inline uint64_t splitmix_next(uint64_t *state)
{
	return splitmix_mix(*state += SPLITMIX_STEP);
}

#endif
