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

/* Four reads, the last of which has just completed. */
static void heard(struct array *a, unsigned int drive, uint64_t now_ns, uint64_t latency_us)
{
	assert(now_ns >= latency_us * US);
	for (unsigned int i = 0; i < LINNOS_HISTORY; i++) {
		struct linnos_io io;

		observer_sent(&a->drives[drive], &io, now_ns - latency_us * US, 0, 1, true);
		observer_ended(&a->drives[drive], &io, now_ns, OBSERVED_ANSWERED);
	}
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
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, 1 << 1) == 2);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, 1 << 1 | 1 << 2) == 0);
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, 2 * MS, (1 << N) - 1) == -1);
}

TEST(a_read_leaves_home_for_more_than_the_margin)
{
	struct array a;

	setup(&a, 0);
	a.chooser.margin_percent = 25;
	heard(&a, 0, MS, 200);
	heard(&a, 1, MS, 150);
	heard(&a, 2, MS, 180);
	assert(choose(&a, 0, MS) == 0);
	heard(&a, 1, MS, 149);
	assert(choose(&a, 0, MS) == 1);
	assert(choose(&a, 2, MS) == 2);
	/* If the default drive is excluded, the smallest difference decides. */
	assert(chooser_find_fastest(&a.chooser, 0, 0, 1, MS, 1 << 0) == 1);
}

TEST(a_read_that_is_overdue_raises_its_drive)
{
	struct array a;
	struct linnos_io io;

	setup(&a, 0);
	heard(&a, 0, MS, 100);
	heard(&a, 1, MS, 150);
	heard(&a, 2, MS, 900);
	observer_sent(&a.drives[0], &io, MS, 0, 1, true);
	assert(choose(&a, 0, MS) == 0);
	assert(choose(&a, 0, MS + (OVERDUE_US + 150) * US) == 0);
	assert(choose(&a, 0, MS + (OVERDUE_US + 151) * US) == 1);
	observer_ended(&a.drives[0], &io, 2 * MS, OBSERVED_IGNORED);
	assert(choose(&a, 0, 2 * MS) == 0);
}

TEST(a_drive_that_fails_comes_last_and_one_answer_brings_it_back)
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

TEST(a_drive_that_is_gone_is_chosen_by_nobody)
{
	struct array a;
	int copy;

	setup(&a, 20 * MS);
	heard(&a, 0, MS, 100);
	heard(&a, 1, MS, 300);
	heard(&a, 2, MS, 200);
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

TEST(at_most_one_read_in_a_hundred_is_copied)
{
	static const uint64_t every_ns[] = {10 * US, 1 * MS, 30 * MS, 1000 * MS};
	static const uint64_t latency_us[N] = {1, 5000, 5};

	for (unsigned int i = 0; i < sizeof(every_ns) / sizeof(*every_ns); i++) {
		struct array a;
		uint64_t now_ns = 10 * MS;
		struct served served;

		setup(&a, 20 * MS);
		heard(&a, 0, 10 * MS, 1);
		heard(&a, 1, 10 * MS, 5000);
		heard(&a, 2, 10 * MS, 5);
		served = run(&a, &now_ns, 100000, every_ns[i], latency_us);
		assert(served.copies > 0 && served.copies <= 1000);
		/* No user waits for the drives that are probed. */
		assert(served.by[0] == 100000);
	}
}

TEST(copies_are_part_of_the_extra_io_that_is_allowed)
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

TEST(a_drive_that_was_bad_and_recovers_is_used_again)
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

TEST(without_exploration_it_is_locked_out)
{
	static const uint64_t recovered[N] = {100, 200, 300};
	struct array a;
	uint64_t now_ns = 10 * MS;
	struct served served;

	setup(&a, 0);
	heard(&a, 0, 10 * MS, 5000);
	heard(&a, 1, 10 * MS, 200);
	heard(&a, 2, 10 * MS, 300);
	served = run(&a, &now_ns, 10000, 100 * US, recovered);
	assert(served.by[0] == 0 && served.copies == 0);
}

/* --- Drives that fail, hang or are slow ------------------------------------------------ */

/* Reads in flight at a drive, in the order of their submission. */
struct hanging {
	struct linnos_io io[64];
	uint64_t end_ns[64];
	unsigned int first, n;
};

static void end_by(struct array *a, struct hanging *h, unsigned int drive, uint64_t now_ns,
		   enum observed_end end)
{
	for (; h->first < h->n && h->end_ns[h->first] <= now_ns; h->first++)
		observer_ended(&a->drives[drive], &h->io[h->first], h->end_ns[h->first], end);
}

/* One user, who sends the next read after each answer, and a drive 1 that takes bad_us and then
 * answers or fails. A failed read is sent to the next drive. Return the number of reads in
 * for_ns. */
static unsigned int user_reads(struct array *a, uint64_t *now_ns, uint64_t for_ns, uint64_t bad_us,
			       enum observed_end end, unsigned int *asked)
{
	const uint64_t until_ns = *now_ns + for_ns;
	struct hanging copies = {0};
	unsigned int done = 0;

	*asked = 0;
	for (unsigned int i = 0; *now_ns < until_ns; i++, done++) {
		uint32_t tried = 0;
		int copy, drive = chosen(a, i % N, *now_ns, &copy);

		end_by(a, &copies, 1, *now_ns, end);
		if (copy == 1) {
			/* Not while the previous one is in flight. */
			assert(copies.first == copies.n);
			copies.first = copies.n = 0;
			observer_sent(&a->drives[1], &copies.io[0], *now_ns, 0, 1, true);
			copies.end_ns[copies.n++] = *now_ns + bad_us * US;
		} else if (copy >= 0) {
			struct linnos_io io;

			observer_sent(&a->drives[copy], &io, *now_ns, 0, 1, true);
			observer_ended(&a->drives[copy], &io, *now_ns + 1760 * US,
				       OBSERVED_ANSWERED);
		}
		while (drive >= 0) {
			bool is_bad = drive == 1 && bad_us;
			struct linnos_io io;

			tried |= 1u << drive;
			*asked += drive == 1;
			observer_sent(&a->drives[drive], &io, *now_ns, 0, 1, true);
			*now_ns += (is_bad ? bad_us : 1760) * US;
			observer_ended(&a->drives[drive], &io, *now_ns,
				       is_bad ? end : OBSERVED_ANSWERED);
			if (!is_bad || end == OBSERVED_ANSWERED)
				break;
			drive = chooser_find_fastest(&a->chooser, i % N, 0, 1, *now_ns, tried);
		}
	}
	end_by(a, &copies, 1, UINT64_MAX, end);
	return done;
}

TEST(one_user_keeps_his_rate_beside_a_drive_that_fails_or_hangs_or_takes_long)
{
	static const struct {
		uint64_t bad_us, for_s;
		enum observed_end end;
	} cases[] = {
		{500000, 100, OBSERVED_FAILED},
		{500000, 100, OBSERVED_ANSWERED},
		/* The failure is unknown until the first read has hung. */
		{30000000, 600, OBSERVED_FAILED},
		{30000000, 600, OBSERVED_ANSWERED},
		{100, 100, OBSERVED_FAILED},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (unsigned int chooses = 0; chooses < 2; chooses++) {
			struct array a;
			uint64_t now_ns = MS, healthy;
			unsigned int reads, asked;

			setup(&a, 20 * MS);
			a.chooser.margin_percent = 25;
			/* Also without models that redirect reads. */
			a.common.chooses = chooses ? (1 << N) - 1 : 0;
			healthy = user_reads(&a, &now_ns, 1000 * MS, 0, OBSERVED_ANSWERED, &asked);
			healthy *= cases[i].for_s;
			reads = user_reads(&a, &now_ns, cases[i].for_s * 1000 * MS, cases[i].bad_us,
					   cases[i].end, &asked);
			assert(reads >= healthy * 9 / 10);
			assert(asked == 1);
			/* The drive is healthy again. */
			user_reads(&a, &now_ns, 130000 * MS, 0, OBSERVED_ANSWERED, &asked);
			user_reads(&a, &now_ns, 1000 * MS, 0, OBSERVED_ANSWERED, &asked);
			assert(asked > healthy / cases[i].for_s / 4);
		}
}

TEST(who_fails_in_a_row_is_left_alone_for_twice_as_long)
{
	struct array a;
	struct linnos_io io;
	uint64_t now_ns = MS, quiet_ns = 100 * 2 * MS;

	setup(&a, 20 * MS);
	a.common.start_ns = now_ns;
	for (unsigned int i = 0; i < 20; i++) {
		struct linnos_io beside;
		int copy;

		observer_sent(&a.drives[1], &io, now_ns, 0, 1, true);
		observer_sent(&a.drives[1], &beside, now_ns, 0, 1, true);
		now_ns += 2 * MS;
		observer_ended(&a.drives[1], &io, now_ns, OBSERVED_FAILED);
		/* It was in flight when the first one failed, so this is not a new failure. */
		observer_ended(&a.drives[1], &beside, now_ns, OBSERVED_FAILED);
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

TEST(where_users_probe_they_leave_a_slow_drive_alone_too)
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

TEST(large_reads_may_take_longer)
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
static unsigned int leaves(struct array *a, unsigned int n, uint64_t home_us, uint64_t other_us,
			   uint64_t left_us)
{
	unsigned int n_left = 0;
	uint64_t now_ns = 10 * MS;

	for (unsigned int i = 0; i < n; i++, now_ns += 10 * MS) {
		struct choice choice;

		heard(a, 0, now_ns, home_us);
		heard(a, 1, now_ns, other_us);
		heard(a, 2, now_ns, 2 * home_us);
		choice = chooser_read(&a->chooser, 0, 0, 1, now_ns);
		assert(choice.drive < 2);
		chooser_answered(&a->chooser, choice.assignment,
				 (choice.drive ? left_us : home_us) * US);
		n_left += choice.drive;
	}
	return n_left;
}

TEST(reads_that_come_at_once_do_not_all_leave_for_one_drive)
{
	struct linnos_io ios[60];
	unsigned int n_left = 0;
	struct array a;

	setup(&a, 0);
	heard(&a, 0, MS, OVERDUE_US);
	heard(&a, 1, MS, OVERDUE_US / 4);
	heard(&a, 2, MS, OVERDUE_US);
	for (unsigned int i = 0; i < 60; i++) {
		unsigned int drive = choose(&a, 0, MS);

		assert(drive < 2);
		observer_sent(&a.drives[drive], &ios[i], MS, 0, 1, true);
		n_left += drive;
	}
	/* The first thirty, and then as many as those that stay. */
	assert(n_left >= 43 && n_left <= 47);
}

TEST(guarded_reads_leave_home_where_that_is_worth_it)
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

TEST(a_home_that_is_out_is_left_without_a_lot)
{
	struct array a;
	struct linnos_io io;

	setup(&a, 0);
	a.common.unguarded = false;
	observer_sent(&a.drives[0], &io, MS, 0, 1, true);
	observer_ended(&a.drives[0], &io, 2 * MS, OBSERVED_FAILED);
	for (unsigned int i = 0; i < 1000; i++) {
		struct choice choice = chooser_read(&a.chooser, 0, 0, 1, 3 * MS);

		assert(choice.drive != 0 && choice.assignment.wish == LINNOS_SLOWNESS_NONE);
	}
}

TEST(guarded_copies_go_only_to_drives_that_reads_leave)
{
	struct array a;
	int copy;

	setup(&a, 20 * MS);
	a.common.unguarded = false;
	a.chooser.budget.tokens = 10;
	for (unsigned int drive = 0; drive < N; drive++)
		heard(&a, drive, MS, 100);
	chosen(&a, 0, 30 * MS, &copy);
	assert(copy == -1);
	heard(&a, 0, 100 * MS, 100);
	heard(&a, 1, 100 * MS, 4 * OVERDUE_US);
	heard(&a, 2, 100 * MS, 100);
	chosen(&a, 0, 130 * MS, &copy);
	assert(copy == 1);
}

TEST(a_model_that_does_not_choose_moves_no_read)
{
	struct array a;
	struct linnos_io io;

	chooser_init(&a.chooser, &a.common, N, a.drives, models, 20 * MS, 0, false);
	assert(!a.common.chooses);
	heard(&a, 0, MS, 900);
	heard(&a, 1, MS, 100);
	heard(&a, 2, MS, 100);
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

TEST(a_read_under_way_will_tell)
{
	struct array a;
	struct linnos_io io;
	int copy;

	setup(&a, 20 * MS);
	heard(&a, 0, MS, 100);
	heard(&a, 1, MS, 100);
	heard(&a, 2, MS, 400);
	choose(&a, 0, MS);
	a.chooser.budget.tokens = 10;
	observer_sent(&a.drives[2], &io, MS, 0, 1, true);
	heard(&a, 0, 30 * MS, 100);
	heard(&a, 1, 30 * MS, 100);
	assert(chosen(&a, 0, 30 * MS, &copy) == 0 && copy == -1);
	observer_ended(&a.drives[2], &io, 31 * MS, OBSERVED_IGNORED);
	assert(chosen(&a, 0, 31 * MS, &copy) == 0 && copy == 2);
}

TEST(what_is_told_counts_instead_of_a_prediction)
{
	struct external_predictions external = {.known = 1 << 0 | 1 << 1, .us = {900, 50}};
	struct array a;

	setup(&a, 0);
	heard(&a, 0, 2 * MS, 100);
	heard(&a, 1, 2 * MS, 500);
	heard(&a, 2, 2 * MS, 200);
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

TEST(who_tells_says_when_to_look_at_a_drive)
{
	struct external_predictions external = {.known = 1 << 0 | 1 << 1 | 1 << 2,
						.us = {100, 900, 900}};
	struct array a;
	int copy;

	setup(&a, MS);
	for (unsigned int k = 0; k < N; k++)
		heard(&a, k, 2 * MS, 100);
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

TEST(an_idle_home_is_left_alone_while_it_answers_as_predicted)
{
	struct array a;

	setup(&a, 0);
	a.chooser.margin_percent = 25;
	a.chooser.max_unpredicted_reads = 8;
	for (unsigned int k = 0; k < N; k++)
		heard(&a, k, MS, 100);
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

TEST(all_are_asked_when_home_is_not_as_before)
{
	struct linnos_io io;
	struct array a;

	setup(&a, 0);
	a.chooser.max_unpredicted_reads = 1000;
	for (unsigned int k = 0; k < N; k++)
		heard(&a, k, MS, 100);
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

TEST(an_idle_home_is_asked_each_fourth_time)
{
	unsigned int n_asked = 0;
	struct array a;

	setup(&a, 0);
	a.chooser.max_unpredicted_reads = 1000;
	for (unsigned int k = 0; k < N; k++)
		heard(&a, k, MS, 100);
	choose(&a, 0, MS);
	for (unsigned int i = 0; i < 40; i++) {
		a.chooser.us[0] = 99;
		choose(&a, 0, MS);
		n_asked += a.chooser.us[0] == 100;
	}
	assert(n_asked == 40 / DEFAULT_PREDICT_EVERY);
}

TEST(choosers_of_one_array_share_what_is_known_and_have_budgets_of_their_own)
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

TEST(of_those_that_stayed_only_some_are_told)
{
	struct array a;

	setup(&a, 0);
	for (unsigned int i = 0; i < STAYED_SAMPLE_EVERY; i++)
		chooser_answered_sampled(&a.chooser, (struct linnos_assignment){0}, (i + 1) * 1000);
	/* The first one is recorded. */
	assert(a.common.guard.mean_us >> 10 == 1);
	chooser_answered_sampled(
		&a.chooser,
		(struct linnos_assignment){.wish = LINNOS_SLOWNESS_NORMAL, .left = true}, 1000);
	assert(a.common.guard.took[LINNOS_SLOWNESS_NORMAL][1].n);
}
