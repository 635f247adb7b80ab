// SPDX-License-Identifier: MIT
/* Results of a run: see report.h. */
#include "report.h"
#include "error.h"
#include "policies/policy.h"
#include "replay.h"
#include "slow/inject.h"

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

static json_t *count(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* Undefined numbers (the mean of no values, an unused setting) are null. */
static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *text_of(const char *v, size_t length)
{
	json_t *s = json_stringn(v, length);

	/* A path need not be valid UTF-8. */
	return s ? s : json_string("(not UTF-8)");
}

static json_t *text(const char *v)
{
	return v ? text_of(v, strlen(v)) : json_null();
}

/* Return NaN if there are too few values. */
static double percentile_us(struct latency *l, double fraction)
{
	return latency_is_enough(l->count, fraction)
		       ? (double)latency_percentile(l, fraction) / 1000
		       : NAN;
}

static double max_us(const struct latency *l)
{
	return l->count ? (double)l->max_ns / 1000 : NAN;
}

static void set_latencies(json_t *o, const char *prefix, struct latency *l)
{
	char key[32];

	snprintf(key, sizeof(key), "%smean_us", prefix);
	set(o, key, number(l->count ? latency_mean(l) / 1000 : NAN));
	for (unsigned int i = 0; i < N_PERCENTILES; i++) {
		snprintf(key, sizeof(key), "%s%s", prefix, percentiles[i].name);
		set(o, key, number(percentile_us(l, percentiles[i].fraction)));
	}
	snprintf(key, sizeof(key), "%smax_us", prefix);
	set(o, key, number(max_us(l)));
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : NAN;
}

/*
 * Return the fraction of false submits among the latency-critical reads that the kernel decided on
 * during the run; NaN if there are none.
 */
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

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(a, text(list[i]));
	return a;
}

/* ---- config ---- */

/* Return a word of "this|that". */
static json_t *word(const char *words, unsigned int place)
{
	while (place--)
		words = strchr(words, '|') + 1;
	return text_of(words, strcspn(words, "|"));
}

/*
 * Return the value of an option. A number less than the option's minimum means none, and is null.
 */
static json_t *option_value(const struct options *o, const struct option_row *row)
{
	const void *at = (const char *)o + row->at;
	unsigned int n = *(const unsigned int *)((const char *)o + row->count_at);
	json_t *a;

	switch (row->kind) {
	case OPTION_FLAG:
		return json_boolean(*(const bool *)at);
	case OPTION_WHOLE:
		return *(const uint32_t *)at < row->first ? json_null()
							  : count(*(const uint32_t *)at);
	case OPTION_WHOLE64:
		return count(*(const uint64_t *)at);
	case OPTION_NUMBER:
		return *(const double *)at < row->min ? json_null() : number(*(const double *)at);
	case OPTION_SHARE:
	case OPTION_PERCENT:
		return number(*(const double *)at);
	case OPTION_TEXT:
		return text(*(const char *const *)at);
	case OPTION_CHOICE:
		return word(row->argument, *(const unsigned int *)at);
	case OPTION_LIST:
	case OPTION_REPEATED:
		return names(at, n);
	case OPTION_TAGS:
		a = json_array();
		for (unsigned int i = 0; i < n; i++)
			json_array_append_new(a, count(((const uint16_t *)at)[i]));
		return a;
	case OPTION_POLICY:
	case OPTION_VERSION:
	case OPTION_HELP:
		break;
	}
	return NULL;
}

static json_t *counts(const uint64_t *values, unsigned int n)
{
	json_t *a = json_array();

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(a, count(values[i]));
	return a;
}

/* Return an array with an object or a number for each drive. */
static json_t *by_drive(struct replay *r, json_t *(*value)(struct replay *r, unsigned int drive))
{
	json_t *a = json_array();

	for (unsigned int k = 0; k < r->n_drives; k++)
		json_array_append_new(a, value(r, k));
	return a;
}

static json_t *hedge_us(struct replay *r, unsigned int drive)
{
	return number(r->hedge_ns[drive] ? (double)r->hedge_ns[drive] / 1000 : NAN);
}

static json_t *threshold_us(struct replay *r, unsigned int drive)
{
	return r->threshold_us[drive] ? count(r->threshold_us[drive]) : json_null();
}

static json_t *linnos(struct replay *r, unsigned int drive)
{
	return json_pack("{s:s, s:s}", "mode", r->linnos_mode[drive], "model_id",
			 r->model_id[drive]);
}

/* Return all settings as in the options table, or as determined by the policy instead. */
static json_t *config(struct replay *r)
{
	const struct options *o = &r->o;
	json_t *c = json_object();

	for (const struct option_row *row = option_rows; row < option_rows + n_option_rows; row++)
		if (row->json)
			set(c, row->json, option_value(o, row));
	set(c, "hedge_us", by_drive(r, hedge_us));
	set(c, "threshold_us", by_drive(r, threshold_us));
	set(c, "hedge_percentile", number(r->hedge_percentile_used));
	set(c, "false_submit_ratio", number(r->false_submit_ratio_used));
	/* A timeout of 0 means none. */
	if (!(o->timeout_s > 0))
		set(c, "timeout_s", json_null());
	if (o->policy->needs_linnos)
		set(c, "linnos", by_drive(r, linnos));
	return c;
}

/* ---- results ---- */

static json_t *drive(struct replay *r, unsigned int k)
{
	json_t *d = json_object();

	set(d, "device", text(r->devices[k].path));
	set(d, "reads", count(r->drive_latency[k].count));
	set_latencies(d, "", &r->drive_latency[k]);
	return d;
}

static bool all_direct(const struct replay *r)
{
	for (unsigned int k = 0; k < r->n_drives; k++)
		if (!r->devices[k].direct)
			return false;
	return true;
}

/* Return true if all percentiles of the users' I/Os are those of stored values (latency.h). */
static bool all_exact(const struct replay *r)
{
	for (unsigned int i = 0; i < N_LATENCIES; i++)
		if (!r->latency[i].exact)
			return false;
	return true;
}

/* Return how meaningful the absence of data errors is. */
static const char *data_check(const struct replay *r)
{
	if (r->o.readonly)
		return "the content of reads is not compared, because nothing was written "
		       "(--readonly)";
	if (r->o.replicate_writes)
		return "each write goes to every drive; what a read returns is compared with what "
		       "was written to the drive that served it";
	return "each drive has its own writes: a write goes to its default drive alone, and what a "
	       "read returns is compared with what was written to the drive that served it, "
	       "whatever its replicas hold";
}

/* The names are those of md/linnos_guard. */
static const char *const slowness_names[LINNOS_N_SLOWNESS] = {
	[LINNOS_SLOWNESS_NORMAL] = "normal",
	[LINNOS_SLOWNESS_OVER_P90] = "over_p90",
	[LINNOS_SLOWNESS_OVER_2X_P90] = "over_2x_p90",
	[LINNOS_SLOWNESS_OVER_3X_P90] = "over_3x_p90",
};

/*
 * Reads that would be redirected, by slowness class, and how many were. The class comes from the
 * predicted latency of the default drive.
 */
static json_t *guard(struct replay *r)
{
	json_t *classes;

	if (!r->guard)
		return json_null();
	classes = json_object();
	for (unsigned int i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		struct linnos_redirect_benefit benefit;

		linnos_guard_get_benefit(r->guard, i, &benefit);
		set(classes, slowness_names[i],
		    json_pack("{s:o, s:o, s:o, s:o, s:o}", "reads", count(r->guard->eligible[i]),
			      "redirected", count(r->guard->redirected[i]), "control_us",
			      count(benefit.control_us), "redirected_us",
			      count(benefit.redirected_us), "share",
			      number(benefit.share / 1024.0)));
	}
	return classes;
}

/* ---- the JSON, in the order of its fields ---- */

static void set_answers(json_t *o, struct replay *r)
{
	set(o, "policy", text(r->o.policy->name));
	/* Null if the policy is not a bound. */
	set(o, "bound_holds",
	    r->o.policy->is_bound ? json_boolean(!inject_counts_reads(r->inject)) : json_null());
	set(o, "reads", count(r->c.reads));
	set_latencies(o, "", &r->latency[READ_SERVICE]);
	set_latencies(o, "service_", &r->latency[READ_SERVICE]);
	set_latencies(o, "response_", &r->latency[READ_RESPONSE]);
	set(o, "writes", count(r->c.writes));
	set_latencies(o, "write_", &r->latency[WRITE_SERVICE]);
	set_latencies(o, "write_service_", &r->latency[WRITE_SERVICE]);
	set_latencies(o, "write_response_", &r->latency[WRITE_RESPONSE]);
}

static void set_decisions(json_t *o, struct replay *r)
{
	const struct counters *c = &r->c;

	set(o, "revoked", count(c->revoked));
	set(o, "revocations", count(c->revocations));
	set(o, "probes", count(c->probes));
	set(o, "guard", guard(r));
	set(o, "hedged", count(c->hedged));
	set(o, "hedges_won", count(c->hedges_won));
	set(o, "hedges_denied", count(c->hedges_denied));
	set(o, "copies_denied", count(c->copies_denied));
	set(o, "orphans_max", count(c->orphans_max));
	set(o, "extra_ios", count(c->extra_ios));
	set(o, "extra_io_ratio", number(ratio(c->extra_ios, c->reads)));
	set(o, "cancels_tried", count(c->cancels_tried));
	set(o, "cancelled", count(c->cancelled));
	set(o, "false_submit_ratio", number(kernel_false_submit_ratio(r)));
}

static void set_checks(json_t *o, struct replay *r)
{
	const struct counters *c = &r->c;

	set(o, "writes_to",
	    text(r->o.readonly		 ? "none"
		 : r->o.replicate_writes ? "every drive"
					 : "default drive"));
	set(o, "data_check", text(data_check(r)));
	set(o, "data_errors", count(c->data_errors));
	set(o, "blocks_checked", count(c->blocks_checked));
	set(o, "torn_blocks", count(c->torn_blocks));
	set(o, "unverified_blocks", count(c->unverified_blocks));
	set(o, "io_errors", count(c->io_errors));
	set(o, "io_errors_by_drive", counts(c->io_errors_by, r->n_drives));
	set(o, "short_ios", count(c->short_ios));
	set(o, "reads_failed", count(c->reads_failed));
	set(o, "writes_failed", count(c->writes_failed));
	set(o, "unanswered", count(c->unanswered));
	set(o, "timed_out_ios", count(c->timed_out));
	set(o, "failovers_on_error", count(c->failovers_on_error));
	set(o, "reads_served_by", counts(c->served_by, r->n_drives));
}

static void set_load(json_t *o, struct replay *r)
{
	const struct counters *c = &r->c;

	set(o, "realigned_ios", count(r->sources.realigned));
	set(o, "folded_ios", count(r->sources.folded));
	set(o, "writes_left_out", count(r->sources.writes_left_out));
	set(o, "skipped_trace_lines", count(sources_skipped(&r->sources)));
	set(o, "prefill_blocks", count(c->prefill_blocks));
	set(o, "depth_stalls", count(c->depth_stalls));
	set(o, "late_ios", count(c->late_ios));
	set(o, "read_bytes", count(c->read_bytes));
	set(o, "write_bytes", count(c->write_bytes));
	set(o, "lag_p50_us", number(percentile_us(&r->latency[LAG], 0.5)));
	set(o, "lag_p99_us", number(percentile_us(&r->latency[LAG], 0.99)));
	set(o, "lag_max_us", number(max_us(&r->latency[LAG])));
}

static void set_run(json_t *o, struct replay *r)
{
	struct utsname u;
	char *kernel;

	if (uname(&u))
		die("uname: %s", strerror(errno));
	/* Without its version, which is the time when the kernel was built. */
	kernel = xasprintf("%s %s %s", u.sysname, u.release, u.machine);
	set(o, "elapsed_s", number((double)(r->end_ns - r->start_ns) / 1e9));
	set(o, "percentiles",
	    text(all_exact(r) ? "exact" : "histogram, relative error at most 1/2048"));
	set(o, "stopped", text(r->stop_reason));
	set(o, "log_error", text(r->log_error));
	set(o, "direct_io", json_boolean(all_direct(r)));
	set(o, "drives", by_drive(r, drive));
	set(o, "version", text(REPLAYER_VERSION));
	set(o, "kernel", text(kernel));
	set(o, "host", text(u.nodename));
	set(o, "argv", names(r->o.argv, r->o.argc));
	set(o, "config", config(r));
	free(kernel);
}

void report_require_writable(const char *path)
{
	char *temporary_path = xasprintf("%s.new", path);
	FILE *f = fopen(temporary_path, "we");

	if (!f)
		die("summary %s: %s", temporary_path, strerror(errno));
	fclose(f);
	unlink(temporary_path);
	free(temporary_path);
}

bool report_json(struct replay *r, const char *path)
{
	json_t *o = json_object();
	char *temporary_path = xasprintf("%s.new", path);
	bool written = true;

	set_answers(o, r);
	set_decisions(o, r);
	set_checks(o, r);
	set_load(o, r);
	set_run(o, r);
	/* A fixed order and number of digits, so that equal runs give equal files. */
	if (json_dump_file(o, temporary_path, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) ||
	    rename(temporary_path, path)) {
		int error = errno;

		unlink(temporary_path);
		warn_user("summary %s: %s", path, strerror(error));
		written = false;
	}
	json_decref(o);
	free(temporary_path);
	return written;
}

static void print_latencies(const char *kind, struct latency *l)
{
	if (!l->count)
		return;
	printf("%s time (us)  mean %.1f", kind, latency_mean(l) / 1000);
	for (unsigned int i = 0; i < N_PERCENTILES; i++) {
		double us = percentile_us(l, percentiles[i].fraction);

		printf("  %.*s ", (int)(strlen(percentiles[i].name) - 3), percentiles[i].name);
		printf(isfinite(us) ? "%.1f" : "-", us);
	}
	printf("  max %.1f\n", (double)l->max_ns / 1000);
}

#define ULL(x) ((unsigned long long)(x))
/* Print a count if it is not 0. */
#define NOTE(n, text, ...) ((n) ? (void)printf("%llu " text "\n", ULL(n), ##__VA_ARGS__) : (void)0)

static void print_data_check(const struct replay *r)
{
	const struct counters *c = &r->c;

	if (!r->o.readonly) {
		printf("data errors %llu in %llu blocks compared", ULL(c->data_errors),
		       ULL(c->blocks_checked));
		if (c->torn_blocks)
			printf(", %llu of them read during their write", ULL(c->torn_blocks));
		if (c->unverified_blocks)
			printf("; %llu could not be compared", ULL(c->unverified_blocks));
		putchar('\n');
	}
	printf("%s\n", data_check(r));
}

void report_text(struct replay *r)
{
	const struct counters *c = &r->c;
	double elapsed = (double)(r->end_ns - r->start_ns) / 1e9,
	       false_submits = kernel_false_submit_ratio(r);

	printf("%s: %llu reads, %llu writes in %.3f s%s%s\n", r->o.policy->name, ULL(c->reads),
	       ULL(c->writes), elapsed, r->stop_reason ? ", " : "",
	       r->stop_reason ? r->stop_reason : "");
	/* A user's response time starts when the I/O is due, whether or not the drives keep up. */
	print_latencies("read  response", &r->latency[READ_RESPONSE]);
	print_latencies("read  service ", &r->latency[READ_SERVICE]);
	print_latencies("write response", &r->latency[WRITE_RESPONSE]);
	print_latencies("write service ", &r->latency[WRITE_SERVICE]);
	if (!all_exact(r))
		printf("percentiles from a histogram, within 1/2048\n");
	printf("revoked %llu  hedged %llu (won %llu, denied by the budget %llu)  extra I/O %.2f %% "
	       " cancelled %llu of %llu\n",
	       ULL(c->revoked), ULL(c->hedged), ULL(c->hedges_won), ULL(c->hedges_denied),
	       c->reads ? 100.0 * (double)c->extra_ios / (double)c->reads : 0, ULL(c->cancelled),
	       ULL(c->cancels_tried));
	if (c->probes)
		printf("probes %llu: copies of reads, for which no user waited\n", ULL(c->probes));
	if (isfinite(false_submits))
		printf("false submits %.2f %% of the decided reads\n", 100 * false_submits);
	printf("reads served by drive:");
	for (unsigned int k = 0; k < r->n_drives; k++)
		printf(" %llu", ULL(c->served_by[k]));
	printf("\nI/O errors %llu  reads failed %llu  writes failed %llu\n", ULL(c->io_errors),
	       ULL(c->reads_failed), ULL(c->writes_failed));
	print_data_check(r);
	for (unsigned int k = 0; c->io_errors && k < r->n_drives; k++)
		if (c->io_errors_by[k])
			printf("%s answered %llu I/Os with an error\n", r->devices[k].path,
			       ULL(c->io_errors_by[k]));
	NOTE(c->late_ios, "I/Os were submitted more than %llu us after they were due",
	     LATE_NS / 1000);
	NOTE(c->copies_denied,
	     "hedges or clones were not sent, because a drive had %u orphaned reads "
	     "(--max-orphans)",
	     r->o.max_orphans);
	if (r->o.readonly)
		printf("%llu writes of the traces were left out (--readonly)\n",
		       ULL(r->sources.writes_left_out));
	NOTE(sources_skipped(&r->sources),
	     "trace lines or records were left out: they have no data, or are revoked reads");
	if (r->log_error)
		printf("no per-I/O log: %s\n", r->log_error);
	if (!all_direct(r))
		printf("the page cache was in use, because a file system does not support "
		       "O_DIRECT\n");
}
