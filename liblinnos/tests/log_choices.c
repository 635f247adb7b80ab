// SPDX-License-Identifier: MIT
/*
 * Choose a drive for each read of a log and print the choices, for a test that compares them with
 * those of earlier versions of the code.
 *
 *	log_choices [-d] MODEL... <LOG
 *
 * There is a drive for each model. A line of the log has the time of a read in ns, its offset and
 * its size in bytes, and its latency in ns on each drive; lines are in order of time. A line of the
 * output has the drive, the predicted latency in us and the drive of the second attempt, or -1. -d
 * sends a second attempt where the cost model expects it to pay off.
 */
#include "../include/linnos_choose.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A log with more reads in flight than this is refused. */
enum { IN_FLIGHT = 1024, MAX_DRIVES = 8 };

struct attempt {
	struct linnos_attempt sent;
	uint64_t end_ns;
};

struct read {
	struct linnos_choice choice;
	struct attempt attempts[2];
	uint64_t latency_ns[MAX_DRIVES];
	/* drive of the second attempt, -1 without one */
	int second;
	unsigned int n_attempts, n_ended;
};

static struct linnos_chooser *chooser;
static struct read *in_flight[IN_FLIGHT];
static unsigned int n_in_flight;

static void submit(struct read *r, unsigned int drive, enum linnos_kind kind, uint64_t now_ns)
{
	struct attempt *a = &r->attempts[r->n_attempts++];

	a->end_ns = now_ns + r->latency_ns[drive];
	linnos_chooser_on_submit(chooser, &a->sent, &r->choice, drive, kind, now_ns);
}

/* The attempt that ends next; its read is not answered before that. */
static struct attempt *next_attempt(struct read *r)
{
	struct attempt *a = r->attempts;

	if (r->n_attempts - r->n_ended == 2)
		return a[0].end_ns <= a[1].end_ns ? &a[0] : &a[1];
	/* the winner's time is zeroed when it ends */
	return a[0].end_ns ? &a[0] : &a[1];
}

static uint64_t next_event_ns(struct read *r)
{
	uint64_t end_ns = next_attempt(r)->end_ns;

	return !r->n_ended && r->choice.hedge_at_ns < end_ns ? r->choice.hedge_at_ns : end_ns;
}

static void pass_event(unsigned int index)
{
	struct read *r = in_flight[index];
	struct attempt *a = next_attempt(r), *other = a == &r->attempts[0] ? a + 1 : a - 1;
	uint64_t now_ns = next_event_ns(r);

	if (now_ns < a->end_ns) {
		int drive = linnos_choose_hedge(chooser, &r->choice, now_ns);

		if (drive >= 0) {
			r->second = drive;
			submit(r, drive, LINNOS_HEDGE_ATTEMPT, now_ns);
		}
		return;
	}
	linnos_chooser_on_complete(chooser, &a->sent, LINNOS_SUCCEEDED, now_ns);
	if (!r->n_ended)
		linnos_chooser_on_answer(chooser, &r->choice, &a->sent,
					 r->n_attempts == 2 ? &other->sent : NULL, now_ns);
	a->end_ns = 0;
	if (++r->n_ended == r->n_attempts) {
		in_flight[index] = in_flight[--n_in_flight];
		printf("%" PRIu32 " %" PRIu32 " %d\n", r->choice.replica, r->choice.predicted_us,
		       r->second);
		free(r);
	}
}

static void pass_until(uint64_t now_ns)
{
	while (n_in_flight) {
		unsigned int next = 0;

		for (unsigned int i = 1; i < n_in_flight; i++)
			if (next_event_ns(in_flight[i]) < next_event_ns(in_flight[next]))
				next = i;
		if (next_event_ns(in_flight[next]) > now_ns)
			return;
		pass_event(next);
	}
}

int main(int argc, char **argv)
{
	struct linnos_options options = LINNOS_OPTIONS_INIT;
	bool duplicates = argc > 1 && !strcmp(argv[1], "-d");
	const char *const *models = (const char *const *)argv + 1 + duplicates;
	unsigned int n = argc - 1 - duplicates;
	struct linnos_predictor *predictor;
	uint64_t now_ns, offset, bytes, number = 0;

	options.flags =
		LINNOS_UNGUARDED | LINNOS_PREDICT_ALL | (duplicates ? LINNOS_DUPLICATES : 0);
	if (n > MAX_DRIVES || linnos_predictor_create(&predictor, n, models, &options) ||
	    linnos_chooser_create(&chooser, predictor)) {
		fprintf(stderr, "%s\n", linnos_error());
		return 1;
	}
	while (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &now_ns, &offset, &bytes) == 3) {
		struct read *r = calloc(1, sizeof(*r));

		if (!r || n_in_flight == IN_FLIGHT)
			return 1;
		for (unsigned int drive = 0; drive < n; drive++)
			if (scanf("%" SCNu64, &r->latency_ns[drive]) != 1)
				return 1;
		pass_until(now_ns);
		r->choice = (struct linnos_choice){
			.offset = offset, .bytes = bytes, .home = number++ % n};
		r->second = -1;
		linnos_choose(chooser, &r->choice, now_ns);
		submit(r, r->choice.replica, LINNOS_PRIMARY_ATTEMPT, now_ns);
		in_flight[n_in_flight++] = r;
	}
	pass_until(UINT64_MAX);
	linnos_chooser_free(chooser);
	linnos_predictor_free(predictor);
	return !feof(stdin);
}
