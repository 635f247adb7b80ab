// SPDX-License-Identifier: MIT
/*
 * fastest: before a read is sent, a model of each drive predicts its latency there, and the read
 * goes to the drive with the lowest prediction (chooser.h). The drives need no special support.
 *
 * With --duplicates, the drive with the next lowest prediction gets the read as well, at once,
 * later or never, whichever is expected to gain most (hedge_gain.h).
 */
#include "chooser.h"
#include "engine/attempts.h"
#include "engine/users.h"
#include "error.h"
#include "hedge_gain.h"
#include "hedging.h"
#include "model_file.h"
#include "policy.h"

#include <math.h>
#include <stdio.h>

_Static_assert(MAX_DRIVES <= CHOOSER_DRIVES_MAX, "the chooser knows fewer drives");

struct fastest {
	struct chooser chooser;
	struct chooser_common common;
	struct linnos_latency *models[MAX_DRIVES];
	struct hedge_gain *duplicates; /* NULL without --duplicates */
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

/* Send reads twice if that gains; probe copies count against the same limit. */
static void setup_duplicates(struct replay *r, struct fastest *f)
{
	r->hedge_budget.share = r->o.max_duplicates / 100;
	f->duplicates = xcalloc(1, sizeof(*f->duplicates));
	hedge_gain_init(f->duplicates, r->hedge_budget.share);
	chooser_set_probe_budget(&f->chooser, r->hedge_budget.share, &r->hedge_budget);
}

/* Read the models of --latency-model; exit if one is missing or invalid. */
static void fastest_setup(struct replay *r)
{
	struct fastest *f = xcalloc(1, sizeof(*f));

	if (r->o.n_latency_models != r->n_drives)
		die("--latency-model: %u models for %u drives; give one for each, in the order of "
		    "--devices; `linnapp train --kind latency` trains one from a recording",
		    r->o.n_latency_models, r->n_drives);
	for (unsigned int k = 0; k < r->n_drives; k++)
		f->models[k] = model_read(r->o.latency_models[k]);
	chooser_init(&f->chooser, &f->common, r->n_drives, r->observers, f->models,
		     r->o.probe_after_ms * 1e6, r->o.margin, !r->o.unguarded);
	r->guard = r->o.unguarded ? NULL : &f->common.guard;
	r->policy_state = f;
	if (r->o.duplicates)
		setup_duplicates(r, f);
}

/* Return the best drive that was not tried; -1 if there is none. */
static int next_best(struct replay *r, const struct io *io)
{
	struct fastest *f = r->policy_state;

	return chooser_find_fastest(&f->chooser, io->default_drive, io->offset_bytes, io_pages(io),
				    r->ring.now_ns, io->tried);
}

/* Record the prediction and load of the attempt that was just sent. */
static void record_prediction(struct io *io, uint32_t predicted_us, const struct linnos_load *met)
{
	io->in_flight->predicted_us = predicted_us;
	io->in_flight->met_pages = met->read_pages;
}

/* Send a read to the next best drive as well: now, or when the timer that is set here expires. */
static void send_duplicate(struct replay *r, struct io *io)
{
	struct fastest *f = r->policy_state;
	struct hedge_candidate read = {.pages = io_pages(io)};
	struct linnos_load load;
	struct hedge_plan plan;
	int drive = next_best(r, io);

	/* After an error, the failover handles the read. */
	if (drive < 0 || !io->in_flight)
		return;
	read.first_us = io->in_flight->predicted_us;
	read.second_us = f->chooser.us[drive];
	read.waited_us = (r->ring.now_ns - io->submit_ns) / 1000.0;
	linnos_load_snapshot(&r->observers[drive].drive, &load);
	read.reads = load.reads;
	plan = hedge_plan(f->duplicates, &read);
	if (plan.wait_us > 0) {
		if (isfinite(plan.wait_us))
			timer_arm(&r->timers, &io->timer,
				  r->ring.now_ns + (uint64_t)(1000 * plan.wait_us) + 1);
		return;
	}
	hedge_gain_hedge_due(f->duplicates);
	hedging_send(r, io, drive, SEND_PLAIN);
	if (!(io->flags & IO_HEDGED))
		return;
	record_prediction(io, read.second_us, &load);
	io->hedge_gain_us = plan.gain_us;
}

static void fastest_read(struct replay *r, struct io *io)
{
	struct fastest *f = r->policy_state;
	struct choice choice = chooser_read(&f->chooser, io->default_drive, io->offset_bytes,
					    io_pages(io), r->ring.now_ns);
	struct linnos_load load;

	io->assignment = choice.assignment;
	if (f->duplicates) {
		linnos_load_snapshot(&r->observers[choice.drive].drive, &load);
		hedge_gain_begin(f->duplicates, load.reads);
	}
	attempt_send(r, io, choice.drive, SEND_PLAIN);
	if (f->duplicates)
		record_prediction(io, f->chooser.us[choice.drive], &load);
	if (choice.copy >= 0)
		user_read_copy(r, io, choice.copy);
	if (f->duplicates)
		send_duplicate(r, io);
}

/* Learn from an attempt. The first completion of a hedged read is the winner. */
static void learn_from_attempt(struct replay *r, struct io *io, const struct attempt *a)
{
	struct fastest *f = r->policy_state;

	hedge_gain_record_attempt(f->duplicates, a->predicted_us, a->met_pages,
				  (r->done_ns - a->submit_ns) / 1000.0);
	if (!io->hedge_gain_us)
		return;
	if (!io->answered)
		io->answered_ns = r->done_ns;
	else
		hedge_gain_record_hedge(f->duplicates, io->hedge_gain_us,
					a->hedge ? 0 : (r->done_ns - io->answered_ns) / 1000.0);
}

static void fastest_answered(struct replay *r, struct io *io, struct attempt *a)
{
	struct fastest *f = r->policy_state;

	if (f->duplicates)
		learn_from_attempt(r, io, a);
	if (!io->answered)
		chooser_answered(&f->chooser, io->assignment, r->done_ns - io->submit_ns);
}

const struct policy policy_fastest = {
	.name = "fastest",
	.help = "the replica with the lowest predicted latency (--latency-model), on any kernel; "
		"with --duplicates also the next one, when that gains most",
	.setup = fastest_setup,
	.read = fastest_read,
	.timer = send_duplicate,
	.answered = fastest_answered,
};
