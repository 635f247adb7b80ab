// SPDX-License-Identifier: MIT
/* Parse the command line: see options.h. */
#include "options.h"
#include "die.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* More processors share a queue, unless more queues are requested, because each queue needs
 * memory. */
#define QUEUES 4
#define QUEUE_DEPTH 128
#define QUEUE_DEPTH_MAX 1024

static const char help[] =
	"usage: linnos-ublk [options] --assume-clean|--compare|--resync DEV[=MODEL] DEV[=MODEL] "
	"...\n"
	"       linnos-ublk --remove N\n"
	"\n"
	"Serves the block device /dev/ublkbN, a mirror of 2 to 16 block devices or files. A write "
	"goes to all\n"
	"of them; a read to the one that is predicted to answer first, and to the next one when "
	"that fails.\n"
	"MODEL is a file of `linnapp train --kind latency`; without one reads stay at home until "
	"it "
	"fails.\n"
	"Runs until SIGTERM or SIGINT; needs root and the kernel's ublk driver (ublk_drv).\n"
	"\n"
	"The replicas must be equal before the mirror is served. One of\n"
	"  --assume-clean        you know that they are equal, for example since the drives are "
	"new; refused when\n"
	"                        /var/lib/linnos-ublk says that they may differ\n"
	"  --compare             read all of them first, and start only if they are equal\n"
	"  --resync              go by /var/lib/linnos-ublk: after a crash, or if a replica is out "
	"of date,\n"
	"                        make the regions that may differ equal; otherwise start at once\n"
	"A replica on which a write fails is DROPPED: a line on stderr says so, and it is not used "
	"any more\n"
	"until --resync has copied to it what it lacks.\n"
	"\n"
	"Device:\n"
	"  --device N            be /dev/ublkbN (the first that is free)\n"
	"  --size BYTES          use so much of each replica (all, which must be of one size); "
	"suffixes K M G T\n"
	"  --queues N            threads that serve it, each a queue of its own, 1 to 32 and no "
	"more "
	"than there\n"
	"                        are processors (one each, 4 at most)\n"
	"  --queue-depth N       I/Os in flight at most in each, 1 to 1024 (128)\n"
	"  --recover             with --device: should the server be killed, I/O waits for the "
	"same "
	"command,\n"
	"                        which takes the device over (Linux 6.1 or later)\n"
	"  --remove N            stop /dev/ublkbN and take it away, also when its server has been "
	"killed\n"
	"\n"
	"Reads:\n"
	"  --home K|turns        the replica that reads stay at when predictions hardly differ, "
	"from 0 (turns)\n"
	"  --home-margin P       leave home for a prediction more than P percent lower (25; 100: "
	"never leave)\n"
	"  --explore-ms N        look again at a replica unheard of for N ms, by a copy of 1 read "
	"in "
	"100 at most\n"
	"                        (20; 0: never)\n"
	"  --hedge-us N          send a read also elsewhere that has no answer after N us\n"
	"  --hedge-percentile P  likewise, after this percentile of the latencies lately seen\n"
	"  --hedge-by-gain       likewise, at once, later or never, by what that gains and costs\n"
	"  --extra-io P          hedges and copies are never more than P percent of the reads (5)\n"
	"  --extra-io-burst N    hedges that calm times save up at most (100)\n"
	"\n"
	"Output:\n"
	"  --json                one JSON object a line: when ready, on SIGUSR1, and at the end\n"
	"  --version             print the version\n"
	"  --help                print this\n"
	"\n"
	"Exit status: 0 stopped in order, 1 not started, 2 usage, 3 stopped in order with a "
	"replica dropped.\n"
	"\n"
	"Example, a mirror of three drives, for a file system:\n"
	"  linnos-ublk --compare /dev/nvme0n1=a.linnos /dev/nvme1n1=b.linnos "
	"/dev/nvme2n1=c.linnos &\n"
	"  mount /dev/ublkb0 /srv; ...; umount /srv; kill %1\n";

enum {
	ASSUME_CLEAN = 256,
	COMPARE,
	RESYNC,
	DEVICE,
	SIZE,
	QUEUES_GIVEN,
	QUEUE,
	REMOVE,
	RECOVER,
	HOME,
	HOME_MARGIN,
	EXPLORE,
	HEDGE_US,
	HEDGE_PERCENTILE,
	HEDGE_BY_GAIN,
	EXTRA_IO,
	EXTRA_IO_BURST,
	JSON,
	VERSION,
	HELP,
};

static const struct option known[] = {
	{"assume-clean", no_argument, NULL, ASSUME_CLEAN},
	{"compare", no_argument, NULL, COMPARE},
	{"resync", no_argument, NULL, RESYNC},
	{"device", required_argument, NULL, DEVICE},
	{"size", required_argument, NULL, SIZE},
	{"queues", required_argument, NULL, QUEUES_GIVEN},
	{"queue-depth", required_argument, NULL, QUEUE},
	{"remove", required_argument, NULL, REMOVE},
	{"recover", no_argument, NULL, RECOVER},
	{"home", required_argument, NULL, HOME},
	{"home-margin", required_argument, NULL, HOME_MARGIN},
	{"explore-ms", required_argument, NULL, EXPLORE},
	{"hedge-us", required_argument, NULL, HEDGE_US},
	{"hedge-percentile", required_argument, NULL, HEDGE_PERCENTILE},
	{"hedge-by-gain", no_argument, NULL, HEDGE_BY_GAIN},
	{"extra-io", required_argument, NULL, EXTRA_IO},
	{"extra-io-burst", required_argument, NULL, EXTRA_IO_BURST},
	{"json", no_argument, NULL, JSON},
	{"version", no_argument, NULL, VERSION},
	{"help", no_argument, NULL, HELP},
	{0},
};

static void bad_usage(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void bad_usage(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	complain("%s (%s --help has the options)", text, PROGRAM);
	exit(EXIT_USAGE);
}

static uint64_t whole(const char *name, const char *text, uint64_t first, uint64_t last)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value < first || value > last)
		bad_usage("--%s %s: not a whole number from %llu to %llu", name, text,
			  (unsigned long long)first, (unsigned long long)last);
	return value;
}

static double percent(const char *name, const char *text, double last)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= last))
		bad_usage("--%s %s: not a number from 0 to %g", name, text, last);
	return value;
}

static uint64_t size(const char *text)
{
	static const char suffixes[] = "KMGT";
	char digits[32];
	size_t n = strspn(text, "0123456789");
	const char *suffix = text[n] ? strchr(suffixes, text[n]) : NULL;
	unsigned int shift = suffix ? 10 * (unsigned int)(suffix - suffixes + 1) : 0;

	if (!n || n >= sizeof(digits) || (text[n] && (!suffix || text[n + 1])))
		bad_usage("--size %s: not a number of bytes, with or without one of K M G T", text);
	memcpy(digits, text, n);
	digits[n] = 0;
	return whole("size", digits, 1, (uint64_t)INT64_MAX >> shift) << shift;
}

static void take(struct options *o, int option, const char *text)
{
	struct linnos_options *r = &o->reads;

	switch (option) {
	case ASSUME_CLEAN:
		o->assume_clean = true;
		break;
	case COMPARE:
		o->compare = true;
		break;
	case RESYNC:
		o->resync = true;
		break;
	case DEVICE:
		o->device = whole("device", text, 0, NO_DEVICE - 1);
		break;
	case SIZE:
		o->bytes = size(text);
		break;
	case QUEUES_GIVEN:
		o->queues = whole("queues", text, 1, QUEUES_MAX);
		break;
	case QUEUE:
		o->queue_depth = whole("queue-depth", text, 1, QUEUE_DEPTH_MAX);
		break;
	case REMOVE:
		o->remove = whole("remove", text, 0, NO_DEVICE - 1);
		break;
	case RECOVER:
		o->recover = true;
		break;
	case HOME:
		r->home = strcmp(text, "turns") ? (int)whole("home", text, 0, INT32_MAX)
						: LINNOS_DEFAULT_ROUND_ROBIN;
		break;
	case HOME_MARGIN:
		r->home_margin_percent = whole("home-margin", text, 0, 100);
		break;
	case EXPLORE:
		r->explore_ms = whole("explore-ms", text, 0, UINT32_MAX);
		break;
	case HEDGE_US:
		r->hedge_us = whole("hedge-us", text, 1, UINT32_MAX);
		break;
	case HEDGE_PERCENTILE:
		r->hedge_percentile = percent("hedge-percentile", text, nextafter(100, 0));
		break;
	case HEDGE_BY_GAIN:
		r->flags |= LINNOS_HEDGE_BY_GAIN;
		break;
	case EXTRA_IO:
		r->extra_io_percent = percent("extra-io", text, 100);
		break;
	case EXTRA_IO_BURST:
		r->extra_io_burst = whole("extra-io-burst", text, 0, UINT32_MAX);
		break;
	case JSON:
		o->json = true;
		break;
	case VERSION:
		puts(PROGRAM " " LINNOS_UBLK_VERSION);
		exit(0);
	case HELP:
		fputs(help, stdout);
		exit(0);
	default:
		fprintf(stderr, "%s --help has the options\n", PROGRAM);
		exit(EXIT_USAGE);
	}
}

/* Split DEV=MODEL, unless there is a file with the whole name. */
static void take_replica(struct options *o, char *argument)
{
	char *equals = strrchr(argument, '=');

	if (o->n == REPLICAS_MAX)
		bad_usage("more than %d replicas", REPLICAS_MAX);
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
	int option;

	*o = (struct options){
		.device = NO_DEVICE,
		.remove = NO_DEVICE,
		.queues = processors < 1	? 1
			  : processors < QUEUES ? processors
						: QUEUES,
		.queue_depth = QUEUE_DEPTH,
		.reads = reads,
	};
	while ((option = getopt_long(argc, argv, "h", known, NULL)) >= 0)
		take(o, option == 'h' ? HELP : option, optarg);
	for (; optind < argc; optind++)
		take_replica(o, argv[optind]);
	if (o->remove != NO_DEVICE) {
		if (o->n)
			bad_usage("--remove %u and replicas: one or the other", o->remove);
		return;
	}
	if (o->recover && o->device == NO_DEVICE)
		bad_usage("--recover: which device? --device N says it");
	if (o->n < 2)
		bad_usage("%u replica%s; a mirror has 2 to %d", o->n, o->n == 1 ? "" : "s",
			  REPLICAS_MAX);
	if (o->assume_clean + o->compare + o->resync != 1)
		bad_usage("exactly one of --assume-clean, --compare and --resync must be given: "
			  "--compare reads the replicas to see whether they are equal, --resync "
			  "goes by the record of their last use, --assume-clean by your word");
}
