/* SPDX-License-Identifier: MIT */
/* The command line. */
#ifndef REPLAYER_OPTIONS_H
#define REPLAYER_OPTIONS_H

#include "device.h"

#include <stdbool.h>
#include <stdint.h>

#define MAX_INJECTS 64

struct policy;

enum prefill { PREFILL_TOUCHED, PREFILL_NONE };

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
	double heuristic_busy_us;	/* < 0: the threshold that hedge-ip uses */
	unsigned int clone_copies;
	double timeout_s;			     /* for an I/O at a drive; 0: none */
	double duration_s, warmup_s, skip_s, rerate; /* duration 0: to the trace's end */
	bool replicate_writes, spread, fit, saturate, quiet;
	bool unwritten_any;
	bool readonly;
	uint32_t loops;
	double interval_s; /* of the time series */
	enum prefill prefill;
	unsigned int settle_ms;
	unsigned int depth;
	unsigned int losers; /* lost reads that a drive may hold */
};

/* Exits after --help and --version; dies on a bad command line. */
void options_parse(struct options *o, int argc, char **argv);

#endif
