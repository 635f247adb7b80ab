// SPDX-License-Identifier: MIT
/* The features of a new drive and of reads that are submitted late, and the health of a drive.
 * tests/unit/test_logged_drive.py compares the features of random I/Os with a reference. */
#include "observer.h"

#include "test.h"

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
