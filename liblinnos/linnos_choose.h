/* SPDX-License-Identifier: MIT */
/**
 * DOC: linnos_choose, which replica answers first: the core of liblinnos
 *
 * For whoever does the I/O by himself, on drives, on nodes behind a network, or in a simulation:
 * this chooses, is told what was sent and how it ended, and says when to send a read a second time.
 * It does no I/O, has no clock and starts no thread.
 *
 *	linnos_choose ──► send ──► linnos_chooser_on_submit ──► linnos_chooser_on_complete ──►
 *linnos_chooser_on_answer │                          ▲                    │ failed │ hedge_at_ns │
 *▼ └───────► linnos_choose_hedge ────┴──────────── linnos_choose_next
 *
 * What is known of the replicas (struct linnos_predictor) is shared; a chooser belongs to one
 *thread. Who chooses waits for nobody; who tells of an end has a lock for an instant. Times are
 *absolute, in ns of one clock, not 0, and a thread's do not go back. examples/choose.c is an
 *example.
 *
 * Errors are negative errno values, and linnos_error() has the text.
 *
 * ABI: structures that may grow carry or come with their size; new members come at the end, and
 * zero in them is what was before. No array in them has as many members as there are replicas.
 */
#ifndef LIBLINNOS_CHOOSE_H
#define LIBLINNOS_CHOOSE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. linnos_version() has that of the library. */
#define LIBLINNOS_VERSION_MAJOR 0
#define LIBLINNOS_VERSION_MINOR 1
#define LIBLINNOS_VERSION_PATCH 0
#define LIBLINNOS_VERSION_CODE(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define LIBLINNOS_VERSION                                                                          \
	LIBLINNOS_VERSION_CODE(LIBLINNOS_VERSION_MAJOR, LIBLINNOS_VERSION_MINOR,                   \
			       LIBLINNOS_VERSION_PATCH)

/* For &linnos_options.home: replicas take turns, read by read. */
#define LINNOS_DEFAULT_ROUND_ROBIN (-1)

/* For &linnos_options.flags. */
#define LINNOS_BUFFERED (1u << 0)
#define LINNOS_QUERY_KERNEL (1u << 1)
#define LINNOS_UNGUARDED (1u << 2)
#define LINNOS_HEDGE_BY_GAIN (1u << 3)
#define LINNOS_PREDICT_ALL (1u << 4)

/**
 * struct linnos_options - how an array reads
 * @size: sizeof(struct linnos_options) of the caller
 * @flags: %LINNOS_BUFFERED: open paths without O_DIRECT, so that the page cache answers
 *	what it has (predictions are then of cache and drive together);
 *	%LINNOS_QUERY_KERNEL: the kernel, which knows of other programs' reads and of all writes, is
 *asked before a read is first sent; for a drive that has LinnOS and a model of latencies, its
 *	prediction replaces the array's own; %LINNOS_UNGUARDED: every read follows the
 *	predictions; otherwise some of the reads that would leave home stay there at random, and
 *	the less the others gain by leaving, the more stay (&linnos_stats.stayed);
 *	%LINNOS_HEDGE_BY_GAIN: a read is sent to a second replica as well, at once, later or never,
 *	by what it is expected to gain there and what it costs others
 *	(docs/latency-model.md#when-to-send-two); %LINNOS_PREDICT_ALL: every replica's model
 *predicts each read, where otherwise one whose home is idle and predicted as low as the others
 *	lately were stays without asking them, 32 reads of a thread at most
 * @home: the replica that reads stay at when predictions hardly differ, from 0; or
 *	%LINNOS_DEFAULT_ROUND_ROBIN
 * @home_margin_percent: how much lower than home's, in percent of it, another prediction
 *	must be for a read to leave home, 0 to 100
 * @explore_ms: of a replica that has answered nothing for so long, and has nothing in
 *	flight, a copy of the next read is asked for, whose answer nobody waits for: at most one
 *	in a hundred reads, and a fifth of @extra_io_percent where reads are hedged; 0: never
 * @hedge_us: a read not answered after so many us is sent to a second replica as well; 0: not by a
 *	fixed time
 * @extra_io_burst: hedges that calm times save up at most, in each thread
 * @hedge_percentile: the same, after this percentile of the latencies that have been seen, as
 *	soon as enough were; in percent: 95, not 0.95; 1 and above, below 100, 0: not by a
 *	percentile
 * @extra_io_percent: hedges and copies at any moment are at most so many percent of the reads begun
 *	until then, in each thread and so in all, 0 to 100; 5, not 0.05
 * @hedge_tables: a file for each replica that `linnapp train --kind latency` writes beside its
 *	model: a read is hedged once it has taken longer than nearly all do that were predicted to
 *	take as long; NULL: not by prediction; read when the array is opened
 */
struct linnos_options {
	size_t size;
	uint32_t flags;
	int32_t home;
	uint32_t home_margin_percent;
	uint32_t explore_ms;
	uint32_t hedge_us;
	uint32_t extra_io_burst;
	double hedge_percentile;
	double extra_io_percent;
	const char *const *hedge_tables;
};

/* Its size in the first version, which never changes. */
#define LINNOS_OPTIONS_SIZE_VER0 56

/* The defaults, which are also those of NULL: no hedging. */
#define LINNOS_OPTIONS_INIT                                                                        \
	{                                                                                          \
		sizeof(struct linnos_options), 0, LINNOS_DEFAULT_ROUND_ROBIN, 25, 20, 0, 100, 0,   \
			5, 0                                                                       \
	}

/**
 * linnos_error() - say what went wrong
 *
 * Return: of the call of this thread that failed last, the thing, what is wrong with it and what to
 * do; "" when none has. It is the thread's until its next call that fails.
 */
const char *linnos_error(void);

/**
 * linnos_version() - get the version of the library that the program runs with
 *
 * Return: its %LIBLINNOS_VERSION, for example 1002003 for version 1.2.3.
 */
unsigned int linnos_version(void);

/**
 * linnos_replicas_max() - how many replicas there may be
 *
 * Return: 16, of this version.
 */
unsigned int linnos_replicas_max(void);

/* --- What is known ------------------------------------------------------------------------- */

struct linnos_predictor;
struct linnos_chooser;

/**
 * linnos_predictor_create() - begin to know replicas
 * @known: set; NULL on failure
 * @n_replicas: 1 to linnos_replicas_max()
 * @models: a file by `linnapp train --kind latency` for each, or NULL in its place, or for all:
 *	without one, or with one without trees, no read leaves that replica for another, and none
 *	leaves home for it, unless home fails or hangs
 * @options: NULL for the defaults; %LINNOS_BUFFERED and %LINNOS_QUERY_KERNEL have no effect
 *
 * Return: 0 or a negative errno.
 */
int linnos_predictor_create(struct linnos_predictor **known, unsigned int n_replicas,
			    const char *const *models, const struct linnos_options *options);

/**
 * linnos_predictor_free() - forget it
 * @known: without choosers, or NULL
 */
void linnos_predictor_free(struct linnos_predictor *known);

/**
 * linnos_predictor_drop_replica() - leave a replica out from now on
 * @known: what is known
 * @replica: from 0
 *
 * For the writer of a mirror, whose write has failed on one replica: what it holds is out of date.
 * Reads that begin when this has returned do not go there, by no choice, failover, hedge or copy.
 *
 * Return: 0; -%EINVAL: no such replica; -%EBUSY: it is the last one, and stays.
 */
int linnos_predictor_drop_replica(struct linnos_predictor *known, unsigned int replica);

/**
 * linnos_predictor_restore_replica() - take a replica back that was dropped
 * @known: what is known
 * @replica: from 0; it holds what the others hold
 *
 * What it answered before is forgotten: it is looked at by a copy before reads go there, where
 * @explore_ms and @extra_io_percent of the options allow copies.
 *
 * Return: 0; -%EINVAL: no such replica; -%ENODEV: an array's, which was opened without it.
 */
int linnos_predictor_restore_replica(struct linnos_predictor *known, unsigned int replica);

/**
 * linnos_predictor_set_model() - exchange a replica's model
 * @known: what is known; it may be in use
 * @replica: from 0
 * @model: as for linnos_predictor_create(), or NULL
 *
 * Return: 0; the old model is not used any more; or a negative errno: it stays.
 */
int linnos_predictor_set_model(struct linnos_predictor *known, unsigned int replica,
			       const char *model);

/**
 * enum linnos_state - how a replica is doing
 * @LINNOS_HEALTHY: its last read was answered in order
 * @LINNOS_SLOW: that took longer than any does of a drive in order, or one is in flight for so long
 * @LINNOS_SILENT: in order, but nothing was heard of it for longer than &linnos_options.explore_ms
 * @LINNOS_FAILING: its last read failed
 * @LINNOS_DROPPED: by linnos_predictor_drop_replica(), or an array was opened without it
 */
enum linnos_state {
	LINNOS_HEALTHY,
	LINNOS_SLOW,
	LINNOS_SILENT,
	LINNOS_FAILING,
	LINNOS_DROPPED,
};

/**
 * struct linnos_replica_stats - what a replica has done
 * @state: enum linnos_state
 * @chooses: 1: its model moves reads
 * @served: reads that it answered first
 * @errors: attempts that it answered with an error, or not to the end
 * @answered: attempts that it answered, losers and copies among them
 * @in_flight: reads there now, all threads'
 * @predicted_us: over @answered, the sum of what was predicted
 * @took_us: and of what it took
 * @near: of them, those that took between half and twice what was predicted
 * @model_id: CRC-32 of its model's file; 0: it has none
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
 * linnos_predictor_get_replica_stats() - count what a replica has done
 * @known: what is known
 * @replica: from 0
 * @now_ns: the time
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_replica_stats) of the caller
 *
 * Return: 0; -%EINVAL: no such replica.
 */
int linnos_predictor_get_replica_stats(struct linnos_predictor *known, unsigned int replica,
				       uint64_t now_ns, struct linnos_replica_stats *stats,
				       size_t bytes);

/**
 * linnos_predictor_get_histogram() - how long a replica took, answer by answer
 * @known: what is known
 * @replica: from 0
 * @counts: NULL, or filled: attempts that took from linnos_bucket_ns(i) to linnos_bucket_ns(i + 1)
 * @n_counts: how many there is room for
 *
 * Return: how many buckets there are; -%EINVAL: no such replica.
 */
int linnos_predictor_get_histogram(struct linnos_predictor *known, unsigned int replica,
				   uint64_t *counts, unsigned int n_counts);

/**
 * linnos_bucket_ns() - where a bucket begins
 * @bucket: from 0; four a doubling
 *
 * Return: ns.
 */
uint64_t linnos_bucket_ns(unsigned int bucket);

/* --- Choosing ------------------------------------------------------------------------------ */

/**
 * linnos_chooser_create() - begin to choose, in one thread
 * @chooser: set; NULL on failure
 * @known: outlives it
 *
 * Return: 0 or a negative errno.
 */
int linnos_chooser_create(struct linnos_chooser **chooser, struct linnos_predictor *known);

/**
 * linnos_chooser_free() - end to choose
 * @chooser: or NULL; what it has counted stays
 */
void linnos_chooser_free(struct linnos_chooser *chooser);

/* For &linnos_choice.flags. */
#define LINNOS_NEVER_HEDGE (1u << 0)

/**
 * struct linnos_choice - a read, from linnos_choose() to linnos_chooser_on_answer()
 * @offset: set by the caller: of the read, in bytes
 * @bytes: likewise
 * @home: likewise: its home replica; or %LINNOS_DEFAULT_ROUND_ROBIN: as &linnos_options.home has
 *it. linnos_choose() leaves there which it was
 * @flags: likewise: %LINNOS_NEVER_HEDGE or 0
 * @replica: where to send it
 * @copy: where to send a copy, whose answer nobody waits for; -1: nowhere
 * @predicted_us: how long it is predicted to take
 * @tried: replicas to which it was sent, by bit
 * @hedge_at_ns: when linnos_choose_hedge() is to be called, if there is no answer by then;
 *UINT64_MAX: never
 * @own: the library's
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
 * linnos_choose() - where does a read go?
 * @chooser: the thread's
 * @choice: its first four members are set; the others are, then
 * @now_ns: the time
 */
void linnos_choose(struct linnos_chooser *chooser, struct linnos_choice *choice, uint64_t now_ns);

/**
 * linnos_choose_next() - where does it go when that has failed?
 * @chooser: the thread's
 * @choice: of linnos_choose()
 * @now_ns: the time
 *
 * Return: the best of those that have not been tried, which &linnos_choice.replica then is; -1:
 * none is left.
 */
int linnos_choose_next(struct linnos_chooser *chooser, struct linnos_choice *choice,
		       uint64_t now_ns);

/**
 * linnos_choose_hedge() - it has waited long enough
 * @chooser: the thread's
 * @choice: of linnos_choose(), whose &linnos_choice.hedge_at_ns has come
 * @now_ns: the time
 *
 * Return: where to send it as well, which counts against the cap; -1: nowhere, now, and
 * &linnos_choice.hedge_at_ns says when to ask again.
 */
int linnos_choose_hedge(struct linnos_chooser *chooser, struct linnos_choice *choice,
			uint64_t now_ns);

/**
 * enum linnos_kind - what was sent
 * @LINNOS_PRIMARY_ATTEMPT: a read, chosen or after another one's failure
 * @LINNOS_HEDGE_ATTEMPT: a read's second attempt beside one that is under way
 * @LINNOS_PROBE_COPY: of a read, to hear of a replica
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
 * @own: the library's
 */
struct linnos_attempt {
	uint64_t own[8];
};

/**
 * linnos_chooser_on_submit() - something is sent to a replica
 * @chooser: the thread's
 * @sending: filled
 * @choice: the read it is of; of a write, or a copy, only @offset and @bytes count
 * @replica: where
 * @kind: what
 * @now_ns: the time
 */
void linnos_chooser_on_submit(struct linnos_chooser *chooser, struct linnos_attempt *sending,
			      const struct linnos_choice *choice, unsigned int replica,
			      enum linnos_kind kind, uint64_t now_ns);

/**
 * enum linnos_end - how it ended
 * @LINNOS_SUCCEEDED: with its bytes
 * @LINNOS_FAILED: the replica failed it
 * @LINNOS_RESULT_IGNORED: that says nothing of the replica: refused, not sent, the caller's fault
 * @LINNOS_CANCELLED: before it was answered, by the caller; was it late by then, it counts as an
 *	answer that took as long
 */
enum linnos_end {
	LINNOS_SUCCEEDED,
	LINNOS_FAILED,
	LINNOS_RESULT_IGNORED,
	LINNOS_CANCELLED,
};

/**
 * linnos_chooser_on_complete() - it has ended
 * @chooser: the thread's, which may be another one than it was sent by
 * @sending: of linnos_chooser_on_submit()
 * @end: how
 * @now_ns: the time
 */
void linnos_chooser_on_complete(struct linnos_chooser *chooser, struct linnos_attempt *sending,
				enum linnos_end end, uint64_t now_ns);

/**
 * linnos_chooser_on_answer() - a read's user has the answer
 * @chooser: the thread's
 * @choice: of linnos_choose(), which ends here
 * @winner: the attempt that has answered; NULL: its time was over, nobody has
 * @loser: of a hedged read the other one, which is still under way; NULL: there is none
 * @now_ns: the time
 */
void linnos_chooser_on_answer(struct linnos_chooser *chooser, struct linnos_choice *choice,
			      const struct linnos_attempt *winner, struct linnos_attempt *loser,
			      uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_CHOOSE_H */
