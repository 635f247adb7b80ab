/* SPDX-License-Identifier: MIT */
/**
 * DOC: liblinnos, read from the replica that is predicted to answer first
 *
 * An array is a set of replicas that hold the same bytes at the same offsets: block devices, files,
 * or anything that a backend reads. For each replica a latency model (`linnapp train --kind
 * latency`, docs/formats.md) predicts from the array's own reads how long a new read would take
 * there. A read is sent to the replica with the lowest prediction and fails over to the next one on
 * an error. If the options ask for it, reads are hedged under a cap on extra I/O. Any Linux kernel
 * will do. docs/liblinnos.md is the complete description. linnos_choose.h has the choice without
 * the I/O.
 *
 * Errors are negative errno values, and linnos_error() returns the message: which object, what is
 * wrong with it, what to do. If an array or a queue could not be created and the resulting NULL is
 * passed to a function, the call fails with an error, does nothing, or returns zeros. The library
 * prints nothing, never ends the program, and has no state except its arrays and the last error of
 * each thread.
 *
 * Threads: an array may be used by any number of threads at once, a queue by one thread at a time,
 * so that each thread needs its own. A read takes no lock of the whole array, however it is hedged.
 * When it completes, and when the guard assigns it to a group, it takes a spin lock for a short
 * time. Probe copies, and attempts that outlive their reads, are handed over to another thread
 * under a mutex. No other thread may use an array or a queue during linnos_array_close() or
 * linnos_queue_close(). After fork(2) the child cannot use the array. The thread that begins reads
 * must not exit before they complete.
 *
 * ABI: structures that may grow contain their size or are passed together with it. New members are
 * appended, and zero in a new member selects the previous behaviour. A program that was built with
 * an older header therefore works. A program that was built with a newer header works unless it
 * sets a member that this library does not have; such a call fails with -%E2BIG. The
 * ..._SIZE_VER0 constants are the sizes of the first version.
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
struct linnos_read;

/* --- Arrays -------------------------------------------------------------------------------- */

/**
 * linnos_array_open() - open an array
 * @array: set to the array; NULL on failure
 * @n_replicas: 1 to linnos_replicas_max()
 * @paths: block devices or regular files. They are opened for reading, with O_DIRECT if possible.
 *	NULL in place of a path means that the replica is absent; it counts as dropped for as long
 *	as the array is open. At least one replica must be present, and no two may be the same. A
 *	replica may be shorter than the others: a read beyond its end is sent to another one. An
 *	empty replica is rejected if another one is not empty.
 * @models: for each replica a model file or NULL, or NULL for all of them, as for
 *	linnos_predictor_create()
 * @options: NULL for the defaults
 *
 * Return: 0 or a negative errno.
 */
int linnos_array_open(struct linnos_array **array, unsigned int n_replicas,
		      const char *const *paths, const char *const *models,
		      const struct linnos_options *options);

/**
 * linnos_array_open_fds() - open an array from file descriptors
 * @array: as for linnos_array_open()
 * @n_replicas: as for linnos_array_open()
 * @fds: descriptors that are open for reading, or -1 if a replica is absent. The caller keeps them
 *	open until the array is closed and then closes them.
 * @models: as for linnos_array_open()
 * @options: as for linnos_array_open(); %LINNOS_BUFFERED has no effect
 *
 * Return: as linnos_array_open().
 */
int linnos_array_open_fds(struct linnos_array **array, unsigned int n_replicas, const int *fds,
			  const char *const *models, const struct linnos_options *options);

/**
 * struct linnos_replica - a replica of a backend
 * @size: sizeof(struct linnos_replica) of the caller. The library uses that of the first replica
 *	to find the following ones.
 * @name: name in messages; NULL to use its number
 * @bytes: its size
 * @align_bytes: required alignment of offsets and sizes of reads; a power of two, or 0 for no
 *	requirement
 * @memory_align_bytes: required alignment of memory addresses; a power of two up to 4096, or 0 for
 *	no requirement
 */
struct linnos_replica {
	size_t size;
	const char *name;
	uint64_t bytes;
	uint32_t align_bytes;
	uint32_t memory_align_bytes;
};

/* The size in the first version. It never changes. */
#define LINNOS_REPLICA_SIZE_VER0 32

/**
 * linnos_array_open_backend() - open an array of replicas that a backend reads
 * @array: as for linnos_array_open()
 * @n_replicas: as for linnos_array_open()
 * @replicas: the replicas of the backend
 * @backend: the structure is copied; the functions and the context must outlive the array
 * @models: as for linnos_array_open()
 * @options: as for linnos_array_open(); %LINNOS_BUFFERED and %LINNOS_QUERY_KERNEL are rejected
 *
 * Return: as linnos_array_open().
 */
int linnos_array_open_backend(struct linnos_array **array, unsigned int n_replicas,
			      const struct linnos_replica *replicas,
			      const struct linnos_backend *backend, const char *const *models,
			      const struct linnos_options *options);

/**
 * linnos_array_close() - close an array and free its memory
 * @array: an array, or NULL
 *
 * This call waits for probe copies (&linnos_options.probe_after_ms) and for the slower attempts of
 * hedged reads, because the kernel still writes to their memory. If a replica hangs, the call
 * returns only when the kernel fails the read.
 *
 * Return: 0; -%EBUSY while the array has queues, and nothing is closed.
 */
int linnos_array_close(struct linnos_array *array);

/**
 * linnos_array_predictor() - get the predictor of an array
 * @array: an array
 *
 * The functions of linnos_choose.h accept it. For example, a chooser for this predictor chooses
 * replicas for I/O that bypasses the array, and shares the history of the replicas with the array.
 *
 * Return: the predictor, which belongs to the array.
 */
struct linnos_predictor *linnos_array_predictor(struct linnos_array *array);

/**
 * linnos_array_drop_replica() - stop sending reads to a replica
 * @array: an array
 * @replica: from 0
 *
 * As linnos_predictor_drop_replica(). Attempts that are already in flight at the replica, or
 * prepared for it, are completed and counted.
 *
 * Return: 0; -%EINVAL if there is no such replica; -%EBUSY if all other replicas have been dropped.
 */
int linnos_array_drop_replica(struct linnos_array *array, unsigned int replica);

/**
 * linnos_array_restore_replica() - use a dropped replica again after its data was restored
 * @array: an array
 * @replica: from 0
 *
 * Return: 0; -%EINVAL if there is no such replica; -%ENODEV if it was absent when the array was
 * opened.
 */
int linnos_array_restore_replica(struct linnos_array *array, unsigned int replica);

/**
 * linnos_set_model() - replace the model of a replica, also under load
 * @array: an array
 * @replica: from 0
 * @model: a file, or NULL
 *
 * Return: 0; or a negative errno, and the old model stays in use.
 */
int linnos_set_model(struct linnos_array *array, unsigned int replica, const char *model);

/**
 * linnos_array_write_start() - report a write that is about to be sent
 * @array: an array
 * @write: filled by the library; the caller keeps it until linnos_array_write_complete()
 * @replica: where the write is sent
 * @bytes: its size
 *
 * The array writes nothing itself. Until the write completes, predictions for the replica include
 * it as load.
 *
 * Return: 0; -%EINVAL if there is no such replica.
 */
int linnos_array_write_start(struct linnos_array *array, struct linnos_attempt *write,
			     unsigned int replica, size_t bytes);

/**
 * linnos_array_write_complete() - report that a write has completed
 * @array: an array
 * @write: the write, from linnos_array_write_start() of any thread
 */
void linnos_array_write_complete(struct linnos_array *array, struct linnos_attempt *write);

/**
 * struct linnos_stats - statistics of an array since it was opened
 * @reads: reads begun
 * @bytes: bytes returned to callers
 * @redirected: reads that were redirected from their default replica because another one had a
 *	lower prediction, or because the default replica had failed or hung
 * @probes: probe copies, that is, copies of reads sent to replicas that had completed nothing for
 *	a while; without io_uring, users' reads that were sent there instead
 * @hedges: second attempts sent because the first had not been answered in time
 * @hedges_won: second attempts that were answered first
 * @hedges_denied: second attempts that were not sent because of the cap
 * @failovers: attempts sent because an earlier attempt of the same read had failed
 * @errors: attempts that a replica completed with an error or with too few bytes
 * @failed: reads that ended with an error, including @late
 * @in_flight: attempts in flight now, including the slower attempts of hedged reads, but not probe
 *	copies
 * @saved_us_estimate: sum over @redirected of the latency predicted for the default replica minus
 *	the latency measured at the other one. It is only as accurate as the predictions, and
 *	negative if redirection made reads slower.
 * @hedges_saved_us: sum over @hedges_won of the time from the answer of the hedge to that of the
 *	other attempt. It is measured, and therefore includes only other attempts that have been
 *	answered, or that were overdue when they were cancelled.
 * @queried: reads for which the kernel returned a prediction for at least one replica
 * @without_ring: reads of linnos_pread() that could not be hedged, and probe copies that could not
 *	be sent, because the kernel could not create a ring (too few descriptors or too little
 *	memory)
 * @not_choosing: replicas without a model. No read is redirected from or to them unless its default
 *	replica fails or hangs.
 * @control: reads that another replica was predicted to answer faster, but that were randomly
 *	assigned to the control group at their default replica, see %LINNOS_UNGUARDED
 * @late: reads that ended at their deadline without an answer
 * @cancelled: attempts that were cancelled because another one was answered first or the deadline
 *	had passed
 */
struct linnos_stats {
	uint64_t reads;
	uint64_t bytes;
	uint64_t redirected;
	uint64_t probes;
	uint64_t hedges;
	uint64_t hedges_won;
	uint64_t hedges_denied;
	uint64_t failovers;
	uint64_t errors;
	uint64_t failed;
	uint64_t in_flight;
	int64_t saved_us_estimate;
	uint64_t hedges_saved_us;
	uint64_t queried;
	uint64_t without_ring;
	uint64_t not_choosing;
	uint64_t control;
	uint64_t late;
	uint64_t cancelled;
};

/**
 * linnos_array_get_stats() - get the statistics of an array, summed over its queues
 * @array: an array
 * @stats: filled with the members that this library has; the rest is zeroed
 * @bytes: sizeof(struct linnos_stats) of the caller
 */
void linnos_array_get_stats(struct linnos_array *array, struct linnos_stats *stats, size_t bytes);

/**
 * linnos_array_get_replica_stats() - get the statistics of a replica
 * @array: an array
 * @replica: from 0
 * @stats: filled with the members that this library has; the rest is zeroed
 * @bytes: sizeof(struct linnos_replica_stats) of the caller
 *
 * For its latencies call linnos_predictor_get_histogram() with linnos_array_predictor().
 *
 * Return: 0; -%EINVAL if there is no such replica.
 */
int linnos_array_get_replica_stats(struct linnos_array *array, unsigned int replica,
				   struct linnos_replica_stats *stats, size_t bytes);

/**
 * linnos_array_size() - get the size of an array
 * @array: an array
 *
 * Return: the size in bytes of the largest replica when it was opened.
 */
uint64_t linnos_array_size(const struct linnos_array *array);

/**
 * linnos_array_queries_kernel() - check whether the array queries the kernel
 * @array: an array
 *
 * Return: 1 if %LINNOS_QUERY_KERNEL was given, all replicas are block devices and the kernel has
 * LinnOS, else 0.
 */
int linnos_array_queries_kernel(const struct linnos_array *array);

/* --- Queues -------------------------------------------------------------------------------- */

/**
 * struct linnos_queue_options - how a queue reads
 * @size: sizeof(struct linnos_queue_options) of the caller
 * @n_buffers: number of registered buffers
 * @buffers: the buffers. The kernel need not look up their pages for each read. The library
 *	registers them in the queue's own ring. For reads in the caller's ring, the caller must have
 *	registered them there. The buffers and this array must exist as long as the queue.
 * @first_buffer: index of the first buffer among those registered in the caller's ring
 * @register_files: 1 to register the files and devices in the queue's own ring
 * @reserved: zero
 * @fixed_files: NULL, or for each replica its index among the registered files of the caller's
 *	ring. The array is copied.
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

/* The size in the first version. It never changes. */
#define LINNOS_QUEUE_OPTIONS_SIZE_VER0 40

/* The defaults, which NULL selects as well. */
#define LINNOS_QUEUE_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct linnos_queue_options), 0, 0, 0, 0, 0, 0                              \
	}

/**
 * linnos_queue_create() - create a queue for one thread
 * @queue: set to the queue; NULL on failure
 * @array: must outlive the queue
 * @options: NULL for the defaults
 *
 * The queue's own ring is created when a call first needs it, or at once if files or buffers must
 * be registered in it.
 *
 * Return: 0 or a negative errno.
 */
int linnos_queue_create(struct linnos_queue **queue, struct linnos_array *array,
			const struct linnos_queue_options *options);

/**
 * linnos_queue_close() - close a queue
 * @queue: a queue, or NULL
 *
 * The queue can be closed once linnos_queue_wait() has returned all reads of
 * linnos_queue_submit_read(), and linnos_queue_complete() has received the completions of all
 * attempts in the caller's ring. If these will never arrive, call linnos_queue_abandon_reads().
 *
 * Return: 0; -%EBUSY if the queue cannot be closed yet, and it stays usable.
 */
int linnos_queue_close(struct linnos_queue *queue);

/**
 * struct linnos_read_options - how one read is served
 * @size: sizeof(struct linnos_read_options) of the caller
 * @flags: %LINNOS_NEVER_HEDGE or 0
 * @home: its default replica, or %LINNOS_DEFAULT_ROUND_ROBIN to use the option of the array
 * @deadline_ns: end the read with -%ETIME if there is no answer after this many ns; 0 for no
 *	deadline
 * @sqe_flags: for linnos_queue_prep_read(): IOSQE_ASYNC, IOSQE_IO_DRAIN. Links, skipped completions
 *	and selected buffers are rejected, because it is not known in advance which attempt will
 *	serve the read.
 * @ioprio: I/O priority of its attempts, as in an io_uring entry
 */
struct linnos_read_options {
	size_t size;
	uint32_t flags;
	int32_t home;
	uint64_t deadline_ns;
	uint32_t sqe_flags;
	uint32_t ioprio;
};

/* The size in the first version. It never changes. */
#define LINNOS_READ_OPTIONS_SIZE_VER0 32

#define LINNOS_READ_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(struct linnos_read_options), 0, LINNOS_DEFAULT_ROUND_ROBIN, 0, 0, 0         \
	}

/**
 * linnos_pread() - read from the replica that is predicted to answer first
 * @queue: the queue of this thread
 * @buf: memory of any alignment
 * @bytes: any size; at most 0x7ffff000 bytes are read
 * @offset: in bytes, of any alignment
 *
 * If a replica returns an error, or is too short for the read while another one is not, the read is
 * sent to the next best replica. Only reads of up to 1 MiB are hedged. A read is served through the
 * library's memory and then copied if it does not have the alignment that O_DIRECT requires on the
 * replica, or if it may be hedged.
 *
 * Return: @bytes; fewer, including 0, only if the read extends beyond the end of the largest
 * replica; -%EINVAL, -%EFAULT, -%ENOMEM, or the error of the last replica if all have failed.
 */
ssize_t linnos_pread(struct linnos_queue *queue, void *buf, size_t bytes, off_t offset);

/**
 * linnos_preadv() - read into several buffers, with options for this read
 * @queue: the queue of this thread
 * @iov: the buffers
 * @n_iov: number of buffers, 1 to 1024
 * @offset: as for linnos_pread()
 * @options: NULL for the defaults
 *
 * Return: as linnos_pread(); -%ETIME if the deadline has passed. Nothing has been written to the
 * buffers then, and nothing will be.
 */
ssize_t linnos_preadv(struct linnos_queue *queue, const struct iovec *iov, int n_iov, off_t offset,
		      const struct linnos_read_options *options);

/**
 * enum linnos_outcome - meaning of a completion
 * @LINNOS_READ_DONE: the read is complete; &linnos_completion.result is its number of bytes or its
 *	error
 * @LINNOS_READ_RESUBMIT: &linnos_completion.read continues at another replica, or at the same one
 *	with the remaining bytes. Pass it to linnos_queue_prep_retry().
 * @LINNOS_READ_PENDING: nothing to do: the attempt belongs to a read that is already complete, or
 *	another attempt of the read is still in flight
 */
enum linnos_outcome {
	LINNOS_READ_DONE,
	LINNOS_READ_RESUBMIT,
	LINNOS_READ_PENDING,
};

/**
 * struct linnos_completion - filled by linnos_queue_wait(), linnos_queue_complete() and
 * linnos_queue_next_expired()
 * @user: the pointer given with the read; NULL with %LINNOS_READ_PENDING
 * @queue: the queue of the read; NULL if it is not known
 * @read: with %LINNOS_READ_RESUBMIT, the argument for linnos_queue_prep_retry()
 * @result: with %LINNOS_READ_DONE, the value that linnos_preadv() would return
 * @replica: with %LINNOS_READ_DONE, the replica that answered, or failed last
 * @error_text: with %LINNOS_READ_DONE and a negative @result, the message: the read, the replica
 *	that failed last, what has failed there, and the text of the errno. It belongs to the
 *	library and is valid until the next read of the queue begins or the queue is closed.
 *	Otherwise NULL.
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
 * linnos_queue_submit_read() - begin a read in the queue's own ring or through its backend
 * @queue: the queue of this thread
 * @iov: the buffers; the library uses the array and the buffers until the read completes
 * @n_iov: number of buffers, 1 to 1024
 * @offset: as for linnos_pread()
 * @options: NULL for the defaults
 * @user: returned in &linnos_completion.user
 *
 * The read is submitted by linnos_queue_wait() at the latest.
 *
 * Return: 0 or a negative errno.
 */
int linnos_queue_submit_read(struct linnos_queue *queue, const struct iovec *iov, int n_iov,
			     off_t offset, const struct linnos_read_options *options, void *user);

/**
 * linnos_queue_wait() - wait for reads of linnos_queue_submit_read()
 * @queue: the queue of this thread
 * @completions: filled with the reads that have completed
 * @n_completions: number of elements in @completions
 * @timeout_ns: 0 to return at once, negative to wait without a limit
 *
 * Return: the number of reads that have completed; 0 if none has within this time; or a negative
 * errno.
 */
int linnos_queue_wait(struct linnos_queue *queue, struct linnos_completion *completions,
		      unsigned int n_completions, int64_t timeout_ns);

/* --- Reads in the caller's io_uring --------------------------------------------------------- */

/**
 * linnos_queue_prep_read() - prepare a read for the caller's io_uring
 * @queue: the queue of this thread
 * @sqe: a free entry of the caller's ring. Submit it soon, because predictions count the read as in
 *	flight from this call on.
 * @iov: as for linnos_queue_submit_read()
 * @n_iov: as for linnos_queue_submit_read()
 * @offset: as for linnos_pread()
 * @options: NULL for the defaults
 * @user: returned in &linnos_completion.user
 *
 * The entry's user_data is set to a handle for linnos_queue_complete(), a multiple of 64. The
 * caller may store a tag in its low six bits, or keep the handle elsewhere and replace it.
 *
 * Return: 0; -%EAGAIN if @sqe is NULL because the ring is full, in which case no read has begun; or
 * another negative errno. After any other error @sqe is a no-op with the handle 0, for which
 * linnos_queue_complete() returns %LINNOS_READ_PENDING.
 */
int linnos_queue_prep_read(struct linnos_queue *queue, struct io_uring_sqe *sqe,
			   const struct iovec *iov, int n_iov, off_t offset,
			   const struct linnos_read_options *options, void *user);

/**
 * linnos_queue_complete() - process the completion of an attempt
 * @handle: the handle that linnos_queue_prep_read() or linnos_queue_prep_retry() has stored in the
 *	entry
 * @result: result of the completion
 * @completion: filled. Queues of several arrays may share a ring; this structure contains the queue
 *	of the read.
 *
 * Return: what the caller must do, see &enum linnos_outcome.
 */
enum linnos_outcome linnos_queue_complete(uint64_t handle, int result,
					  struct linnos_completion *completion);

/**
 * linnos_queue_prep_retry() - prepare the next attempt of a read
 * @read: from linnos_queue_complete() or linnos_queue_next_expired(). Each time one of them returns
 *	the read, this function must be called once with an entry.
 * @sqe: as for linnos_queue_prep_read()
 *
 * If the read has completed in the meantime, @sqe becomes a no-op, and @read must not be used after
 * the call.
 *
 * Return: 0; -%EAGAIN if @sqe is NULL. In this case submit the entries of the ring and repeat the
 * call with the same read.
 */
int linnos_queue_prep_retry(struct linnos_read *read, struct io_uring_sqe *sqe);

/**
 * linnos_queue_next_timeout_ns() - get the time until a hedge or a deadline is due
 * @queue: the queue of this thread
 *
 * Return: ns until linnos_queue_next_expired() should be called; 0 if it should be called now; -1
 * if no read waits for a hedge or a deadline.
 */
int64_t linnos_queue_next_timeout_ns(struct linnos_queue *queue);

/**
 * linnos_queue_next_expired() - get the next read whose hedge or deadline is due
 * @queue: the queue of this thread
 * @completion: filled
 *
 * Call it until it returns %LINNOS_READ_PENDING.
 *
 * Return: %LINNOS_READ_RESUBMIT if &linnos_completion.read must be hedged: pass it to
 * linnos_queue_prep_retry(). Its first attempt stays in flight, and the hedge has been counted
 * against the cap. %LINNOS_READ_DONE if the deadline of a read has passed. %LINNOS_READ_PENDING if
 * nothing is due.
 */
enum linnos_outcome linnos_queue_next_expired(struct linnos_queue *queue,
					      struct linnos_completion *completion);

/**
 * linnos_queue_next_orphan() - get the next attempt whose read is already complete
 * @queue: the queue of this thread
 *
 * The caller can cancel it with io_uring_prep_cancel64() and the user_data of its entry. Its
 * completion arrives in any case and must be passed to linnos_queue_complete().
 *
 * Return: its handle, once for each such attempt; 0 if there is none.
 */
uint64_t linnos_queue_next_orphan(struct linnos_queue *queue);

/**
 * linnos_queue_abandon_reads() - discard reads whose ring no longer exists
 * @queue: the queue of this thread
 *
 * Call this after a ring with reads of linnos_queue_prep_read() was torn down. It discards these
 * reads: neither their @user nor a result is returned, and no completion of them may be passed to
 * linnos_queue_complete() any more. The queue can then be closed.
 *
 * A drive may write to the memory of these reads until the kernel has ended them, so the caller
 * must keep that memory. Reads that may be hedged or have deadlines use the library's memory
 * instead.
 */
void linnos_queue_abandon_reads(struct linnos_queue *queue);

/* --- Backends ------------------------------------------------------------------------------ */

/**
 * struct linnos_request - an attempt that a backend must serve
 * @handle: argument for linnos_request_complete(); never 0
 * @offset: in bytes, aligned as the replica requires
 * @bytes: number of bytes to read, aligned as the replica requires
 * @buf: memory to read into, aligned as the replica requires; the backend may use it until
 *	linnos_request_complete()
 * @replica: the replica to read from
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
 * struct linnos_backend - functions that read replicas
 * @size: sizeof(struct linnos_backend) of the caller
 * @context: argument of @now_ns and @open
 * @now_ns: return the current time, never 0, from one clock for all threads; NULL for
 *	CLOCK_MONOTONIC
 * @open: create the backend's queue for one thread in *queue; return 0 or a negative errno
 * @close: free a queue; nothing is in flight there
 * @submit: begin to serve a request. The backend reports its end with linnos_request_complete(),
 *	which it may call only from within @wait. Return 0; -%EAGAIN if there is no room for the
 *	request now, in which case the library submits it again after the next @wait; or another
 *	negative errno, which the library handles as an error of the replica.
 * @cancel: NULL, or a function that requests cancellation: the request need not be served any more
 *	but must be completed soon, with -%ECANCELED if it was not served
 * @wait: return when a request has completed or the time is over; a negative time means no limit.
 *	Return 0 or a negative errno.
 * @fd: NULL, or a function that returns the descriptor which becomes readable when a request has
 *	completed, so that a thread of the array can wait for the slower attempts of hedged reads.
 *	Without it their completions are processed by the next call for the queue.
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

/* The size in the first version. It never changes. */
#define LINNOS_BACKEND_SIZE_VER0 72

/**
 * linnos_request_complete() - report that a request has completed
 * @handle: the handle of the request
 * @result: number of bytes that were read from &linnos_request.offset on, or a negative errno
 */
void linnos_request_complete(uint64_t handle, ssize_t result);

/* --- Querying the kernel -------------------------------------------------------------------- */

/**
 * linnos_kernel_best_drives() - query the kernel which drives should serve a read that is about to
 * be sent
 * @n_drives: number of drives that hold the same data, 1 to 16
 * @fds: block devices that are open for reading, whole drives or partitions
 * @bytes: size of the read, not 0
 * @latency_us: NULL, or filled for each drive with the predicted latency in us; 0 if it is not
 *	known; UINT32_MAX if the drive is gone
 *
 * This function is one system call and needs no array. The kernel must have LinnOS and a model for
 * each drive. It knows all I/O of the drives, whereas an array knows only its own reads. Send the
 * read soon, to a drive whose bit is set, and without RWF_LATCRIT, because the kernel may have
 * chosen this read to probe a drive.
 *
 * Return: a bitmap of the best drives, with bit 0 for the first drive (linnos_kernel_best_drives(3)
 * defines which are best); 0 if all drives are gone; -%ENOTTY if the kernel does not support the
 * query; -%EBADF or -%ENOTBLK if a descriptor is not suitable; -%EINVAL.
 */
int linnos_kernel_best_drives(unsigned int n_drives, const int *fds, size_t bytes,
			      uint32_t *latency_us);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_H */
