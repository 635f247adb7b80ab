// SPDX-License-Identifier: GPL-2.0-only
/* flashsim: KUnit tests of the injected latency: its shapes, sectors and times. */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/time64.h>

#include "flashsim.h"
#include "inject.h"

#define SEED	7
#define ARMED	123456789ULL
#define US	((u64)NSEC_PER_USEC)
#define MS	((u64)NSEC_PER_MSEC)

/* Return an injection that hits every read and write, from ARMED on. */
static struct flashsim_inject armed(enum flashsim_shape shape)
{
	struct flashsim_inject inj;

	flashsim_inject_init(&inj);
	inj.pattern = FLASHSIM_INJECT_ALL;
	inj.shape = shape;
	inj.armed = true;
	inj.armed_ns = ARMED;
	return inj;
}

static u64 extra_of(const struct flashsim_inject *inj, u64 sector,
		    u32 nr_sectors, u32 in_flight, u64 t)
{
	struct flashsim_inject_io io = {
		.op = FLASHSIM_OP_READ,
		.sector = sector,
		.nr_sectors = nr_sectors,
		.in_flight = in_flight,
	};
	struct flashsim_inject copy = *inj;

	return flashsim_inject_next(&copy, SEED, &io, ARMED + t);
}

/* Return the added latency of an I/O for which only the time matters. */
static u64 extra_at(const struct flashsim_inject *inj, u64 t)
{
	return extra_of(inj, 0, 8, 0, t);
}

static void flashsim_test_ramp(struct kunit *test)
{
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_RAMP);

	inj.latency_us = 2000;
	inj.window_start_us = 5000;
	inj.window_us = 10000;
	inj.window_every_us = 50000;

	KUNIT_EXPECT_EQ(test, extra_at(&inj, 5 * MS - 1), 0);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 5 * MS), 0);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 6 * MS), 400 * US);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 10 * MS), 2000 * US);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 12 * MS), 1200 * US);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 15 * MS - 5), 2);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 15 * MS), 0);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 62 * MS), 1200 * US);

	/* The maximum latency and depth. */
	inj.latency_us = FLASHSIM_INJECT_MAX_US;
	inj.window_start_us = 0;
	inj.window_us = U64_MAX / NSEC_PER_USEC;
	inj.window_every_us = 0;
	KUNIT_EXPECT_EQ(test, extra_at(&inj, inj.window_us / 4 * US),
			FLASHSIM_INJECT_MAX_US * US / 2 - 1);
}

static void flashsim_test_ramp_needs_window(struct kunit *test)
{
	struct flashsim_inject inj;

	flashsim_inject_init(&inj);
	inj.pattern = FLASHSIM_INJECT_ALL;
	inj.shape = FLASHSIM_INJECT_RAMP;
	KUNIT_EXPECT_EQ(test, flashsim_inject_arm(&inj, true, ARMED), -EINVAL);
	KUNIT_EXPECT_FALSE(test, inj.armed);
	inj.window_us = 1000;
	KUNIT_EXPECT_EQ(test, flashsim_inject_arm(&inj, true, ARMED), 0);
	KUNIT_EXPECT_NE(test, extra_at(&inj, 500 * US), 0);
	/* The window is removed while injection is armed. */
	inj.window_us = 0;
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 500 * US), 0);
}

static void flashsim_test_queue(struct kunit *test)
{
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_QUEUE);

	inj.latency_us = 800;
	inj.at_depth = 16;
	KUNIT_EXPECT_EQ(test, extra_of(&inj, 0, 8, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, extra_of(&inj, 0, 8, 1, 0), 50 * US);
	KUNIT_EXPECT_EQ(test, extra_of(&inj, 0, 8, 16, 0), 800 * US);
	KUNIT_EXPECT_EQ(test, extra_of(&inj, 0, 8, 40, 0), 2000 * US);
}

#define DRAWS	100000

/* Return the number of sectors among DRAWS that get more than @x_ns. */
static u32 above(const struct flashsim_inject *inj, u64 x_ns, u64 t)
{
	u32 n = 0, i;

	for (i = 0; i < DRAWS; i++)
		n += extra_of(inj, 8 * i, 8, 0, t) > x_ns;
	return n;
}

static void flashsim_test_pareto(struct kunit *test)
{
	/*
	 * The value that a fraction of the draws exceeds, in thousandths of the
	 * median: (2 * share)^(-1/tail).
	 */
	static const struct {
		u32 tail_milli, share_ppm, milli;
	} points[] = {
		{ 500, 250000, 4000 },
		{ 1000, 500000, 1000 },
		{ 1000, 50000, 10000 },
		{ 1500, 900000, 676 },
		{ 1500, 250000, 1587 },
		{ 1500, 10000, 13572 },
		{ 3000, 1000, 7937 },
		{ 100000, 500000, 1000 },
		{ 100000, 10000, 1040 },
	};
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_PARETO);
	int i;

	inj.latency_us = 1000;
	for (i = 0; i < ARRAY_SIZE(points); i++) {
		u32 expected = points[i].share_ppm / 10, n;

		inj.tail_milli = points[i].tail_milli;
		n = above(&inj, points[i].milli * US, i * 20 * MS);
		/* Four standard deviations, plus the rounding of `milli`. */
		KUNIT_EXPECT_LT_MSG(test, abs((int)(n - expected)),
				    4 * int_sqrt(expected) + expected / 15,
				    "tail %u: %u above %u thousandths",
				    points[i].tail_milli, n, points[i].milli);
	}
}

static void flashsim_test_pareto_bounds(struct kunit *test)
{
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_PARETO);

	/* No value is less than the distribution's minimum: the median / 2^(1/tail). */
	inj.latency_us = 1000;
	inj.tail_milli = 2000;
	KUNIT_EXPECT_EQ(test, above(&inj, 707 * US, 0), DRAWS);
	KUNIT_EXPECT_LT(test, above(&inj, 708 * US, 0), DRAWS);
	/* No value exceeds the maximum. */
	inj.latency_us = FLASHSIM_INJECT_MAX_US;
	inj.tail_milli = 500;
	KUNIT_EXPECT_EQ(test, above(&inj, FLASHSIM_INJECT_MAX_US * US, 0), 0);
	KUNIT_EXPECT_GT(test, above(&inj, FLASHSIM_INJECT_MAX_US * US - 1, 0),
			DRAWS * 49 / 100);
	inj.latency_us = 0;
	KUNIT_EXPECT_EQ(test, above(&inj, 0, 0), 0);
}

static void flashsim_test_pareto_depends_on_sector_and_time(struct kunit *test)
{
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_PARETO);
	struct flashsim_inject_io io = {
		.op = FLASHSIM_OP_READ, .sector = 80, .nr_sectors = 8,
	};
	u64 first = extra_of(&inj, 80, 8, 0, 0);
	int i;

	/*
	 * The number of queries, the length of the I/O and other I/Os in the drive do not matter.
	 */
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test, first,
				flashsim_inject_next(&inj, SEED, &io,
						     ARMED + i));
	KUNIT_EXPECT_EQ(test, first,
			extra_of(&inj, 80, 64, 9, FLASHSIM_INJECT_DRAW_NS - 1));
	KUNIT_EXPECT_NE(test, first,
			extra_of(&inj, 80, 8, 0, FLASHSIM_INJECT_DRAW_NS));
	KUNIT_EXPECT_NE(test, first, extra_of(&inj, 88, 8, 0, 0));
	/* Replicas have different seeds. */
	KUNIT_EXPECT_NE(test, first,
			flashsim_inject_next(&inj, SEED + 1, &io, ARMED));
}

static void flashsim_test_region(struct kunit *test)
{
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_CONSTANT);

	inj.region_sector = 1000;
	inj.region_sectors = 100;
	KUNIT_EXPECT_EQ(test, extra_of(&inj, 992, 8, 0, 0), 0);
	KUNIT_EXPECT_NE(test, extra_of(&inj, 992, 9, 0, 0), 0);
	KUNIT_EXPECT_NE(test, extra_of(&inj, 1000, 1, 0, 0), 0);
	KUNIT_EXPECT_NE(test, extra_of(&inj, 1099, 8, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, extra_of(&inj, 1100, 8, 0, 0), 0);
	KUNIT_EXPECT_NE(test, extra_of(&inj, 0, 2048, 0, 0), 0);
	inj.region_sectors = U64_MAX;
	KUNIT_EXPECT_EQ(test, extra_of(&inj, 992, 8, 0, 0), 0);
	KUNIT_EXPECT_NE(test, extra_of(&inj, 1100, 8, 0, 0), 0);
}

static void flashsim_test_only_matching_ios_are_counted(struct kunit *test)
{
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_CONSTANT);
	struct flashsim_inject_io near = {
		.op = FLASHSIM_OP_READ, .sector = 0, .nr_sectors = 8,
	}, far = {
		.op = FLASHSIM_OP_READ, .sector = 800, .nr_sectors = 8,
	};
	u32 i;

	inj.pattern = FLASHSIM_INJECT_INTERVAL;
	inj.interval = 4;
	inj.region_sectors = 8;
	for (i = 0; i < 40; i++) {
		KUNIT_EXPECT_EQ(test, flashsim_inject_next(&inj, SEED, &far,
							   ARMED), 0);
		KUNIT_EXPECT_EQ(test, i % 4 == 3,
				flashsim_inject_next(&inj, SEED, &near,
						     ARMED) != 0);
	}
	KUNIT_EXPECT_EQ(test, inj.matched, 40);
}

static void flashsim_test_turns(struct kunit *test)
{
	struct flashsim_inject inj = armed(FLASHSIM_INJECT_CONSTANT);
	u32 turn;

	inj.window_start_us = 7000;
	inj.window_us = 2000;
	inj.window_every_us = 10000;
	inj.window_turns = 3;
	inj.window_turn_mask = BIT(0) | BIT(2);
	for (turn = 0; turn < 12; turn++) {
		u64 opens = (7 + 10 * turn) * MS;
		bool mine = turn % 3 != 1;

		KUNIT_EXPECT_EQ(test, extra_at(&inj, opens - 1), 0);
		KUNIT_EXPECT_EQ(test, extra_at(&inj, opens) != 0, mine);
		KUNIT_EXPECT_EQ(test, extra_at(&inj, opens + 2 * MS - 1) != 0,
				mine);
		KUNIT_EXPECT_EQ(test, extra_at(&inj, opens + 2 * MS), 0);
	}
	/* A single window belongs to the first turn. */
	inj.window_every_us = 0;
	KUNIT_EXPECT_NE(test, extra_at(&inj, 8 * MS), 0);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 27 * MS), 0);
	inj.window_turn_mask = BIT(1);
	KUNIT_EXPECT_EQ(test, extra_at(&inj, 8 * MS), 0);
}

static struct kunit_case flashsim_inject_cases[] = {
	KUNIT_CASE(flashsim_test_ramp),
	KUNIT_CASE(flashsim_test_ramp_needs_window),
	KUNIT_CASE(flashsim_test_queue),
	KUNIT_CASE(flashsim_test_pareto),
	KUNIT_CASE(flashsim_test_pareto_bounds),
	KUNIT_CASE(flashsim_test_pareto_depends_on_sector_and_time),
	KUNIT_CASE(flashsim_test_region),
	KUNIT_CASE(flashsim_test_only_matching_ios_are_counted),
	KUNIT_CASE(flashsim_test_turns),
	{}
};

static struct kunit_suite flashsim_inject_suite = {
	.name = "flashsim-inject",
	.test_cases = flashsim_inject_cases,
};

kunit_test_suite(flashsim_inject_suite);
