// SPDX-License-Identifier: MIT
/* Parse the command line: see options.h. */
#include "options.h"
#include "program/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* More processors share a queue, unless more queues are requested, because each queue needs
 * memory. */
#define QUEUES 4
#define QUEUE_DEPTH 128
#define QUEUE_DEPTH_MAX 1024

static const char usage[] =
	"usage: linnos-ublk [options] --assume-clean|--compare|--resync DEV[=MODEL] DEV[=MODEL] "
	"...\n"
	"       linnos-ublk --remove N\n"
	"\n"
	"Serves the block device /dev/ublkbN, a mirror of 2 to 16 block devices or files. Writes "
	"go to\n"
	"all of them. A read goes to the one that is predicted to answer first, and to the next "
	"one if\n"
	"that fails. MODEL is a file of `linnapp train --kind latency`; reads are not redirected "
	"from or\n"
	"to a replica without a model unless the default replica fails. Runs until SIGTERM or "
	"SIGINT.\n"
	"Needs root and the kernel's ublk driver (ublk_drv). linnos-ublk(8) has an example.\n"
	"\n"
	"A replica on which a write fails is DROPPED: a message on stderr says so, and the replica "
	"is not\n"
	"used again until --resync has copied the missing data to it.\n"
	"\n"
	"Exit status: 0 for an orderly stop, 1 if the device was not started, 2 for wrong usage, 3 "
	"for an\n"
	"orderly stop after a replica was dropped.\n";

static void parse_size(void *options, const char *text)
{
	static const char suffixes[] = "KMGT";
	char digits[32];
	size_t n = strspn(text, "0123456789");
	const char *suffix = text[n] ? strchr(suffixes, text[n]) : NULL;
	unsigned int shift = suffix ? 10 * (unsigned int)(suffix - suffixes + 1) : 0;

	if (!n || n >= sizeof(digits) || (text[n] && (!suffix || text[n + 1])))
		die_of_usage("--size %s: it must be a number of bytes, optionally followed by K, "
			     "M, G or T",
			     text);
	snprintf(digits, sizeof(digits), "%.*s", (int)n, text);
	((struct options *)options)->bytes =
		parse_whole("size", digits, 1, (uint64_t)INT64_MAX >> shift) << shift;
}

static void parse_home(void *options, const char *text)
{
	((struct options *)options)->reads.home =
		strcmp(text, "turns") ? (int)parse_whole("home", text, 0, INT32_MAX)
				      : LINNOS_DEFAULT_ROUND_ROBIN;
}

static void set_duplicates(void *options, const char *text)
{
	(void)text;
	((struct options *)options)->reads.flags |= LINNOS_DUPLICATES;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct option_row table[] = {
	{.help = "The replicas must be equal before the mirror is served. Exactly one of:"},
	{"assume-clean", NULL,
	 "they are equal, for example because they are new; refused if the record in\n"
	 "/var/lib/linnos-ublk says that they may differ",
	 OPTION_FLAG, AT(assume_clean)},
	{"compare", NULL, "read all replicas first, and start only if they are equal", OPTION_FLAG,
	 AT(compare)},
	{"resync", NULL,
	 "use the record in /var/lib/linnos-ublk: after a crash, or if a replica is out of\n"
	 "date, make the regions that may differ equal; otherwise start at once",
	 OPTION_FLAG, AT(resync)},
	{.help = "Device:"},
	{"device", "N", "create /dev/ublkbN (the first free number)", OPTION_U32, AT(device),
	 .max = NO_DEVICE - 1},
	{"size", "BYTES",
	 "use this much of each replica (all, if they have the same size); suffixes K M G T",
	 OPTION_PARSED, .parse = parse_size},
	{"queues", "N",
	 "queues, each served by a thread, 1 to 32 and at most one for each processor (one\n"
	 "for each processor, at most 4)",
	 OPTION_U32, AT(queues), .min = 1, .max = QUEUES_MAX},
	{"queue-depth", "N", "largest number of I/Os in flight in each queue, 1 to 1024 (128)",
	 OPTION_U32, AT(queue_depth), .min = 1, .max = QUEUE_DEPTH_MAX},
	{"recover", NULL,
	 "with --device: if the server is killed, I/O waits until the same command is given\n"
	 "again, and takes the device over",
	 OPTION_FLAG, AT(recover)},
	{"remove", "N", "stop /dev/ublkbN and delete it, even if its server has been killed",
	 OPTION_U32, AT(remove), .max = NO_DEVICE - 1},
	{.help = "Reads:"},
	{"home", "K|turns",
	 "default replica, from 0, for reads whose predictions barely differ (turns: round\n"
	 "robin)",
	 OPTION_PARSED, .parse = parse_home},
	{"margin", "P",
	 "leave the default replica only for a prediction that is lower by more than P\n"
	 "percent (25; 100 for never)",
	 OPTION_U32, AT(reads.margin_percent), .max = 100},
	{"probe-after-ms", "N",
	 "probe a replica without completions for N ms by a copy of a read, of at most one\n"
	 "read in 100 (20; 0 for never)",
	 OPTION_U32, AT(reads.probe_after_ms)},
	{"hedge-us", "N", "send a read that is not answered after N us to a second replica as well",
	 OPTION_U32, AT(reads.hedge_us), .min = 1},
	{"hedge-percentile", "P", "the same, after this percentile of the recent latencies",
	 OPTION_DOUBLE, AT(reads.hedge_percentile), .max = 99.9999999},
	{"duplicates", NULL,
	 "the same, at once, later or never, depending on its expected gain and cost",
	 OPTION_PARSED, .parse = set_duplicates},
	{"max-duplicates", "P",
	 "largest percentage of hedges and probe copies among the reads (no limit with\n"
	 "--duplicates, otherwise 5)",
	 OPTION_DOUBLE, AT(reads.max_duplicates), .max = 100},
	{"duplicates-burst", "N", "largest number of hedges that can be saved up (100)", OPTION_U32,
	 AT(reads.duplicates_burst)},
	{.help = "Output:"},
	{"json", NULL, "print one JSON object per line: when ready, on SIGUSR1, and at the end",
	 OPTION_FLAG, AT(json)},
};

/* Split DEV=MODEL, unless there is a file with the whole name. */
static void add_replica(struct options *o, char *argument)
{
	char *equals = strrchr(argument, '=');

	if (o->n == REPLICAS_MAX)
		die_of_usage("there are more than %d replicas", REPLICAS_MAX);
	if (equals && access(argument, F_OK)) {
		*equals = 0;
		o->models[o->n] = equals + 1;
	}
	o->paths[o->n++] = argument;
}

void options_parse(struct options *o, int argc, char **argv)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct linnos_options reads = LINNOS_OPTIONS_INIT;

	*o = (struct options){
		.device = NO_DEVICE,
		.remove = NO_DEVICE,
		.queues = processors < 1	? 1
			  : processors < QUEUES ? processors
						: QUEUES,
		.queue_depth = QUEUE_DEPTH,
		.reads = reads,
	};
	for (int k = options_parse_table(table, N_ELEMENTS(table), usage, o, argc, argv); k < argc;
	     k++)
		add_replica(o, argv[k]);
	if (o->remove != NO_DEVICE) {
		if (o->n)
			die_of_usage("--remove %u takes no replicas", o->remove);
		return;
	}
	if (o->recover && o->device == NO_DEVICE)
		die_of_usage("--recover needs the number of the device: --device N");
	if (o->n < 2)
		die_of_usage("the number of replicas is %u; it must be from 2 to %d", o->n,
			     REPLICAS_MAX);
	if (o->assume_clean + o->compare + o->resync != 1)
		die_of_usage("exactly one of --assume-clean, --compare and --resync must be given");
}
