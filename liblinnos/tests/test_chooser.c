// SPDX-License-Identifier: MIT
/* Choosing drives by predictions, with simulated drives. */
#include "chooser.h"

#include "test.h"

#include <stdlib.h>

#define US 1000ull
#define MS 1000000ull
#define N 3
#define OVERDUE_US 500

/* Without trees a prediction is the mean of the last four reads, but at least the minimum. */
static struct linnos_latency mean_of_last = {.overdue_us = OVERDUE_US};
static struct linnos_latency *models[N] = {&mean_of_last, &mean_of_last, &mean_of_last};

static struct chooser chooser;
static struct chooser_common common;
static struct observer drives[N];

static void setup(uint64_t probe_after_ns)
{
	chooser_init(&chooser, &common, N, drives, models, probe_after_ns, 0, false);
	/* Redirect reads as with trees. The predictions remain means, which are known exactly. */
	common.chooses = (1 << N) - 1;
}

/* Send a read, and complete it at @end_ns. */
static void read_once(unsigned int drive, uint64_t start_ns, uint64_t end_ns, enum observed_end end)
{
	struct linnos_io io;

	assert(start_ns <= end_ns);
	observer_sent(&drives[drive], &io, start_ns, 0, 1, true);
	observer_ended(&drives[drive], &io, end_ns, end);
}

/* Complete four reads of a drive, with this latency. */
static void complete_reads(unsigned int drive, uint64_t now_ns, uint64_t latency_us)
{
	for (unsigned int i = 0; i < LINNOS_HISTORY; i++)
		read_once(drive, now_ns - latency_us * US, now_ns, OBSERVED_ANSWERED);
}

/* Complete four reads of each drive, with these latencies. */
static void complete_on_all(uint64_t now_ns, uint64_t first_us, uint64_t second_us,
			    uint64_t third_us)
{
	const uint64_t us[N] = {first_us, second_us, third_us};

	for (unsigned int k = 0; k < N; k++)
		complete_reads(k, now_ns, us[k]);
}

/* The drive that a copy of the last read is sent to, or -1. */
static int copy;

static unsigned int choose(unsigned int home, uint64_t now_ns)
{
	struct choice choice = chooser_read(&chooser, home, 0, 1, now_ns);

	copy = choice.copy;
	return choice.drive;
}

static int copy_of(unsigned int home, uint64_t now_ns)
{
	choose(home, now_ns);
	return copy;
}

/* Return the fastest drive that is not excluded, or -1. */
static int fastest(unsigned int home, uint64_t now_ns, uint32_t excluded)
{
	return chooser_find_fastest(&chooser, home, 0, 1, now_ns, excluded);
}

TEST(chooser_returns_lowest_prediction_and_default_drive_on_ties)
{
	setup(0);
	for (unsigned int home = 0; home < N; home++)
		assert(choose(home, MS) == home);
	complete_on_all(2 * MS, 300, 100, 100);
	assert(choose(0, 2 * MS) == 1);
	assert(choose(1, 2 * MS) == 1);
	assert(choose(2, 2 * MS) == 2);
	assert(fastest(0, 2 * MS, 1 << 1) == 2);
	assert(fastest(0, 2 * MS, 1 << 1 | 1 << 2) == 0);
	assert(fastest(0, 2 * MS, (1 << N) - 1) == -1);
}

TEST(chooser_redirects_only_beyond_the_margin)
{
	setup(0);
	chooser.margin_percent = 25;
	complete_on_all(MS, 200, 150, 180);
	assert(choose(0, MS) == 0);
	complete_reads(1, MS, 149);
	assert(choose(0, MS) == 1);
	assert(choose(2, MS) == 2);
	/* If the default drive is excluded, the smallest difference decides. */
	assert(fastest(0, MS, 1 << 0) == 1);
}

TEST(overdue_read_raises_prediction_of_its_drive)
{
	struct linnos_io io;

	setup(0);
	complete_on_all(MS, 100, 150, 900);
	observer_sent(&drives[0], &io, MS, 0, 1, true);
	assert(choose(0, MS) == 0);
	assert(choose(0, MS + (OVERDUE_US + 150) * US) == 0);
	assert(choose(0, MS + (OVERDUE_US + 151) * US) == 1);
	observer_ended(&drives[0], &io, 2 * MS, OBSERVED_IGNORED);
	assert(choose(0, 2 * MS) == 0);
}

/* Results of a run: reads by drive, and copies. */
struct served {
	unsigned int by[N], copies;
};

/* Each drive has a latency that is so short that a read completes before the next one arrives. */
static struct served run(uint64_t *now_ns, unsigned int reads, uint64_t every_ns,
			 const uint64_t *latency_us)
{
	struct served served = {0};

	for (unsigned int i = 0; i < reads; i++, *now_ns += every_ns) {
		unsigned int drive = choose(i % N, *now_ns);

		served.by[drive]++;
		served.copies += copy >= 0;
		assert(copy != (int)drive);
		for (unsigned int k = 0; k < N; k++) {
			if (k == drive || (int)k == copy)
				read_once(k, *now_ns, *now_ns + latency_us[k] * US,
					  OBSERVED_ANSWERED);
		}
	}
	return served;
}

TEST(probe_copies_are_limited_by_reads_and_by_the_extra_io_cap)
{
	static const uint64_t latency_us[N] = {1, 5000, 5};
	static const struct {
		uint64_t every_ns;
		double share;
		bool hedges;
		unsigned int most;
	} cases[] = {
		/* At any rate of reads. */
		{10 * US, 1, false, 1000}, {30 * MS, 1, false, 1000}, {1000 * MS, 1, false, 1000},
		{MS, 0.05, false, 1000},   {MS, 0.05, true, 1000},    {MS, 0.01, true, 200},
		{MS, 0.002, false, 200},   {MS, 0, false, 0},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct budget extra = {.share = cases[i].share, .burst = 100};
		uint64_t now_ns = 10 * MS;
		struct served served;

		setup(20 * MS);
		chooser_set_probe_budget(&chooser, cases[i].share, cases[i].hedges ? &extra : NULL);
		extra.tokens = 1e6;
		complete_on_all(10 * MS, 1, 5000, 5);
		served = run(&now_ns, 100000, cases[i].every_ns, latency_us);
		assert(served.copies <= cases[i].most);
		assert(served.copies + 20 >= cases[i].most || cases[i].every_ns < MS);
		assert(served.copies || !cases[i].most);
		/* No user waits for the drives that are probed. */
		assert(served.by[0] == 100000);
		if (cases[i].hedges)
			assert(extra.tokens == 1e6 - served.copies);
		/* Hedges have spent the whole budget. */
		extra.tokens = 0;
		served = run(&now_ns, 10000, MS, latency_us);
		assert(!cases[i].hedges || !served.copies);
	}
}

TEST(recovered_drive_is_used_again_if_it_is_probed)
{
	static const uint64_t slow[N] = {5000, 200, 300}, recovered[N] = {100, 200, 300};

	for (int probes = 0; probes < 2; probes++) {
		uint64_t now_ns = 10 * MS;
		struct served served;

		setup(probes ? 20 * MS : 0);
		complete_on_all(10 * MS, 5000, 200, 300);
		served = run(&now_ns, 10000, 100 * US, slow);
		assert(served.by[0] == 0 && (served.copies > 10) == probes);
		/* Its mean is updated by four reads. */
		served = run(&now_ns, 2000, 100 * US, recovered);
		assert(probes ? served.by[0] > 800 : served.by[0] == 0);
		served = run(&now_ns, 1000, 100 * US, recovered);
		assert(probes ? served.by[0] > 980 : !served.copies);
	}
}

/* --- Drives that fail, hang or are slow ------------------------------------------------ */

TEST(quiet_time_doubles_with_each_consecutive_failure)
{
	struct linnos_io io;
	uint64_t now_ns = MS, quiet_ns = 100 * 2 * MS;

	setup(20 * MS);
	common.start_ns = now_ns;
	for (unsigned int i = 0; i < 20; i++) {
		struct linnos_io concurrent;

		observer_sent(&drives[1], &io, now_ns, 0, 1, true);
		observer_sent(&drives[1], &concurrent, now_ns, 0, 1, true);
		now_ns += 2 * MS;
		observer_ended(&drives[1], &io, now_ns, OBSERVED_FAILED);
		/* It was in flight when the first one failed, so this is not a new failure. */
		observer_ended(&drives[1], &concurrent, now_ns, OBSERVED_FAILED);
		complete_reads(0, now_ns + quiet_ns - 1, 100);
		complete_reads(2, now_ns + quiet_ns - 1, 100);
		chooser.budget.tokens = 10;
		assert(copy_of(0, now_ns + quiet_ns - 1) == -1);
		assert(choose(1, now_ns + quiet_ns) != 1 && copy == 1);
		now_ns += quiet_ns;
		quiet_ns = 2 * quiet_ns < 60000 * MS ? 2 * quiet_ns : 60000 * MS;
	}
}

TEST(large_reads_have_a_longer_limit)
{
	struct linnos_io io;

	setup(20 * MS);
	common.chooses = 0;
	/* 64 MiB. */
	observer_sent(&drives[0], &io, MS, 0, 16384, true);
	assert(choose(0, 1001 * MS) == 0);
	observer_ended(&drives[0], &io, 1001 * MS, OBSERVED_ANSWERED);
	assert(choose(0, 1001 * MS) == 0);
	observer_sent(&drives[0], &io, 1001 * MS, 0, 1, true);
	assert(choose(0, 1021 * MS) == 0);
	assert(choose(0, 1022 * MS) == 1);
}

/* Return how many of n reads are redirected. The latencies of the default drive and of the other
 * one are also their predictions. */
static unsigned int count_redirected(unsigned int n, uint64_t default_us, uint64_t other_us,
				     uint64_t redirected_us)
{
	unsigned int n_redirected = 0;
	uint64_t now_ns = 10 * MS;

	for (unsigned int i = 0; i < n; i++, now_ns += 10 * MS) {
		struct choice choice;

		complete_on_all(now_ns, default_us, other_us, 2 * default_us);
		choice = chooser_read(&chooser, 0, 0, 1, now_ns);
		assert(choice.drive < 2);
		chooser_answered(&chooser, choice.assignment,
				 (choice.drive ? redirected_us : default_us) * US);
		n_redirected += choice.drive;
	}
	return n_redirected;
}

TEST(concurrent_reads_do_not_all_go_to_one_drive)
{
	struct linnos_io ios[60];
	unsigned int n_redirected = 0;

	setup(0);
	complete_on_all(MS, OVERDUE_US, OVERDUE_US / 4, OVERDUE_US);
	for (unsigned int i = 0; i < 60; i++) {
		unsigned int drive = choose(0, MS);

		assert(drive < 2);
		observer_sent(&drives[drive], &ios[i], MS, 0, 1, true);
		n_redirected += drive;
	}
	/* The first thirty, and then as many as those that stay. */
	assert(n_redirected >= 43 && n_redirected <= 47);
}

TEST(guard_redirects_only_when_that_reduces_latency)
{
	for (int slower = 0; slower < 2; slower++) {
		const uint64_t redirected_us = slower ? 4 * OVERDUE_US : OVERDUE_US;
		unsigned int n_redirected;

		setup(0);
		common.unguarded = false;
		count_redirected(100, 2 * OVERDUE_US, OVERDUE_US, redirected_us);
		n_redirected = count_redirected(1000, 2 * OVERDUE_US, OVERDUE_US, redirected_us);
		assert(slower ? n_redirected < 60 : n_redirected > 900);
	}
	/* Unguarded, all are redirected, even if that is slower. */
	setup(0);
	assert(count_redirected(1000, 2 * OVERDUE_US, OVERDUE_US, 4 * OVERDUE_US) == 1000);
}

TEST(unhealthy_default_drive_needs_no_control_group)
{
	setup(0);
	common.unguarded = false;
	read_once(0, MS, 2 * MS, OBSERVED_FAILED);
	for (unsigned int i = 0; i < 1000; i++) {
		struct choice choice = chooser_read(&chooser, 0, 0, 1, 3 * MS);

		assert(choice.drive != 0 && choice.assignment.slowness == LINNOS_SLOWNESS_NONE);
	}
}

TEST(guarded_probe_copies_go_only_to_avoided_drives)
{
	setup(20 * MS);
	common.unguarded = false;
	chooser.budget.tokens = 10;
	complete_on_all(MS, 100, 100, 100);
	assert(copy_of(0, 30 * MS) == -1);
	complete_on_all(100 * MS, 100, 4 * OVERDUE_US, 100);
	assert(copy_of(0, 130 * MS) == 1);
}

TEST(model_that_does_not_choose_redirects_no_read)
{
	chooser_init(&chooser, &common, N, drives, models, 20 * MS, 0, false);
	assert(!common.chooses);
	complete_on_all(MS, 900, 100, 100);
	assert(choose(0, MS) == 0);
	/* Only the default drive has such a model; then only the other one. */
	common.chooses = 1 << 0;
	assert(choose(0, MS) == 0);
	common.chooses = 1 << 1;
	assert(choose(0, MS) == 0);
	common.chooses = 1 << 0 | 1 << 2;
	assert(choose(0, MS) == 2);
	/* Unless the default drive fails. */
	common.chooses = 0;
	read_once(0, MS, 2 * MS, OBSERVED_FAILED);
	assert(choose(0, 2 * MS) == 1);
	assert(fastest(0, 2 * MS, 1 << 1) == 2);
	assert(fastest(0, 2 * MS, 1 << 1 | 1 << 2) == 0);
}

TEST(external_prediction_replaces_the_models)
{
	struct external_predictions external = {.known = 1 << 0 | 1 << 1, .us = {900, 50}};

	setup(0);
	complete_on_all(2 * MS, 100, 500, 200);
	assert(choose(0, 2 * MS) == 0);
	chooser.external = &external;
	assert(choose(0, 2 * MS) == 1);
	assert(chooser.us[0] == 900 && chooser.us[1] == 50);
	/* There is no external prediction for the third drive. */
	assert(fastest(0, 2 * MS, 1 << 1) == 2);
	external.last = 1 << 1;
	assert(choose(0, 2 * MS) == 2 && choose(1, 2 * MS) == 2);
	/* A failed read has priority. */
	external.last = 0;
	drives[1].failing = true;
	assert(choose(0, 2 * MS) == 2);
}

TEST(external_predictions_request_probes)
{
	struct external_predictions external = {.known = 1 << 0 | 1 << 1 | 1 << 2,
						.us = {100, 900, 900}};

	setup(MS);
	complete_on_all(2 * MS, 100, 100, 100);
	choose(0, 2 * MS);
	chooser.external = &external;
	/* It has been stale for long, but is not probed without a request. */
	assert(choose(0, 900 * MS) == 0 && copy == -1);
	chooser.budget.tokens = 10;
	external.probe = 1 << 2;
	assert(choose(0, 900 * MS) == 0 && copy == 2);
	drives[2].failing = true;
	assert(choose(0, 900 * MS) == 0 && copy == -1);
	drives[2].failing = false;
	common.dropped = 1 << 2;
	assert(choose(0, 900 * MS) == 0 && copy == -1);
}

/* --- Several threads, and which drives are predicted ------------------------------------- */

TEST(reads_stay_at_idle_default_drive_without_predictions)
{
	setup(0);
	chooser.margin_percent = 25;
	chooser.max_unpredicted_reads = 8;
	complete_on_all(MS, 100, 100, 100);
	assert(choose(0, MS) == 0 && chooser.n_unpredicted == 0);
	/* Another drive becomes faster. This is noticed only when all drives are predicted
	 * again. */
	complete_reads(1, MS, 20);
	for (unsigned int i = 1; i <= 8; i++) {
		assert(choose(0, MS) == 0);
		assert(chooser.n_unpredicted == i && chooser.us[1] == 100);
	}
	assert(choose(0, MS) == 1 && chooser.n_unpredicted == 0 && chooser.us[1] == 20);
	/* Now the known predictions would redirect the read. */
	assert(choose(0, MS) == 1);
}

TEST(all_drives_are_predicted_when_the_default_drive_changes)
{
	struct linnos_io io;

	setup(0);
	chooser.max_unpredicted_reads = 1000;
	complete_on_all(MS, 100, 100, 100);
	assert(choose(0, MS) == 0 && choose(0, MS) == 0 && chooser.n_unpredicted == 1);
	/* A read there was slow. */
	complete_reads(0, 2 * MS, 300);
	assert(choose(0, 2 * MS) == 1 && chooser.us[0] == 300);
	complete_reads(0, 2 * MS, 100);
	complete_reads(0, 2 * MS, 100);
	assert(choose(0, 2 * MS) == 0);
	/* The drive is not idle. */
	chooser.us[1] = 0;
	observer_sent(&drives[0], &io, 2 * MS, 0, 1, true);
	assert(choose(0, 2 * MS) == 0 && chooser.us[1] == 100);
	observer_ended(&drives[0], &io, 2 * MS + 100 * US, OBSERVED_ANSWERED);
	chooser.us[1] = 0;
	observer_sent(&drives[0], &io, 3 * MS, 0, 1, false);
	choose(0, 3 * MS);
	assert(chooser.us[1] == 100);
	observer_ended(&drives[0], &io, 3 * MS, OBSERVED_ANSWERED);
	/* The last prediction does not apply to a read of another size, and reads do not stay at an
	 * unhealthy drive. */
	chooser.us[0] = 7;
	chooser_read(&chooser, 0, 0, 2, 3 * MS);
	assert(chooser.us[0] == 100);
	drives[0].failing = true;
	assert(choose(0, 3 * MS) != 0);
}

TEST(idle_default_drive_is_predicted_for_every_fourth_read)
{
	unsigned int n_predicted = 0;

	setup(0);
	chooser.max_unpredicted_reads = 1000;
	complete_on_all(MS, 100, 100, 100);
	choose(0, MS);
	for (unsigned int i = 0; i < 40; i++) {
		chooser.us[0] = 99;
		choose(0, MS);
		n_predicted += chooser.us[0] == 100;
	}
	assert(n_predicted == 40 / PREDICT_EVERY);
}

TEST(choosers_share_state_but_not_budgets)
{
	struct linnos_latency with_trees = {.overdue_us = 70, .n_trees = 32};
	struct linnos_latency *other[N] = {&mean_of_last, &mean_of_last, &mean_of_last};
	struct chooser second;

	chooser_init(&chooser, &common, N, drives, other, 20 * MS, 0, true);
	chooser.budget.tokens = 5;
	chooser_join(&second, &chooser);
	assert(second.budget.tokens == 0 && second.common == &common);
	complete_reads(0, MS, 100);
	assert(chooser_read(&second, 0, 0, 1, MS).drive == 0 && second.us[0] == 100);
	drives[2].failing = true;
	complete_reads(0, 99 * MS, 100);
	complete_reads(1, 99 * MS, 100);
	assert(choose(2, 100 * MS) != 2 && copy == 2);
	assert(chooser_read(&second, 2, 0, 1, 100 * MS).copy == -1);
	WRITE_ONCE(common.dropped, 1u << 0);
	assert(chooser_find_fastest(&second, 1, 0, 1, 100 * MS, 1 << 1) == 2);
	/* A model is replaced. */
	assert(common.chooses == 0);
	other[1] = &with_trees;
	chooser_model_changed(&chooser, 1);
	assert(common.chooses == 1 << 1 && drives[1].overdue_us == 70);
}

TEST(guard_gets_a_sample_of_unassigned_latencies)
{
	setup(0);
	for (unsigned int i = 0; i < UNASSIGNED_SAMPLE_EVERY; i++)
		chooser_answered_sampled(&chooser, (struct linnos_assignment){0}, (i + 1) * 1000);
	/* The first one is recorded. */
	assert(common.guard.mean_us >> 10 == 1);
	chooser_answered_sampled(
		&chooser,
		(struct linnos_assignment){.slowness = LINNOS_SLOWNESS_NORMAL, .redirected = true},
		1000);
	assert(common.guard.samples[LINNOS_SLOWNESS_NORMAL][LINNOS_REDIRECTED].n);
}

/* Return the median after this number of reads. One in ten of them is slow. */
static uint64_t median_after(unsigned int reads, uint64_t us, uint64_t slow_us)
{
	for (unsigned int i = 0; i < reads; i++)
		chooser_answered(&chooser, (struct linnos_assignment){0},
				 (i % 10 ? us : slow_us) * US);
	return common.median_us >> MEDIAN_SHIFT;
}

/* Read drive 1 until a read stays at the default drive; return how many are then in flight there.
 */
static unsigned int reads_until_default(uint64_t median_us)
{
	struct linnos_io ios[16];
	unsigned int n = 0;

	setup(0);
	common.unguarded = true;
	complete_on_all(10 * MS, 400, 280, 1000);
	if (median_us)
		median_after(500, median_us, median_us);
	while (choose(0, 10 * MS) == 1) {
		assert(n < 16);
		observer_sent(&drives[1], &ios[n++], 10 * MS, 0, 1, true);
	}
	return n;
}

TEST(read_in_flight_costs_a_seventh_of_the_median_latency)
{
	/* 280 us + n * 196 / 7 us, compared with 400 us */
	assert(reads_until_default(196) == 5);
	assert(reads_until_default(560) == 2);
	assert(reads_until_default(2800) == 1);
	/* Without a completion, a fortieth of the overdue time */
	assert(reads_until_default(0) == 10);
}

TEST(median_follows_a_change_of_load)
{
	uint64_t median_us;

	setup(0);
	median_after(1000, 100, 100);
	/* One slow read in ten does not move it, other than a mean. */
	median_us = median_after(5000, 100, 50000);
	assert(median_us >= 90 && median_us < 125);
	median_us = median_after(1000, 400, 400);
	assert(median_us > 380 && median_us < 420);
}
