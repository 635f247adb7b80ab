/* SPDX-License-Identifier: MIT */
/* The command line. */
#ifndef REPLAYER_OPTIONS_H
#define REPLAYER_OPTIONS_H

#include "drive/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_INJECTS 64
/* The I/O tag that flashsim's fault rules match is the hint field of the I/O priority, which
 * Linux 6.5 brought. The kernel gives meanings to values below 8. */
#define TAG_MIN 8
#define TAG_MAX 1023

struct policy;

enum { PREFILL_TOUCHED, PREFILL_NONE };
enum { UNWRITTEN_ZERO, UNWRITTEN_ANY };

#define MAX_OPTIONS 64

struct options {
	int argc;
	char *const *argv;
	unsigned int n_devices, n_traces, n_injects, n_tags, n_forced;
	char *devices[MAX_DRIVES];
	char *traces[MAX_DRIVES];
	char *injects[MAX_INJECTS];
	char *forced[MAX_DRIVES];  /* devices to overwrite whatever they carry */
	uint16_t tags[MAX_DRIVES]; /* of each trace's I/Os; 0: none */
	const struct policy *policy;
	char *latency_models[MAX_DRIVES];
	unsigned int n_latency_models;
	char *hedge_tables[MAX_DRIVES];
	unsigned int n_hedge_tables;
	char *heimdall_networks[MAX_DRIVES];
	unsigned int n_heimdall_networks;
	double explore_ms;    /* 0: never */
	uint32_t home_margin; /* percent */
	uint32_t home_unasked;
	bool unguarded, guarded;
	const char *from, *volume; /* of the traces; NULL: not given */
	const char *scenario, *json_path, *log_path, *profile_path;
	uint64_t seed;
	double failover_us;
	double start_every_s;
	double hedge_us;		/* < 0: not given */
	double hedge_percentile;	/* < 0: the policy's own */
	double hedge_budget;		/* share of reads; infinite when given as "none" */
	double hedge_burst;		/* hedges that the budget saves up at most */
	double false_submit_ratio;	/* < 0: from the kernel's counters */
	uint32_t heuristic_queue_pages; /* 0: from the profile */
	uint32_t threshold_us;		/* 0: the drives' own */
	double heuristic_busy_us;	/* < 0: the threshold that hedge-ip uses */
	unsigned int clone_copies;
	double timeout_s;			     /* for an I/O at a drive; 0: none */
	double duration_s, warmup_s, skip_s, rerate; /* duration 0: to the trace's end */
	bool replicate_writes, spread, fit, saturate, quiet;
	bool readonly;
	uint32_t loops;
	double interval_s;		 /* of the time series */
	unsigned int prefill, unwritten; /* PREFILL_, UNWRITTEN_ */
	unsigned int settle_ms;
	unsigned int depth, threads;
	unsigned int losers;	 /* lost reads that a drive may hold */
	bool given[MAX_OPTIONS]; /* by place in option_rows[] */
};

/* What an option's field of struct options holds. */
enum option_kind {
	OPTION_FLAG,	     /* bool */
	OPTION_WHOLE,	     /* uint32_t */
	OPTION_WHOLE64,	     /* uint64_t */
	OPTION_WHOLE_NUMBER, /* double */
	OPTION_NUMBER,	     /* double; < 0: not given */
	OPTION_SHARE,	     /* double, of 1; infinite for "none" */
	OPTION_TEXT,	     /* const char * */
	OPTION_CHOICE,	     /* unsigned int, the place of the word in .argument */
	OPTION_LIST,	     /* char *[MAX_DRIVES], how many at .count_at */
	OPTION_REPEATED,     /* char *[MAX_INJECTS], likewise; given several times */
	OPTION_TAGS,	     /* uint16_t[MAX_DRIVES], likewise */
	OPTION_POLICY,	     /* const struct policy * */
	OPTION_VERSION,
	OPTION_HELP,
};

/* All there is to know of an option: the command line is parsed with it, --help and the results'
 * config are made of it, and the man page is checked against it. Without a name it is a heading of
 * --help. */
struct option_row {
	const char *name;
	const char *argument; /* as --help shows it; NULL: takes none */
	enum option_kind kind;
	size_t at, count_at;  /* in struct options */
	uint64_t first, last; /* of whole numbers */
	double min, max;      /* of others; below min only the initial value: there is none */
	double initial;
	const char *json; /* its name in config; NULL: not there */
	const char *help;
};

extern const struct option_row option_rows[];
extern const unsigned int n_option_rows;

/* Exits after --help and --version; dies on a bad command line. */
void options_parse(struct options *o, int argc, char **argv);

#endif
