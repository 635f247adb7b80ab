/* SPDX-License-Identifier: MIT */
/*
 * The engine: one thread, one io_uring, one loop. It takes I/Os from the traces when they are due,
 * lets the policy send attempts to drives, checks what comes back, and gives the user the first
 * answer.
 *
 * Time. The loop sleeps in the kernel until the next completion, timer or due I/O, whichever comes
 * first, and reads the clock once per wakeup. It never spins: in the lab's virtual time a sleep is
 * exact and free, while a program that looks at the clock in a loop would push time forward. To
 * fill and to check blocks takes time of its own: after some microseconds' worth the clock is read
 * again, what is ready is submitted, and completions are noted with the time (ring_worked()). An
 * attempt's time runs from its submission to the ring.
 *
 * Every user I/O is answered exactly once and counted exactly once, and gives its place under
 * --depth free when it is. An attempt keeps its buffer until the kernel has completed it, also
 * after its race is lost; how many lost ones a drive may hold is bounded apart, by --losers.
 */
#ifndef REPLAYER_ENGINE_H
#define REPLAYER_ENGINE_H

#include "budget.h"
#include "content.h"
#include "device.h"
#include "latency.h"
#include "options.h"
#include "policy.h"
#include "ring.h"
#include "sources.h"
#include "storm.h"
#include "timers.h"

#include <stdbool.h>
#include <stdint.h>

struct log_file;
struct inject;
struct series;

/* One I/O sent to one drive for a user I/O. */
struct attempt {
	struct attempt *next; /* of the same user I/O while in flight, else of the free list */
	struct attempt *earlier, *later; /* of all in flight, in the order of submission */
	struct user_io *io;
	struct buffer *buffer;
	uint64_t submit_ns;
	uint32_t done_bytes; /* by earlier completions, which were short */
	uint8_t drive;
	bool hinted, hedge;
	bool lost; /* the user has had another attempt's answer */
};

struct user_io {
	struct timer timer; /* for the policy: failover or hedge */
	struct user_io *next_free;
	struct attempt *in_flight;
	struct storm *storm; /* not a user's I/O but this storm's write */
	uint64_t due_ns;     /* from the run's start */
	uint64_t submit_ns;  /* absolute; of the first attempt */
	uint64_t offset_bytes;
	uint32_t size_bytes;
	uint32_t tried, failed; /* drives, as bits: asked at all; answered with an error */
	uint16_t revocations, sent;
	uint16_t tag; /* 0: none */
	uint8_t home, served_by, flags;
	bool is_write, answered, warmup;
	bool submitted;	   /* else submit_ns is when its preparation began */
	bool failing_over; /* the timer runs for a failover, not for a hedge */
};

enum { /* flags of user I/Os, as the per-I/O log has them */
       IO_REVOKED = 1,
       IO_HEDGED = 2,
       IO_HEDGE_WON = 4,
       IO_DATA_ERROR = 8,
       IO_ERROR = 16,
};

#define SERVED_BY_NONE 255

/* Timers and batches stay below it: what is later waited for something. */
#define LATE_NS 100000ull

struct counters {
	uint64_t reads, writes, warmup_ios;
	uint64_t reads_failed,
		writes_failed; /* user I/Os that every drive answered with an error */
	uint64_t unanswered;   /* now; at the end those not waited for any longer */
	uint64_t timed_out;    /* attempts that did not come back within --timeout */
	uint64_t revoked;      /* reads revoked at least once */
	uint64_t revocations;
	uint64_t hedged, hedges_won, hedges_denied;
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
	uint64_t prefill_blocks;
};

struct buffer_pool;

struct replay {
	struct options o;
	unsigned int n_drives;
	struct device devices[MAX_DRIVES];
	struct content contents[MAX_DRIVES];
	uint32_t pending_pages[MAX_DRIVES], in_flight[MAX_DRIVES]; /* attempts at the drive */
	uint32_t losers[MAX_DRIVES], losers_in_flight;		   /* of these the lost ones; all */
	struct linnos_stats stats_before[MAX_DRIVES], stats_after[MAX_DRIVES];
	char linnos_mode[MAX_DRIVES][16], model_id[MAX_DRIVES][16];

	uint64_t hedge_ns[MAX_DRIVES]; /* by home drive; 0: no hedging */
	double hedge_percentile_used;  /* NaN when not by percentile */
	double false_submit_ratio_used;
	struct budget hedge_budget;
	uint64_t random_state; /* splitmix_next() */
	void *policy_state;

	struct sources sources;
	struct timers timers;
	struct ring ring;
	uint64_t start_ns, end_ns;
	uint64_t done_ns;		   /* when the completion in hand was seen */
	struct attempt *earliest, *latest; /* in flight */
	struct attempt *unsubmitted;	   /* the first of these that only lies in the ring */
	uint32_t user_ios_in_flight;	   /* not answered yet: what --depth bounds */
	uint32_t background_in_flight;
	bool draining; /* nothing new is started */
	struct user_io *free_ios;
	struct attempt *free_attempts;
	struct buffer_pool *buffers;

	struct counters c;
	struct latency read_latency, write_latency;   /* service: from submission */
	struct latency read_response, write_response; /* from the due time */
	struct latency lag;
	/* Of every read that the drive answered, the losers of races included. */
	struct latency drive_latency[MAX_DRIVES];
	struct series *series;
	struct log_file *log;
	const char *log_error; /* why there is none at the run's end */
	struct inject *inject;
	struct storm storms[MAX_DRIVES];
	unsigned int n_storms;
	const char *stop_reason; /* NULL while running to the trace's end */
};

/* Opens the ring; scans the traces (sources_scan()) and so learns which buffers the run wants;
 * replays: arms the injection, runs to the traces' end, drains, disarms; frees. */
void engine_setup(struct replay *r);
void engine_scan(struct replay *r, scan_visit *visit, void *context);
void engine_run(struct replay *r);
void engine_close(struct replay *r);
/* Async-signal-safe: the run stops issuing, drains and reports; a second time it does not drain. */
void engine_interrupt(void);

/* A write that belongs to no user: uncounted but for its errors. */
void background_write(struct replay *r, struct storm *s, unsigned int drive, uint64_t offset_bytes,
		      uint32_t size_bytes);

/* For policies. */

enum { SEND_PLAIN = 0, SEND_HINT = 1, SEND_HEDGE = 2 };

/* Sends a read attempt of io to a drive; flags of SEND_. */
void attempt_send(struct replay *r, struct user_io *io, unsigned int drive, unsigned int flags);
/* The first drive after the home drive, cyclically, whose bit is not in mask; -1 when all are. */
int replica_after_home(const struct replay *r, const struct user_io *io, uint32_t mask);
/* A drive that holds --losers lost reads gets no copies of reads, nor may its own reads be raced.
 */
static inline bool losers_full(const struct replay *r, unsigned int drive)
{
	return r->losers[drive] >= r->o.losers;
}
static inline uint32_t io_pages(const struct user_io *io)
{
	return io->size_bytes / BLOCK_BYTES;
}

#endif
