// SPDX-License-Identifier: MIT
/*
 * Readers with the same external predictions must not all choose the same drive and queue there.
 * Many readers, each with its own chooser, receive predictions for three drives every millisecond.
 * A drive serves eight reads at a time, and the others wait. The simulation advances in
 * microseconds.
 */
#include "chooser.h"

#include "test.h"

#include <math.h>
#include <stdlib.h>

#define US 1000ull
#define N 3
#define SLOTS 8
#define WAITING_MAX (1 << 16)
#define READERS_MAX 300

/* Service time of a read: longer in a burst, which affects one drive at a time. */
#define SERVICE_US 80
#define BURST_US 580
#define BURST_EVERY_US 500000
#define BURST_FOR_US 100000

#define REPORTS_EVERY_US 1000
/* The first part of a run, in which the guard has few samples, is evaluated separately. */
#define BEGINNING_US 500000
#define RUN_US 2000000
/* For runs with a change of load: when it happens, and how long the run continues. */
#define CHANGE_US 4000000
#define FOLLOWED_US 8000000

enum how { DEFAULT_ONLY, UNGUARDED, GUARDED };

struct read {
	unsigned int reader;
	uint64_t sent_us, end_us;
	struct linnos_io io;
	struct linnos_assignment assignment;
};

/* Reads in service, and those that wait, starting with the next one. */
struct drive {
	unsigned int n_served, first, n_waiting;
	struct read served[SLOTS], waiting[WAITING_MAX];
};

/* Sum of the latencies of completed reads, and their number. */
struct latencies {
	double us;
	unsigned int n;
};

struct reader {
	struct chooser chooser;
	struct chooser_common common;
	struct observer drives[N];
};

static struct linnos_latency like = {.overdue_us = 2 * SERVICE_US, .n_trees = 32};
static struct linnos_latency *models[N] = {&like, &like, &like};

static struct drive drives[N];
static struct reader readers[READERS_MAX];
static struct external_predictions external;
static uint64_t bursts_until_us;
static unsigned int n_sent;

static double uniform(void)
{
	return (rand() + 0.5) / (RAND_MAX + 1.0);
}

static double service_us(unsigned int drive, uint64_t now_us)
{
	bool bursting = now_us < bursts_until_us && now_us / BURST_EVERY_US % N == drive &&
			now_us % BURST_EVERY_US < BURST_FOR_US;

	return bursting ? BURST_US : SERVICE_US;
}

static void send_reports(uint64_t now_us)
{
	for (unsigned int d = 0; d < N; d++)
		external.us[d] = service_us(d, now_us) *
				 fmax(1, (drives[d].n_served + drives[d].n_waiting + 1.0) / SLOTS);
}

static void send_read(enum how how, unsigned int n_readers, unsigned int home, uint64_t now_us)
{
	struct read read = {.reader = rand() % n_readers, .sent_us = now_us};
	struct reader *r = &readers[read.reader];
	struct drive *to = &drives[home];

	if (how != DEFAULT_ONLY) {
		struct choice choice = chooser_read(&r->chooser, home, 0, 1, now_us * US);

		to = &drives[choice.drive];
		read.assignment = choice.assignment;
		observer_sent(&r->drives[choice.drive], &read.io, now_us * US, 0, 1, true);
	}
	assert(to->n_waiting < WAITING_MAX);
	to->waiting[(to->first + to->n_waiting++) % WAITING_MAX] = read;
}

static void serve(enum how how, unsigned int d, uint64_t now_us, struct latencies *taken)
{
	struct drive *drive = &drives[d];

	for (unsigned int i = 0; i < drive->n_served; i++) {
		struct read *read = &drive->served[i];
		struct reader *r = &readers[read->reader];

		if (read->end_us > now_us)
			continue;
		if (how != DEFAULT_ONLY) {
			observer_ended(&r->drives[d], &read->io, now_us * US, OBSERVED_ANSWERED);
			chooser_answered(&r->chooser, read->assignment,
					 (now_us - read->sent_us) * US);
		}
		taken->us += now_us - read->sent_us;
		taken->n++;
		*read = drive->served[--drive->n_served];
		i--;
	}
	while (drive->n_served < SLOTS && drive->n_waiting) {
		struct read *read = &drive->served[drive->n_served++];

		*read = drive->waiting[drive->first++ % WAITING_MAX];
		drive->n_waiting--;
		read->end_us = now_us + service_us(d, now_us) * (0.75 - 0.25 * log(uniform()));
	}
}

static void begin(enum how how, unsigned int n_readers)
{
	srand(1);
	n_sent = 0;
	memset(drives, 0, sizeof(drives));
	external = (struct external_predictions){.known = (1 << N) - 1};
	for (unsigned int i = 0; i < n_readers; i++) {
		struct chooser *c = &readers[i].chooser;

		chooser_init(c, &readers[i].common, N, readers[i].drives, models, 0, 25,
			     how == GUARDED);
		c->common->guard.random = 7919 * i + 1;
		c->external = &external;
	}
}

/* The drives' capacity times @load. */
static struct latencies run(enum how how, unsigned int n_readers, double load, uint64_t from_us,
			    uint64_t until_us)
{
	struct latencies taken = {0};

	for (uint64_t now_us = from_us; now_us < until_us; now_us++) {
		if (now_us % REPORTS_EVERY_US == 1)
			send_reports(now_us);
		if (uniform() < load * N * SLOTS / SERVICE_US)
			send_read(how, n_readers, n_sent++ % N, now_us);
		for (unsigned int d = 0; d < N; d++)
			serve(how, d, now_us, &taken);
	}
	return taken;
}

static double mean_us(struct latencies taken)
{
	return taken.us / taken.n;
}

static double mean_of_run_us(enum how how, unsigned int n_readers, double load, bool bursts)
{
	bursts_until_us = bursts ? RUN_US : 0;
	begin(how, n_readers);
	return mean_us(run(how, n_readers, load, 1, RUN_US));
}

TEST(readers_with_equal_predictions_spread_over_drives)
{
	static const double loads[] = {0.7, 0.9};

	for (unsigned int k = 0; k < 2; k++) {
		double default_us = mean_of_run_us(DEFAULT_ONLY, 1, loads[k], false);

		fprintf(stderr,
			"load %.1f without bursts: %.0f us at the default drives; number of "
			"readers: unguarded in the first half second and later; guarded\n",
			loads[k], default_us);
		for (unsigned int n = 1; n <= READERS_MAX; n *= n > 1 ? 10 : 3) {
			double us[2][2];

			for (enum how how = UNGUARDED; how <= GUARDED; how++) {
				begin(how, n);
				us[how - UNGUARDED][0] =
					mean_us(run(how, n, loads[k], 1, BEGINNING_US));
				us[how - UNGUARDED][1] =
					mean_us(run(how, n, loads[k], BEGINNING_US, RUN_US));
			}
			fprintf(stderr, "%4u: %.0f, %.0f; %.0f, %.0f us\n", n, us[0][0], us[0][1],
				us[1][0], us[1][1]);
			assert(us[1][0] < (n < READERS_MAX ? 1.4 : 4) * default_us);
			assert(us[1][1] < 1.02 * default_us);
		}
	}
}

TEST(many_readers_gain_as_much_in_bursts_as_one)
{
	double default_us = mean_of_run_us(DEFAULT_ONLY, 1, 0.7, true);
	double one_us = mean_of_run_us(GUARDED, 1, 0.7, true);

	fprintf(stderr,
		"load 0.7 with bursts: %.0f us at the default drives, %.0f us with one guarded "
		"reader; number of readers:\n",
		default_us, one_us);
	for (unsigned int n = 3; n <= READERS_MAX; n *= 10) {
		double many_us = mean_of_run_us(GUARDED, n, 0.7, true);

		fprintf(stderr, "%4u: %.0f us\n", n, many_us);
		assert(default_us - many_us > 0.9 * (default_us - one_us));
	}
}

/* Bursts have led to redirection. Then there are no more bursts, and the drives are nearly
 * saturated. */
TEST(readers_return_within_a_second_when_redirection_stops_helping)
{
	double default_us = mean_of_run_us(DEFAULT_ONLY, 1, 0.9, false);

	fprintf(stderr,
		"load 0.9 after bursts: %.0f us at the default drives; number of readers: each "
		"half second\n",
		default_us);
	bursts_until_us = CHANGE_US;
	for (unsigned int n = 1; n <= READERS_MAX; n *= n > 1 ? 10 : 3) {
		double lately_us;
		bool learns;

		begin(GUARDED, n);
		run(GUARDED, n, 0.7, 1, CHANGE_US);
		fprintf(stderr, "%4u:", n);
		for (uint64_t from_us = CHANGE_US; from_us < FOLLOWED_US; from_us += BEGINNING_US) {
			lately_us = mean_us(run(GUARDED, n, 0.9, from_us, from_us + BEGINNING_US));
			fprintf(stderr, " %.0f", lately_us);
			/* Each of 300 readers has to find out with its own reads. */
			learns = n == READERS_MAX && from_us < CHANGE_US + 2 * BEGINNING_US;
			assert(lately_us < (learns ? 8 : 1.02) * default_us);
		}
		fprintf(stderr, " us\n");
	}
}
