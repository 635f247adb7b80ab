// SPDX-License-Identifier: MIT
/* What a run reports: see report.h. */
#include "report.h"
#include "buffers.h"
#include "error.h"
#include "policy.h"
#include "replay.h"
#include "series.h"
#include "storm.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const struct {
	const char *name;
	double fraction;
} percentiles[] = {
	{"p50_us", 0.5},  {"p80_us", 0.8},    {"p90_us", 0.9},	    {"p95_us", 0.95},
	{"p99_us", 0.99}, {"p999_us", 0.999}, {"p9999_us", 0.9999},
};
#define N_PERCENTILES (sizeof(percentiles) / sizeof(*percentiles))

static void set(json_t *o, const char *key, json_t *value)
{
	if (!value || json_object_set_new(o, key, value))
		die("out of memory for the JSON summary, at \"%s\"", key);
}

static void set_count(json_t *o, const char *key, uint64_t v)
{
	set(o, key, json_integer((json_int_t)v));
}

/* Numbers that do not exist (an average of nothing, a setting not used) are null. */
static void set_number(json_t *o, const char *key, double v)
{
	set(o, key, isfinite(v) ? json_real(v) : json_null());
}

static void set_text(json_t *o, const char *key, const char *v)
{
	json_t *s = v ? json_string(v) : json_null();

	/* A path need not be UTF-8. */
	set(o, key, s ? s : json_string("(not UTF-8)"));
}

/* NaN when there are too few values to know. */
static double percentile_us(struct latency *l, double fraction)
{
	return latency_is_enough(l->count, fraction)
		       ? (double)latency_percentile(l, fraction) / 1000
		       : NAN;
}

static void set_latencies(json_t *o, const char *prefix, struct latency *l)
{
	char key[32];

	snprintf(key, sizeof(key), "%smean_us", prefix);
	set_number(o, key, l->count ? latency_mean(l) / 1000 : NAN);
	for (unsigned int i = 0; i < N_PERCENTILES; i++) {
		snprintf(key, sizeof(key), "%s%s", prefix, percentiles[i].name);
		set_number(o, key, percentile_us(l, percentiles[i].fraction));
	}
	snprintf(key, sizeof(key), "%smax_us", prefix);
	set_number(o, key, l->count ? (double)l->max_ns / 1000 : NAN);
}

static double ratio(uint64_t part, uint64_t of)
{
	return of ? (double)part / (double)of : NAN;
}

/* False submits among the latency-critical reads that the kernel decided during the run; NaN where
 * it counts none. */
static double kernel_false_submit_ratio(const struct replay *r)
{
	uint64_t wrong = 0, decided = 0;

	for (unsigned int k = 0; k < r->n_drives; k++) {
		const struct linnos_stats *a = &r->stats_before[k], *b = &r->stats_after[k];

		if (!a->present || !b->present)
			return NAN;
		wrong += b->false_submits - a->false_submits;
		decided += b->latency_critical - a->latency_critical;
	}
	return ratio(wrong, decided);
}

static json_t *names(char *const *list, unsigned int n)
{
	json_t *a = json_array();

	for (unsigned int i = 0; i < n; i++) {
		json_t *s = json_string(list[i]);

		json_array_append_new(a, s ? s : json_string("(not UTF-8)"));
	}
	return a;
}

static json_t *config(struct replay *r)
{
	const struct options *o = &r->o;
	json_t *c = json_object(), *hedge = json_array(), *linnos = json_array();
	json_t *tags = json_array();

	set(c, "devices", names(o->devices, o->n_devices));
	set(c, "traces", names(o->traces, o->n_traces));
	set(c, "inject", names(o->injects, o->n_injects));
	for (unsigned int i = 0; i < o->n_tags; i++)
		json_array_append_new(tags, json_integer(o->tags[i]));
	set(c, "tags", tags);
	set_count(c, "seed", o->seed);
	set_number(c, "failover_us", o->failover_us);
	set_number(c, "start_every_s", o->start_every_s);
	for (unsigned int k = 0; k < r->n_drives; k++)
		json_array_append_new(hedge, r->hedge_ns[k]
						     ? json_real((double)r->hedge_ns[k] / 1000)
						     : json_null());
	set(c, "hedge_us", hedge);
	set_number(c, "hedge_percentile", r->hedge_percentile_used);
	set_number(c, "hedge_budget", o->hedge_budget);
	set_number(c, "hedge_burst", isfinite(o->hedge_budget) ? o->hedge_burst : NAN);
	set_text(c, "profile", o->profile_path);
	set_number(c, "false_submit_ratio", r->false_submit_ratio_used);
	set(c, "heuristic_queue_pages",
	    o->heuristic_queue_pages ? json_integer(o->heuristic_queue_pages) : json_null());
	set_number(c, "heuristic_busy_us", o->heuristic_busy_us < 0 ? NAN : o->heuristic_busy_us);
	set_count(c, "clone_copies", o->clone_copies);
	set_number(c, "duration_s", o->duration_s > 0 ? o->duration_s : NAN);
	set_number(c, "warmup_s", o->warmup_s);
	set_number(c, "skip_s", o->skip_s);
	set_number(c, "rerate", o->rerate);
	set(c, "saturate", json_boolean(o->saturate));
	set_count(c, "depth", o->depth);
	set_count(c, "losers", o->losers);
	set_number(c, "timeout_s", o->timeout_s > 0 ? o->timeout_s : NAN);
	set(c, "replicate_writes", json_boolean(o->replicate_writes));
	set(c, "spread", json_boolean(o->spread));
	set(c, "fit", json_boolean(o->fit));
	set_count(c, "loops", o->loops);
	set(c, "readonly", json_boolean(o->readonly));
	set(c, "force", names(o->forced, o->n_forced));
	set_number(c, "interval_s", o->interval_s);
	set_text(c, "prefill", o->prefill == PREFILL_TOUCHED ? "touched" : "none");
	set_count(c, "settle_ms", o->settle_ms);
	set_text(c, "unwritten", o->unwritten_any ? "any" : "zero");
	if (o->policy->needs_linnos) {
		for (unsigned int k = 0; k < r->n_drives; k++) {
			json_t *d = json_object();

			set_text(d, "mode", r->linnos_mode[k]);
			set_text(d, "model_id", r->model_id[k]);
			json_array_append_new(linnos, d);
		}
		set(c, "linnos", linnos);
	} else {
		json_decref(linnos);
	}
	return c;
}

static json_t *drives(struct replay *r)
{
	json_t *a = json_array();

	for (unsigned int k = 0; k < r->n_drives; k++) {
		json_t *d = json_object();

		set_text(d, "device", r->devices[k].path);
		set_count(d, "reads", r->drive_latency[k].count);
		set_latencies(d, "", &r->drive_latency[k]);
		json_array_append_new(a, d);
	}
	return a;
}

/* Columns, for they are plotted: one value per interval in which a read was answered. */
static json_t *series(struct replay *r)
{
	static const struct {
		const char *name;
		size_t at;
	} columns[] = {
		{"mean_us", offsetof(struct series_row, service.mean_us)},
		{"p50_us", offsetof(struct series_row, service.p50_us)},
		{"p99_us", offsetof(struct series_row, service.p99_us)},
		{"max_us", offsetof(struct series_row, service.max_us)},
		{"response_mean_us", offsetof(struct series_row, response.mean_us)},
		{"response_p50_us", offsetof(struct series_row, response.p50_us)},
		{"response_p99_us", offsetof(struct series_row, response.p99_us)},
		{"response_max_us", offsetof(struct series_row, response.max_us)},
	};
	json_t *o = json_object(), *at = json_array(), *reads = json_array();
	const struct series_row *rows;
	uint64_t n = series_rows(r->series, &rows);

	set_number(o, "interval_s", r->o.interval_s);
	for (uint64_t i = 0; i < n; i++) {
		json_array_append_new(at, json_real((double)rows[i].interval * r->o.interval_s));
		json_array_append_new(reads, json_integer((json_int_t)rows[i].reads));
	}
	set(o, "at_s", at);
	set(o, "reads", reads);
	for (unsigned int c = 0; c < sizeof(columns) / sizeof(*columns); c++) {
		json_t *a = json_array();

		for (uint64_t i = 0; i < n; i++) {
			double v = *(const double *)((const char *)&rows[i] + columns[c].at);

			json_array_append_new(a, isfinite(v) ? json_real(v) : json_null());
		}
		set(o, columns[c].name, a);
	}
	return o;
}

/* What ran, on what, and how it was called. */
static void set_environment(json_t *o, const struct replay *r)
{
	struct utsname u;
	char *kernel;

	set_text(o, "version", REPLAYER_VERSION);
	if (uname(&u))
		die("uname: %s", strerror(errno));
	/* Not the version, which is when the kernel was built. */
	kernel = xasprintf("%s %s %s", u.sysname, u.release, u.machine);
	set_text(o, "kernel", kernel);
	set_text(o, "host", u.nodename);
	set(o, "argv", names(r->o.argv, r->o.argc));
	free(kernel);
}

static bool all_direct(const struct replay *r)
{
	for (unsigned int k = 0; k < r->n_drives; k++)
		if (!r->devices[k].direct)
			return false;
	return true;
}

void report_require_writable(const char *path)
{
	char *beside = xasprintf("%s.new", path);
	FILE *f = fopen(beside, "we");

	if (!f)
		die("summary %s: %s", beside, strerror(errno));
	fclose(f);
	unlink(beside);
	free(beside);
}

bool report_json(struct replay *r, const char *path)
{
	const struct counters *c = &r->c;
	json_t *o = json_object(), *served = json_array(), *storms = json_array();
	json_t *errors = json_array();
	char *beside = xasprintf("%s.new", path);
	bool written = true;

	set_text(o, "policy", r->o.policy->name);
	set_text(o, "scenario", r->o.scenario);
	set_count(o, "reads", c->reads);
	set_latencies(o, "", &r->read_latency);
	set_latencies(o, "service_", &r->read_latency);
	set_latencies(o, "response_", &r->read_response);
	set_count(o, "writes", c->writes);
	set_latencies(o, "write_", &r->write_latency);
	set_latencies(o, "write_service_", &r->write_latency);
	set_latencies(o, "write_response_", &r->write_response);
	set_count(o, "revoked", c->revoked);
	set_count(o, "revocations", c->revocations);
	set_count(o, "hedged", c->hedged);
	set_count(o, "hedges_won", c->hedges_won);
	set_count(o, "hedges_denied", c->hedges_denied);
	set_count(o, "copies_denied", c->copies_denied);
	set_count(o, "losers_max", c->losers_max);
	set_count(o, "extra_ios", c->extra_ios);
	set_number(o, "extra_io_ratio", ratio(c->extra_ios, c->reads));
	set_count(o, "cancels_tried", c->cancels_tried);
	set_count(o, "cancelled", c->cancelled);
	set_number(o, "false_submit_ratio", kernel_false_submit_ratio(r));
	set_count(o, "data_errors", c->data_errors);
	set_count(o, "blocks_checked", c->blocks_checked);
	set_count(o, "torn_blocks", c->torn_blocks);
	set_count(o, "unverified_blocks", c->unverified_blocks);
	set_count(o, "io_errors", c->io_errors);
	for (unsigned int k = 0; k < r->n_drives; k++)
		json_array_append_new(errors, json_integer((json_int_t)c->io_errors_by[k]));
	set(o, "io_errors_by_drive", errors);
	set_count(o, "short_ios", c->short_ios);
	set_count(o, "reads_failed", c->reads_failed);
	set_count(o, "writes_failed", c->writes_failed);
	set_count(o, "unanswered", c->unanswered);
	set_count(o, "timed_out_ios", c->timed_out);
	set_count(o, "failovers_on_error", c->failovers_on_error);
	for (unsigned int k = 0; k < r->n_drives; k++)
		json_array_append_new(served, json_integer((json_int_t)c->served_by[k]));
	set(o, "reads_served_by", served);
	set_count(o, "warmup_ios", c->warmup_ios);
	set_count(o, "realigned_ios", r->sources.realigned);
	set_count(o, "folded_ios", r->sources.folded);
	set_count(o, "writes_left_out", r->sources.writes_left_out);
	set_count(o, "skipped_trace_lines", sources_skipped(&r->sources));
	set_count(o, "prefill_blocks", c->prefill_blocks);
	set_count(o, "depth_stalls", c->depth_stalls);
	set_count(o, "late_ios", c->late_ios);
	set_count(o, "buffers_mapped_late", buffers_mapped_late(r->buffers));
	set_count(o, "read_bytes", c->read_bytes);
	set_count(o, "write_bytes", c->write_bytes);
	for (unsigned int i = 0; i < r->storms->n; i++) {
		json_t *d = json_object();

		set_count(d, "drive", r->storms->each[i].drive);
		set_count(d, "slots", r->storms->each[i].slots);
		set_count(d, "writes", r->storms->each[i].writes);
		set_count(d, "bytes", r->storms->each[i].bytes);
		json_array_append_new(storms, d);
	}
	set(o, "storms", storms);
	set_number(o, "lag_p50_us", percentile_us(&r->lag, 0.5));
	set_number(o, "lag_p99_us", percentile_us(&r->lag, 0.99));
	set_number(o, "lag_max_us", r->lag.count ? (double)r->lag.max_ns / 1000 : NAN);
	set_number(o, "elapsed_s", (double)(r->end_ns - r->start_ns) / 1e9);
	set_text(o, "percentiles",
		 latency_is_exact(&r->read_latency) ? "exact"
						    : "histogram, relative error at most 1/2048");
	set_text(o, "stopped", r->stop_reason);
	set_text(o, "log_error", r->log_error);
	set(o, "direct_io", json_boolean(all_direct(r)));
	set(o, "drives", drives(r));
	set(o, "series", series(r));
	set_environment(o, r);
	set(o, "config", config(r));
	/* A fixed order and number of digits: two equal runs give equal files. */
	if (json_dump_file(o, beside, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) ||
	    rename(beside, path)) {
		int error = errno;

		unlink(beside);
		warn_user("summary %s: %s", path, strerror(error));
		written = false;
	}
	json_decref(o);
	free(beside);
	return written;
}

static void print_latencies(const char *what, struct latency *l)
{
	if (!l->count)
		return;
	printf("%s time (us)  mean %.1f", what, latency_mean(l) / 1000);
	for (unsigned int i = 0; i < N_PERCENTILES; i++) {
		double us = percentile_us(l, percentiles[i].fraction);

		printf("  %.*s ", (int)(strlen(percentiles[i].name) - 3), percentiles[i].name);
		printf(isfinite(us) ? "%.1f" : "-", us);
	}
	printf("  max %.1f\n", (double)l->max_ns / 1000);
}

#define ULL(x) ((unsigned long long)(x))

void report_text(struct replay *r)
{
	const struct counters *c = &r->c;
	double elapsed = (double)(r->end_ns - r->start_ns) / 1e9,
	       false_submits = kernel_false_submit_ratio(r);

	printf("%s%s%s: %llu reads, %llu writes in %.3f s%s%s\n", r->o.policy->name,
	       *r->o.scenario ? ", " : "", r->o.scenario, ULL(c->reads), ULL(c->writes), elapsed,
	       r->stop_reason ? ", " : "", r->stop_reason ? r->stop_reason : "");
	/* What a user waits begins when the I/O is due, whether or not the drives keep up. */
	print_latencies("read  response", &r->read_response);
	print_latencies("read  service ", &r->read_latency);
	print_latencies("write response", &r->write_response);
	print_latencies("write service ", &r->write_latency);
	if (!latency_is_exact(&r->read_latency))
		printf("percentiles from a histogram, within 1/2048\n");
	printf("revoked %llu  hedged %llu (won %llu, denied by the budget %llu)  extra I/O %.2f %% "
	       " "
	       "cancelled %llu of %llu\n",
	       ULL(c->revoked), ULL(c->hedged), ULL(c->hedges_won), ULL(c->hedges_denied),
	       c->reads ? 100.0 * (double)c->extra_ios / (double)c->reads : 0, ULL(c->cancelled),
	       ULL(c->cancels_tried));
	if (isfinite(false_submits))
		printf("false submits %.2f %% of the decided reads\n", 100 * false_submits);
	printf("reads served by drive:");
	for (unsigned int k = 0; k < r->n_drives; k++)
		printf(" %llu", ULL(c->served_by[k]));
	printf("\ndata errors %llu  I/O errors %llu  reads failed %llu  writes failed %llu  "
	       "(%llu blocks checked",
	       ULL(c->data_errors), ULL(c->io_errors), ULL(c->reads_failed), ULL(c->writes_failed),
	       ULL(c->blocks_checked));
	if (c->torn_blocks)
		printf(", %llu read during their write", ULL(c->torn_blocks));
	if (c->unverified_blocks)
		printf(", %llu of them unverifiable", ULL(c->unverified_blocks));
	printf(")\n");
	for (unsigned int k = 0; c->io_errors && k < r->n_drives; k++)
		if (c->io_errors_by[k])
			printf("%s answered %llu I/Os with an error\n", r->devices[k].path,
			       ULL(c->io_errors_by[k]));
	if (r->lag.count)
		printf("submission lag (us)  p50 %.1f  p99 %.1f  max %.1f\n",
		       (double)latency_percentile(&r->lag, 0.5) / 1000,
		       (double)latency_percentile(&r->lag, 0.99) / 1000,
		       (double)r->lag.max_ns / 1000);
	if (c->late_ios)
		printf("%llu I/Os were submitted more than %llu us after they were due\n",
		       ULL(c->late_ios), LATE_NS / 1000);
	for (unsigned int i = 0; i < r->storms->n; i++)
		printf("write storm on %s: %llu slots, %llu writes, %llu MiB\n",
		       r->devices[r->storms->each[i].drive].path, ULL(r->storms->each[i].slots),
		       ULL(r->storms->each[i].writes), ULL(r->storms->each[i].bytes >> 20));
	if (c->depth_stalls)
		printf("%llu I/Os were due while --depth %u had no place for them\n",
		       ULL(c->depth_stalls), r->o.depth);
	if (c->copies_denied)
		printf("%llu copies of reads were not sent: a drive held --losers %u lost ones\n",
		       ULL(c->copies_denied), r->o.losers);
	if (r->sources.realigned)
		printf("%llu trace I/Os were widened to whole 4 KiB blocks\n",
		       ULL(r->sources.realigned));
	if (r->sources.folded)
		printf("%llu trace I/Os were folded into the drives' size\n",
		       ULL(r->sources.folded));
	if (r->o.readonly)
		printf("%llu writes of the traces left out (--readonly); what the reads returned "
		       "was "
		       "not checked\n",
		       ULL(r->sources.writes_left_out));
	if (sources_skipped(&r->sources))
		printf("%llu trace lines were neither read nor write and left out\n",
		       ULL(sources_skipped(&r->sources)));
	if (c->timed_out)
		printf("%llu I/Os did not come back within %g s (--timeout)\n", ULL(c->timed_out),
		       r->o.timeout_s);
	if (c->unanswered)
		printf("%llu I/Os of users were not waited for\n", ULL(c->unanswered));
	if (r->log_error)
		printf("no per-I/O log: %s\n", r->log_error);
	if (c->warmup_ios)
		printf("%llu I/Os of the warm-up are not counted above\n", ULL(c->warmup_ios));
	if (!all_direct(r))
		printf("the page cache was in use: a file system without O_DIRECT\n");
}
