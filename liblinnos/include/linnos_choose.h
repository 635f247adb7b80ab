/* SPDX-License-Identifier: MIT */
/**
 * DOC: linnos_choose, choose the replica that answers first (the core of liblinnos)
 *
 * For programs that do the I/O themselves: on drives, on nodes behind a network, or in a
 * simulation. The caller asks a chooser where to send each read and reports each submission and
 * completion to it. The chooser also returns the time at which a second attempt should be sent. It
 * does no I/O, has no clock and starts no thread.
 *
 *	linnos_choose ──► send ──► linnos_chooser_on_submit ──► linnos_chooser_on_complete
 *	  │ hedge_at_ns     ▲                                    │ failed       │ answered
 *	  ▼                 │                                    ▼              ▼
 *	linnos_choose_hedge ┴──────────────────── linnos_choose_next     linnos_chooser_on_answer
 *
 * The state of the replicas (struct linnos_predictor) is shared by all threads. A chooser belongs
 * to one thread. Choosing and reporting take only locks that are held for a short time. Times are
 * absolute, in ns of one clock, never 0, and never decrease within a thread. examples/choose.c is a
 * complete example.
 *
 * Errors are negative errno values, and linnos_error() returns the message.
 *
 * ABI: structures that may grow contain their size or are passed together with it. New members are
 * appended, and zero in a new member selects the previous behaviour. No structure contains an array
 * with one element per replica.
 */
#ifndef LIBLINNOS_CHOOSE_H
#define LIBLINNOS_CHOOSE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. linnos_version() returns the version of the library. */
#define LIBLINNOS_VERSION_MAJOR 0
#define LIBLINNOS_VERSION_MINOR 1
#define LIBLINNOS_VERSION_PATCH 0
#define LIBLINNOS_VERSION_CODE(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define LIBLINNOS_VERSION                                                                          \
	LIBLINNOS_VERSION_CODE(LIBLINNOS_VERSION_MAJOR, LIBLINNOS_VERSION_MINOR,                   \
			       LIBLINNOS_VERSION_PATCH)

/* For &linnos_options.home: reads use the replicas round robin. */
#define LINNOS_DEFAULT_ROUND_ROBIN (-1)

/* For &linnos_options.flags. */
#define LINNOS_BUFFERED (1u << 0)
#define LINNOS_QUERY_KERNEL (1u << 1)
#define LINNOS_UNGUARDED (1u << 2)
#define LINNOS_DUPLICATES (1u << 3)
#define LINNOS_PREDICT_ALL (1u << 4)

/**
 * struct linnos_options - how an array reads
 * @size: sizeof(struct linnos_options) of the caller
 * @flags: %LINNOS_BUFFERED: open paths without O_DIRECT, so that the page cache can answer reads.
 *	Predictions then apply to cache and drive together.
 *	%LINNOS_QUERY_KERNEL: query the kernel before a read is first sent, because the kernel knows
 *	the reads of other programs and all writes. For a drive that has LinnOS and a latency model,
 *	the kernel's prediction replaces the array's own.
 *	%LINNOS_UNGUARDED: every read follows the predictions. Otherwise a random part of the reads
 *	that would be redirected stays at its default replica as a control group, which grows if
 *	redirected reads turn out to gain little (&linnos_stats.control).
 *	%LINNOS_DUPLICATES: decide for each read whether and when to send it to a second replica
 *	as well, from the latency that this is expected to save and from its cost to other reads
 *	(docs/latency-model.md#when-to-send-two).
 *	%LINNOS_PREDICT_ALL: predict the latency of each read at every replica. Otherwise no
 *	predictions for the other replicas are made for a read whose default replica is idle, as
 *	long as their previous predictions are not lower by more than @margin_percent. The read
 *	then stays at its default replica. This is done for at most 32 consecutive reads of a
 *	thread.
 * @home: default replica, from 0, which serves reads when the predictions barely differ; or
 *	%LINNOS_DEFAULT_ROUND_ROBIN
 * @margin_percent: a read leaves its default replica only for a prediction that is lower by
 *	more than this percentage of the default replica's prediction, 0 to 100
 * @probe_after_ms: if a replica has completed nothing for this time and has nothing in flight, send
 *	it a probe copy: a copy of the next read, for whose completion no caller waits. Probe copies
 *	are at most 1 % of the reads, and at most a fifth of @max_duplicates if reads are hedged. 0
 *	disables them.
 * @hedge_us: send a read that is not answered after this many us to a second replica as well; 0
 *	disables hedging after a fixed time
 * @duplicates_burst: the maximum number of hedges that a thread can accumulate while it sends fewer
 *	than @max_duplicates allows
 * @hedge_percentile: as @hedge_us, with this percentile of the observed latencies as the delay, as
 *	soon as enough were observed; in percent (95, not 0.95), at least 1 and less than 100; 0
 *	disables it
 * @max_duplicates: hedges and copies never exceed this percentage of the reads begun so far, in
 *	each thread and therefore in total; 0 to 100, in percent (5, not 0.05), or INFINITY for no
 *	limit.
 *	%LINNOS_MAX_DUPLICATES_DEFAULT: no limit with %LINNOS_DUPLICATES, because the expected delay
 *	of other reads limits duplicates; 5 for hedges after a fixed time
 */
struct linnos_options {
	size_t size;
	uint32_t flags;
	int32_t home;
	uint32_t margin_percent;
	uint32_t probe_after_ms;
	uint32_t hedge_us;
	uint32_t duplicates_burst;
	double hedge_percentile;
	double max_duplicates;
};

#define LINNOS_MAX_DUPLICATES_DEFAULT (-1)

/* The size in the first version. It never changes. */
#define LINNOS_OPTIONS_SIZE_VER0 48

/* The defaults, which NULL selects as well: no hedging. */
#define LINNOS_OPTIONS_INIT                                                                        \
	{                                                                                          \
		sizeof(struct linnos_options), 0, LINNOS_DEFAULT_ROUND_ROBIN, 25, 20, 0, 100, 0,   \
			LINNOS_MAX_DUPLICATES_DEFAULT                                              \
	}

/**
 * linnos_error() - get the message of the last error
 *
 * Return: a message for the last call of this thread that failed: which object, what is wrong with
 * it and what to do; "" if no call has failed. The text is valid until the next call of this thread
 * fails.
 */
const char *linnos_error(void);

/**
 * linnos_version() - get the version of the library that the program runs with
 *
 * Return: %LIBLINNOS_VERSION of the library, for example 1002003 for version 1.2.3.
 */
unsigned int linnos_version(void);

/**
 * linnos_replicas_max() - get the largest number of replicas
 *
 * Return: 16 in this version.
 */
unsigned int linnos_replicas_max(void);

/* --- Predictors ------------------------------------------------------------------------------- */

struct linnos_predictor;
struct linnos_chooser;

/**
 * linnos_predictor_create() - create a predictor for a set of replicas
 * @predictor: set to the predictor; NULL on failure
 * @n_replicas: 1 to linnos_replicas_max()
 * @models: for each replica a file written by `linnapp train --kind latency`, or NULL; or NULL for
 *	all replicas. If a replica has no model, reads are not redirected from or to it unless the
 *	default replica fails or hangs.
 * @options: NULL for the defaults; %LINNOS_BUFFERED and %LINNOS_QUERY_KERNEL have no effect
 *
 * Return: 0 or a negative errno.
 */
int linnos_predictor_create(struct linnos_predictor **predictor, unsigned int n_replicas,
			    const char *const *models, const struct linnos_options *options);

/**
 * linnos_predictor_free() - free a predictor
 * @predictor: a predictor that has no choosers, or NULL
 */
void linnos_predictor_free(struct linnos_predictor *predictor);

/**
 * linnos_predictor_drop_replica() - stop sending reads to a replica
 * @predictor: the predictor
 * @replica: from 0
 *
 * The writer of a mirror calls this after a write has failed on a replica, because its contents are
 * then out of date. Reads that begin after this call has returned are never sent there, neither as
 * the first attempt nor as a failover, hedge or probe copy.
 *
 * Return: 0; -%EINVAL if there is no such replica; -%EBUSY if all other replicas have been dropped.
 */
int linnos_predictor_drop_replica(struct linnos_predictor *predictor, unsigned int replica);

/**
 * linnos_predictor_restore_replica() - use a dropped replica again
 * @predictor: the predictor
 * @replica: from 0; it must hold the same data as the others
 *
 * The history of the replica is reset. If @probe_after_ms and @max_duplicates of the options allow
 * copies, it is probed by a copy before reads are sent there.
 *
 * Return: 0; -%EINVAL if there is no such replica; -%ENODEV for a replica of an array that was
 * opened without it.
 */
int linnos_predictor_restore_replica(struct linnos_predictor *predictor, unsigned int replica);

/**
 * linnos_predictor_set_model() - replace the model of a replica
 * @predictor: the predictor; other threads may be using it
 * @replica: from 0
 * @model: a file as for linnos_predictor_create(), or NULL
 *
 * Return: 0, and no thread uses the old model any more; or a negative errno, and the old model
 * stays in use.
 */
int linnos_predictor_set_model(struct linnos_predictor *predictor, unsigned int replica,
			       const char *model);

/**
 * enum linnos_state - health of a replica
 * @LINNOS_HEALTHY: its last read completed without an error and in time
 * @LINNOS_SLOW: its last read exceeded the time limit for a healthy drive, or a read in flight
 *	has. The limit is ten times the overdue time of the model, but at least 20 ms, plus 0.1 ms
 *	for each 4 KiB in flight.
 * @LINNOS_SILENT: healthy, but no read has completed for longer than &linnos_options.probe_after_ms
 * @LINNOS_FAILING: its last read failed
 * @LINNOS_DROPPED: dropped by linnos_predictor_drop_replica(), or absent when the array was opened
 */
enum linnos_state {
	LINNOS_HEALTHY,
	LINNOS_SLOW,
	LINNOS_SILENT,
	LINNOS_FAILING,
	LINNOS_DROPPED,
};

/**
 * struct linnos_replica_stats - statistics of a replica
 * @state: enum linnos_state
 * @chooses: 1 if its model may redirect reads
 * @served: reads that it answered first
 * @errors: attempts that it completed with an error or with too few bytes
 * @answered: attempts that it answered, including probe copies and the slower attempts of hedged
 *	reads
 * @in_flight: reads in flight there, from all threads
 * @predicted_us: sum of the predicted latencies of the attempts in @answered
 * @took_us: sum of the measured latencies of the attempts in @answered
 * @near: attempts in @answered whose latency was between half and twice the prediction
 * @model_id: CRC-32 of its model file; 0 if it has no model
 * @reserved: zero
 */
struct linnos_replica_stats {
	uint32_t state;
	uint32_t chooses;
	uint64_t served;
	uint64_t errors;
	uint64_t answered;
	uint64_t in_flight;
	uint64_t predicted_us;
	uint64_t took_us;
	uint64_t near;
	uint32_t model_id;
	uint32_t reserved;
};

/**
 * linnos_predictor_get_replica_stats() - get the statistics of a replica
 * @predictor: the predictor
 * @replica: from 0
 * @now_ns: current time
 * @stats: filled with the members that this library has; the rest is zeroed
 * @bytes: sizeof(struct linnos_replica_stats) of the caller
 *
 * Return: 0; -%EINVAL if there is no such replica.
 */
int linnos_predictor_get_replica_stats(struct linnos_predictor *predictor, unsigned int replica,
				       uint64_t now_ns, struct linnos_replica_stats *stats,
				       size_t bytes);

/**
 * linnos_predictor_get_histogram() - get the latency histogram of a replica
 * @predictor: the predictor
 * @replica: from 0
 * @counts: NULL, or filled: element i is the number of attempts whose latency was at least
 *	linnos_bucket_ns(i) and less than linnos_bucket_ns(i + 1)
 * @n_counts: number of elements in @counts
 *
 * Return: the number of buckets; -%EINVAL if there is no such replica.
 */
int linnos_predictor_get_histogram(struct linnos_predictor *predictor, unsigned int replica,
				   uint64_t *counts, unsigned int n_counts);

/**
 * linnos_bucket_ns() - get the lower limit of a histogram bucket
 * @bucket: from 0; there are four buckets for each doubling
 *
 * Return: the limit in ns.
 */
uint64_t linnos_bucket_ns(unsigned int bucket);

/* --- Choosing ------------------------------------------------------------------------------ */

/**
 * linnos_chooser_create() - create a chooser for one thread
 * @chooser: set to the chooser; NULL on failure
 * @predictor: the predictor, which must outlive it
 *
 * Return: 0 or a negative errno.
 */
int linnos_chooser_create(struct linnos_chooser **chooser, struct linnos_predictor *predictor);

/**
 * linnos_chooser_free() - free a chooser
 * @chooser: a chooser, or NULL; its statistics remain in the predictor
 */
void linnos_chooser_free(struct linnos_chooser *chooser);

/* For &linnos_choice.flags. */
#define LINNOS_NEVER_HEDGE (1u << 0)

/**
 * struct linnos_choice - a read, from linnos_choose() to linnos_chooser_on_answer()
 * @offset: set by the caller: offset of the read in bytes
 * @bytes: set by the caller: size of the read in bytes
 * @home: set by the caller: its default replica, or %LINNOS_DEFAULT_ROUND_ROBIN to use
 *	&linnos_options.home. linnos_choose() replaces it with the default replica it has used.
 * @flags: set by the caller: %LINNOS_NEVER_HEDGE or 0
 * @replica: where to send the read
 * @copy: where to send a probe copy, for whose completion no caller waits; -1 for none
 * @predicted_us: predicted latency of the read
 * @tried: bitmap of the replicas to which it was sent
 * @hedge_at_ns: when to call linnos_choose_hedge() if there is no answer by then; UINT64_MAX if
 *	never
 * @own: private to the library
 */
struct linnos_choice {
	uint64_t offset;
	uint64_t bytes;
	int32_t home;
	uint32_t flags;
	uint32_t replica;
	int32_t copy;
	uint32_t predicted_us;
	uint32_t tried;
	uint64_t hedge_at_ns;
	uint64_t own[6];
};

/**
 * linnos_choose() - choose the replica for a read
 * @chooser: the chooser of this thread
 * @choice: the caller sets the first four members; this function sets the others
 * @now_ns: current time
 */
void linnos_choose(struct linnos_chooser *chooser, struct linnos_choice *choice, uint64_t now_ns);

/**
 * linnos_choose_next() - choose another replica after an attempt has failed
 * @chooser: the chooser of this thread
 * @choice: the read, from linnos_choose()
 * @now_ns: current time
 *
 * Return: the best of the replicas that have not been tried, also stored in &linnos_choice.replica;
 * -1 if all have been tried.
 */
int linnos_choose_next(struct linnos_chooser *chooser, struct linnos_choice *choice,
		       uint64_t now_ns);

/**
 * linnos_choose_hedge() - decide whether to send a second attempt now
 * @chooser: the chooser of this thread
 * @choice: the read, from linnos_choose(), when the time &linnos_choice.hedge_at_ns has come
 * @now_ns: current time
 *
 * Return: where to send the second attempt, which then counts against the cap; -1 if none is to be
 * sent now. In both cases &linnos_choice.hedge_at_ns is the time of the next call, UINT64_MAX if
 * there is none.
 */
int linnos_choose_hedge(struct linnos_chooser *chooser, struct linnos_choice *choice,
			uint64_t now_ns);

/**
 * enum linnos_kind - purpose of an attempt
 * @LINNOS_PRIMARY_ATTEMPT: the first attempt of a read, or one after a failure
 * @LINNOS_HEDGE_ATTEMPT: a second attempt while another one of the same read is in flight
 * @LINNOS_PROBE_COPY: a copy of a read that measures the current latency of a replica
 * @LINNOS_WRITE: a write
 */
enum linnos_kind {
	LINNOS_PRIMARY_ATTEMPT,
	LINNOS_HEDGE_ATTEMPT,
	LINNOS_PROBE_COPY,
	LINNOS_WRITE,
};

/**
 * struct linnos_attempt - an attempt, from linnos_chooser_on_submit() to
 * linnos_chooser_on_complete()
 * @own: private to the library
 */
struct linnos_attempt {
	uint64_t own[8];
};

/**
 * linnos_chooser_on_submit() - report that an attempt is being sent to a replica
 * @chooser: the chooser of this thread
 * @attempt: the attempt, which this function fills
 * @choice: the read it belongs to; for a write or a copy only @offset and @bytes are used
 * @replica: where it is sent
 * @kind: its purpose
 * @now_ns: current time
 */
void linnos_chooser_on_submit(struct linnos_chooser *chooser, struct linnos_attempt *attempt,
			      const struct linnos_choice *choice, unsigned int replica,
			      enum linnos_kind kind, uint64_t now_ns);

/**
 * enum linnos_end - result of an attempt
 * @LINNOS_SUCCEEDED: it returned its bytes
 * @LINNOS_FAILED: the replica failed it
 * @LINNOS_RESULT_IGNORED: the result says nothing about the replica: the attempt was rejected or
 *	not sent, or the caller has caused the error
 * @LINNOS_CANCELLED: the caller cancelled it before it was answered. If it was overdue by then, it
 *	counts as an answer whose latency is the time until it was cancelled.
 */
enum linnos_end {
	LINNOS_SUCCEEDED,
	LINNOS_FAILED,
	LINNOS_RESULT_IGNORED,
	LINNOS_CANCELLED,
};

/**
 * linnos_chooser_on_complete() - report that an attempt has completed
 * @chooser: the chooser of this thread, which may differ from the one that reported the submission
 * @attempt: the attempt, from linnos_chooser_on_submit()
 * @end: its result
 * @now_ns: current time
 */
void linnos_chooser_on_complete(struct linnos_chooser *chooser, struct linnos_attempt *attempt,
				enum linnos_end end, uint64_t now_ns);

/**
 * linnos_chooser_on_answer() - report that the user of a read has its answer
 * @chooser: the chooser of this thread
 * @choice: the read, from linnos_choose(); it ends here
 * @winner: the attempt that was answered; NULL if the read was ended without an answer
 * @loser: the other attempt of a hedged read if it is still in flight, else NULL
 * @now_ns: current time
 */
void linnos_chooser_on_answer(struct linnos_chooser *chooser, struct linnos_choice *choice,
			      const struct linnos_attempt *winner, struct linnos_attempt *loser,
			      uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_CHOOSE_H */
