// SPDX-License-Identifier: MIT
/*
 * replayer: replay block traces against an array of replicated drives. main() shows the order of a
 * run.
 */
#include "drive/guard.h"
#include "drive/prefill.h"
#include "engine/engine.h"
#include "error.h"
#include "policies/hedging.h"
#include "policies/policy.h"
#include "replay.h"
#include "results/io_log.h"
#include "results/report.h"
#include "slow/inject.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The maximum number of hedges that can be saved up while no read needs one: see budget.h. */
#define HEDGE_BURST 100

static void on_signal(int signal_number)
{
	engine_interrupt();
}

static void open_devices(struct replay *r)
{
	r->n_drives = r->o.n_devices;
	for (unsigned int k = 0; k < r->n_drives; k++)
		device_open(&r->devices[k], r->o.devices[k], r->o.readonly);
}

static void require_policy(struct replay *r)
{
	r->hedge_percentile_used = NAN;
	r->false_submit_ratio_used = NAN;
	if (r->o.policy->needs_linnos)
		for (unsigned int k = 0; k < r->n_drives; k++)
			device_require_linnos(&r->devices[k], r->linnos_mode[k], r->model_id[k]);
	/* Before the policy's setup, which uses the budget. */
	r->hedge_budget = (struct budget){.share = r->o.hedge_budget, .burst = HEDGE_BURST};
	if (r->o.policy->setup)
		r->o.policy->setup(r);
	if (r->o.policy->hedge_percentile)
		hedging_setup_percentile(r, r->o.policy->hedge_percentile);
}

/*
 * Return false if the run ended before its first I/O was counted; then the results of an earlier
 * run are kept.
 */
static bool has_results(const struct replay *r)
{
	return r->c.reads || r->c.writes || r->c.timed_out;
}

/* Write the requested result files. Return false if one could not be written completely. */
static bool write_results(struct replay *r)
{
	bool written;

	if (!has_results(r)) {
		warn_user("%s before an I/O was counted: --json and --log are left as they were",
			  r->stop_reason);
		return true;
	}
	if (r->log)
		r->log_error = log_finish(r->log);
	written = !r->log_error;
	if (r->o.json_path)
		written &= report_json(r, r->o.json_path);
	return written;
}

int main(int argc, char **argv)
{
	static struct replay replay;
	struct replay *r = &replay;
	struct sigaction on_stop = {.sa_handler = on_signal};
	int status;

	options_parse(&r->o, argc, argv);
	guard_names(&r->o);
	open_devices(r);
	if (!r->o.readonly)
		guard_drives(&r->o);
	require_policy(r);
	r->inject = inject_new(r->o.injects, r->o.n_injects, r->devices, r->n_drives);
	if (r->o.json_path)
		report_require_writable(r->o.json_path);
	if (r->o.log_path)
		r->log = log_create(r->o.log_path, r->o.policy->name, r->n_drives, r->o.seed);
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	/* Exceeding the file size limit is handled like any other write error. */
	signal(SIGXFSZ, SIG_IGN);
	engine_setup(r);
	if (r->o.prefill == PREFILL_TOUCHED)
		prefill(r);
	else
		sources_scan(&r->sources, NULL, NULL);
	for (unsigned int k = 0; k < r->n_drives; k++)
		device_linnos_stats(&r->devices[k], &r->stats_before[k]);
	engine_run(r);
	for (unsigned int k = 0; k < r->n_drives; k++)
		device_linnos_stats(&r->devices[k], &r->stats_after[k]);
	status = !write_results(r);
	report_text(r);
	if (!all_printed())
		status = 1;
	if (r->c.data_errors || r->c.reads_failed || r->c.writes_failed)
		status = 2;
	if (r->stop_reason)
		status = r->c.timed_out ? 2 : 130;
	engine_close(r);
	return status;
}
