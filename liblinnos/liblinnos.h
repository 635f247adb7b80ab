/* SPDX-License-Identifier: MIT */
/**
 * DOC: liblinnos, reads from the replica that is predicted to answer first
 *
 * An array is a set of replicas: block devices or files that hold the same bytes at the same
 * offsets. For each of them a model of latencies (`linnapp train --kind latency`, docs/formats.md)
 * predicts from the array's own reads how long a new one would take there. A read goes to the
 * lowest prediction, fails over to the next one on an error, and, where that is asked for, is
 * hedged under a cap on extra I/O. Any Linux kernel will do; docs/liblinnos.md has the whole of it.
 *
 * Errors are negative errno values, and linnos_error() has the text: which thing, what is wrong
 * with it, what to do. The library prints nothing, ends nothing, and has no state but its arrays.
 *
 * Threads: linnos_pread(), linnos_drop(), linnos_get_stats() and linnos_error() may be called by
 * any number of threads at once on one array. The calls for io_uring are for one thread at a time,
 * which may be beside threads in linnos_pread(). linnos_close() wants the array to itself. An array
 * does not survive fork(2) in the child.
 *
 * ABI: structures that may grow carry or come with their size; new members come at the end, and
 * zero in them is what was before.
 */
#ifndef LIBLINNOS_H
#define LIBLINNOS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LINNOS_REPLICAS_MAX 16

/* For &linnos_options.home: replicas take turns, read by read. */
#define LINNOS_HOME_TURNS (-1)

/* For &linnos_options.flags. */
#define LINNOS_BUFFERED (1u << 0)
#define LINNOS_HINT (1u << 1)
#define LINNOS_ASK (1u << 2)
#define LINNOS_UNGUARDED (1u << 3)
#define LINNOS_HEDGE_BY_GAIN (1u << 4)

struct linnos_array;

/**
 * struct linnos_options - how an array reads
 * @size: sizeof(struct linnos_options) of the caller
 * @flags: %LINNOS_BUFFERED: open paths without O_DIRECT, so that the page cache answers
 *	what it has (predictions are then of cache and drive together); %LINNOS_HINT: where the
 *	kernel knows RWF_LATCRIT, all but the last attempt of a read carry it, and a drive
 *	predicted to be slow by the kernel refuses it with EBUSY, which is a failover;
 *	%LINNOS_ASK: where a read goes first the kernel is asked, which knows of other programs'
 *	reads and of all writes: of a drive that has LinnOS and a model of latencies its
 *	prediction counts instead of the array's own; %LINNOS_UNGUARDED: predictions are
 *	followed whatever comes of it, where otherwise of the reads that would leave home some
 *	stay, by lot, and more of them the less those gain that leave (&linnos_stats.stayed);
 *	%LINNOS_HEDGE_BY_GAIN: a read is sent to a second replica as well, at once, later or never,
 *	by what it is expected to gain there and what it costs others
 *	(docs/latency-model.md#when-to-send-two)
 * @home: the replica that reads stay at when predictions hardly differ, from 0; or
 *	%LINNOS_HOME_TURNS
 * @home_margin_percent: how much lower than home's, in percent of it, another prediction
 *	must be for a read to leave home, 0 to 100
 * @explore_ms: of a replica that has answered nothing for so long, and has nothing in
 *	flight, a copy of the next read is asked for, whose answer nobody waits for: at most one
 *	in a hundred reads, and a fifth of @extra_io_percent where reads are hedged; 0: never
 * @hedge_us: a read not answered after so many us is sent to a second replica as well; 0: not by a
 *	fixed time
 * @hedge_percentile: the same, after this percentile of the latencies that the array has seen, as
 *	soon as it has seen enough; above 0 and below 100, 0: not by a percentile
 * @extra_io_percent: hedges and copies at any moment are at most so many percent of the reads begun
 *	until then, 0 to 100
 * @extra_io_burst: hedges that calm times save up at most
 * @hedge_tables: a file for each replica that `linnapp train --kind latency` writes beside its
 *model: a read is hedged once it has taken longer than nearly all do that were predicted to take as
 *	long; NULL: not by prediction; read when the array is opened
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

/* The defaults, which are also those of NULL: no hedging. */
#define LINNOS_OPTIONS_INIT                                                                        \
	{                                                                                          \
		sizeof(struct linnos_options), 0, LINNOS_HOME_TURNS, 25, 20, 0, 100, 0, 5, 0       \
	}

/**
 * struct linnos_stats - what an array has done since it was opened
 * @reads: begun
 * @bytes: given to callers
 * @moved: reads sent elsewhere than home because a prediction was lower there
 * @explored: copies of reads sent to hear of a replica that had been silent; where there is no
 *	io_uring, reads
 * @hedges: second attempts sent because the first had not been answered in time
 * @hedges_won: those of them that were answered first
 * @hedges_denied: those not sent for the cap's sake
 * @failovers: attempts sent because another one had come back without the bytes
 * @refused: attempts with the hint that the kernel revoked with EBUSY
 * @errors: attempts that a replica answered with an error, or not to the end
 * @failed: reads that no replica could answer
 * @in_flight: attempts at the replicas now, those included that lost their race, copies not
 * @saved_us_estimate: over @moved, the sum of what was predicted for home less what was measured
 *	elsewhere: as good as the predictions, and negative where reads had better stayed
 * @hedges_saved_us: over @hedges_won, how much later the attempt that lost was answered: measured,
 *	as far as it has been answered yet
 * @served_by: reads answered, by replica
 * @errors_by: @errors, by replica
 * @asked: reads of which the kernel told how long they would take on some replica
 * @without_ring: hedged reads of linnos_pread() that were only read, and copies that were not sent,
 *	because the kernel gave no ring for them: descriptors or memory are short
 * @not_choosing: replicas that have no model, or one without trees: no read leaves them for
 *	another, nor another for them, but when one fails; as it was when the array was opened
 * @stayed: reads that a prediction would have sent elsewhere, and that stayed at home by
 *	lot: to see what leaving is worth, or because it was worth nothing
 */
struct linnos_stats {
	uint64_t reads;
	uint64_t bytes;
	uint64_t moved;
	uint64_t explored;
	uint64_t hedges;
	uint64_t hedges_won;
	uint64_t hedges_denied;
	uint64_t failovers;
	uint64_t refused;
	uint64_t errors;
	uint64_t failed;
	uint64_t in_flight;
	int64_t saved_us_estimate;
	uint64_t hedges_saved_us;
	uint64_t served_by[LINNOS_REPLICAS_MAX];
	uint64_t errors_by[LINNOS_REPLICAS_MAX];
	uint64_t asked;
	uint64_t without_ring;
	uint64_t not_choosing;
	uint64_t stayed;
};

/**
 * linnos_open() - open an array by its replicas' paths
 * @array: set to the array; on failure to one that only linnos_error() and linnos_close() take, or
 *	to NULL when there is no memory even for that
 * @n_replicas: how many, 1 to %LINNOS_REPLICAS_MAX
 * @paths: of block devices or regular files, opened for reading, with O_DIRECT where the file
 *system has it (see %LINNOS_BUFFERED)
 * @models: a file for each, made by `linnapp train --kind latency`; NULL in a replica's place, or
 *	for all: nothing is predicted by which a read would leave home, see
 *&linnos_stats.not_choosing
 * @options: NULL: %LINNOS_OPTIONS_INIT
 *
 * Return: 0; -%EINVAL for what cannot be, a file that is no model among it; or the error of a file,
 * or of io_uring, which hedging needs.
 */
int linnos_open(struct linnos_array **array, unsigned int n_replicas, const char *const *paths,
		const char *const *models, const struct linnos_options *options);

/**
 * linnos_open_fds() - open an array by descriptors
 * @array: as for linnos_open()
 * @n_replicas: likewise
 * @fds: open for reading; the caller's, who closes them after the array
 * @models: as for linnos_open()
 * @options: likewise; %LINNOS_BUFFERED is of no effect
 *
 * Return: as linnos_open().
 */
int linnos_open_fds(struct linnos_array **array, unsigned int n_replicas, const int *fds,
		    const char *const *models, const struct linnos_options *options);

/**
 * linnos_close() - give an array back
 * @array: an array, or NULL
 *
 * Waits for copies, and for attempts of linnos_pread() that have lost their race: the kernel still
 * writes to their memory. A replica that hangs holds it up until the kernel gives the read up.
 *
 * Return: 0; -%EBUSY, and nothing is closed, while attempts of linnos_prep_read() have no
 * linnos_complete() yet: see linnos_abandon().
 */
int linnos_close(struct linnos_array *array);

/**
 * linnos_drop() - leave a replica out from now on
 * @array: an array
 * @replica: from 0
 *
 * For the writer of a mirror, whose write has failed on one replica: what it holds is out of date.
 * Reads that begin when this has returned do not go there, by no choice, failover, hedge or
 * exploration; attempts that are there already, or were prepared for there, are answered and count.
 *
 * Return: 0; -%EINVAL: no such replica; -%EBUSY: it is the last one, and stays.
 */
int linnos_drop(struct linnos_array *array, unsigned int replica);

/**
 * linnos_error() - say what went wrong
 * @array: an array, also one that could not be opened
 * @text: filled with the latest failure on this array, of whichever thread: the thing, what is
 *wrong with it, what to do; empty when there was none
 * @bytes: size of @text; 512 hold any
 */
void linnos_error(struct linnos_array *array, char *text, size_t bytes);

/**
 * linnos_get_stats() - count what an array has done
 * @array: an array
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_stats) of the caller
 */
void linnos_get_stats(struct linnos_array *array, struct linnos_stats *stats, size_t bytes);

/**
 * linnos_size() - size of an array
 * @array: an array
 *
 * Return: bytes that the largest replica held when it was opened.
 */
uint64_t linnos_size(const struct linnos_array *array);

/**
 * linnos_hint_is_used() - do reads carry the hint?
 * @array: an array
 *
 * Return: 1 when %LINNOS_HINT was given and the kernel knows RWF_LATCRIT on every replica, else 0.
 */
int linnos_hint_is_used(const struct linnos_array *array);

/**
 * linnos_asking_is_used() - is the kernel asked?
 * @array: an array
 *
 * Return: 1 when %LINNOS_ASK was given, all replicas are block devices and the kernel has LinnOS,
 * else 0.
 */
int linnos_asking_is_used(const struct linnos_array *array);

/**
 * linnos_pread() - read from the replica that is predicted to answer first
 * @array: an array
 * @buf: of any alignment
 * @bytes: of any size; at most 0x7ffff000 are read
 * @offset: in bytes, of any alignment
 *
 * A replica that answers with an error, or ends before @bytes while others do not, is followed by
 * the next best; the last one is asked without the hint. Hedged are reads of 1 MiB and less. What
 * is not aligned as O_DIRECT wants it on the replica is read through the library's memory, and
 * hedged reads always are.
 *
 * Return: @bytes; fewer, 0 among it, only where the replicas end; -%EINVAL, -%EFAULT, -%ENOMEM, or
 * the last replica's error when all have failed.
 */
ssize_t linnos_pread(struct linnos_array *array, void *buf, size_t bytes, off_t offset);

/**
 * enum linnos_outcome - what a completion means
 * @LINNOS_DONE: the read is over; &linnos_completion.result has its bytes, or why there are none
 * @LINNOS_AGAIN: &linnos_completion.read goes on at another replica, or at the same for its rest:
 *give it to linnos_prep_again()
 * @LINNOS_NOTHING: an attempt of a read that is over, or that another attempt is still under way
 *for
 */
enum linnos_outcome {
	LINNOS_DONE,
	LINNOS_AGAIN,
	LINNOS_NOTHING,
};

/**
 * struct linnos_completion - filled by linnos_complete()
 * @user: as given to linnos_prep_read(); NULL with %LINNOS_NOTHING
 * @read: with %LINNOS_AGAIN, for linnos_prep_again()
 * @result: with %LINNOS_DONE, as linnos_pread() returns it
 * @replica: with %LINNOS_DONE, who answered or failed last
 * @reserved: zeros
 */
struct linnos_completion {
	void *user;
	struct linnos_read *read;
	ssize_t result;
	uint32_t replica;
	uint32_t reserved[7];
};

struct io_uring_cqe;
struct io_uring_sqe;
struct linnos_read;

/**
 * linnos_prep_read() - prepare a read for the caller's io_uring
 * @array: an array
 * @sqe: a free entry of the caller's ring, whose flags and priority may be set afterwards but for
 *	IOSQE_FIXED_FILE; submit it soon, since predictions count it from now on
 * @buf: the library's until %LINNOS_DONE
 * @bytes: as for linnos_pread()
 * @offset: likewise
 * @user: comes back in &linnos_completion.user
 *
 * Return: 0; -%EAGAIN when @sqe is NULL, since the ring is full: nothing has begun; or another
 * negative errno: @sqe then is a no-op, whose completion is %LINNOS_NOTHING.
 */
int linnos_prep_read(struct linnos_array *array, struct io_uring_sqe *sqe, void *buf, size_t bytes,
		     off_t offset, void *user);

/**
 * linnos_is_ours() - is a completion one for linnos_complete()?
 * @cqe: a completion
 *
 * For rings that have other requests too. Ours have both low bits of user_data set, as no pointer
 * to more than a byte has.
 *
 * Return: 1 or 0.
 */
int linnos_is_ours(const struct io_uring_cqe *cqe);

/**
 * linnos_complete() - hear how an attempt ended
 * @array: an array
 * @cqe: a completion of what linnos_prep_read() or linnos_prep_again() prepared
 * @completion: filled
 *
 * Where arrays share a ring it may be of another one than @array, and is its then.
 *
 * Return: what is to be done, see &enum linnos_outcome.
 */
enum linnos_outcome linnos_complete(struct linnos_array *array, const struct io_uring_cqe *cqe,
				    struct linnos_completion *completion);

/**
 * linnos_prep_again() - prepare what a read goes on with
 * @array: an array
 * @read: from linnos_complete() or linnos_hedge_due(), once each time
 * @sqe: as for linnos_prep_read()
 *
 * Return: 0; -%EAGAIN when @sqe is NULL: it is to be called again with the same read, when what the
 * ring has was submitted.
 */
int linnos_prep_again(struct linnos_array *array, struct linnos_read *read,
		      struct io_uring_sqe *sqe);

/**
 * linnos_abandon() - forget reads whose ring is gone
 * @array: an array
 *
 * For the end: when a ring was torn down that had reads of linnos_prep_read(), no completions of
 * theirs may be given to linnos_complete() any more, and after this the array can be closed.
 * Neither
 * @user nor a result comes back. A replica may still write to the memory that these reads were
 * given, until the kernel has ended them: it is the caller's to keep, but where reads are hedged.
 */
void linnos_abandon(struct linnos_array *array);

/**
 * linnos_hedge_wait_ns() - how long may the caller sleep?
 * @array: an array
 *
 * Return: ns until linnos_hedge_due() may have a read; 0: it is time; -1: nothing is waited for.
 */
int64_t linnos_hedge_wait_ns(struct linnos_array *array);

/**
 * linnos_hedge_due() - a read that has waited long enough
 * @array: an array
 *
 * Call it until it returns NULL. What it returns is counted against the cap.
 *
 * Return: a read to be given to linnos_prep_again(), whose attempt under way goes on; or NULL.
 */
struct linnos_read *linnos_hedge_due(struct linnos_array *array);

/**
 * linnos_best() - ask the kernel which drives should serve a read that is about to be sent
 * @n_drives: how many hold the same, 1 to %LINNOS_REPLICAS_MAX
 * @fds: block devices open for reading, whole drives or partitions
 * @bytes: size of the read, not 0
 * @latency_us: NULL, or filled for each: how many us it would take there; 0: not known;
 *	UINT32_MAX: the drive is gone, or stalled
 *
 * One system call, for kernels with LinnOS and a model uploaded to each drive: it knows of all that
 * the drives have to do, where an array knows of its own reads. It needs no array. Send the read
 * soon, without the hint: a drive may be promised it, to be looked at.
 *
 * Return: a bit for each drive that no other is better than, the first the lowest; 0 when all are
 * gone; -%ENOTTY on a kernel that cannot tell; -%EBADF, -%ENOTBLK for descriptors that are not
 * what they should be; -%EINVAL.
 */
int linnos_best(unsigned int n_drives, const int *fds, size_t bytes, uint32_t *latency_us);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_H */
