// SPDX-License-Identifier: MIT
/* Start and stop the device and its workers: see mirror.h. */
#include "mirror.h"
#include "program/program.h"
#include "report.h"
#include "ublk_abi.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECTOR_SHIFT 9
/* A device that can be recovered is stopped after no request has arrived for PAUSE_NS, or after
 * PAUSES_MAX such periods. */
#define PAUSE_NS 100000000
#define PAUSES_MAX 50

/* --- Start and stop, by the first worker --------------------------------------------- */

static void send_command(struct mirror *m, enum ublk_command command)
{
	struct io_uring_sqe *sqe = get_sqe(m->workers);
	const enum kind kind = command == UBLK_START ? KIND_START : KIND_STOP;

	ublk_prep_command(&m->device, sqe, command);
	sqe->user_data = user_data_pack(&(struct user_data){.kind = kind});
	m->n_commands++;
}

static void pause_before_stop(struct mirror *m, const struct mirror_stats *now)
{
	struct io_uring_sqe *sqe = get_sqe(m->workers);

	m->received_before = now->received;
	m->pause.tv_nsec = PAUSE_NS;
	io_uring_prep_timeout(sqe, &m->pause, 0, 0);
	sqe->user_data = user_data_pack(&(struct user_data){.kind = KIND_PAUSE});
	m->n_commands++;
}

static void paused(struct mirror *m)
{
	struct mirror_stats now;

	mirror_sum_stats(m, &now);
	m->n_commands--;
	if ((now.received != m->received_before || now.received != now.answered) &&
	    ++m->n_pauses < PAUSES_MAX)
		pause_before_stop(m, &now);
	else
		send_command(m, UBLK_STOP);
}

/*
 * Stop the device. The kernel waits for the requests that this server has, which it continues to
 * serve, and ends every fetch. If the device can be recovered, the kernel fails the requests that
 * it has not handed over yet: for a moment after START those that a killed server had left, and
 * requests that wait for a tag. Such a device is therefore stopped when no more requests arrive.
 */
static void stop(struct mirror *m)
{
	struct mirror_stats now;

	if (m->is_stopping)
		return;
	if (m->is_starting) {
		m->stops_when_started = true;
		return;
	}
	__atomic_store_n(&m->is_stopping, true, __ATOMIC_RELAXED);
	if (!m->recorded || m->start_error) {
		send_command(m, UBLK_STOP);
		return;
	}
	mirror_sum_stats(m, &now);
	pause_before_stop(m, &now);
}

static void started(struct mirror *m, int error)
{
	m->n_commands--;
	m->is_starting = false;
	m->start_error = error;
	if (!error)
		report(m, "ready");
	if (error || m->stops_when_started)
		stop(m);
}

static void wait_for_signal(struct mirror *m)
{
	struct io_uring_sqe *sqe = get_sqe(m->workers);

	io_uring_prep_read(sqe, m->signals, &m->signal, sizeof(m->signal), 0);
	sqe->user_data = user_data_pack(&(struct user_data){.kind = KIND_SIGNAL});
}

static void signalled(struct mirror *m, int result)
{
	if (result == sizeof(m->signal)) {
		if (m->signal.ssi_signo == SIGUSR1)
			report(m, m->is_stopping ? "stopping" : "running");
		else
			stop(m);
	}
	wait_for_signal(m);
}

/* --- A worker ------------------------------------------------------------------------ */

static void serve(struct worker *w, struct request *r)
{
	const struct ublksrv_io_desc *d = &w->mirror->device.requests[w->queue][r->tag];

	count(&w->stats.received, 1);
	r->op = ublksrv_get_op(d);
	r->is_fua = d->op_flags & UBLK_IO_F_FUA;
	r->keeps_blocks = r->op == UBLK_IO_OP_WRITE_ZEROES && d->op_flags & UBLK_IO_F_NOUNMAP;
	r->start = d->start_sector << SECTOR_SHIFT;
	r->bytes = (uint64_t)d->nr_sectors << SECTOR_SHIFT;
	switch (r->op) {
	case UBLK_IO_OP_READ:
		read_begin(w, r);
		break;
	case UBLK_IO_OP_FLUSH:
		flush_begin(w, r);
		break;
	case UBLK_IO_OP_WRITE:
	case UBLK_IO_OP_DISCARD:
	case UBLK_IO_OP_WRITE_ZEROES:
		write_begin(w, r);
		break;
	default:
		commit(w, r, -EOPNOTSUPP);
	}
}

static void fetched(struct worker *w, struct request *r, int result)
{
	struct mirror *m = w->mirror;

	if (result == UBLK_IO_RES_OK) {
		serve(w, r);
		return;
	}
	w->n_fetching--;
	if (result == UBLK_IO_RES_ABORT || __atomic_load_n(&m->is_stopping, __ATOMIC_RELAXED))
		return;
	warn("/dev/ublkb%u: the kernel delivers no more requests: %s", m->device.number,
	     strerror(-result));
	if (w == m->workers)
		stop(m);
	else
		send_message(w, m->workers, KIND_NO_MORE_REQUESTS, 0);
}

/* Send a message again if it could not be delivered for lack of memory. */
static void message_sent(struct worker *w, const struct user_data *s, int result)
{
	w->n_messages--;
	if (result < 0)
		send_message(w, &w->mirror->workers[s->to], s->message, s->tag);
}

static void handle_completion(struct worker *w, const struct io_uring_cqe *cqe)
{
	const struct user_data s = user_data_unpack(cqe->user_data);
	struct mirror *m = w->mirror;

	if ((cqe->user_data & READ_MARK) == READ_MARK) {
		read_complete(w, cqe);
		return;
	}
	switch (s.kind) {
	case KIND_FETCH:
		fetched(w, &w->requests[s.tag], cqe->res);
		break;
	case KIND_REPLICA_WRITE:
		replica_write_complete(w, &w->requests[s.tag], s.replica, cqe->res);
		break;
	case KIND_START:
		started(m, cqe->res);
		break;
	case KIND_PAUSE:
		paused(m);
		break;
	case KIND_STOP:
		m->n_commands--;
		break;
	case KIND_SIGNAL:
		signalled(m, cqe->res);
		break;
	case KIND_MESSAGE:
		message_sent(w, &s, cqe->res);
		break;
	case KIND_WRITE_MAY_START:
		write_continue(w, &w->requests[s.tag]);
		break;
	case KIND_NO_MORE_REQUESTS:
		stop(m);
		break;
	case KIND_WORKER_ENDED:
		m->n_serving--;
		break;
	case KIND_STATE:
		state_write_complete(w, cqe->res);
		break;
	}
}

static void work(struct worker *w)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	wait_for_completions(w, w->mirror->hedges ? linnos_queue_next_timeout_ns(w->reads) : -1);
	io_uring_for_each_cqe(&w->ring, head, cqe)
	{
		handle_completion(w, cqe);
		n++;
	}
	io_uring_cq_advance(&w->ring, n);
	if (w->mirror->hedges)
		reads_resubmit_expired(w);
}

/* Fetch all requests of a queue in its own thread, as the kernel requires. */
static void fetch_all(struct worker *w)
{
	for (unsigned int tag = 0; tag < w->mirror->device.depth; tag++) {
		struct io_uring_sqe *sqe = get_sqe(w);

		ublk_prep_fetch(&w->mirror->device, sqe, w->queue, tag, buffer(w, tag));
		sqe->user_data =
			user_data_pack(&(struct user_data){.kind = KIND_FETCH, .tag = tag});
		w->n_fetching++;
	}
}

static bool is_busy(const struct worker *w)
{
	return w->n_fetching || w->n_reading || w->n_messages;
}

/* The thread of any worker but the first. */
static void *serve_queue(void *worker)
{
	struct worker *w = worker;
	struct mirror *m = w->mirror;

	pthread_mutex_lock(&m->gate);
	pthread_mutex_unlock(&m->gate);
	/* liburing 2.3 only declares io_uring_enable_rings() and does not define it. */
	if (syscall(__NR_io_uring_register, w->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0))
		die("/dev/ublkb%u cannot be served: io_uring: %s", m->device.number,
		    strerror(errno));
	fetch_all(w);
	while (is_busy(w))
		work(w);
	send_message(w, m->workers, KIND_WORKER_ENDED, 0);
	while (is_busy(w))
		work(w);
	return NULL;
}

/* --- Setup ------------------------------------------------------------------------------- */

static int create_ring(struct worker *w)
{
	const struct mirror *m = w->mirror;
	const unsigned int depth = m->device.depth;
	/* The ring of another thread is enabled by that thread, not by the thread that creates
	 * it. */
	const unsigned int disabled = w->queue ? IORING_SETUP_R_DISABLED : 0;
	/* Each tag may have one of these in flight: a command, replica writes, or attempts, one of
	 * which may be orphaned; and in addition a message for its deferred write. */
	const unsigned int entries = 2 * depth + 8, completions = depth * (m->n + 5) + 64;
	struct io_uring_params p = {
		.flags = disabled | IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE |
			 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER,
		.cq_entries = completions,
	};

	return io_uring_queue_init_params(entries, &w->ring, &p);
}

static int prepare_worker(struct mirror *m, unsigned int queue)
{
	const struct ublk_device *d = &m->device;
	struct worker *w = &m->workers[queue];
	int error;

	w->mirror = m;
	w->queue = queue;
	error = create_ring(w);
	if (error)
		return error;
	w->requests = calloc(d->depth, sizeof(*w->requests));
	w->buffers = mmap(NULL, (size_t)d->depth * d->request_bytes_max, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!w->requests || w->buffers == MAP_FAILED)
		return -ENOMEM;
	for (unsigned int tag = 0; tag < d->depth; tag++) {
		w->requests[tag].worker = w;
		w->requests[tag].tag = tag;
	}
	error = linnos_queue_create(&w->reads, m->array, NULL);
	if (error || !queue)
		return error;
	m->n_serving++;
	return -pthread_create(&w->thread, NULL, serve_queue, w);
}

static int prepare_signals(struct mirror *m)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	/* Threads created later inherit this mask. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* If no program reads the output, the server must continue. */
	signal(SIGPIPE, SIG_IGN);
	m->signals = signalfd(-1, &set, SFD_CLOEXEC);
	return m->signals < 0 ? -errno : 0;
}

void mirror_prepare(struct mirror *m)
{
	const struct ublk_device *d = &m->device;
	int error = prepare_signals(m);

	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_init(&m->gate, NULL);
	pthread_mutex_lock(&m->gate);
	m->workers = calloc(d->n_queues, sizeof(*m->workers));
	if (!error && !m->workers)
		error = -ENOMEM;
	for (unsigned int i = 0; !error && i < d->n_queues; i++)
		error = prepare_worker(m, i);
	if (error) {
		ublk_release(&m->device);
		die("/dev/ublkb%u cannot be served: %s", d->number, strerror(-error));
	}
}

int mirror_serve(struct mirror *m)
{
	struct worker *first = m->workers;

	pthread_mutex_unlock(&m->gate);
	fetch_all(first);
	wait_for_signal(m);
	m->is_starting = true;
	send_command(m, UBLK_START);
	while (is_busy(first) || m->n_commands || m->n_serving)
		work(first);
	for (unsigned int i = 1; i < m->device.n_queues; i++)
		pthread_join(m->workers[i].thread, NULL);
	return m->start_error;
}

void mirror_close(struct mirror *m)
{
	for (unsigned int i = 0; i < m->device.n_queues; i++)
		linnos_queue_close(m->workers[i].reads);
}
