// SPDX-License-Identifier: MIT
/* The features that an observer computes from a drive's I/Os. tests/unit/test_replayer_observer.py
 * shows that they equal those that training computes from a recording. */
#include "observer.h"

#include "test.h"

#include <stdlib.h>

#define US 1000ull
/* No clock returns 0. */
#define T0 (1000000 * US)
#define PAST(ago, what) f[LINNOS_PAST + ((ago)-1) * LINNOS_N_PAST + LINNOS_PAST_##what]

/* The observer of a test, and the features that it has computed. Times are in us. */
static struct observer o;
static uint32_t f[LINNOS_N_FEATURES];

static void sent(struct linnos_io *io, uint64_t us, uint64_t offset, uint32_t pages, bool is_read)
{
	observer_sent(&o, io, T0 + us * US, offset, pages, is_read);
}

static void ended(struct linnos_io *io, uint64_t us, enum observed_end end)
{
	observer_ended(&o, io, T0 + us * US, end);
}

static void compute(uint64_t offset, uint32_t pages, uint64_t us)
{
	observer_features(&o, offset, pages, T0 + us * US, f);
}

TEST(features_of_new_drive_are_zero)
{
	observer_init(&o, 100);
	compute(0, 3, 5);
	for (unsigned int i = 0; i < LINNOS_N_FEATURES; i++)
		if (i == LINNOS_OWN_PAGES)
			assert(f[i] == 3);
		else if (i >= LINNOS_PAST &&
			 (i - LINNOS_PAST) % LINNOS_N_PAST == LINNOS_PAST_AGE_US)
			assert(f[i] == LINNOS_LATENCY_CAP);
		else
			assert(f[i] == 0);
}

TEST(submitted_io_counts_at_once)
{
	struct linnos_io read, write;

	observer_init(&o, 100);
	sent(&write, 0, 0, 8, false);
	sent(&read, 0, 0, 2, true);
	compute(0, 1, 0);
	assert(f[LINNOS_READ_PAGES] == 2 && f[LINNOS_WRITE_PAGES] == 8);
	assert(f[LINNOS_READS_IN_FLIGHT] == 1 && f[LINNOS_OLDEST_US] == 0);
	observer_submitted(&o, &read, T0 + 10 * US);
	ended(&write, 50, OBSERVED_ANSWERED);
	observer_ended(&o, &read, T0 + 90 * US + 999, OBSERVED_ANSWERED);
	compute(0, 1, 100);
	assert(f[LINNOS_READ_PAGES] == 0 && f[LINNOS_WRITE_PAGES] == 0);
	assert(PAST(1, LATENCY_US) == 80 && PAST(1, PENDING) == 10 && PAST(1, PAGES) == 2);
	assert(PAST(1, AGE_US) == 9 && PAST(2, AGE_US) == LINNOS_LATENCY_CAP);
}

TEST(region_counts_reads_within_its_limits)
{
	struct linnos_io read, write;
	const struct {
		uint64_t offset;
		uint32_t meets;
	} cases[] = {{0, 0},	 {8191, 0},  {8192, 1},
		     {16383, 1}, {16384, 0}, {8192 + (7ull << 40), 1}};

	observer_init(&o, 100);
	sent(&read, 0, 8192 + 524288, 1, true);
	sent(&write, 0, 0, 1, false);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		compute(cases[i].offset, 1, 0);
		assert(f[LINNOS_IN_REGION] == cases[i].meets);
	}
	ended(&read, 50, OBSERVED_FAILED);
	compute(8192, 1, 50);
	assert(f[LINNOS_IN_REGION] == 0);
}

TEST(overdue_read_is_counted_until_it_ends)
{
	struct linnos_io first, second;

	observer_init(&o, 100);
	sent(&first, 0, 0, 1, true);
	sent(&second, 50, 0, 1, true);
	compute(0, 1, 100);
	assert(f[LINNOS_OVERDUE] == 0);
	observer_features(&o, 0, 1, T0 + 100 * US + 1, f);
	assert(f[LINNOS_OVERDUE] == 1 && f[LINNOS_OLDEST_US] == 100);
	compute(0, 1, 151);
	assert(f[LINNOS_OVERDUE] == 2 && f[LINNOS_OLDEST_US] == 151);
	ended(&first, 160, OBSERVED_ANSWERED);
	compute(0, 1, 160);
	assert(f[LINNOS_OVERDUE] == 1 && f[LINNOS_OLDEST_US] == 110);
	ended(&second, 170, OBSERVED_ANSWERED);
	compute(0, 1, 170);
	assert(f[LINNOS_OVERDUE] == 0 && f[LINNOS_OLDEST_US] == 0);
}

TEST(history_has_reads_of_same_and_smaller_size_classes_in_order)
{
	static const uint32_t pages[] = {LINNOS_SMALL_PAGES,  LINNOS_SMALL_PAGES + 1,  1,
					 LINNOS_MEDIUM_PAGES, LINNOS_MEDIUM_PAGES + 1, 2};
	struct linnos_io io;

	observer_init(&o, 1000);
	for (unsigned int i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
		sent(&io, i * 100, 0, pages[i], true);
		ended(&io, i * 100 + 10, OBSERVED_ANSWERED);
	}
	compute(0, LINNOS_SMALL_PAGES, 600);
	assert(PAST(1, PAGES) == 2 && PAST(2, PAGES) == 1);
	assert(PAST(3, PAGES) == LINNOS_SMALL_PAGES && PAST(3, AGE_US) == 590);
	assert(PAST(4, PAGES) == 0 && PAST(4, AGE_US) == LINNOS_LATENCY_CAP);
	compute(0, LINNOS_MEDIUM_PAGES, 600);
	assert(PAST(1, PAGES) == 2 && PAST(2, PAGES) == LINNOS_MEDIUM_PAGES);
	assert(PAST(3, PAGES) == 1 && PAST(4, PAGES) == LINNOS_SMALL_PAGES + 1);
	compute(0, LINNOS_MEDIUM_PAGES + 1, 600);
	assert(PAST(1, PAGES) == 2 && PAST(2, PAGES) == LINNOS_MEDIUM_PAGES + 1);
	assert(PAST(3, PAGES) == LINNOS_MEDIUM_PAGES && PAST(4, PAGES) == 1);
}

TEST(failed_and_cancelled_reads_are_not_in_the_history)
{
	struct linnos_io io;

	observer_init(&o, 100);
	sent(&io, 0, 0, 1, true);
	ended(&io, 10, OBSERVED_IGNORED);
	assert(!o.failing && !o.last_completion_ns);
	sent(&io, 20, 0, 1, true);
	ended(&io, 30, OBSERVED_FAILED);
	assert(o.failing && o.last_completion_ns == T0 + 30 * US);
	compute(0, 1, 40);
	assert(PAST(1, AGE_US) == LINNOS_LATENCY_CAP && f[LINNOS_READS_IN_FLIGHT] == 0);
	sent(&io, 50, 0, 1, true);
	ended(&io, 60, OBSERVED_ANSWERED);
	assert(!o.failing);
}

/* The list of reads and its oldest entry are correct whatever the order of completions. */
TEST(features_equal_a_reference_for_any_completion_order)
{
	enum { N = 40 };
	struct linnos_io ios[N];
	bool flying[N] = {false};

	observer_init(&o, 30);
	srand(1);
	for (uint64_t now = 1; now < 20000; now++) {
		unsigned int k = rand() % N, reads = 0, overdue = 0;
		uint64_t oldest = T0 + now * US, pages = 0;

		if (flying[k])
			ended(&ios[k], now, rand() % 3);
		else
			sent(&ios[k], now, 0, 1 + k, k % 4);
		flying[k] = !flying[k];
		for (unsigned int i = 0; i < N; i++) {
			if (!flying[i] || !(ios[i].flags & LINNOS_IO_READ))
				continue;
			reads++;
			pages += 1 + i;
			overdue += T0 + now * US - ios[i].issued_ns > 30 * US;
			if (ios[i].issued_ns < oldest)
				oldest = ios[i].issued_ns;
		}
		/* Not at every step, so that several become overdue at once. */
		if (rand() % 4)
			continue;
		compute(0, 1, now);
		assert(f[LINNOS_READS_IN_FLIGHT] == reads && f[LINNOS_READ_PAGES] == pages);
		assert(f[LINNOS_OVERDUE] == overdue);
		assert(f[LINNOS_OLDEST_US] == (T0 + now * US - oldest) / US);
	}
}
