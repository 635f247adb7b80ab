// SPDX-License-Identifier: MIT
/* Where reads go by their predictions, on drives that are made up here. */
#include "chooser.h"

#include "test.h"

#include <stdlib.h>

#define US 1000ull
#define MS 1000000ull
#define N 3
#define OVERDUE_US 500

/* Without trees a prediction is the mean of the last four reads, and the floor. */
static struct linnos_latency mean_of_last = {.overdue_us = OVERDUE_US};
static struct linnos_latency *models[N] = {&mean_of_last, &mean_of_last, &mean_of_last};

struct array {
	struct chooser chooser;
	struct observer drives[N];
};

static void setup(struct array *a, uint64_t explore_ns)
{
	chooser_init(&a->chooser, N, a->drives, models, explore_ns, 0);
}

/* Four reads, of which the last has just been answered. */
static void heard(struct array *a, unsigned int drive, uint64_t now_ns, uint64_t latency_us)
{
	assert(now_ns >= latency_us * US);
	for (unsigned int i = 0; i < LINNOS_HISTORY; i++) {
		struct observed io;

		observer_sent(&a->drives[drive], &io, now_ns - latency_us * US, 1, true);
		observer_ended(&a->drives[drive], &io, now_ns, OBSERVED_ANSWERED);
	}
}

static unsigned int choose(struct array *a, unsigned int home, uint64_t now_ns)
{
	bool explored;

	return chooser_read(&a->chooser, home, 1, now_ns, &explored);
}

TEST(the_lowest_prediction_is_chosen_and_equals_stay_at_home)
{
	struct array a;

	setup(&a, 0);
	for (unsigned int home = 0; home < N; home++)
		assert(choose(&a, home, MS) == home);
	heard(&a, 0, 2 * MS, 300);
	heard(&a, 1, 2 * MS, 100);
	heard(&a, 2, 2 * MS, 100);
	assert(choose(&a, 0, 2 * MS) == 1);
	assert(choose(&a, 1, 2 * MS) == 1);
	assert(choose(&a, 2, 2 * MS) == 2);
	assert(chooser_lowest(&a.chooser, 0, 1, 2 * MS, 1 << 1) == 2);
	assert(chooser_lowest(&a.chooser, 0, 1, 2 * MS, 1 << 1 | 1 << 2) == 0);
	assert(chooser_lowest(&a.chooser, 0, 1, 2 * MS, (1 << N) - 1) == -1);
}

TEST(a_read_leaves_home_for_more_than_the_margin)
{
	struct array a;

	chooser_init(&a.chooser, N, a.drives, models, 0, 25);
	heard(&a, 0, MS, 200);
	heard(&a, 1, MS, 150);
	heard(&a, 2, MS, 180);
	assert(choose(&a, 0, MS) == 0);
	heard(&a, 1, MS, 149);
	assert(choose(&a, 0, MS) == 1);
	assert(choose(&a, 2, MS) == 2);
	/* From elsewhere than home the least difference counts. */
	assert(chooser_lowest(&a.chooser, 0, 1, MS, 1 << 0) == 1);
}

TEST(a_read_that_is_overdue_raises_its_drive)
{
	struct array a;
	struct observed io;

	setup(&a, 0);
	heard(&a, 0, MS, 100);
	heard(&a, 1, MS, 150);
	heard(&a, 2, MS, 900);
	observer_sent(&a.drives[0], &io, MS, 1, true);
	assert(choose(&a, 0, MS) == 0);
	assert(choose(&a, 0, MS + (OVERDUE_US + 150) * US) == 0);
	assert(choose(&a, 0, MS + (OVERDUE_US + 151) * US) == 1);
	observer_ended(&a.drives[0], &io, 2 * MS, OBSERVED_TAKEN_BACK);
	assert(choose(&a, 0, 2 * MS) == 0);
}

TEST(a_drive_that_fails_comes_last_and_one_answer_brings_it_back)
{
	struct array a;
	struct observed io;

	setup(&a, 0);
	heard(&a, 1, MS, 100);
	heard(&a, 2, MS, 100);
	observer_sent(&a.drives[0], &io, MS, 1, true);
	observer_ended(&a.drives[0], &io, MS, OBSERVED_FAILED);
	assert(choose(&a, 0, MS) == 1);
	assert(chooser_lowest(&a.chooser, 0, 1, MS, 1 << 1 | 1 << 2) == 0);
	observer_sent(&a.drives[0], &io, MS, 1, true);
	observer_ended(&a.drives[0], &io, MS, OBSERVED_ANSWERED);
	assert(choose(&a, 0, MS) == 0);
}

TEST(a_drive_that_is_gone_is_chosen_by_nobody)
{
	struct array a;
	bool explored;

	setup(&a, 20 * MS);
	heard(&a, 0, MS, 100);
	heard(&a, 1, MS, 300);
	heard(&a, 2, MS, 200);
	assert(choose(&a, 0, MS) == 0);
	a.chooser.gone = 1 << 0;
	assert(choose(&a, 1, MS) == 2);
	assert(chooser_lowest(&a.chooser, 1, 1, MS, 1 << 1 | 1 << 2) == -1);
	/* However long it has been silent. */
	for (unsigned int i = 0; i < 1000; i++)
		assert(chooser_read(&a.chooser, 1 + i % 2, 1, (30 + 30 * i) * MS, &explored) != 0);
}

/* Drives with a latency each, so fast that a read has its answer before the next one comes. */
static unsigned int run(struct array *a, uint64_t *now_ns, unsigned int reads, uint64_t every_ns,
			const uint64_t *latency_us, unsigned int *served)
{
	unsigned int n_explored = 0;

	memset(served, 0, N * sizeof(*served));
	for (unsigned int i = 0; i < reads; i++, *now_ns += every_ns) {
		bool explored;
		unsigned int drive = chooser_read(&a->chooser, i % N, 1, *now_ns, &explored);
		struct observed io;

		n_explored += explored;
		served[drive]++;
		observer_sent(&a->drives[drive], &io, *now_ns, 1, true);
		observer_ended(&a->drives[drive], &io, *now_ns + latency_us[drive] * US,
			       OBSERVED_ANSWERED);
	}
	return n_explored;
}

TEST(at_most_one_read_in_a_hundred_explores)
{
	static const uint64_t every_ns[] = {10 * US, 1 * MS, 30 * MS, 1000 * MS};
	static const uint64_t latency_us[N] = {1, 5000, 5};

	for (unsigned int i = 0; i < sizeof(every_ns) / sizeof(*every_ns); i++) {
		struct array a;
		uint64_t now_ns = 10 * MS;
		unsigned int served[N], explored;

		setup(&a, 20 * MS);
		heard(&a, 0, 10 * MS, 1);
		heard(&a, 1, 10 * MS, 5000);
		heard(&a, 2, 10 * MS, 5);
		explored = run(&a, &now_ns, 100000, every_ns[i], latency_us, served);
		assert(explored > 0 && explored <= 1000);
		assert(served[0] >= 99000);
	}
}

TEST(a_drive_that_was_bad_and_recovers_is_used_again)
{
	static const uint64_t slow[N] = {5000, 200, 300}, recovered[N] = {100, 200, 300};
	struct array a;
	uint64_t now_ns = 10 * MS;
	unsigned int served[N], explored;

	setup(&a, 20 * MS);
	heard(&a, 0, 10 * MS, 5000);
	explored = run(&a, &now_ns, 10000, 100 * US, slow, served);
	assert(served[0] <= explored + 1 && served[0] > 10);
	/* Four reads of its own make up its mean. */
	explored = run(&a, &now_ns, 2000, 100 * US, recovered, served);
	assert(served[0] > 800);
	run(&a, &now_ns, 1000, 100 * US, recovered, served);
	assert(served[0] > 980);
}

TEST(without_exploration_it_is_locked_out)
{
	static const uint64_t recovered[N] = {100, 200, 300};
	struct array a;
	uint64_t now_ns = 10 * MS;
	unsigned int served[N];

	setup(&a, 0);
	heard(&a, 0, 10 * MS, 5000);
	heard(&a, 1, 10 * MS, 200);
	heard(&a, 2, 10 * MS, 300);
	assert(run(&a, &now_ns, 10000, 100 * US, recovered, served) == 0);
	assert(served[0] == 0);
}

TEST(nobody_waits_longer_to_explore_than_the_drive_was_silent)
{
	static const uint64_t latency_us[N] = {100, 100, 100};
	struct array a;
	uint64_t now_ns = 500 * MS;
	unsigned int served[N];

	setup(&a, 20 * MS);
	heard(&a, 2, 500 * MS, 400000);
	heard(&a, 0, 500 * MS, 100);
	heard(&a, 1, 500 * MS, 100);
	run(&a, &now_ns, 3990, 100 * US, latency_us, served);
	assert(served[2] == 0);
	run(&a, &now_ns, 100, 100 * US, latency_us, served);
	assert(served[2] > 0);
}

TEST(a_read_under_way_will_tell)
{
	struct array a;
	struct observed io;
	bool explored;

	setup(&a, 20 * MS);
	heard(&a, 0, MS, 100);
	heard(&a, 1, MS, 100);
	heard(&a, 2, MS, 400);
	choose(&a, 0, MS);
	a.chooser.budget.tokens = 10;
	observer_sent(&a.drives[2], &io, MS, 1, true);
	heard(&a, 0, 30 * MS, 100);
	heard(&a, 1, 30 * MS, 100);
	assert(chooser_read(&a.chooser, 0, 1, 30 * MS, &explored) == 0 && !explored);
	observer_ended(&a.drives[2], &io, 31 * MS, OBSERVED_TAKEN_BACK);
	assert(chooser_read(&a.chooser, 0, 1, 31 * MS, &explored) == 2 && explored);
}

TEST(what_is_told_counts_instead_of_a_prediction)
{
	struct told told = {.known = 1 << 0 | 1 << 1, .us = {900, 50}};
	struct array a;

	setup(&a, 0);
	heard(&a, 0, 2 * MS, 100);
	heard(&a, 1, 2 * MS, 500);
	heard(&a, 2, 2 * MS, 200);
	assert(choose(&a, 0, 2 * MS) == 0);
	a.chooser.told = &told;
	assert(choose(&a, 0, 2 * MS) == 1);
	assert(a.chooser.us[0] == 900 && a.chooser.us[1] == 50);
	/* Of the third nothing is told. */
	assert(chooser_lowest(&a.chooser, 0, 1, 2 * MS, 1 << 1) == 2);
	told.last = 1 << 1;
	assert(choose(&a, 0, 2 * MS) == 2 && choose(&a, 1, 2 * MS) == 2);
	/* A read that failed says more. */
	told.last = 0;
	a.drives[1].failing = true;
	assert(choose(&a, 0, 2 * MS) == 2);
}

TEST(who_tells_says_when_to_look_at_a_drive)
{
	struct told told = {.known = 1 << 0 | 1 << 1 | 1 << 2, .us = {100, 900, 900}};
	struct array a;
	bool explored;

	setup(&a, MS);
	for (unsigned int k = 0; k < N; k++)
		heard(&a, k, 2 * MS, 100);
	choose(&a, 0, 2 * MS);
	a.chooser.told = &told;
	/* Silent for long, and not looked at by itself. */
	assert(chooser_read(&a.chooser, 0, 1, 900 * MS, &explored) == 0 && !explored);
	told.to_ask = 1 << 2;
	assert(chooser_read(&a.chooser, 0, 1, 900 * MS, &explored) == 2 && explored);
	a.drives[2].failing = true;
	assert(chooser_read(&a.chooser, 0, 1, 900 * MS, &explored) == 0 && !explored);
	a.drives[2].failing = false;
	a.chooser.gone = 1 << 2;
	assert(chooser_read(&a.chooser, 0, 1, 900 * MS, &explored) == 0 && !explored);
}
