/* SPDX-License-Identifier: MIT */
/**
 * DOC: liblinnos, reads from the replica that is predicted to answer first
 *
 * An array is a set of replicas that hold the same bytes at the same offsets: block devices, files,
 * or whatever a backend reads. For each of them a model of latencies (`linnapp train --kind
 * latency`, docs/formats.md) predicts from the array's own reads how long a new one would take
 * there. A read goes to the lowest prediction, fails over to the next one on an error, and, where
 * that is asked for, is hedged under a cap on extra I/O. Any Linux kernel will do;
 * docs/liblinnos.md has the whole of it. The choice without the I/O is linnos_choose.h.
 *
 * Errors are negative errno values, and linnos_error() has the text: which thing, what is wrong
 * with it, what to do. NULL in the place of an array or a queue that could not be made is such an
 * error, or means nothing to do, or zeros. The library prints nothing, ends nothing, and has no
 * state but its arrays and each thread's last error.
 *
 * Threads: an array may be used by any number of threads at once, a queue by one at a time: each
 * has its own. Reading needs no lock of others. linnos_array_close() and linnos_queue_close() want
 * what they close to themselves. An array does not survive fork(2) in the child. The thread that
 * begins reads must outlive them.
 *
 * ABI: structures that may grow carry their size, or come with it. New members are appended, and
 * zero in them is what was before. So a program that was built with an older header works. One with
 * a newer header works as long as the members that this library does not know are zero: else it is
 * refused with -%E2BIG. ..._SIZE_VER0 are the sizes of the first version.
 */
#ifndef LIBLINNOS_H
#define LIBLINNOS_H

#include "linnos_choose.h"

#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct io_uring_sqe;
struct linnos_array;
struct linnos_backend;
struct linnos_queue;
struct linnos_queue_submit_read;

/* --- Arrays -------------------------------------------------------------------------------- */

/**
 * linnos_array_open() - open an array
 * @array: set; NULL on failure
 * @n_replicas: 1 to linnos_replicas_max()
 * @paths: block devices or regular files, opened for reading, with O_DIRECT if that can be; NULL:
 *	that replica is not there, and counts as dropped for good; at least one is there. No two
 *	are the same. A shorter one is asked, and what it does not have is read from another;
 *	an empty one is refused
 * @models: a file for each, or NULL in its place, or NULL for all of them: as for
 *	linnos_predictor_create()
 * @options: NULL for the defaults
 *
 * Return: 0 or a negative errno.
 */
int linnos_array_open(struct linnos_array **array, unsigned int n_replicas,
		      const char *const *paths, const char *const *models,
		      const struct linnos_options *options);

/**
 * linnos_array_open_fds() - open an array by descriptors
 * @array: as for linnos_array_open()
 * @n_replicas: likewise
 * @fds: open for reading; the caller's, who closes them after the array; -1: it is not there
 * @models: as for linnos_array_open()
 * @options: likewise; %LINNOS_BUFFERED is of no effect
 *
 * Return: as linnos_array_open().
 */
int linnos_array_open_fds(struct linnos_array **array, unsigned int n_replicas, const int *fds,
			  const char *const *models, const struct linnos_options *options);

/**
 * struct linnos_replica - what a backend has
 * @size: sizeof(struct linnos_replica) of the caller; the members of an array lie so far apart
 * @name: for messages; NULL: its number
 * @bytes: how many it holds
 * @align_bytes: to what offsets and sizes of reads must be aligned; a power of two, 0: 1
 * @memory_align_bytes: likewise the addresses of memory, up to 4096
 */
struct linnos_replica {
	size_t size;
	const char *name;
	uint64_t bytes;
	uint32_t align_bytes;
	uint32_t memory_align_bytes;
};

/* Its size in the first version, which never changes. */
#define LINNOS_REPLICA_SIZE_VER0 32

/**
 * linnos_array_open_backend() - open an array of what a backend reads
 * @array: as for linnos_array_open()
 * @n_replicas: likewise
 * @replicas: what it has
 * @backend: outlives the array; the structure itself is copied
 * @models: as for linnos_array_open()
 * @options: likewise; %LINNOS_BUFFERED and %LINNOS_QUERY_KERNEL are refused
 *
 * Return: as linnos_array_open().
 */
int linnos_array_open_backend(struct linnos_array **array, unsigned int n_replicas,
			      const struct linnos_replica *replicas,
			      const struct linnos_backend *backend, const char *const *models,
			      const struct linnos_options *options);

/**
 * linnos_array_close() - give an array back
 * @array: an array, or NULL
 *
 * Waits for copies, and for attempts that have lost their race: the kernel still writes to their
 * memory. A replica that hangs holds it up until the kernel gives the read up.
 *
 * Return: 0; -%EBUSY, and nothing is closed, while it has queues.
 */
int linnos_array_close(struct linnos_array *array);

/**
 * linnos_array_predictor() - what an array knows of its replicas
 * @array: an array
 *
 * For linnos_predictor_drop_replica(), linnos_predictor_restore_replica(),
 * linnos_predictor_set_model(), and to choose by the same knowledge for I/O of one's own.
 *
 * Return: the array's.
 */
struct linnos_predictor *linnos_array_predictor(struct linnos_array *array);

/**
 * linnos_array_drop_replica() - leave a replica out from now on
 * @array: an array
 * @replica: from 0
 *
 * As linnos_predictor_drop_replica(). Attempts that are there already, or were prepared for there,
 * are answered and count.
 *
 * Return: 0; -%EINVAL: no such replica; -%EBUSY: it is the last one, and stays.
 */
int linnos_array_drop_replica(struct linnos_array *array, unsigned int replica);

/**
 * linnos_array_restore_replica() - take a replica back that was dropped, and copied anew
 * @array: an array
 * @replica: from 0
 *
 * Return: 0; -%EINVAL: no such replica; -%ENODEV: it was not there when the array was opened.
 */
int linnos_array_restore_replica(struct linnos_array *array, unsigned int replica);

/**
 * linnos_set_model() - exchange a replica's model, under load too
 * @array: an array
 * @replica: from 0
 * @model: a file, or NULL
 *
 * Return: 0; or a negative errno: the old one stays.
 */
int linnos_set_model(struct linnos_array *array, unsigned int replica, const char *model);

/**
 * linnos_array_write_start() - tell of a write that is about to be sent
 * @array: an array
 * @write: filled; the caller's until linnos_array_write_complete()
 * @replica: where
 * @bytes: how many
 *
 * The array writes nothing itself: predictions count it.
 *
 * Return: 0; -%EINVAL: no such replica.
 */
int linnos_array_write_start(struct linnos_array *array, struct linnos_attempt *write,
			     unsigned int replica, size_t bytes);

/**
 * linnos_array_write_complete() - tell that it has ended
 * @array: an array
 * @write: of linnos_array_write_start(), of whichever thread
 */
void linnos_array_write_complete(struct linnos_array *array, struct linnos_attempt *write);

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
 * @errors: attempts that a replica answered with an error, or not to the end
 * @failed: reads that no replica could answer
 * @in_flight: attempts at the replicas now, those included that lost their race, copies not
 * @saved_us_estimate: over @moved, the sum of what was predicted for home less what was measured
 *	elsewhere: as good as the predictions, and negative where reads had better stayed
 * @hedges_saved_us: over @hedges_won, how much later the attempt that lost was answered: measured,
 *	as far as it has been answered yet
 * @asked: reads of which the kernel told how long they would take on some replica
 * @without_ring: hedged reads of linnos_pread() that were only read, and copies that were not sent,
 *	because the kernel gave no ring for them: descriptors or memory are short
 * @not_choosing: replicas that have no model, or one without trees: no read leaves them for
 *	another, nor another for them, unless one fails or hangs
 * @stayed: reads that would have left home for a lower prediction and stayed by lot, see
 *	%LINNOS_UNGUARDED
 * @late: reads that were over by their deadline, without an answer
 * @cancelled: attempts that were taken back because another one had won, or time was over
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
	uint64_t errors;
	uint64_t failed;
	uint64_t in_flight;
	int64_t saved_us_estimate;
	uint64_t hedges_saved_us;
	uint64_t asked;
	uint64_t without_ring;
	uint64_t not_choosing;
	uint64_t stayed;
	uint64_t late;
	uint64_t cancelled;
};

/**
 * linnos_array_get_stats() - count what an array has done, in all its queues
 * @array: an array
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_stats) of the caller
 */
void linnos_array_get_stats(struct linnos_array *array, struct linnos_stats *stats, size_t bytes);

/**
 * linnos_array_get_replica_stats() - count what a replica has done
 * @array: an array
 * @replica: from 0
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_replica_stats) of the caller
 *
 * linnos_predictor_get_histogram() of linnos_array_predictor() has its latencies.
 *
 * Return: 0; -%EINVAL: no such replica.
 */
int linnos_array_get_replica_stats(struct linnos_array *array, unsigned int replica,
				   struct linnos_replica_stats *stats, size_t bytes);

/**
 * linnos_array_size() - size of an array
 * @array: an array
 *
 * Return: bytes that the largest replica held when it was opened.
 */
uint64_t linnos_array_size(const struct linnos_array *array);

/**
 * linnos_array_queries_kernel() - is the kernel asked?
 * @array: an array
 *
 * Return: 1 when %LINNOS_QUERY_KERNEL was given, all replicas are block devices and the kernel has
 * LinnOS, else 0.
 */
int linnos_array_queries_kernel(const struct linnos_array *array);

/* --- Queues -------------------------------------------------------------------------------- */

/**
 * struct linnos_queue_options - how a queue reads
 * @size: sizeof(struct linnos_queue_options) of the caller
 * @n_buffers: registered buffers
 * @buffers: where they are: of its own ring the library registers them, of the caller's ring the
 *	caller has; a read into one of them needs no pages looked up. Kept by the caller
 * @first_buffer: of the caller's ring, the index of the first of them
 * @register_files: 1: files and devices are registered in its own ring
 * @reserved: zero
 * @fixed_files: NULL, or for each replica its index in the caller's ring's registered files; copied
 */
struct linnos_queue_options {
	size_t size;
	uint32_t n_buffers;
	uint32_t first_buffer;
	const struct iovec *buffers;
	uint32_t register_files;
	uint32_t reserved;
	const int *fixed_files;
};

/* Its size in the first version, which never changes. */
#define LINNOS_QUEUE_OPTIONS_SIZE_VER0 40

/* The defaults, which are also those of NULL. */
#define LINNOS_QUEUE_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct linnos_queue_options), 0, 0, 0, 0, 0, 0                              \
	}

/**
 * linnos_queue_create() - a thread begins to read an array
 * @queue: set; NULL on failure
 * @array: outlives it
 * @options: NULL for the defaults
 *
 * Its own ring is made when a call first needs one.
 *
 * Return: 0 or a negative errno.
 */
int linnos_queue_create(struct linnos_queue **queue, struct linnos_array *array,
			const struct linnos_queue_options *options);

/**
 * linnos_queue_close() - a thread ends to read it
 * @queue: or NULL
 *
 * Return: 0; -%EBUSY, and nothing is closed, while reads of linnos_queue_submit_read() have not
 * come back by linnos_queue_wait(), or attempts of linnos_queue_prep_read() have no
 * linnos_queue_complete(): see linnos_queue_abandon_reads().
 */
int linnos_queue_close(struct linnos_queue *queue);

/* For &linnos_read_options.flags; also %LINNOS_NEVER_HEDGE. */

/**
 * struct linnos_read_options - how one read is served
 * @size: sizeof(struct linnos_read_options) of the caller
 * @flags: %LINNOS_NEVER_HEDGE or 0
 * @home: its home replica; %LINNOS_DEFAULT_ROUND_ROBIN: as the array's option has it
 * @deadline_ns: after so many ns it is over, with -%ETIME, if there is no answer; 0: never
 * @sqe_flags: of linnos_queue_prep_read(): IOSQE_ASYNC, IOSQE_IO_DRAIN; links, skipped completions
 *and selected buffers are refused: which attempt will serve the read is not known beforehand
 * @ioprio: of its attempts, as in an entry of io_uring
 */
struct linnos_read_options {
	size_t size;
	uint32_t flags;
	int32_t home;
	uint64_t deadline_ns;
	uint32_t sqe_flags;
	uint32_t ioprio;
};

/* Its size in the first version, which never changes. */
#define LINNOS_READ_OPTIONS_SIZE_VER0 32

#define LINNOS_READ_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(struct linnos_read_options), 0, LINNOS_DEFAULT_ROUND_ROBIN, 0, 0, 0         \
	}

/**
 * linnos_pread() - read from the replica that is predicted to answer first
 * @queue: the thread's
 * @buf: of any alignment
 * @bytes: of any size; at most 0x7ffff000 are read
 * @offset: in bytes, of any alignment
 *
 * When a replica answers with an error, or ends before @bytes while others do not, the read goes to
 * the next best replica. Only reads of up to 1 MiB are hedged. A read that is not aligned as
 * O_DIRECT requires on that replica goes through the library's memory, and so does every hedged
 * read.
 *
 * Return: @bytes; fewer, 0 among it, only where the replicas end; -%EINVAL, -%EFAULT, -%ENOMEM, or
 * the last replica's error when all have failed.
 */
ssize_t linnos_pread(struct linnos_queue *queue, void *buf, size_t bytes, off_t offset);

/**
 * linnos_preadv() - likewise, into several places, and as this read wants it
 * @queue: the thread's
 * @iov: where to
 * @n_iov: how many there are, 1 to 1024
 * @offset: as for linnos_pread()
 * @options: NULL for the defaults
 *
 * Return: as linnos_pread(); -%ETIME at its deadline, when nothing has been written to @iov and
 * nothing will be.
 */
ssize_t linnos_preadv(struct linnos_queue *queue, const struct iovec *iov, int n_iov, off_t offset,
		      const struct linnos_read_options *options);

/**
 * enum linnos_outcome - what a completion means
 * @LINNOS_READ_DONE: the read is over; &linnos_completion.result has its bytes, or why there are
 *none
 * @LINNOS_READ_RESUBMIT: &linnos_completion.read goes on at another replica, or at the same for its
 *rest: give it to linnos_queue_prep_retry()
 * @LINNOS_READ_PENDING: an attempt of a read that is over, or that another attempt is still under
 *way for
 */
enum linnos_outcome {
	LINNOS_READ_DONE,
	LINNOS_READ_RESUBMIT,
	LINNOS_READ_PENDING,
};

/**
 * struct linnos_completion - filled by linnos_queue_wait(), linnos_queue_complete() and
 *linnos_queue_next_expired()
 * @user: as given with the read; NULL with %LINNOS_READ_PENDING
 * @queue: the read's; NULL where it is not known
 * @read: with %LINNOS_READ_RESUBMIT, for linnos_queue_prep_retry()
 * @result: with %LINNOS_READ_DONE, as linnos_preadv() returns it
 * @replica: with %LINNOS_READ_DONE, who answered or failed last
 * @error_text: with %LINNOS_READ_DONE and a negative @result, why, as linnos_error() has it of a
 *call; it is the library's, and valid until the next read of the queue begins or the queue is
 *	closed; else NULL
 * @reserved: zeros
 */
struct linnos_completion {
	void *user;
	struct linnos_queue *queue;
	struct linnos_read *read;
	ssize_t result;
	uint32_t replica;
	const char *error_text;
	uint32_t reserved[4];
};

/**
 * linnos_queue_submit_read() - begin a read in the queue's own ring, or by its backend
 * @queue: the thread's
 * @iov: where to; both the array and the memory are the library's until the read comes back
 * @n_iov: likewise
 * @offset: as for linnos_pread()
 * @options: NULL for the defaults
 * @user: comes back in &linnos_completion.user
 *
 * It is submitted by linnos_queue_wait() at the latest.
 *
 * Return: 0 or a negative errno.
 */
int linnos_queue_submit_read(struct linnos_queue *queue, const struct iovec *iov, int n_iov,
			     off_t offset, const struct linnos_read_options *options, void *user);

/**
 * linnos_queue_wait() - wait for reads of linnos_queue_submit_read()
 * @queue: the thread's
 * @completions: filled
 * @n_completions: how many there is room for
 * @timeout_ns: 0: do not wait; below 0: for ever
 *
 * Return: how many have come back; 0: none has, in this time; or a negative errno.
 */
int linnos_queue_wait(struct linnos_queue *queue, struct linnos_completion *completions,
		      unsigned int n_completions, int64_t timeout_ns);

/* --- Reads in the caller's io_uring --------------------------------------------------------- */

/**
 * linnos_queue_prep_read() - prepare a read for the caller's io_uring
 * @queue: the thread's
 * @sqe: a free entry of the caller's ring; submit it soon, since predictions count it from now on
 * @iov: as for linnos_queue_submit_read()
 * @n_iov: likewise
 * @offset: likewise
 * @options: NULL for the defaults
 * @user: comes back in &linnos_completion.user
 *
 * The entry's user_data is then a handle for linnos_queue_complete(), a multiple of 64. It is the
 * caller's, who may add a mark of his own below that, or keep the handle elsewhere and put what he
 * likes in its place.
 *
 * Return: 0; -%EAGAIN when @sqe is NULL, since the ring is full: nothing has begun; or another
 * negative errno: @sqe then is a no-op, whose handle is 0: its completion is %LINNOS_READ_PENDING.
 */
int linnos_queue_prep_read(struct linnos_queue *queue, struct io_uring_sqe *sqe,
			   const struct iovec *iov, int n_iov, off_t offset,
			   const struct linnos_read_options *options, void *user);

/**
 * linnos_queue_complete() - hear how an attempt ended
 * @handle: which linnos_queue_prep_read() or linnos_queue_prep_retry() has put into the entry
 * @result: of its completion
 * @completion: filled; queues of several arrays may share a ring, and it says whose this is
 *
 * Return: what is to be done, see &enum linnos_outcome.
 */
enum linnos_outcome linnos_queue_complete(uint64_t handle, int result,
					  struct linnos_completion *completion);

/**
 * linnos_queue_prep_retry() - prepare what a read goes on with
 * @read: from linnos_queue_complete() or linnos_queue_next_expired(), once each time
 * @sqe: as for linnos_queue_prep_read()
 *
 * Return: 0; -%EAGAIN when @sqe is NULL: it is to be called again with the same read, when what the
 * ring has was submitted. When the read is over by then, @sqe is a no-op, and @read gone.
 */
int linnos_queue_prep_retry(struct linnos_read *read, struct io_uring_sqe *sqe);

/**
 * linnos_queue_next_timeout_ns() - how long may the caller sleep?
 * @queue: the thread's
 *
 * Return: ns until linnos_queue_next_expired() may have something; 0: it is time; -1: nothing is
 * waited for.
 */
int64_t linnos_queue_next_timeout_ns(struct linnos_queue *queue);

/**
 * linnos_queue_next_expired() - a read that has waited long enough
 * @queue: the thread's
 * @completion: filled
 *
 * Call it until it returns %LINNOS_READ_PENDING.
 *
 * Return: %LINNOS_READ_RESUBMIT: &linnos_completion.read is hedged, which counts against the cap:
 * give it to linnos_queue_prep_retry(), its attempt under way goes on; %LINNOS_READ_DONE: a read's
 * deadline has come.
 */
enum linnos_outcome linnos_queue_next_expired(struct linnos_queue *queue,
					      struct linnos_completion *completion);

/**
 * linnos_queue_next_orphan() - an attempt that nobody waits for any more
 * @queue: the thread's
 *
 * For who wants to cancel it, by io_uring_prep_cancel64() of the user_data that its entry had. Its
 * completion comes in any case, and is linnos_queue_complete()'s.
 *
 * Return: its handle, each once; 0: there is none.
 */
uint64_t linnos_queue_next_orphan(struct linnos_queue *queue);

/**
 * linnos_queue_abandon_reads() - forget reads whose ring is gone
 * @queue: the thread's
 *
 * For the end: when a ring was torn down that had reads of linnos_queue_prep_read(), no completions
 * of theirs may be given to linnos_queue_complete() any more, and after this the queue can be
 * closed. Neither @user nor a result comes back. A replica may still write to the memory that these
 * reads were given, until the kernel has ended them: it is the caller's to keep, but where reads
 * are hedged or have deadlines.
 */
void linnos_queue_abandon_reads(struct linnos_queue *queue);

/* --- Backends ------------------------------------------------------------------------------ */

/**
 * struct linnos_request - an attempt, for a backend to serve
 * @handle: for linnos_request_complete(); not 0
 * @offset: in bytes, aligned as the replica wants it
 * @bytes: how many, likewise
 * @buf: where to, likewise; the backend's until linnos_request_complete()
 * @replica: whose
 * @reserved: zero
 */
struct linnos_request {
	uint64_t handle;
	uint64_t offset;
	size_t bytes;
	void *buf;
	uint32_t replica;
	uint32_t reserved;
};

/**
 * struct linnos_backend - what reads replicas
 * @size: sizeof(struct linnos_backend) of the caller
 * @context: for @now_ns and @open
 * @now_ns: the time, not 0, as all its threads see it; NULL: CLOCK_MONOTONIC
 * @open: makes one thread's part of it, *queue; 0 or a negative errno
 * @close: gives it back; nothing is under way there
 * @submit: begins to serve a request, which ends by linnos_request_complete(), from @wait only; 0;
 *-%EAGAIN: there is no room for it now, and it is submitted again after the next @wait; or another
 *	negative errno: it is as if the replica had failed it with that
 * @cancel: NULL, or what is under way need not be served any more, but must be ended soon, with
 *	-%ECANCELED if it was not served
 * @wait: returns when something has ended, or the time is over: for ever if it is below 0; 0 or a
 *	negative errno
 * @fd: NULL, or the descriptor that becomes readable when something has ended, so that the array's
 *	thread can wait for what has lost a race; else that is heard of by the queue's next call
 */
struct linnos_backend {
	size_t size;
	void *context;
	uint64_t (*now_ns)(void *context);
	int (*open)(void *context, void **queue);
	void (*close)(void *queue);
	int (*submit)(void *queue, const struct linnos_request *request);
	void (*cancel)(void *queue, uint64_t handle);
	int (*wait)(void *queue, int64_t timeout_ns);
	int (*fd)(void *queue);
};

/* Its size in the first version, which never changes. */
#define LINNOS_BACKEND_SIZE_VER0 72

/**
 * linnos_request_complete() - a request has been served, or not
 * @handle: its
 * @result: how many bytes have been read from its beginning on, or a negative errno
 */
void linnos_request_complete(uint64_t handle, ssize_t result);

/* --- Asking the kernel ----------------------------------------------------------------------- */

/**
 * linnos_kernel_best_drives() - ask the kernel which drives should serve a read that is about to be
 *sent
 * @n_drives: how many hold the same, 1 to 16
 * @fds: block devices open for reading, whole drives or partitions
 * @bytes: size of the read, not 0
 * @latency_us: NULL, or filled for each: how many us it would take there; 0: not known;
 *	UINT32_MAX: the drive is gone, or stalled
 *
 * One system call, for kernels with LinnOS and a model uploaded to each drive: it knows of all that
 * the drives have to do, where an array knows of its own reads. It needs no array. Send the read
 * soon and without RWF_LATCRIT: the kernel may have promised it to a drive as a probe.
 *
 * Return: a bit for each drive that no other is better than, the first the lowest; 0 when all are
 * gone; -%ENOTTY on a kernel that cannot tell; -%EBADF, -%ENOTBLK for descriptors that are not
 * what they should be; -%EINVAL.
 */
int linnos_kernel_best_drives(unsigned int n_drives, const int *fds, size_t bytes,
			      uint32_t *latency_us);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_H */
