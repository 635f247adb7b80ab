// SPDX-License-Identifier: MIT
/* The backend of files and block devices: see uring_backend.h. */
#include "uring_backend.h"
#include "messages.h"
#include "reads.h"

#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A full ring is submitted; answers that are more than twice as many wait in the kernel. */
#define ENTRIES 64

struct uring {
	struct io_uring ring;
	bool has_files, has_buffers;
};

static int uring_open(void *context, void **queue)
{
	struct io_uring_params p = {0};
	struct uring *u = calloc(1, sizeof(*u));
	int error = u ? io_uring_queue_init_params(ENTRIES, &u->ring, &p) : -ENOMEM;

	(void)context;
	if (!error && !(p.features & IORING_FEAT_EXT_ARG)) {
		io_uring_queue_exit(&u->ring);
		error = -ENOSYS;
	}
	if (error)
		free(u);
	else
		*queue = u;
	return error;
}

static void uring_close(void *queue)
{
	struct uring *u = queue;

	io_uring_queue_exit(&u->ring);
	free(u);
}

/* The kernel may be short of memory for the moment. */
static void submit(struct uring *u)
{
	while (io_uring_sq_ready(&u->ring) && io_uring_submit(&u->ring) < 0)
		sched_yield();
}

static struct io_uring_sqe *get_sqe(struct uring *u)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&u->ring)))
		submit(u);
	return sqe;
}

static int uring_submit(void *queue, const struct linnos_request *request)
{
	const struct attempt *at = (const struct attempt *)(uintptr_t)request->handle;
	struct uring *u = queue;

	attempt_prepare(at, get_sqe(u), u->has_files ? (int)at->replica : -1,
			u->has_buffers ? 0 : -1);
	return 0;
}

static void uring_cancel(void *queue, uint64_t handle)
{
	struct io_uring_sqe *sqe = get_sqe(queue);

	io_uring_prep_cancel64(sqe, handle, 0);
	sqe->user_data = 0;
}

static void hear(struct uring *u)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&u->ring, &cqe)) {
		uint64_t handle = cqe->user_data;
		int result = cqe->res;

		io_uring_cqe_seen(&u->ring, cqe);
		/* Of what was cancelled itself is heard. */
		if (handle)
			linnos_ended(handle, result);
	}
}

static int uring_wait(void *queue, int64_t timeout_ns)
{
	struct uring *u = queue;
	struct __kernel_timespec ts = {.tv_sec = timeout_ns / 1000000000,
				       .tv_nsec = timeout_ns % 1000000000};
	struct io_uring_cqe *cqe;

	if (timeout_ns) {
		int n = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1,
							 timeout_ns < 0 ? NULL : &ts, NULL);

		if (n == -EAGAIN || n == -EBUSY || n == -ENOMEM)
			sched_yield();
	} else {
		submit(u);
	}
	hear(u);
	return 0;
}

static int uring_fd(void *queue)
{
	return ((struct uring *)queue)->ring.ring_fd;
}

void uring_backend_init(struct linnos_backend *backend)
{
	*backend = (struct linnos_backend){
		.size = sizeof(*backend),
		.open = uring_open,
		.close = uring_close,
		.submit = uring_submit,
		.cancel = uring_cancel,
		.wait = uring_wait,
		.fd = uring_fd,
	};
}

int uring_register(void *ring, const struct linnos_array *a, const struct linnos_queue_options *o)
{
	int fds[CHOOSER_DRIVES_MAX], error = 0;
	struct uring *u = ring;

	for (unsigned int k = 0; k < a->n; k++)
		fds[k] = a->replicas[k].fd;
	if (o->register_files)
		error = io_uring_register_files(&u->ring, fds, a->n);
	if (error)
		return error_say(error, "files of a queue cannot be registered: %s",
				 strerror(-error));
	u->has_files = o->register_files;
	if (o->n_buffers)
		error = io_uring_register_buffers(&u->ring, o->buffers, o->n_buffers);
	if (error)
		return error_say(error, "%u buffers of a queue cannot be registered: %s",
				 o->n_buffers, strerror(-error));
	u->has_buffers = o->n_buffers;
	return 0;
}

bool uring_is_registered(const void *ring)
{
	const struct uring *u = ring;

	return u->has_files || u->has_buffers;
}
