// SPDX-License-Identifier: MIT
/*
 * The lowest policies: before a read is sent, a model of each drive predicts its latency there, and
 * the read goes to the drive with the lowest prediction (chooser.h). The drives need no special
 * support. The policies differ in when the drive with the next lowest prediction gets the read as
 * well.
 */
#include "chooser.h"
#include "engine/attempts.h"
#include "engine/users.h"
#include "error.h"
#include "hedge_table.h"
#include "hedging.h"
#include "model_file.h"
#include "policy.h"
#include "hedge_gain.h"

#include <math.h>
#include <stdio.h>

_Static_assert(MAX_DRIVES <= CHOOSER_DRIVES_MAX, "the chooser knows fewer drives");

struct predictor {
	struct chooser chooser;
	struct chooser_common common;
	struct linnos_latency *models[MAX_DRIVES];
	struct hedge_table *hedge_tables; /* by drive; NULL for other hedging or none */
	struct hedge_gain *race;	  /* NULL without hedging by gain */
};

static struct linnos_latency *model_read(const char *path)
{
	char why[MODEL_WHY_BYTES];
	int error;
	struct linnos_latency *model = model_file_read(path, &error, why);

	if (!model)
		die("--latency-model %s", why);
	return model;
}

/* Read the models of --latency-model; exit if one is missing or invalid. */
static void setup(struct replay *r)
{
	struct predictor *p = xcalloc(1, sizeof(*p));

	if (!r->o.n_latency_models)
		die("policy %s: needs a model of latencies for each drive: --latency-model F,F,F, "
		    "in the order of --devices; `linnapp train --kind latency` makes one of a "
		    "drive's recording",
		    r->o.policy->name);
	if (r->o.n_latency_models != r->n_drives)
		die("--latency-model: %u models for %u drives; give one for each, in the order of "
		    "--devices",
		    r->o.n_latency_models, r->n_drives);
	for (unsigned int k = 0; k < r->n_drives; k++)
		p->models[k] = model_read(r->o.latency_models[k]);
	chooser_init(&p->chooser, &p->common, r->n_drives, r->observers, p->models,
		     r->o.explore_ms * 1e6, r->o.home_margin, !r->o.unguarded);
	p->chooser.max_unpredicted_reads = r->o.home_unasked;
	r->guard = r->o.unguarded ? NULL : &p->common.guard;
	r->policy_state = p;
}

/* Probe copies are charged to the hedge budget. */
static void setup_hedged(struct replay *r)
{
	struct predictor *p;

	setup(r);
	p = r->policy_state;
	chooser_set_probe_budget(&p->chooser, r->hedge_budget.share, &r->hedge_budget);
}

/* Send reads twice, at once or later, where the gain is highest (race.h). */
static void setup_two(struct replay *r)
{
	struct predictor *p;

	setup_hedged(r);
	p = r->policy_state;
	p->race = xcalloc(1, sizeof(*p->race));
	hedge_gain_init(p->race, r->hedge_budget.share);
}

/* Hedge a read at the p99 of the reads with a similar prediction. */
static void setup_p99(struct replay *r)
{
	char why[HEDGE_TABLE_WHY_BYTES];
	struct predictor *p;

	setup_hedged(r);
	p = r->policy_state;
	if (r->o.n_hedge_tables != r->n_drives)
		die("--hedge-table: %u files for %u drives; policy %s needs one for each, in the "
		    "order of --devices; `linnapp train --kind latency` writes it beside the model",
		    r->o.n_hedge_tables, r->n_drives, r->o.policy->name);
	p->hedge_tables = xcalloc(r->n_drives, sizeof(*p->hedge_tables));
	for (unsigned int k = 0; k < r->n_drives; k++)
		if (hedge_table_read(&p->hedge_tables[k], r->o.hedge_tables[k], why))
			die("--hedge-table %s", why);
}

/* Return the best drive that was not tried; -1 if there is none. */
static int next_best(struct replay *r, const struct io *io)
{
	struct predictor *p = r->policy_state;

	return chooser_find_fastest(&p->chooser, io->home, io->offset_bytes, io_pages(io),
				    r->ring.now_ns, io->tried);
}

/* Record the prediction and load of the attempt that was just sent. */
static void race_enter(struct io *io, uint32_t predicted_us, const struct linnos_load *met)
{
	io->in_flight->predicted_us = predicted_us;
	io->in_flight->met_pages = met->read_pages;
}

/* Send to the next best drive as well, now or at a time that the timer is set to. */
static void race(struct replay *r, struct io *io)
{
	struct predictor *p = r->policy_state;
	struct hedge_candidate read = {.pages = io_pages(io)};
	struct linnos_load load;
	struct hedge_plan plan;
	int drive = next_best(r, io);

	/* After an error, the failover handles the read. */
	if (drive < 0 || !io->in_flight)
		return;
	read.first_us = io->in_flight->predicted_us;
	read.second_us = p->chooser.us[drive];
	read.waited_us = (r->ring.now_ns - io->submit_ns) / 1000.0;
	linnos_load_snapshot(&r->observers[drive].drive, &load);
	read.reads = load.reads;
	plan = hedge_plan(p->race, &read);
	if (plan.wait_us > 0) {
		if (isfinite(plan.wait_us))
			timer_arm(&r->timers, &io->timer,
				  r->ring.now_ns + (uint64_t)(1000 * plan.wait_us) + 1);
		return;
	}
	hedge_gain_hedge_due(p->race);
	hedging_send(r, io, drive, SEND_PLAIN);
	if (!(io->flags & IO_HEDGED))
		return;
	race_enter(io, read.second_us, &load);
	io->claimed_us = plan.gain_us;
}

static void read_lowest(struct replay *r, struct io *io)
{
	struct predictor *p = r->policy_state;
	struct choice choice =
		chooser_read(&p->chooser, io->home, io->offset_bytes, io_pages(io), r->ring.now_ns);
	struct linnos_load load;

	io->lot = choice.assignment;
	if (p->race) {
		linnos_load_snapshot(&r->observers[choice.drive].drive, &load);
		hedge_gain_begin(p->race, load.reads);
	}
	attempt_send(r, io, choice.drive, SEND_PLAIN);
	if (p->race)
		race_enter(io, p->chooser.us[choice.drive], &load);
	if (choice.copy >= 0)
		user_read_copy(r, io, choice.copy);
	if (p->race)
		race(r, io);
	else if (p->hedge_tables)
		hedging_arm_after(r, io,
				  1000ull * hedge_table_after_us(&p->hedge_tables[choice.drive],
								 p->chooser.us[choice.drive]));
	else
		hedging_arm(r, io);
}

/* Learn from an attempt. The first completion of a hedged read is the winner. */
static void race_learn(struct replay *r, struct io *io, const struct attempt *a)
{
	struct predictor *p = r->policy_state;

	hedge_gain_record_attempt(p->race, a->predicted_us, a->met_pages,
				  (r->done_ns - a->submit_ns) / 1000.0);
	if (!io->claimed_us)
		return;
	if (!io->answered)
		io->answered_ns = r->done_ns;
	else
		hedge_gain_record_hedge(p->race, io->claimed_us,
					a->hedge ? 0 : (r->done_ns - io->answered_ns) / 1000.0);
}

static void answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct predictor *p = r->policy_state;

	if (p->race)
		race_learn(r, io, a);
	if (!io->answered)
		chooser_answered(&p->chooser, io->lot, r->done_ns - io->submit_ns);
}

static void timer(struct replay *r, struct io *io)
{
	struct predictor *p = r->policy_state;
	int drive;

	if (p->race) {
		race(r, io);
		return;
	}
	drive = next_best(r, io);
	if (drive < 0)
		hedging_fire(r, io, SEND_PLAIN);
	else
		hedging_send(r, io, drive, SEND_PLAIN);
}

#define LOWEST(word, begin, what, ...)                                                             \
	{                                                                                          \
		.name = word, .help = what, .keeps_count = true, .setup = begin,                   \
		.read = read_lowest, .timer = timer, .answered = answered, __VA_ARGS__             \
	}

const struct policy policy_lowest =
	LOWEST("lowest", setup,
	       "the replica with the lowest predicted latency (--latency-model), on any kernel");
const struct policy policy_lowest_h95 = LOWEST(
	"lowest-h95", setup_hedged,
	"lowest, and hedging at p95 (or --hedge-us, --hedge-percentile)", .hedge_percentile = 95);
const struct policy policy_lowest_p99 =
	LOWEST("lowest-p99", setup_p99,
	       "lowest, and hedging at the p99 of what is predicted (--hedge-table)");
const struct policy policy_lowest_two =
	LOWEST("lowest-two", setup_two,
	       "lowest, and a second replica as well, at once or later, where that gains most");
