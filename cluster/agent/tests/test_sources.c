// SPDX-License-Identifier: MIT
/* Tests of the rate limit of each source, in a table of a fixed size. */
#include "../../../liblinnos/tests/test.h"
#include "sources.h"

#define NOW_NS UINT64_C(5000000000)
#define MANY 100000u

static struct sources sources;
static struct rate limit;

static unsigned int taken(uint32_t address, unsigned int n)
{
	unsigned int n_taken = 0;

	for (unsigned int k = 0; k < n; k++)
		n_taken +=
			rate_take(source_rate(&sources, &address, sizeof(address), &limit), NOW_NS);
	return n_taken;
}

static void begin(void)
{
	uint64_t state = 7;

	memset(&sources, 0, sizeof(sources));
	sources.secret[0] = chance(&state);
	sources.secret[1] = chance(&state);
	rate_set(&limit, 100); /* a burst of 11 */
}

TEST(source_over_its_rate_does_not_block_others)
{
	begin();
	assert(taken(1, 1000) == 11);
	assert(taken(2, 5) == 5);
	assert(taken(1, 10) == 0);
}

TEST(forged_sources_do_not_block_others)
{
	begin();
	for (uint32_t round = 0; round < 10; round++) {
		assert(taken(1, 1) == 1);
		for (uint32_t k = 0; k < MANY; k++)
			taken(1000 + round * MANY + k, 1);
	}
}

TEST(source_over_its_rate_stays_known_among_others)
{
	begin();
	assert(taken(1, 1000) == 11);
	/* Half as many sources as the table holds. */
	for (uint32_t k = 0; k < SOURCE_SETS * SOURCES_PER_SET / 2; k++)
		taken(1000 + k, 1);
	assert(taken(1, 10) == 0);
}
