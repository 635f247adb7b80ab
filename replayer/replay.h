/* SPDX-License-Identifier: MIT */
/*
 * A replay: what the engine, the I/Os, the policies and the report share.
 *
 * The way of a read, from the trace's file to the JSON, folder by folder:
 *
 *   trace/     trace_text, trace_blk                   parse it
 *              trace                                   by time
 *              sources                                 of all traces the next, in whole blocks
 *   engine/    loop                                    when it is due
 *              users                                   begins it
 *   policies/                                          choose the drive; hedging and revocation
 *                                                      help
 *   engine/    attempts                                buffer, submission
 *   drive/     content                                 what is in it, and what must come back
 *   engine/    ring                                    to the kernel and back
 *              attempts                                whose completion, is it whole
 *              users                                   checks it; another attempt, or the answer
 *   results/   latency, series, io_log                 keep it
 *              report                                  writes it down
 *
 * What makes drives slow meanwhile is in slow/.
 *
 * With --threads each has a struct replay, a ring and a share of the I/Os of its own; drives, their
 * content, series and log are shared. engine starts them, loop is what each does.
 *
 * Calls go from loop to sources to trace, and from loop to users to policies to attempts to
 * ring. The only way back is an I/O's done(), which attempts calls.
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

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct attempt;
struct buffer_pool;
struct inject;
struct io;
struct log_file;
struct series;
struct storms;

/* Timers and batches stay below it: what is later waited for something. */
#define LATE_NS 100000ull

/* All of one type: those of several threads are added up. */
struct counters {
	uint64_t reads, writes, warmup_ios;
	uint64_t reads_failed,
		writes_failed; /* user I/Os that every drive answered with an error */
	uint64_t unanswered;   /* now; at the end those not waited for any longer */
	uint64_t timed_out;    /* attempts that did not come back within --timeout */
	uint64_t revoked;      /* reads revoked at least once */
	uint64_t revocations;
	uint64_t hedged, hedges_won, hedges_denied;
	uint64_t explored;	/* copies of reads sent to hear of a drive */
	uint64_t copies_denied; /* reads not sent because a drive held --losers lost ones */
	uint64_t losers_max;	/* the most lost reads that one drive has held */
	uint64_t extra_ios;	/* read attempts sent beyond one per read, the cancelled included */
	uint64_t cancels_tried, cancelled; /* losers; cancelled: no drive ever had them */
	uint64_t data_errors;		   /* read attempts with wrong content */
	uint64_t blocks_checked, torn_blocks, unverified_blocks;
	uint64_t io_errors; /* attempts that a drive answered with an error */
	uint64_t io_errors_by[MAX_DRIVES];
	uint64_t short_ios; /* times that a drive did a part, and the rest was sent again */
	uint64_t failovers_on_error;
	uint64_t read_bytes, write_bytes;
	uint64_t depth_stalls; /* I/Os that were due while --depth had no place for them */
	uint64_t late_ios;     /* submitted more than LATE_NS after they were due */
	uint64_t served_by[MAX_DRIVES];
	uint64_t mapped_late; /* buffers */
	uint64_t prefill_blocks;
};

/* Service times are from the submission, response times from the due time. */
enum { READ_SERVICE, READ_RESPONSE, WRITE_SERVICE, WRITE_RESPONSE, LAG, N_LATENCIES };

struct replay {
	struct options o;
	unsigned int n_drives;
	struct device devices[MAX_DRIVES];
	struct content *contents;				   /* by drive; all threads' */
	uint32_t pending_pages[MAX_DRIVES], in_flight[MAX_DRIVES]; /* attempts at the drive */
	struct observer observers[MAX_DRIVES];			   /* of the same */
	uint32_t losers[MAX_DRIVES], losers_in_flight;		   /* of these the lost ones; all */
	struct linnos_stats stats_before[MAX_DRIVES], stats_after[MAX_DRIVES];
	char linnos_mode[MAX_DRIVES][16], model_id[MAX_DRIVES][16];

	uint64_t hedge_ns[MAX_DRIVES];	   /* by home drive; 0: no hedging */
	double hedge_percentile_used;	   /* NaN when not by percentile */
	uint64_t threshold_us[MAX_DRIVES]; /* from which verdict counts a read as slow; 0: unused */
	double false_submit_ratio_used;
	struct budget hedge_budget;
	uint64_t random_state; /* splitmix_next() */
	void *policy_state;
	const struct linnos_guard *guard; /* of a policy that predicts; NULL: there is none */

	struct sources sources;
	struct timers timers;
	struct ring ring;
	uint64_t start_ns, end_ns;
	uint64_t done_ns; /* when the completion in hand was seen */
	uint32_t explorations_in_flight;
	struct attempt *earliest, *latest; /* in flight */
	struct attempt *unsubmitted;	   /* the first of these that only lies in the ring */
	uint32_t user_ios_in_flight;	   /* not answered yet: what depth bounds */
	uint32_t depth, losers_limit;	   /* of --depth and --losers this thread's part */
	bool draining;			   /* nothing new is started */
	struct io *free_ios;
	struct attempt *free_attempts;
	struct buffer_pool *buffers;

	struct counters c;
	struct latency latency[N_LATENCIES];
	/* Of every read that the drive answered, the losers of races included. */
	struct latency drive_latency[MAX_DRIVES];
	pthread_mutex_t *results_lock; /* of series and log; NULL: there is one thread */
	struct series *series;
	struct log_file *log;
	const char *log_error; /* why there is none at the run's end */
	struct inject *inject;
	struct storms *storms;
	const char *stop_reason; /* NULL while running to the trace's end */
};

#endif
