/* SPDX-License-Identifier: MIT */
/*
 * A replay: the state shared by the engine, the I/Os, the policies and the report.
 *
 * The path of a read, from the trace file to the JSON, by folder:
 *
 *   trace/     trace                                   parse it, set its time
 *              sources                                 merge all traces; align to blocks
 *   engine/    engine                                  wait until it is due
 *              users                                   start it
 *   policies/                                          choose the drive; hedging and revocation
 *                                                      are shared by several policies
 *   engine/    attempts                                get a buffer, submit
 *   drive/     content                                 fill the buffer; know the expected data
 *   engine/    ring                                    pass it to the kernel and back
 *              attempts                                find the attempt; is it complete?
 *              users                                   check it; send another attempt or answer
 *   results/   latency, io_log                         record it
 *              report                                  write the results
 *
 * Meanwhile, slow/ makes drives slow.
 *
 * Calls go from engine to sources to trace, and from engine to users to policies to attempts to
 * ring. The only calls in the opposite direction are two callbacks: attempts calls an I/O's done(),
 * and ring calls submitting() to start the service times.
 */
#ifndef REPLAYER_REPLAY_H
#define REPLAYER_REPLAY_H

#include "budget.h"
#include "drive/content.h"
#include "drive/device.h"
#include "engine/ring.h"
#include "engine/timers.h"
#include "linnos_guard.h"
#include "observer.h"
#include "options.h"
#include "results/latency.h"
#include "trace/sources.h"

#include <stdbool.h>
#include <stdint.h>

struct attempt;
struct buffer_pool;
struct inject;
struct io;
struct log_file;

/* Timers and batches delay I/Os by less than this. An I/O with a longer delay had to wait. */
#define LATE_NS 100000ull

struct counters {
	uint64_t reads, writes;
	uint64_t reads_failed, writes_failed; /* user I/Os that failed on every drive */
	uint64_t unanswered; /* user I/Os without an answer; at the end, those that never got one */
	uint64_t timed_out;  /* attempts that did not complete within --timeout */
	uint64_t revoked;    /* reads revoked at least once */
	uint64_t revocations;
	uint64_t hedged, hedges_won, hedges_denied;
	uint64_t probes;	/* probe copies sent */
	uint64_t copies_denied; /* hedges and clones not sent: a drive had --max-orphans orphans */
	uint64_t orphans_max;	/* maximum number of orphaned reads at one drive */
	uint64_t extra_ios; /* read attempts in excess of one per read, including cancelled ones */
	uint64_t cancels_tried, cancelled; /* orphaned attempts; those that reached no drive */
	uint64_t data_errors;		   /* read attempts with wrong contents */
	uint64_t blocks_checked, torn_blocks, unverified_blocks;
	uint64_t io_errors; /* attempts that failed with an error of the drive */
	uint64_t io_errors_by[MAX_DRIVES];
	uint64_t short_ios; /* short completions whose rest was sent again */
	uint64_t failovers_on_error;
	uint64_t read_bytes, write_bytes;
	uint64_t depth_stalls; /* I/Os that were due while --depth was reached */
	uint64_t late_ios;     /* I/Os submitted more than LATE_NS after they were due */
	uint64_t served_by[MAX_DRIVES];
	uint64_t prefill_blocks;
};

/* Service times count from the submission, response times from the due time. */
enum { READ_SERVICE, READ_RESPONSE, WRITE_SERVICE, WRITE_RESPONSE, LAG, N_LATENCIES };

struct replay {
	struct options o;
	unsigned int n_drives;
	struct device devices[MAX_DRIVES];
	struct content *contents;				   /* by drive */
	uint32_t pending_pages[MAX_DRIVES], in_flight[MAX_DRIVES]; /* attempts at the drive */
	struct observer observers[MAX_DRIVES];			   /* observers of these attempts */
	uint32_t orphans[MAX_DRIVES], orphans_in_flight; /* orphaned attempts; their sum */
	struct linnos_stats stats_before[MAX_DRIVES], stats_after[MAX_DRIVES];
	char linnos_mode[MAX_DRIVES][16], model_id[MAX_DRIVES][16];

	uint64_t hedge_ns[MAX_DRIVES];	   /* by default drive; 0 without hedging */
	double hedge_percentile_used;	   /* NaN unless hedging is by percentile */
	uint64_t threshold_us[MAX_DRIVES]; /* policy verdict: a longer read is slow; 0 if unused */
	double false_submit_ratio_used;	   /* NaN if unused */
	struct budget hedge_budget;
	uint64_t random_state; /* of splitmix_next() */
	void *policy_state;
	const struct linnos_guard *guard; /* of policy fastest; NULL if there is none */

	struct sources sources;
	struct timers timers;
	struct ring ring;
	uint64_t start_ns, end_ns;
	uint64_t progress_due_ns; /* time of the next line; 0 before the first check */
	bool progress_is_shown;
	uint64_t done_ns; /* time of the completion being handled */
	uint32_t probe_copies_in_flight;
	struct attempt *earliest, *latest; /* list of attempts in flight */
	struct attempt *unsubmitted;	   /* the first of them that is not submitted yet */
	uint32_t user_ios_in_flight;	   /* not answered yet; limited by depth */
	bool draining;			   /* no I/O is started any more */
	struct io *free_ios;
	struct attempt *free_attempts;
	struct buffer_pool *buffers;

	struct counters c;
	struct latency latency[N_LATENCIES];
	/* Latencies of all reads that a drive completed, including orphaned ones. */
	struct latency drive_latency[MAX_DRIVES];
	struct log_file *log;
	const char *log_error; /* the reason why there is no log at the end */
	struct inject *inject;
	const char *stop_reason; /* NULL while running to the end of the trace */
};

#endif
