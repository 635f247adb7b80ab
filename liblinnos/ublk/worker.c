// SPDX-License-Identifier: MIT
/* Functions that all parts of a worker use: see worker.h. */
#include "worker.h"
#include "program/program.h"
#include "io_uring_errors.h"

#include <string.h>

/*
 * Requests cannot be served, nor completed, without the ring. The kernel fails them, or keeps them
 * for the next server if the device can be recovered, as soon as this process has exited.
 */
static void check_entered(const struct worker *w, int result)
{
	if (result >= 0 || result == -ETIME || io_uring_error_is_transient(result))
		return;
	die("/dev/ublkb%u: queue %u can no longer be served: io_uring_enter: %s; the server exits "
	    "without an orderly stop",
	    w->mirror->device.number, w->queue, strerror(-result));
}

/* The completion queue has room for everything that can be in flight, so the kernel accepts entries
 * without completions being reaped here. */
struct io_uring_sqe *get_sqe(struct worker *w)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&w->ring))) {
		int result = io_uring_submit(&w->ring);

		check_entered(w, result);
		if (result < 0 && result != -EINTR)
			io_uring_pause();
	}
	return sqe;
}

void wait_for_completions(struct worker *w, int64_t timeout_ns)
{
	struct __kernel_timespec t = {timeout_ns / 1000000000, timeout_ns % 1000000000};
	struct io_uring_cqe *cqe;
	int result = timeout_ns < 0 ? io_uring_submit_and_wait(&w->ring, 1)
				    : io_uring_submit_and_wait_timeout(&w->ring, &cqe, 1, &t, NULL);

	check_entered(w, result);
	if (result == -EAGAIN || result == -ENOMEM)
		io_uring_pause();
}

void commit(struct worker *w, const struct request *r, int result)
{
	struct io_uring_sqe *sqe = get_sqe(w);

	ublk_prep_commit(&w->mirror->device, sqe, w->queue, r->tag, buffer(w, r->tag), result);
	sqe->user_data = user_data_pack(&(struct user_data){.kind = KIND_FETCH, .tag = r->tag});
	count(&w->stats.answered, 1);
}

void send_message(struct worker *w, const struct worker *to, enum kind kind, unsigned int tag)
{
	const struct user_data message = {.kind = kind, .tag = tag};
	struct io_uring_sqe *sqe = get_sqe(w);

	io_uring_prep_msg_ring(sqe, to->ring.ring_fd, 0, user_data_pack(&message), 0);
	sqe->user_data = user_data_pack(&(struct user_data){
		.kind = KIND_MESSAGE, .message = kind, .to = to->queue, .tag = tag});
	w->n_messages++;
}

void mirror_sum_stats(const struct mirror *m, struct mirror_stats *sum)
{
	uint64_t *to = (uint64_t *)sum;

	memset(sum, 0, sizeof(*sum));
	for (unsigned int i = 0; i < m->device.n_queues; i++) {
		const uint64_t *from = (const uint64_t *)&m->workers[i].stats;

		for (size_t k = 0; k < sizeof(*sum) / sizeof(*to); k++)
			to[k] += __atomic_load_n(&from[k], __ATOMIC_RELAXED);
	}
}

uint64_t mirror_received(const struct mirror *m, unsigned int queue)
{
	return __atomic_load_n(&m->workers[queue].stats.received, __ATOMIC_RELAXED);
}
