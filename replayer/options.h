/* SPDX-License-Identifier: MIT */
/* Command line options. */
#ifndef REPLAYER_OPTIONS_H
#define REPLAYER_OPTIONS_H

#include "drive/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_INJECTS 64
/*
 * flashsim's fault rules match the I/O tag, which is the hint field of the I/O priority (Linux 6.5
 * and later). The kernel defines the meaning of values below 8.
 */
#define TAG_MIN 8
#define TAG_MAX 1023

struct policy;

enum { PREFILL_TOUCHED, PREFILL_NONE };
enum { UNWRITTEN_ZERO, UNWRITTEN_ANY };

struct options {
	int argc;
	char *const *argv;
	unsigned int n_devices, n_traces, n_injects, n_tags, n_forced;
	char *devices[MAX_DRIVES];
	char *traces[MAX_DRIVES];
	char *injects[MAX_INJECTS];
	char *forced[MAX_DRIVES];  /* devices to overwrite even if they contain something */
	uint16_t tags[MAX_DRIVES]; /* tag of each trace's I/Os; 0 if there is none */
	const struct policy *policy;
	char *latency_models[MAX_DRIVES];
	unsigned int n_latency_models;
	char *heimdall_networks[MAX_DRIVES];
	unsigned int n_heimdall_networks;
	double probe_after_ms; /* 0 to disable */
	uint32_t margin;       /* percent */
	bool unguarded;
	bool duplicates;
	double max_duplicates;	   /* percent of the reads; infinite for no limit */
	const char *from, *volume; /* format and volume of the traces; NULL if not given */
	const char *json_path, *log_path, *profile_path;
	uint64_t seed;
	double failover_us;
	double start_every_s;
	double hedge_us;		   /* negative if not given */
	double hedge_percentile;	   /* negative for the policy's own */
	double hedge_budget;		   /* fraction of reads; infinite for "none" */
	double false_submit_ratio;	   /* negative to use the kernel's counters */
	uint32_t heuristic_queue_pages;	   /* 0 to use the profile */
	uint32_t threshold_us;		   /* 0 to use the drives' own */
	double heuristic_busy_us;	   /* negative to use sysfs or the profile */
	double timeout_s;		   /* for an I/O at a drive; 0 for none */
	double duration_s, skip_s, rerate; /* duration_s is 0 for the whole trace */
	bool replicate_writes, spread, fit, quiet;
	bool readonly;
	unsigned int prefill, unwritten; /* values of PREFILL_ and UNWRITTEN_ */
	unsigned int settle_ms;
	unsigned int depth;
	unsigned int max_orphans; /* maximum number of orphaned reads per drive */
};

/* The type of an option's field in struct options. */
enum option_kind {
	OPTION_FLAG,	 /* bool */
	OPTION_WHOLE,	 /* uint32_t */
	OPTION_WHOLE64,	 /* uint64_t */
	OPTION_NUMBER,	 /* double; negative if not given */
	OPTION_SHARE,	 /* double, a fraction of 1; infinite for "none" */
	OPTION_PERCENT,	 /* double; infinite if not given */
	OPTION_TEXT,	 /* const char * */
	OPTION_CHOICE,	 /* unsigned int, the index of the word in .argument */
	OPTION_LIST,	 /* char *[MAX_DRIVES], number at .count_at */
	OPTION_REPEATED, /* char *[MAX_INJECTS], number at .count_at; may be repeated */
	OPTION_TAGS,	 /* uint16_t[MAX_DRIVES], number at .count_at */
	OPTION_POLICY,	 /* const struct policy * */
	OPTION_VERSION,
	OPTION_HELP,
};

/*
 * All properties of an option. They are used to parse the command line and to generate --help and
 * the results' config, and the man page is checked against them. A row without a name is a heading
 * of --help.
 */
struct option_row {
	const char *name;
	const char *argument; /* as shown by --help; NULL if there is none */
	enum option_kind kind;
	size_t at, count_at;  /* offsets in struct options */
	uint64_t first, last; /* range of whole numbers */
	double min, max; /* range of other numbers; an initial value less than min means that the
			    option was not given */
	double initial;
	const char *json; /* name in config; NULL if it is not there */
	const char *help;
};

extern const struct option_row option_rows[];
extern const unsigned int n_option_rows;

/* Parse the command line. Exit after --help and --version, and on errors. */
void options_parse(struct options *o, int argc, char **argv);

#endif
