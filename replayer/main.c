// SPDX-License-Identifier: MIT
/* replayer: replays block traces against an array of replicated drives. The order of a run, top to
 * bottom. */
#include "drive/guard.h"
#include "drive/prefill.h"
#include "engine/engine.h"
#include "engine/loop.h"
#include "error.h"
#include "policies/hedging.h"
#include "policies/policy.h"
#include "replay.h"
#include "results/io_log.h"
#include "results/report.h"
#include "slow/inject.h"
#include "slow/storm.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void on_signal(int signal_number)
{
	loops_interrupt();
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
	/* What the policy's setup goes by. */
	r->hedge_budget = (struct budget){.share = r->o.hedge_budget, .burst = r->o.hedge_burst};
	if (r->o.policy->setup)
		r->o.policy->setup(r);
	if (r->o.policy->hedge_percentile)
		hedging_setup_percentile(r, r->o.policy->hedge_percentile);
}

/* What only the run itself can tell: the scan has found the rest. */
static void require_counted(const struct replay *r)
{
	if (!r->stop_reason && !r->c.reads && !r->c.writes)
		die("no I/O was counted: all %llu were submitted in the first %g s (--warmup)",
		    (unsigned long long)r->c.warmup_ios, r->o.warmup_s);
}

/* Those of an earlier run are worth more than those of one that was ended before its first I/O. */
static bool has_results(const struct replay *r)
{
	return r->c.reads || r->c.writes || r->c.timed_out;
}

/* What was asked for, in its files; false when it could not be written to its end. */
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
	static struct storms storms;
	static struct replay replay = {.storms = &storms};
	struct replay *r = &replay;
	struct sigaction on_stop = {.sa_handler = on_signal};
	int status;

	options_parse(&r->o, argc, argv);
	guard_names(&r->o);
	open_devices(r);
	if (!r->o.readonly)
		guard_drives(&r->o);
	require_policy(r);
	r->inject = inject_new(r->o.injects, r->o.n_injects, r->devices, r->n_drives, r->storms);
	if (r->o.readonly && r->storms->n)
		die("--inject storm writes to the drives; with --readonly nothing is written");
	if (r->o.json_path)
		report_require_writable(r->o.json_path);
	if (r->o.log_path)
		r->log = log_create(r->o.log_path, r->o.policy->name, r->n_drives, r->o.seed);
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	/* A file size limit is an error of a write like others. */
	signal(SIGXFSZ, SIG_IGN);
	engine_setup(r);
	if (r->o.prefill == PREFILL_TOUCHED)
		prefill(r);
	else
		engine_scan(r, NULL, NULL);
	for (unsigned int k = 0; k < r->n_drives; k++)
		device_linnos_stats(&r->devices[k], &r->stats_before[k]);
	engine_run(r);
	require_counted(r);
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
