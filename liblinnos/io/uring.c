// SPDX-License-Identifier: MIT
/* The backend for files and block devices: see uring.h. */
#include "uring.h"
#include "io_uring_errors.h"
#include "messages.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The submission queue is submitted when it is full. The kernel keeps completions that do not fit
 * into the completion queue. */
#define ENTRIES 64

/* The time to wait for completions of a ring whose descriptor is gone. */
#define BROKEN_RING_WAIT_NS 1000000000ull
#define BROKEN_RING_POLL_NS 1000000
/* After this many interrupted waits in a row there is a pause between waits. */
#define INTERRUPTED_OFTEN 100

struct uring {
	struct io_uring ring;
	const struct uring_context *context;
	bool has_files, has_buffers;
	uint64_t prepared[ENTRIES]; /* handles by entry; 0 for a cancel request */
	uint64_t n_prepared;
	unsigned int n_interrupted;
	uint64_t refused_ns; /* when the kernel began to refuse; 0 if it does not */
	/*
	 * Error after which the ring cannot be entered any more; 0 if it can. Requests that were
	 * submitted still complete, and their completions can be read without a system call.
	 */
	int error;
	/* When the ring broke, or the last completion arrived after that. */
	uint64_t last_completion_ns;
};

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int uring_open(void *context, void **queue)
{
	struct io_uring_params p = {0};
	struct uring *u = calloc(1, sizeof(*u));
	int error = u ? io_uring_queue_init_params(ENTRIES, &u->ring, &p) : -ENOMEM;

	if (!error && !(p.features & IORING_FEAT_EXT_ARG)) {
		io_uring_queue_exit(&u->ring);
		error = -ENOSYS;
	}
	if (error) {
		free(u);
		return error;
	}
	u->context = context;
	*queue = u;
	return 0;
}

/* Return true if the ring's descriptor was closed, or is another file's by now. */
static bool descriptor_is_gone(const struct uring *u)
{
	return u->error == -EBADF || u->error == -EOPNOTSUPP;
}

static void uring_close(void *queue)
{
	struct uring *u = queue;

	/* Do not close the descriptor of another file. */
	if (descriptor_is_gone(u))
		u->ring.ring_fd = u->ring.enter_ring_fd = -1;
	io_uring_queue_exit(&u->ring);
	free(u);
}

/* Check the result of entering the ring. Set the ring's error if entering it again is useless. */
static void check_entered(struct uring *u, int result)
{
	/* A signal can interrupt any number of waits, which is no refusal. */
	const bool is_refused =
		result < 0 && result != -ETIME && (result != -EINTR || io_uring_sq_ready(&u->ring));

	if (!is_refused) {
		u->refused_ns = 0;
		return;
	}
	if (!u->refused_ns)
		u->refused_ns = clock_ns();
	if (io_uring_error_is_transient(result) && clock_ns() - u->refused_ns < IO_URING_RETRY_NS)
		return;
	u->error = result;
	u->last_completion_ns = clock_ns();
}

/* Submit the prepared entries that the kernel accepts now. Return an error if it will accept none
 * in the future either. */
static int submit(struct uring *u)
{
	int result = 0;

	while (!u->error && result >= 0 && io_uring_sq_ready(&u->ring)) {
		result = io_uring_submit(&u->ring);
		check_entered(u, result);
	}
	return u->error;
}

/* Return a free entry. On failure return NULL and set *error, to -EAGAIN if an entry may be free
 * after the next wait. */
static struct io_uring_sqe *get_sqe(struct uring *u, uint64_t handle, int *error)
{
	struct io_uring_sqe *sqe = u->error ? NULL : io_uring_get_sqe(&u->ring);

	if (!sqe && !submit(u))
		sqe = io_uring_get_sqe(&u->ring);
	if (sqe)
		u->prepared[u->n_prepared++ % ENTRIES] = handle;
	*error = sqe ? 0 : u->error ? u->error : -EAGAIN;
	return sqe;
}

void uring_prepare(struct io_uring_sqe *sqe, const struct replica_set *set,
		   const struct io_request *io, int fixed_file, int first_buffer)
{
	const struct linnos_request *r = &io->request;
	int fd = fixed_file < 0 ? set->replicas[r->replica].fd : fixed_file;

	if (io->iov)
		io_uring_prep_readv(sqe, fd, io->iov, io->n_iov, r->offset);
	else if (io->buffer >= 0 && first_buffer >= 0)
		io_uring_prep_read_fixed(sqe, fd, r->buf, r->bytes, r->offset,
					 first_buffer + io->buffer);
	else
		io_uring_prep_read(sqe, fd, r->buf, r->bytes, r->offset);
	io_uring_sqe_set_flags(sqe, io->sqe_flags | (fixed_file < 0 ? 0 : IOSQE_FIXED_FILE));
	sqe->ioprio = io->ioprio;
	sqe->user_data = r->handle;
	if (set->hooks.prepared)
		set->hooks.prepared(set->hooks.context, r->replica, sqe);
}

static int uring_submit(void *queue, const struct linnos_request *request)
{
	struct uring *u = queue;
	int error;
	struct io_uring_sqe *sqe = get_sqe(u, request->handle, &error);

	/* Requests to this backend are the first member of a struct io_request. */
	if (sqe)
		uring_prepare(sqe, u->context->set, (const struct io_request *)request,
			      u->has_files ? (int)request->replica : -1, u->has_buffers ? 0 : -1);
	return error;
}

static void uring_cancel(void *queue, uint64_t handle)
{
	int error;
	struct io_uring_sqe *sqe = get_sqe(queue, 0, &error);

	/* Cancelling is only an optimization. */
	if (!sqe)
		return;
	io_uring_prep_cancel64(sqe, handle, 0);
	sqe->user_data = 0;
}

/* Process all completions. Return their number. */
static unsigned int reap(struct uring *u)
{
	struct io_uring_cqe *cqe;
	unsigned int n = 0, head;

	do {
		io_uring_for_each_cqe(&u->ring, head, cqe)
		{
			uint64_t handle = cqe->user_data;
			int result = cqe->res;

			io_uring_cq_advance(&u->ring, 1);
			n++;
			/* A cancelled request produces its own completion. Cancel requests have the
			 * handle 0 and are ignored. */
			if (handle)
				u->context->complete(handle, result, true);
		}
	} while (io_uring_cq_has_overflow(&u->ring) && io_uring_get_events(&u->ring) >= 0);
	return n;
}

/* Fail the requests that the kernel has not accepted and never will. Return their number. */
static unsigned int fail_unsubmitted(struct uring *u)
{
	unsigned int n = io_uring_sq_ready(&u->ring), i;

	if (!u->n_prepared)
		return 0;
	for (i = 0; i < n; i++) {
		uint64_t handle = u->prepared[(u->n_prepared - n + i) % ENTRIES];

		if (handle)
			u->context->complete(handle, u->error, false);
	}
	u->n_prepared = 0;
	return n;
}

/*
 * Submitted requests complete without the ring being entered, unless the descriptor is gone: then
 * the kernel may have dropped them, as it may have dropped completions that did not fit into the
 * queue. Wait for a limited time in these cases.
 */
static int wait_for_submitted(struct uring *u, int64_t timeout_ns)
{
	const bool may_be_dropped = descriptor_is_gone(u) || io_uring_cq_has_overflow(&u->ring);
	struct timespec pause = {.tv_nsec = BROKEN_RING_POLL_NS};

	if (fail_unsubmitted(u) + reap(u)) {
		u->last_completion_ns = clock_ns();
		return 0;
	}
	if (may_be_dropped && clock_ns() - u->last_completion_ns > BROKEN_RING_WAIT_NS)
		return u->error;
	if (timeout_ns >= 0 && timeout_ns < BROKEN_RING_POLL_NS)
		pause.tv_nsec = timeout_ns;
	if (pause.tv_nsec)
		nanosleep(&pause, NULL);
	return 0;
}

static int uring_wait(void *queue, int64_t timeout_ns)
{
	struct uring *u = queue;
	struct __kernel_timespec ts = {.tv_sec = timeout_ns / 1000000000,
				       .tv_nsec = timeout_ns % 1000000000};
	struct io_uring_cqe *cqe;
	int result = 0;

	if (u->error)
		return wait_for_submitted(u, timeout_ns);
	if (timeout_ns) {
		result = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1,
							  timeout_ns < 0 ? NULL : &ts, NULL);
		check_entered(u, result);
	} else {
		submit(u);
	}
	if (u->error)
		return wait_for_submitted(u, 0);
	u->n_interrupted = result == -EINTR ? u->n_interrupted + 1 : 0;
	if (reap(u) || result >= 0 || result == -ETIME)
		return 0;
	if (result != -EINTR || u->n_interrupted > INTERRUPTED_OFTEN)
		io_uring_pause();
	return 0;
}

static int uring_fd(void *queue)
{
	const struct uring *u = queue;

	return u->error ? -1 : u->ring.ring_fd;
}

void uring_backend_init(struct linnos_backend *backend, struct uring_context *context)
{
	*backend = (struct linnos_backend){
		.size = sizeof(*backend),
		.context = context,
		.open = uring_open,
		.close = uring_close,
		.submit = uring_submit,
		.cancel = uring_cancel,
		.wait = uring_wait,
		.fd = uring_fd,
	};
}

int uring_register(void *ring, const struct linnos_queue_options *o)
{
	int fds[CHOOSER_DRIVES_MAX], error = 0;
	struct uring *u = ring;
	const struct replica_set *set = u->context->set;

	for (unsigned int k = 0; k < set->n; k++)
		fds[k] = set->replicas[k].fd;
	if (o->register_files)
		error = io_uring_register_files(&u->ring, fds, set->n);
	if (error)
		return format_error(error, "cannot register the files of a queue: %s",
				    strerror(-error));
	u->has_files = o->register_files;
	if (o->n_buffers)
		error = io_uring_register_buffers(&u->ring, o->buffers, o->n_buffers);
	if (error)
		return format_error(error, "cannot register the %u buffers of a queue: %s",
				    o->n_buffers, strerror(-error));
	u->has_buffers = o->n_buffers;
	return 0;
}

bool uring_is_broken(const void *ring)
{
	return ((const struct uring *)ring)->error;
}

bool uring_has_unsubmitted(const void *ring)
{
	const struct uring *u = ring;

	return !u->error && io_uring_sq_ready(&u->ring);
}

bool uring_descriptor_is_gone(const void *ring)
{
	return descriptor_is_gone(ring);
}
