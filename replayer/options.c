// SPDX-License-Identifier: MIT
/* The command line: see options.h. */
#include "options.h"
#include "error.h"
#include "hint.h"
#include "policy.h"

#include "number.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_DEVICES = 1000,
	OPT_TRACE,
	OPT_POLICY,
	OPT_INJECT,
	OPT_JSON,
	OPT_LOG,
	OPT_SCENARIO,
	OPT_SEED,
	OPT_FAILOVER_US,
	OPT_START_EVERY,
	OPT_HEDGE_US,
	OPT_HEDGE_PERCENTILE,
	OPT_HEDGE_BUDGET,
	OPT_HEDGE_BURST,
	OPT_PROFILE,
	OPT_FALSE_SUBMIT_RATIO,
	OPT_HEURISTIC_QUEUE,
	OPT_HEURISTIC_BUSY_US,
	OPT_CLONE_COPIES,
	OPT_DURATION,
	OPT_WARMUP,
	OPT_SKIP,
	OPT_RERATE,
	OPT_SATURATE,
	OPT_REPLICATE_WRITES,
	OPT_SPREAD,
	OPT_FIT,
	OPT_PREFILL,
	OPT_UNWRITTEN,
	OPT_SETTLE_MS,
	OPT_DEPTH,
	OPT_LOSERS,
	OPT_TIMEOUT,
	OPT_TAG,
	OPT_QUIET,
	OPT_FORCE,
	OPT_READONLY,
	OPT_LOOPS,
	OPT_INTERVAL,
	OPT_VERSION,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"devices", required_argument, NULL, OPT_DEVICES},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"inject", required_argument, NULL, OPT_INJECT},
	{"json", required_argument, NULL, OPT_JSON},
	{"log", required_argument, NULL, OPT_LOG},
	{"scenario", required_argument, NULL, OPT_SCENARIO},
	{"seed", required_argument, NULL, OPT_SEED},
	{"failover-us", required_argument, NULL, OPT_FAILOVER_US},
	{"start-every", required_argument, NULL, OPT_START_EVERY},
	{"hedge-us", required_argument, NULL, OPT_HEDGE_US},
	{"hedge-percentile", required_argument, NULL, OPT_HEDGE_PERCENTILE},
	{"hedge-budget", required_argument, NULL, OPT_HEDGE_BUDGET},
	{"hedge-burst", required_argument, NULL, OPT_HEDGE_BURST},
	{"profile", required_argument, NULL, OPT_PROFILE},
	{"false-submit-ratio", required_argument, NULL, OPT_FALSE_SUBMIT_RATIO},
	{"heuristic-queue", required_argument, NULL, OPT_HEURISTIC_QUEUE},
	{"heuristic-busy-us", required_argument, NULL, OPT_HEURISTIC_BUSY_US},
	{"clone-copies", required_argument, NULL, OPT_CLONE_COPIES},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"skip", required_argument, NULL, OPT_SKIP},
	{"rerate", required_argument, NULL, OPT_RERATE},
	{"saturate", no_argument, NULL, OPT_SATURATE},
	{"replicate-writes", no_argument, NULL, OPT_REPLICATE_WRITES},
	{"spread", no_argument, NULL, OPT_SPREAD},
	{"fit", no_argument, NULL, OPT_FIT},
	{"prefill", required_argument, NULL, OPT_PREFILL},
	{"unwritten", required_argument, NULL, OPT_UNWRITTEN},
	{"settle-ms", required_argument, NULL, OPT_SETTLE_MS},
	{"depth", required_argument, NULL, OPT_DEPTH},
	{"losers", required_argument, NULL, OPT_LOSERS},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"tag", required_argument, NULL, OPT_TAG},
	{"quiet", no_argument, NULL, OPT_QUIET},
	{"force", required_argument, NULL, OPT_FORCE},
	{"readonly", no_argument, NULL, OPT_READONLY},
	{"loops", required_argument, NULL, OPT_LOOPS},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

static void help(void)
{
	printf("Usage: replayer --devices A,B,C --trace T[,T,T] --policy P [options]\n"
	       "\n"
	       "Replays block traces against an array of replicated drives, checks the content of "
	       "every read, and\n"
	       "reports latencies. The drives are OVERWRITTEN by the traces' writes and by the "
	       "prefill, unless\n"
	       "--readonly is given. One that carries a file system, RAID, LVM or partition table "
	       "is refused unless\n"
	       "--force names it; one that is mounted or open elsewhere is always refused.\n"
	       "\n"
	       "A trace is a fio iolog of version 3, a text of five columns (time_ms device "
	       "offset_bytes size_bytes type,\n"
	       "1 for a read, as Heimdall's), or blktrace's binary files (the one that `blkparse "
	       "-d` wrote, or the\n"
	       "per-CPU ones by their common name). With one trace per drive, trace k's I/Os have "
	       "drive k as their\n"
	       "home; with a single trace, drive 0 is everyone's home unless --spread is given. A "
	       "read may be\n"
	       "served by any drive (at the same offset); a write goes to its home drive, or to "
	       "all of them with\n"
	       "--replicate-writes.\n"
	       "\n"
	       "Policies (where a read goes):\n");
	for (const struct policy *const *p = policies; *p; p++)
		printf("  %-15s %s\n", (*p)->name, (*p)->help);
	printf("\n"
	       "Run:\n"
	       "  --devices A,B,C         block devices or plain files, at most %d\n"
	       "  --trace T[,T,T]         one for all drives or one per drive\n"
	       "  --readonly              open the drives for reading only: the traces' writes are "
	       "left out, nothing is\n"
	       "                          prefilled, and the content of reads is not checked\n"
	       "  --force A[,B]           overwrite these of --devices although they carry a "
	       "signature\n"
	       "  --loops N               the traces N times, each time after the last of them has "
	       "ended (1)\n"
	       "  --spread                single trace: home drives in turn, I/O by I/O\n"
	       "  --skip S                leave out the trace's first S seconds\n"
	       "  --duration S            stop after S seconds of the run's time\n"
	       "  --warmup S              I/Os due in the first S seconds are done but not "
	       "counted\n"
	       "  --rerate X              X times as fast as recorded\n"
	       "  --saturate              ignore the trace's times: always --depth I/Os in flight\n"
	       "  --depth N               at most N user I/Os not answered yet (4096; with "
	       "--saturate 32)\n"
	       "  --losers N              a drive that holds N reads whose race is lost gets no "
	       "further copies\n"
	       "                          (4096)\n"
	       "  --timeout S             end the run when a drive keeps an I/O for S seconds "
	       "(120; 0: "
	       "never)\n"
	       "  --replicate-writes      a write goes to every drive and is done when all have "
	       "it\n"
	       "  --fit                   fold offsets beyond the smallest drive into it\n"
	       "  --prefill touched|none  first write the blocks that reads touch (touched), on "
	       "every drive\n"
	       "  --settle-ms N           pause between prefill and run (1000)\n"
	       "  --unwritten zero|any    what a block holds that was not written (zero); any: not "
	       "checked\n"
	       "  --start-every S         start when the clock is a multiple of S seconds (0.1): "
	       "drives with\n"
	       "                          a rhythm of their own then meet every replay in the same "
	       "phase\n"
	       "  --tag N[,N,N]           I/O tag (8 to 1023; 0: none) that fault rules can match: "
	       "one for all\n"
	       "                          or one per trace\n"
	       "  --seed N                of the written patterns and of random choices (1)\n"
	       "\n"
	       "Policy settings:\n"
	       "  --failover-us X         software time charged between a revocation and the next "
	       "attempt (15)\n"
	       "  --profile LOG           --log of an earlier baseline run: thresholds are learned "
	       "from it\n"
	       "  --hedge-us X            hedge after X us\n"
	       "  --hedge-percentile P    hedge after the profile's Pth percentile (hedge: 95)\n"
	       "  --hedge-budget X%%|none  cap on hedges as a share of reads (5%%)\n"
	       "  --hedge-burst N         hedges that calm reads save up at most (100)\n"
	       "  --false-submit-ratio X  for linnos-hl (default: what the kernel has counted)\n"
	       "  --heuristic-queue N     pending 4 KiB pages from which a drive counts as slow\n"
	       "  --heuristic-busy-us X   latency from which a read counts as slow\n"
	       "  --clone-copies N        reads sent by clone (2)\n"
	       "\n"
	       "Slow bursts, of flashsim drives (given once for all, or once per drive with "
	       "drive=):\n"
	       "  --inject PATTERN:key=value,...\n"
	       "      PATTERN  continuous (of every period_ios I/Os the first ratio share, in a "
	       "row), random, or\n"
	       "               interval (one of every N)\n"
	       "      keys     latency_us=N ratio=1%% period_ios=N interval=N op=read|write|both "
	       "drive=K|all\n"
	       "               slot_ms=N every_ms=N start_ms=N rotate\n"
	       "      Example: --inject continuous:latency_us=2000,op=read,ratio=100%%,slot_ms=50,"
	       "every_ms=500,rotate\n"
	       "      every 500 ms one drive, each in its turn, is 2 ms slower for 50 ms.\n"
	       "  --inject storm:key=value,...\n"
	       "      On any drive, in place of the above: large writes, until the slot is over or "
	       "size_mb are\n"
	       "      written; keys block_kb=256 depth=8 size_mb=N, and drive to rotate as above.\n"
	       "\n"
	       "Results:\n"
	       "  --json OUT              one object, the fields of a run in summary.json\n"
	       "  --log OUT               binary per-I/O log (docs/formats.md); `linnapp inspect` "
	       "reads it\n"
	       "  --interval S            of the latency time series in the JSON (1)\n"
	       "  --scenario NAME         copied into the results\n"
	       "  --quiet                 no progress on stderr\n"
	       "\n"
	       "Example: two loop drives, one trace for both, a second copy of late reads:\n"
	       "  replayer --devices /dev/loop0,/dev/loop1 --trace t.iolog --spread --policy hedge "
	       "--hedge-us 300\n"
	       "\n"
	       "--version prints the version.\n"
	       "\n"
	       "Exit status: 0; 1 on an error; 2 when a read returned wrong data, an I/O was "
	       "answered by no drive,\n"
	       "or did not come back within --timeout; 130 after an interrupt (the summary so far "
	       "is written).\n",
	       MAX_DRIVES);
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

/* "5%" or 0.05 or none. More than every read is no budget: that is what none says. */
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
	    "no cap",
	    option, text);
}

static unsigned int split(const char *option, char *text, char **items)
{
	unsigned int n = 0;
	char *item;

	while ((item = strsep(&text, ","))) {
		if (!*item)
			die("--%s: an empty name in the list", option);
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

/* As it was given: what follows takes lists apart, and getopt sorts. */
static char **copy_of(int argc, char **argv)
{
	char **copy = xcalloc(argc + 1, sizeof(*copy));

	for (int i = 0; i < argc; i++)
		copy[i] = xstrdup(argv[i]);
	return copy;
}

void options_parse(struct options *o, int argc, char **argv)
{
	bool clone_copies_given = false, prefill_given = false;
	int c, index = 0;

	*o = (struct options){
		.argc = argc,
		.argv = copy_of(argc, argv),
		.seed = 1,
		.failover_us = 15,
		.start_every_s = 0.1,
		.hedge_us = -1,
		.hedge_percentile = -1,
		.hedge_budget = 0.05,
		.hedge_burst = 100,
		.false_submit_ratio = -1,
		.heuristic_busy_us = -1,
		.clone_copies = 2,
		.rerate = 1,
		.prefill = PREFILL_TOUCHED,
		.settle_ms = 1000,
		.losers = 4096,
		.timeout_s = 120,
		.scenario = "",
		.loops = 1,
		.interval_s = 1,
	};
	while ((c = getopt_long(argc, argv, "h", long_options, &index)) != -1) {
		const char *name = c == 'h' ? "help" : long_options[index].name;

		switch (c) {
		case OPT_DEVICES:
			o->n_devices = split(name, optarg, o->devices);
			break;
		case OPT_TRACE:
			o->n_traces = split(name, optarg, o->traces);
			break;
		case OPT_POLICY:
			o->policy = policy_find(optarg);
			if (!o->policy)
				die("--policy %s: no such policy; `replayer --help` lists them",
				    optarg);
			break;
		case OPT_INJECT:
			if (o->n_injects == MAX_INJECTS)
				die("--inject: given more than %d times", MAX_INJECTS);
			o->injects[o->n_injects++] = optarg;
			break;
		case OPT_JSON:
			o->json_path = optarg;
			break;
		case OPT_LOG:
			o->log_path = optarg;
			break;
		case OPT_SCENARIO:
			o->scenario = optarg;
			break;
		case OPT_SEED:
			o->seed = whole(name, optarg, 0, INT64_MAX);
			break;
		case OPT_FAILOVER_US:
			o->failover_us = number(name, optarg, 0, 1e9);
			break;
		case OPT_START_EVERY:
			o->start_every_s = number(name, optarg, 1e-6, 3600);
			break;
		case OPT_HEDGE_US:
			o->hedge_us = number(name, optarg, 1, 1e9);
			break;
		case OPT_HEDGE_PERCENTILE:
			o->hedge_percentile = number(name, optarg, 0, 100);
			break;
		case OPT_HEDGE_BUDGET:
			o->hedge_budget = share(name, optarg);
			break;
		case OPT_HEDGE_BURST:
			o->hedge_burst = whole(name, optarg, 1, 1u << 30);
			break;
		case OPT_PROFILE:
			o->profile_path = optarg;
			break;
		case OPT_FALSE_SUBMIT_RATIO:
			o->false_submit_ratio = number(name, optarg, 0, 1);
			break;
		case OPT_HEURISTIC_QUEUE:
			o->heuristic_queue_pages = whole(name, optarg, 1, 1u << 30);
			break;
		case OPT_HEURISTIC_BUSY_US:
			o->heuristic_busy_us = number(name, optarg, 0, 1e9);
			break;
		case OPT_CLONE_COPIES:
			o->clone_copies = whole(name, optarg, 2, MAX_DRIVES);
			clone_copies_given = true;
			break;
		case OPT_DURATION:
			o->duration_s = number(name, optarg, 1e-6, 1e9);
			break;
		case OPT_WARMUP:
			o->warmup_s = number(name, optarg, 0, 1e9);
			break;
		case OPT_SKIP:
			o->skip_s = number(name, optarg, 0, 1e9);
			break;
		case OPT_RERATE:
			o->rerate = number(name, optarg, 1e-6, 1e6);
			break;
		case OPT_SATURATE:
			o->saturate = true;
			break;
		case OPT_REPLICATE_WRITES:
			o->replicate_writes = true;
			break;
		case OPT_SPREAD:
			o->spread = true;
			break;
		case OPT_FIT:
			o->fit = true;
			break;
		case OPT_PREFILL:
			if (strcmp(optarg, "touched") && strcmp(optarg, "none"))
				die("--prefill %s: expected touched or none", optarg);
			o->prefill = strcmp(optarg, "none") ? PREFILL_TOUCHED : PREFILL_NONE;
			prefill_given = true;
			break;
		case OPT_UNWRITTEN:
			if (strcmp(optarg, "zero") && strcmp(optarg, "any"))
				die("--unwritten %s: expected zero or any", optarg);
			o->unwritten_any = !strcmp(optarg, "any");
			break;
		case OPT_SETTLE_MS:
			o->settle_ms = whole(name, optarg, 0, 1000000);
			break;
		case OPT_DEPTH:
			o->depth = whole(name, optarg, 1, 16384);
			break;
		case OPT_TIMEOUT:
			o->timeout_s = number(name, optarg, 0, 1e9);
			break;
		case OPT_LOSERS:
			o->losers = whole(name, optarg, 1, 1u << 20);
			break;
		case OPT_TAG:
			parse_tags(o, name, optarg);
			break;
		case OPT_QUIET:
			o->quiet = true;
			break;
		case OPT_FORCE:
			o->n_forced = split(name, optarg, o->forced);
			break;
		case OPT_READONLY:
			o->readonly = true;
			break;
		case OPT_LOOPS:
			o->loops = whole(name, optarg, 1, UINT32_MAX);
			break;
		case OPT_INTERVAL:
			o->interval_s = number(name, optarg, 1e-3, 1e6);
			break;
		case OPT_VERSION:
			printf("replayer %s\n", REPLAYER_VERSION);
			exit(0);
		case 'h':
		case OPT_HELP:
			help();
			exit(0);
		default:
			die("`replayer --help` lists the options");
		}
	}
	if (optind < argc)
		die("%s: unexpected argument; `replayer --help` shows the usage", argv[optind]);
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
	if (clone_copies_given && o->clone_copies > o->n_devices)
		die("--clone-copies %u: there are only %u drives to read from", o->clone_copies,
		    o->n_devices);
	if (o->duration_s && o->warmup_s >= o->duration_s)
		die("--warmup %g: the run ends after %g s (--duration), so nothing would be "
		    "counted",
		    o->warmup_s, o->duration_s);
	for (unsigned int i = 0; i < o->n_forced; i++) {
		unsigned int k = 0;

		while (k < o->n_devices && strcmp(o->forced[i], o->devices[k]))
			k++;
		if (k == o->n_devices)
			die("--force %s: not one of --devices; name the drives to overwrite "
			    "exactly "
			    "as they are given there",
			    o->forced[i]);
	}
	if (o->readonly) {
		if (o->n_forced)
			die("--force allows overwriting, --readonly writes nothing: give one of "
			    "them");
		if (prefill_given && o->prefill != PREFILL_NONE)
			die("--prefill writes to the drives; with --readonly nothing is written");
		o->prefill = PREFILL_NONE;
		/* What the drives hold is not the replayer's. */
		o->unwritten_any = true;
	}
	if (!o->depth)
		o->depth = o->saturate ? 32 : 4096;
}
