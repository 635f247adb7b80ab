// SPDX-License-Identifier: MIT
/* Command line: see options.h. */
#include "options.h"
#include "error.h"
#include "number.h"
#include "policies/policy.h"

#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x) #x
#define AS_TEXT(x) TEXT_OF(x)
#define AT(field) .at = offsetof(struct options, field)

#define ROW(...)                                                                                   \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define HEADING(title) ROW(.help = title)
#define FLAG(word, field, key, text)                                                               \
	ROW(.name = word, .kind = OPTION_FLAG, AT(field), .json = key, .help = text)
#define WHOLE_AS(how, word, arg, field, from, to, start, key, text)                                \
	ROW(.name = word, .argument = arg, .kind = how, AT(field), .first = from, .last = to,      \
	    .initial = start, .json = key, .help = text)
#define NUMBER_AS(how, word, arg, field, from, to, start, key, text)                               \
	ROW(.name = word, .argument = arg, .kind = how, AT(field), .min = from, .max = to,         \
	    .initial = start, .json = key, .help = text)
#define TEXT_AS(how, word, arg, field, key, text)                                                  \
	ROW(.name = word, .argument = arg, .kind = how, AT(field), .json = key, .help = text)
#define LIST_AS(how, word, arg, field, count, key, text)                                           \
	ROW(.name = word, .argument = arg, .kind = how, AT(field),                                 \
	    .count_at = offsetof(struct options, count), .json = key, .help = text)
#define WHOLE(...) WHOLE_AS(OPTION_WHOLE, __VA_ARGS__)
#define NUMBER(...) NUMBER_AS(OPTION_NUMBER, __VA_ARGS__)
#define TEXT(...) TEXT_AS(OPTION_TEXT, __VA_ARGS__)
#define CHOICE(...) TEXT_AS(OPTION_CHOICE, __VA_ARGS__)
#define LIST(...) LIST_AS(OPTION_LIST, __VA_ARGS__)

/* Name, argument, field, range, initial value, name in the results' config, help. */
const struct option_row option_rows[] = {
	HEADING("Run"),
	LIST("devices", "A,B,C", devices, n_devices, "devices",
	     "block devices or plain files, at most " AS_TEXT(MAX_DRIVES)),
	LIST("trace", "T[,T,T]", traces, n_traces, "traces", "one for all drives or one per drive"),
	TEXT("from", "FORMAT[:UNIT]", from, "from",
	     "format of text traces, and their unit of time (s, ms, us, 100ns, ns) if it is not "
	     "the usual one (detected)"),
	TEXT("volume", "NAME", volume, "volume",
	     "the volume (device, disk, file) to replay, for text traces with several"),
	TEXT_AS(OPTION_POLICY, "policy", "P", policy, NULL,
		"how a replica is chosen for each read: one of the policies above"),
	FLAG("readonly", readonly, "readonly",
	     "open the drives for reading only: skip the traces' writes, prefill nothing, and do "
	     "not check the content of reads"),
	LIST("force", "A[,B]", forced, n_forced, "force",
	     "overwrite these of --devices although they carry a signature"),
	FLAG("spread", spread, "spread",
	     "for a single trace: the default drive is each drive in turn, I/O by I/O"),
	NUMBER("skip", "S", skip_s, 0, 1e9, 0, "skip_s", "skip the first S seconds of the trace"),
	NUMBER("duration", "S", duration_s, 1e-6, 1e9, 0, "duration_s",
	       "replay only the I/Os that are due in the first S seconds of the run"),
	NUMBER("rerate", "X", rerate, 1e-6, 1e6, 1, "rerate", "replay X times as fast as recorded"),
	WHOLE("depth", "N", depth, 1, 16384, 4096, "depth", "at most N user I/Os in flight (4096)"),
	WHOLE("max-orphans", "N", max_orphans, 1, 1u << 20, 4096, "max_orphans",
	      "send no hedge or clone to a drive that still has N reads which another drive has "
	      "answered (4096)"),
	NUMBER("timeout", "S", timeout_s, 0, 1e9, 120, "timeout_s",
	       "end the run if a drive does not complete an I/O in S seconds (120; 0 disables "
	       "this)"),
	FLAG("replicate-writes", replicate_writes, "replicate_writes",
	     "send each write to every drive; it completes when all of them have completed it"),
	FLAG("fit", fit, "fit", "wrap offsets that are beyond the end of the smallest drive"),
	CHOICE("prefill", "touched|none", prefill, "prefill",
	       "before the run, write the blocks that reads touch to every drive (touched)"),
	WHOLE("settle-ms", "N", settle_ms, 0, 1000000, 1000, "settle_ms",
	      "pause between prefill and run (1000)"),
	CHOICE("unwritten", "zero|any", unwritten, "unwritten",
	       "expected content of blocks that were not written (zero); any: do not check it"),
	NUMBER("start-every", "S", start_every_s, 1e-6, 3600, 0.1, "start_every_s",
	       "start when the clock is a multiple of S seconds (0.1), so that every replay meets "
	       "drives with periodic behaviour in the same phase"),
	LIST_AS(OPTION_TAGS, "tag", "N[,N,N]", tags, n_tags, "tags",
		"I/O tag that fault rules can match, from 8 to 1023, or 0 for none: one for all or "
		"one per trace"),
	WHOLE_AS(OPTION_WHOLE64, "seed", "N", seed, 0, INT64_MAX, 1, "seed",
		 "seed of the written patterns and of random choices (1)"),

	HEADING("Policy settings"),
	NUMBER("failover-us", "X", failover_us, 0, 1e9, 15, "failover_us",
	       "software time charged between a revocation and the next attempt (15)"),
	TEXT("profile", "LOG", profile_path, "profile",
	     "--log of an earlier baseline run, from which thresholds are computed"),
	NUMBER("hedge-us", "X", hedge_us, 1, 1e9, -1, NULL, "hedge after X us"),
	NUMBER("hedge-percentile", "P", hedge_percentile, 0, 100, -1, NULL,
	       "hedge after the profile's Pth percentile (hedge: 95)"),
	NUMBER_AS(OPTION_SHARE, "hedge-budget", "X%|none", hedge_budget, 0, 1, 0.05, "hedge_budget",
		  "maximum share of the reads that are hedged (5%)"),
	NUMBER("false-submit-ratio", "X", false_submit_ratio, 0, 1, -1, NULL,
	       "linnos-hl: ratio of false submits (by default the one that the kernel has "
	       "counted)"),
	WHOLE("heuristic-queue", "N", heuristic_queue_pages, 1, 1u << 30, 0,
	      "heuristic_queue_pages",
	      "heuristic and heuristic-adv: avoid a drive with more than N pending 4 KiB pages"),
	NUMBER("heuristic-busy-us", "X", heuristic_busy_us, 0, 1e9, -1, "heuristic_busy_us",
	       "heuristic-adv: a read that takes longer is slow"),
	WHOLE("threshold-us", "N", threshold_us, 1, 1u << 30, 0, NULL,
	      "verdict: a read that takes longer is slow (by default threshold_us of each drive in "
	      "sysfs)"),
	LIST("latency-model", "F[,F]", latency_models, n_latency_models, "latency_model",
	     "fastest: a latency model for each drive, from `linnapp train --kind latency`"),
	FLAG("duplicates", duplicates, "duplicates",
	     "fastest: a second replica gets the read as well, at once or later, when that gains "
	     "more than it costs other reads"),
	NUMBER_AS(OPTION_PERCENT, "max-duplicates", "P", max_duplicates, 0, 100, INFINITY,
		  "max_duplicates",
		  "fastest: at most P percent of the reads have a duplicate or are copied as "
		  "probes (no limit)"),
	LIST("heimdall-network", "F[,F]", heimdall_networks, n_heimdall_networks,
	     "heimdall_network",
	     "heimdall: a network for each drive, from `python -m eval.heimdall`"),
	WHOLE("margin", "P", margin, 0, 100, 25, "margin",
	      "fastest: a read leaves its default drive for a prediction more than P percent lower "
	      "(25)"),
	FLAG("unguarded", unguarded, "unguarded",
	     "fastest: always follow the predictions; otherwise a random part of the reads that "
	     "would be redirected stays at the default replica, a larger part the less they gain"),
	NUMBER("probe-after-ms", "X", probe_after_ms, 0, 1e9, 20, "probe_after_ms",
	       "fastest: probe a drive that has completed nothing for X ms with a read, at most 1 "
	       "in 100 reads (20); 0 disables this"),

	HEADING("Slow bursts"),
	LIST_AS(OPTION_REPEATED, "inject", "PATTERN:key=value,...", injects, n_injects, "inject",
		"make flashsim drives slow: all of them, or those that drive= names; may be "
		"repeated for other drives"),

	HEADING("Results"),
	TEXT("json", "OUT", json_path, NULL,
	     "write one JSON object, the fields of a run in summary.json"),
	TEXT("log", "OUT", log_path, NULL,
	     "write a binary per-I/O log (replayer(1)), which `linnapp inspect` reads"),
	FLAG("quiet", quiet, NULL, "no progress on stderr"),
	{.name = "version", .kind = OPTION_VERSION, .help = "print the version"},
	{.name = "help", .kind = OPTION_HELP, .help = "print this help"},
};
const unsigned int n_option_rows = sizeof(option_rows) / sizeof(*option_rows);

#define N_ROWS (sizeof(option_rows) / sizeof(*option_rows))
#define SHORT_HELP 'h'
#define FIRST_ROW 1000 /* getopt's value for the first row of the table */

static void print_row(const struct option_row *row)
{
	if (row->name)
		printf("  --%s%s%s\n      %s\n", row->name, row->argument ? " " : "",
		       row->argument ? row->argument : "", row->help);
	else
		printf("\n%s:\n", row->help);
}

static void help(void)
{
	printf("Usage: replayer --devices A,B,C --trace T[,T,T] --policy P [options]\n"
	       "Replays block traces against an array of replicated drives: replayer(1).\n"
	       "The drives are OVERWRITTEN unless --readonly is given.\n"
	       "\nPolicies (where a read goes):\n");
	for (const struct policy *const *p = policies; *p; p++)
		printf("  %-18s %s\n", (*p)->name, (*p)->help);
	for (unsigned int i = 0; i < N_ROWS; i++)
		print_row(&option_rows[i]);
}

static double number(const char *option, const char *text, double min, double max)
{
	double v;

	if (!parse_number(text, &v) || !(v >= min && v <= max))
		die("--%s %s: expected a number from %g to %g", option, text, min, max);
	return v;
}

static uint64_t whole(const char *option, const char *text, uint64_t min, uint64_t max)
{
	uint64_t v;

	if (!parse_whole(text, &v) || v < min || v > max)
		die("--%s %s: expected a whole number from %llu to %llu, in decimal", option, text,
		    (unsigned long long)min, (unsigned long long)max);
	return v;
}

/* Parse a percentage, "5" or "5%". */
static double percent(const char *option, const char *text)
{
	const char *unit;
	double v;

	if (parse_number_unit(text, &v, &unit) && v >= 0 && v <= 100 &&
	    (!*unit || !strcmp(unit, "%")))
		return v;
	die("--%s %s: expected a percentage from 0 to 100; leave the option out for no limit",
	    option, text);
}

/*
 * Parse "5%", 0.05 or "none". A budget of more than all reads is an error, because "none" expresses
 * it.
 */
static double share(const char *option, const char *text)
{
	const char *unit;
	double v;

	if (!strcmp(text, "none"))
		return INFINITY;
	if (parse_number_unit(text, &v, &unit) && v >= 0) {
		if (!strcmp(unit, "%") && v <= 100)
			return v / 100;
		if (!*unit && v <= 1)
			return v;
	}
	die("--%s %s: expected a share of the reads, from 0%% to 100%% or from 0 to 1, or none for "
	    "no limit",
	    option, text);
}

/* Standard input cannot be read twice, and results are written to files. */
static void require_name(const char *option, const char *path)
{
	if (!strcmp(path, "-"))
		die("--%s -: standard input and output are not supported; name a file", option);
}

static unsigned int split(const char *option, char *text, char **items)
{
	unsigned int n = 0;
	char *item;

	while ((item = strsep(&text, ","))) {
		if (!*item)
			die("--%s: an empty name in the list", option);
		require_name(option, item);
		if (n == MAX_DRIVES)
			die("--%s: more than %d names", option, MAX_DRIVES);
		items[n++] = item;
	}
	return n;
}

static void parse_tags(struct options *o, const char *option, char *text)
{
	char *items[MAX_DRIVES];

	o->n_tags = split(option, text, items);
	for (unsigned int i = 0; i < o->n_tags; i++) {
		o->tags[i] = whole(option, items[i], 0, TAG_MAX);
		if (o->tags[i] && o->tags[i] < TAG_MIN)
			die("--%s %s: expected 0 for none, or %d to %d; the kernel gives meanings "
			    "to smaller tags",
			    option, items[i], TAG_MIN, TAG_MAX);
	}
}

/* Copy the arguments, because parsing splits lists in place and getopt reorders them. */
static char **copy_of(int argc, char **argv)
{
	char **copy = xcalloc(argc + 1, sizeof(*copy));

	for (int i = 0; i < argc; i++)
		copy[i] = xstrdup(argv[i]);
	return copy;
}

static void set(struct options *o, const struct option_row *row, char *text)
{
	void *at = (char *)o + row->at;
	unsigned int *count = (unsigned int *)((char *)o + row->count_at);
	int place;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)at = true;
		break;
	case OPTION_WHOLE:
		*(uint32_t *)at = whole(row->name, text, row->first, row->last);
		break;
	case OPTION_WHOLE64:
		*(uint64_t *)at = whole(row->name, text, row->first, row->last);
		break;
	case OPTION_NUMBER:
		*(double *)at = number(row->name, text, row->min, row->max);
		break;
	case OPTION_SHARE:
		*(double *)at = share(row->name, text);
		break;
	case OPTION_PERCENT:
		*(double *)at = percent(row->name, text);
		break;
	case OPTION_TEXT:
		if (!strcmp(row->argument, "OUT") || !strcmp(row->argument, "LOG"))
			require_name(row->name, text);
		*(const char **)at = text;
		break;
	case OPTION_CHOICE:
		place = word_place(row->argument, text);
		if (place < 0)
			die("--%s %s: expected %s", row->name, text, row->argument);
		*(unsigned int *)at = place;
		break;
	case OPTION_LIST:
		*count = split(row->name, text, at);
		break;
	case OPTION_REPEATED:
		if (*count == MAX_INJECTS)
			die("--%s: given more than %d times", row->name, MAX_INJECTS);
		((char **)at)[(*count)++] = text;
		break;
	case OPTION_TAGS:
		parse_tags(o, row->name, text);
		break;
	case OPTION_POLICY:
		o->policy = policy_find(text);
		if (!o->policy)
			die("--policy %s: no such policy; `replayer --help` lists them", text);
		break;
	case OPTION_VERSION:
		printf("replayer %s\n", REPLAYER_VERSION);
		exit(!all_printed());
	case OPTION_HELP:
		help();
		exit(!all_printed());
	}
}

static void set_initial(struct options *o)
{
	for (const struct option_row *row = option_rows; row < option_rows + N_ROWS; row++) {
		void *at = (char *)o + row->at;

		if (row->kind == OPTION_WHOLE)
			*(uint32_t *)at = row->initial;
		else if (row->kind == OPTION_WHOLE64)
			*(uint64_t *)at = row->initial;
		else if (row->kind == OPTION_NUMBER || row->kind == OPTION_SHARE ||
			 row->kind == OPTION_PERCENT)
			*(double *)at = row->initial;
	}
}

/* Parse the options according to the table. */
static void parse_each(struct options *o, int argc, char **argv)
{
	struct option options[N_ROWS + 1] = {0}, *next = options;
	int c;

	for (unsigned int i = 0; i < N_ROWS; i++)
		if (option_rows[i].name)
			*next++ = (struct option){.name = option_rows[i].name,
						  .has_arg = option_rows[i].argument != NULL,
						  .val = FIRST_ROW + i};
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == SHORT_HELP) {
			help();
			exit(!all_printed());
		}
		if (c < FIRST_ROW)
			die("`replayer --help` lists the options");
		set(o, &option_rows[c - FIRST_ROW], optarg);
	}
	if (optind < argc)
		die("%s: unexpected argument; `replayer --help` shows the usage", argv[optind]);
}

static void require_forced_devices(const struct options *o)
{
	for (unsigned int i = 0; i < o->n_forced; i++) {
		unsigned int k = 0;

		while (k < o->n_devices && strcmp(o->forced[i], o->devices[k]))
			k++;
		if (k == o->n_devices)
			die("--force %s: not one of --devices; name the drives to overwrite "
			    "exactly as they are given there",
			    o->forced[i]);
	}
}

static void make_readonly(struct options *o)
{
	if (o->n_forced)
		die("--force allows overwriting, --readonly writes nothing: give one of them");
	o->prefill = PREFILL_NONE;
	/* The contents of the drives were not written by the replayer. */
	o->unwritten = UNWRITTEN_ANY;
}

/* Check combinations of options. */
static void require_agreement(struct options *o)
{
	if (!o->n_devices)
		die("--devices is missing; `replayer --help` shows the usage");
	if (!o->n_traces)
		die("--trace is missing; `replayer --help` shows the usage");
	if (!o->policy)
		die("--policy is missing; `replayer --help` lists the policies");
	if (o->n_traces != 1 && o->n_traces != o->n_devices)
		die("--trace: %u traces for %u drives; give one, or one per drive", o->n_traces,
		    o->n_devices);
	if (o->spread && o->n_traces != 1)
		die("--spread spreads a single trace over the drives; %u traces were given",
		    o->n_traces);
	if (o->n_tags > 1 && o->n_tags != o->n_traces)
		die("--tag: %u tags for %u traces; give one, or one per trace", o->n_tags,
		    o->n_traces);
	if (o->n_tags == 1)
		for (unsigned int i = 1; i < o->n_traces; i++)
			o->tags[i] = o->tags[0];
	if (o->hedge_us >= 0 && o->hedge_percentile >= 0)
		die("--hedge-us and --hedge-percentile both set the time until a hedge; give one "
		    "of them");
	if (isfinite(o->max_duplicates) && !o->duplicates)
		die("--max-duplicates limits the reads that --duplicates sends twice; give both");
}

void options_parse(struct options *o, int argc, char **argv)
{
	*o = (struct options){.argc = argc, .argv = copy_of(argc, argv)};
	set_initial(o);
	parse_each(o, argc, argv);
	require_agreement(o);
	require_forced_devices(o);
	if (o->readonly)
		make_readonly(o);
}
