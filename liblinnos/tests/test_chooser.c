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

struct array {
	struct chooser chooser;
	struct chooser_common common;
	struct observer drives[N];
};

static void setup(struct array *a, uint64_t explore_ns)
{
	chooser_init(&a->chooser, &a->common, N, a->drives, models, explore_ns, 0, false);
	/* Redirect reads as with trees. The predictions remain means, which are known exactly. */
	a->common.chooses = (1 << N) - 1;
}

/* Four reads complete. */
static void heard(struct array *a, unsigned int drive, uint64_t now_ns, uint64_t latency_us)
{
	assert(now_ns >= latency_us * US);
	for (unsigned int i = 0; i < LINNOS_HISTORY; i++) {
		struct linnos_io io;

		observer_sent(&a->drives[drive], &io, now_ns - latency_us * US, 0, 1, true);
		observer_ended(&a->drives[drive], &io, now_ns, OBSERVED_ANSWERED);
	}
}

/* Four reads of each drive complete, in this number of us. */
static void heard_all(struct array *a, uint64_t now_ns, uint64_t first_us, uint64_t second_us,
		      uint64_t third_us)
{
	const uint64_t us[N] = {first_us, second_us, third_us};

	for (unsigned int k = 0; k < N; k++)
		heard(a, k, now_ns, us[k]);
}

static unsigned int chosen(struct array *a, unsigned int home, uint64_t now_ns, int *copy)
{
	struct choice choice = chooser_read(&a->chooser, home, 0, 1, now_ns);

	*copy = choice.copy;
	return choice.drive;
}

static unsigned int choose(struct array *a, unsigned int home, uint64_t now_ns)
{
	return chooser_read(&a->chooser, home, 0, 1, now_ns).drive;
}

TEST(chooser_returns_lowest_prediction_and_default_drive_on_ties)
{
	struct array a;

	setup(&a, 0);
	for (unsigned int home = 0; home < N; home++)
		assert(choose(&a, home, MS) == home);
	heard_all(&a, 2 * MS, 300, 100, 100);
	assert(choose(&a, 0, 2 * MS) == 1);
	assert(choose(&a, 1, 2 * MS) == 1);
	assert(choose(&a, 2, 2 * MS) == 2);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, 1 << 1) == 2);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, 1 << 1 | 1 << 2) == 0);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, (1 << N) - 1) == -1);
}

TEST(chooser_redirects_only_beyond_the_margin)
{
	struct array a;

	setup(&a, 0);
	a.chooser.margin_percent = 25;
	heard_all(&a, MS, 200, 150, 180);
	assert(choose(&a, 0, MS) == 0);
	heard(&a, 1, MS, 149);
	assert(choose(&a, 0, MS) == 1);
	assert(choose(&a, 2, MS) == 2);
	/* If the default drive is excluded, the smallest difference decides. */
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, MS, 1 << 0) == 1);
}

TEST(overdue_read_raises_prediction_of_its_drive)
{
	struct array a;
	struct linnos_io io;

	setup(&a, 0);
	heard_all(&a, MS, 100, 150, 900);
	observer_sent(&a.drives[0], &io, MS, 0, 1, true);
	assert(choose(&a, 0, MS) == 0);
	assert(choose(&a, 0, MS + (OVERDUE_US + 150) * US) == 0);
	assert(choose(&a, 0, MS + (OVERDUE_US + 151) * US) == 1);
	observer_ended(&a.drives[0], &io, 2 * MS, OBSERVED_IGNORED);
	assert(choose(&a, 0, 2 * MS) == 0);
}

TEST(failing_drive_ranks_last_until_it_answers)
{
	struct array a;
	struct linnos_io io;

	setup(&a, 0);
	heard(&a, 1, MS, 100);
	heard(&a, 2, MS, 100);
	observer_sent(&a.drives[0], &io, MS, 0, 1, true);
	observer_ended(&a.drives[0], &io, MS, OBSERVED_FAILED);
	assert(choose(&a, 0, MS) == 1);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, MS, 1 << 1 | 1 << 2) == 0);
	observer_sent(&a.drives[0], &io, MS, 0, 1, true);
	observer_ended(&a.drives[0], &io, MS, OBSERVED_ANSWERED);
	assert(choose(&a, 0, MS) == 0);
}

TEST(dropped_drive_is_never_chosen)
{
	struct array a;
	int copy;

	setup(&a, 20 * MS);
	heard_all(&a, MS, 100, 300, 200);
	assert(choose(&a, 0, MS) == 0);
	a.common.dropped = 1 << 0;
	assert(choose(&a, 1, MS) == 2);
	assert(chooser_find_fastest(&a.chooser, 1, 0, 1, MS, 1 << 1 | 1 << 2) == -1);
	/* Regardless of how long it has been stale. */
	for (unsigned int i = 0; i < 1000; i++)
		assert(chosen(&a, 1 + i % 2, (30 + 30 * i) * MS, &copy) != 0 && copy != 0);
}

/* Results of a run: reads by drive, and copies. */
struct served {
	unsigned int by[N], copies;
};

/* Each drive has a latency that is so short that a read completes before the next one arrives. */
static struct served run(struct array *a, uint64_t *now_ns, unsigned int reads, uint64_t every_ns,
			 const uint64_t *latency_us)
{
	struct served served = {0};

	for (unsigned int i = 0; i < reads; i++, *now_ns += every_ns) {
		int copy;
		unsigned int drive = chosen(a, i % N, *now_ns, &copy);
		struct linnos_io io;

		served.by[drive]++;
		served.copies += copy >= 0;
		assert(copy != (int)drive);
		for (unsigned int k = 0; k < N; k++) {
			if (k != drive && (int)k != copy)
				continue;
			observer_sent(&a->drives[k], &io, *now_ns, 0, 1, true);
			observer_ended(&a->drives[k], &io, *now_ns + latency_us[k] * US,
				       OBSERVED_ANSWERED);
		}
	}
	return served;
}

TEST(probe_copies_are_at_most_one_percent_of_reads)
{
	static const uint64_t every_ns[] = {10 * US, 1 * MS, 30 * MS, 1000 * MS};
	static const uint64_t latency_us[N] = {1, 5000, 5};

	for (unsigned int i = 0; i < sizeof(every_ns) / sizeof(*every_ns); i++) {
		struct array a;
		uint64_t now_ns = 10 * MS;
		struct served served;

		setup(&a, 20 * MS);
		heard_all(&a, 10 * MS, 1, 5000, 5);
		served = run(&a, &now_ns, 100000, every_ns[i], latency_us);
		assert(served.copies > 0 && served.copies <= 1000);
		/* No user waits for the drives that are probed. */
		assert(served.by[0] == 100000);
	}
}

TEST(probe_copies_count_against_the_extra_io_cap)
{
	static const uint64_t latency_us[N] = {1, 5000, 5};
	static const struct {
		double share;
		bool hedges;
		unsigned int most;
	} cases[] = {
		{0.05, false, 1000}, {0.05, true, 1000},  {0.01, true, 200},
		{0.01, false, 1000}, {0.002, false, 200}, {0, false, 0},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct budget extra = {.share = cases[i].share, .burst = 100};
		struct array a;
		uint64_t now_ns = 10 * MS;
		struct served served;

		setup(&a, 20 * MS);
		chooser_set_probe_budget(&a.chooser, cases[i].share,
					 cases[i].hedges ? &extra : NULL);
		extra.tokens = 1e6;
		heard(&a, 0, 10 * MS, 1);
		served = run(&a, &now_ns, 100000, MS, latency_us);
		assert(served.copies <= cases[i].most);
		assert(served.copies + 20 >= cases[i].most);
		if (cases[i].hedges)
			assert(extra.tokens == 1e6 - served.copies);
		/* Hedges have spent the whole budget. */
		extra.tokens = 0;
		served = run(&a, &now_ns, 10000, MS, latency_us);
		assert(!cases[i].hedges || !served.copies);
	}
}

TEST(recovered_drive_is_used_again)
{
	static const uint64_t slow[N] = {5000, 200, 300}, recovered[N] = {100, 200, 300};
	struct array a;
	uint64_t now_ns = 10 * MS;
	struct served served;

	setup(&a, 20 * MS);
	heard(&a, 0, 10 * MS, 5000);
	/* The other drives have no history yet, so they are tried before this one. */
	served = run(&a, &now_ns, 10000, 100 * US, slow);
	assert(served.by[0] == 0 && served.copies > 10);
	/* Its mean is updated by four reads. */
	served = run(&a, &now_ns, 2000, 100 * US, recovered);
	assert(served.by[0] > 800);
	served = run(&a, &now_ns, 1000, 100 * US, recovered);
	assert(served.by[0] > 980);
}

TEST(slow_drive_is_never_used_again_without_probes)
{
	static const uint64_t recovered[N] = {100, 200, 300};
	struct array a;
	uint64_t now_ns = 10 * MS;
	struct served served;

	setup(&a, 0);
	heard_all(&a, 10 * MS, 5000, 200, 300);
	served = run(&a, &now_ns, 10000, 100 * US, recovered);
	assert(served.by[0] == 0 && served.copies == 0);
}

/* --- Drives that fail, hang or are slow ------------------------------------------------ */

TEST(quiet_time_doubles_with_each_consecutive_failure)
{
	struct array a;
	struct linnos_io io;
	uint64_t now_ns = MS, quiet_ns = 100 * 2 * MS;

	setup(&a, 20 * MS);
	a.common.start_ns = now_ns;
	for (unsigned int i = 0; i < 20; i++) {
		struct linnos_io concurrent;
		int copy;

		observer_sent(&a.drives[1], &io, now_ns, 0, 1, true);
		observer_sent(&a.drives[1], &concurrent, now_ns, 0, 1, true);
		now_ns += 2 * MS;
		observer_ended(&a.drives[1], &io, now_ns, OBSERVED_FAILED);
		/* It was in flight when the first one failed, so this is not a new failure. */
		observer_ended(&a.drives[1], &concurrent, now_ns, OBSERVED_FAILED);
		heard(&a, 0, now_ns + quiet_ns - 1, 100);
		heard(&a, 2, now_ns + quiet_ns - 1, 100);
		a.chooser.budget.tokens = 10;
		chosen(&a, 0, now_ns + quiet_ns - 1, &copy);
		assert(copy == -1);
		assert(chosen(&a, 1, now_ns + quiet_ns, &copy) != 1 && copy == 1);
		now_ns += quiet_ns;
		quiet_ns = 2 * quiet_ns < 60000 * MS ? 2 * quiet_ns : 60000 * MS;
	}
}

TEST(slow_drive_is_not_probed_in_its_quiet_time_when_users_probe)
{
	struct array a;
	struct linnos_io io;
	int copy;

	setup(&a, 20 * MS);
	a.common.start_ns = MS;
	observer_sent(&a.drives[1], &io, MS, 0, 1, true);
	observer_ended(&a.drives[1], &io, 501 * MS, OBSERVED_ANSWERED);
	for (unsigned int users = 0; users < 2; users++) {
		a.common.users_probe = users;
		a.chooser.budget.tokens = 10;
		heard(&a, 0, 600 * MS, 100);
		heard(&a, 2, 600 * MS, 100);
		chosen(&a, 0, 600 * MS, &copy);
		assert(copy == (users ? -1 : 1));
	}
	heard(&a, 0, 51000 * MS, 100);
	heard(&a, 2, 51000 * MS, 100);
	chosen(&a, 0, 51000 * MS, &copy);
	assert(copy == 1);
}

TEST(large_reads_have_a_longer_limit)
{
	struct array a;
	struct linnos_io io;

	setup(&a, 20 * MS);
	a.common.chooses = 0;
	/* 64 MiB. */
	observer_sent(&a.drives[0], &io, MS, 0, 16384, true);
	assert(choose(&a, 0, 1001 * MS) == 0);
	observer_ended(&a.drives[0], &io, 1001 * MS, OBSERVED_ANSWERED);
	assert(choose(&a, 0, 1001 * MS) == 0);
	observer_sent(&a.drives[0], &io, 1001 * MS, 0, 1, true);
	assert(choose(&a, 0, 1021 * MS) == 0);
	assert(choose(&a, 0, 1022 * MS) == 1);
}

/* The latencies of the default drive and of the other one are also their predictions. */
static unsigned int leaves(struct array *a, unsigned int n, uint64_t default_us, uint64_t other_us,
			   uint64_t redirected_us)
{
	unsigned int n_left = 0;
	uint64_t now_ns = 10 * MS;

	for (unsigned int i = 0; i < n; i++, now_ns += 10 * MS) {
		struct choice choice;

		heard_all(a, now_ns, default_us, other_us, 2 * default_us);
		choice = chooser_read(&a->chooser, 0, 0, 1, now_ns);
		assert(choice.drive < 2);
		chooser_answered(&a->chooser, choice.assignment,
				 (choice.drive ? redirected_us : default_us) * US);
		n_left += choice.drive;
	}
	return n_left;
}

TEST(concurrent_reads_do_not_all_go_to_one_drive)
{
	struct linnos_io ios[60];
	unsigned int n_left = 0;
	struct array a;

	setup(&a, 0);
	heard_all(&a, MS, OVERDUE_US, OVERDUE_US / 4, OVERDUE_US);
	for (unsigned int i = 0; i < 60; i++) {
		unsigned int drive = choose(&a, 0, MS);

		assert(drive < 2);
		observer_sent(&a.drives[drive], &ios[i], MS, 0, 1, true);
		n_left += drive;
	}
	/* The first thirty, and then as many as those that stay. */
	assert(n_left >= 43 && n_left <= 47);
}

TEST(guard_redirects_only_when_that_reduces_latency)
{
	struct array a;

	setup(&a, 0);
	a.common.unguarded = false;
	leaves(&a, 100, 2 * OVERDUE_US, OVERDUE_US, OVERDUE_US);
	assert(leaves(&a, 1000, 2 * OVERDUE_US, OVERDUE_US, OVERDUE_US) > 900);
	setup(&a, 0);
	a.common.unguarded = false;
	leaves(&a, 100, 2 * OVERDUE_US, OVERDUE_US, 4 * OVERDUE_US);
	assert(leaves(&a, 1000, 2 * OVERDUE_US, OVERDUE_US, 4 * OVERDUE_US) < 60);
	/* Unguarded, all are redirected, even if that is slower. */
	setup(&a, 0);
	assert(leaves(&a, 1000, 2 * OVERDUE_US, OVERDUE_US, 4 * OVERDUE_US) == 1000);
}

TEST(unhealthy_default_drive_needs_no_control_group)
{
	struct array a;
	struct linnos_io io;

	setup(&a, 0);
	a.common.unguarded = false;
	observer_sent(&a.drives[0], &io, MS, 0, 1, true);
	observer_ended(&a.drives[0], &io, 2 * MS, OBSERVED_FAILED);
	for (unsigned int i = 0; i < 1000; i++) {
		struct choice choice = chooser_read(&a.chooser, 0, 0, 1, 3 * MS);

		assert(choice.drive != 0 && choice.assignment.slowness == LINNOS_SLOWNESS_NONE);
	}
}

TEST(guarded_probe_copies_go_only_to_avoided_drives)
{
	struct array a;
	int copy;

	setup(&a, 20 * MS);
	a.common.unguarded = false;
	a.chooser.budget.tokens = 10;
	heard_all(&a, MS, 100, 100, 100);
	chosen(&a, 0, 30 * MS, &copy);
	assert(copy == -1);
	heard_all(&a, 100 * MS, 100, 4 * OVERDUE_US, 100);
	chosen(&a, 0, 130 * MS, &copy);
	assert(copy == 1);
}

TEST(model_that_does_not_choose_redirects_no_read)
{
	struct array a;
	struct linnos_io io;

	chooser_init(&a.chooser, &a.common, N, a.drives, models, 20 * MS, 0, false);
	assert(!a.common.chooses);
	heard_all(&a, MS, 900, 100, 100);
	assert(choose(&a, 0, MS) == 0);
	/* Only the default drive has such a model; then only the other one. */
	a.common.chooses = 1 << 0;
	assert(choose(&a, 0, MS) == 0);
	a.common.chooses = 1 << 1;
	assert(choose(&a, 0, MS) == 0);
	a.common.chooses = 1 << 0 | 1 << 2;
	assert(choose(&a, 0, MS) == 2);
	/* Unless the default drive fails. */
	a.common.chooses = 0;
	observer_sent(&a.drives[0], &io, MS, 0, 1, true);
	observer_ended(&a.drives[0], &io, 2 * MS, OBSERVED_FAILED);
	assert(choose(&a, 0, 2 * MS) == 1);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, 1 << 1) == 2);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, 1 << 1 | 1 << 2) == 0);
}

TEST(drive_with_a_read_in_flight_is_not_probed)
{
	struct array a;
	struct linnos_io io;
	int copy;

	setup(&a, 20 * MS);
	heard_all(&a, MS, 100, 100, 400);
	choose(&a, 0, MS);
	a.chooser.budget.tokens = 10;
	observer_sent(&a.drives[2], &io, MS, 0, 1, true);
	heard(&a, 0, 30 * MS, 100);
	heard(&a, 1, 30 * MS, 100);
	assert(chosen(&a, 0, 30 * MS, &copy) == 0 && copy == -1);
	observer_ended(&a.drives[2], &io, 31 * MS, OBSERVED_IGNORED);
	assert(chosen(&a, 0, 31 * MS, &copy) == 0 && copy == 2);
}

TEST(external_prediction_replaces_the_models)
{
	struct external_predictions external = {.known = 1 << 0 | 1 << 1, .us = {900, 50}};
	struct array a;

	setup(&a, 0);
	heard_all(&a, 2 * MS, 100, 500, 200);
	assert(choose(&a, 0, 2 * MS) == 0);
	a.chooser.external = &external;
	assert(choose(&a, 0, 2 * MS) == 1);
	assert(a.chooser.us[0] == 900 && a.chooser.us[1] == 50);
	/* There is no external prediction for the third drive. */
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, 1 << 1) == 2);
	external.last = 1 << 1;
	assert(choose(&a, 0, 2 * MS) == 2 && choose(&a, 1, 2 * MS) == 2);
	/* A failed read has priority. */
	external.last = 0;
	a.drives[1].failing = true;
	assert(choose(&a, 0, 2 * MS) == 2);
}

TEST(external_predictions_request_probes)
{
	struct external_predictions external = {.known = 1 << 0 | 1 << 1 | 1 << 2,
						.us = {100, 900, 900}};
	struct array a;
	int copy;

	setup(&a, MS);
	heard_all(&a, 2 * MS, 100, 100, 100);
	choose(&a, 0, 2 * MS);
	a.chooser.external = &external;
	/* It has been stale for long, but is not probed without a request. */
	assert(chosen(&a, 0, 900 * MS, &copy) == 0 && copy == -1);
	a.chooser.budget.tokens = 10;
	external.probe = 1 << 2;
	assert(chosen(&a, 0, 900 * MS, &copy) == 0 && copy == 2);
	a.drives[2].failing = true;
	assert(chosen(&a, 0, 900 * MS, &copy) == 0 && copy == -1);
	a.drives[2].failing = false;
	a.common.dropped = 1 << 2;
	assert(chosen(&a, 0, 900 * MS, &copy) == 0 && copy == -1);
}

/* --- Several threads, and which drives are predicted ------------------------------------- */

TEST(reads_stay_at_idle_default_drive_without_predictions)
{
	struct array a;

	setup(&a, 0);
	a.chooser.margin_percent = 25;
	a.chooser.max_unpredicted_reads = 8;
	heard_all(&a, MS, 100, 100, 100);
	assert(choose(&a, 0, MS) == 0 && a.chooser.n_unpredicted == 0);
	/* Another drive becomes faster. This is noticed only when all drives are predicted
	 * again. */
	heard(&a, 1, MS, 20);
	for (unsigned int i = 1; i <= 8; i++) {
		assert(choose(&a, 0, MS) == 0);
		assert(a.chooser.n_unpredicted == i && a.chooser.us[1] == 100);
	}
	assert(choose(&a, 0, MS) == 1 && a.chooser.n_unpredicted == 0 && a.chooser.us[1] == 20);
	/* Now the known predictions would redirect the read. */
	assert(choose(&a, 0, MS) == 1);
}

TEST(all_drives_are_predicted_when_the_default_drive_changes)
{
	struct linnos_io io;
	struct array a;

	setup(&a, 0);
	a.chooser.max_unpredicted_reads = 1000;
	heard_all(&a, MS, 100, 100, 100);
	assert(choose(&a, 0, MS) == 0 && choose(&a, 0, MS) == 0 && a.chooser.n_unpredicted == 1);
	/* A read there was slow. */
	heard(&a, 0, 2 * MS, 300);
	assert(choose(&a, 0, 2 * MS) == 1 && a.chooser.us[0] == 300);
	heard(&a, 0, 2 * MS, 100);
	heard(&a, 0, 2 * MS, 100);
	assert(choose(&a, 0, 2 * MS) == 0);
	/* The drive is not idle. */
	a.chooser.us[1] = 0;
	observer_sent(&a.drives[0], &io, 2 * MS, 0, 1, true);
	assert(choose(&a, 0, 2 * MS) == 0 && a.chooser.us[1] == 100);
	observer_ended(&a.drives[0], &io, 2 * MS + 100 * US, OBSERVED_ANSWERED);
	a.chooser.us[1] = 0;
	observer_sent(&a.drives[0], &io, 3 * MS, 0, 1, false);
	choose(&a, 0, 3 * MS);
	assert(a.chooser.us[1] == 100);
	observer_ended(&a.drives[0], &io, 3 * MS, OBSERVED_ANSWERED);
	/* The last prediction does not apply to a read of another size, and reads do not stay at an
	 * unhealthy drive. */
	a.chooser.us[0] = 7;
	chooser_read(&a.chooser, 0, 0, 2, 3 * MS);
	assert(a.chooser.us[0] == 100);
	a.drives[0].failing = true;
	assert(choose(&a, 0, 3 * MS) != 0);
}

TEST(idle_default_drive_is_predicted_for_every_fourth_read)
{
	unsigned int n_asked = 0;
	struct array a;

	setup(&a, 0);
	a.chooser.max_unpredicted_reads = 1000;
	heard_all(&a, MS, 100, 100, 100);
	choose(&a, 0, MS);
	for (unsigned int i = 0; i < 40; i++) {
		a.chooser.us[0] = 99;
		choose(&a, 0, MS);
		n_asked += a.chooser.us[0] == 100;
	}
	assert(n_asked == 40 / PREDICT_EVERY);
}

TEST(choosers_share_state_but_not_budgets)
{
	struct linnos_latency with_trees = {.overdue_us = 70, .n_trees = 32};
	struct linnos_latency *other[N] = {&mean_of_last, &mean_of_last, &mean_of_last};
	struct chooser second;
	struct array a;
	int copy;

	chooser_init(&a.chooser, &a.common, N, a.drives, other, 20 * MS, 0, true);
	a.chooser.budget.tokens = 5;
	chooser_join(&second, &a.chooser);
	assert(second.budget.tokens == 0 && second.common == &a.common);
	heard(&a, 0, MS, 100);
	assert(chooser_read(&second, 0, 0, 1, MS).drive == 0 && second.us[0] == 100);
	a.drives[2].failing = true;
	heard(&a, 0, 99 * MS, 100);
	heard(&a, 1, 99 * MS, 100);
	assert(chosen(&a, 2, 100 * MS, &copy) != 2 && copy == 2);
	assert(chooser_read(&second, 2, 0, 1, 100 * MS).copy == -1);
	WRITE_ONCE(a.common.dropped, 1u << 0);
	assert(chooser_find_fastest(&second, 1, 0, 1, 100 * MS, 1 << 1) == 2);
	/* A model is replaced. */
	assert(a.common.chooses == 0);
	other[1] = &with_trees;
	chooser_model_changed(&a.chooser, 1);
	assert(a.common.chooses == 1 << 1 && a.drives[1].overdue_us == 70);
}

TEST(guard_gets_a_sample_of_unassigned_latencies)
{
	struct array a;

	setup(&a, 0);
	for (unsigned int i = 0; i < STAYED_SAMPLE_EVERY; i++)
		chooser_answered_sampled(&a.chooser, (struct linnos_assignment){0}, (i + 1) * 1000);
	/* The first one is recorded. */
	assert(a.common.guard.mean_us >> 10 == 1);
	chooser_answered_sampled(
		&a.chooser,
		(struct linnos_assignment){.slowness = LINNOS_SLOWNESS_NORMAL, .redirected = true},
		1000);
	assert(a.common.guard.samples[LINNOS_SLOWNESS_NORMAL][LINNOS_REDIRECTED].n);
}

/* Read drive 1 until a read stays at the default drive; return how many are then in flight there.
 */
static unsigned int reads_until_default(uint64_t median_us)
{
	struct linnos_io ios[16];
	struct array a;
	unsigned int n = 0;

	setup(&a, 0);
	a.common.unguarded = true;
	heard_all(&a, 10 * MS, 400, 280, 1000);
	for (unsigned int i = 0; median_us && i < 500; i++)
		chooser_answered(&a.chooser, (struct linnos_assignment){0}, median_us * US);
	while (choose(&a, 0, 10 * MS) == 1) {
		assert(n < 16);
		observer_sent(&a.drives[1], &ios[n++], 10 * MS, 0, 1, true);
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
	struct array a;

	setup(&a, 0);
	for (unsigned int i = 0; i < 1000; i++)
		chooser_answered(&a.chooser, (struct linnos_assignment){0}, 100 * US);
	/* One slow read in ten does not move it, other than a mean. */
	for (unsigned int i = 0; i < 5000; i++)
		chooser_answered(&a.chooser, (struct linnos_assignment){0},
				 (i % 10 ? 100 : 50000) * US);
	assert(a.common.median_us >> MEDIAN_SHIFT >= 90 &&
	       a.common.median_us >> MEDIAN_SHIFT < 125);
	for (unsigned int i = 0; i < 1000; i++)
		chooser_answered(&a.chooser, (struct linnos_assignment){0}, 400 * US);
	assert(a.common.median_us >> MEDIAN_SHIFT > 380 &&
	       a.common.median_us >> MEDIAN_SHIFT < 420);
}
