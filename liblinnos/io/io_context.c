// SPDX-License-Identifier: MIT
/* I/O channels (struct lane), a queue's part of the backend: see io_channels.h. */
#include "io_context.h"
#include "messages.h"
#include "thread.h"
#include "uring.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A request for which the backend had no room is submitted again after a completion or after
 * UNSENT_RETRY_NS. It fails if a backend that serves nothing has had no room for UNSENT_MAX_NS. */
#define UNSENT_RETRY_NS 1000000
#define UNSENT_MAX_NS 1000000000ull
/* When a queue is closed, a backend whose wait fails has this time to complete what is in
 * flight. */
#define CLOSING_MAX_NS 1000000000ull
/* Interval at which the reaper checks for work without being woken up. The program may have closed
 * the descriptor that wakes it up, as closefrom(3) does. */
#define CLOSED_WAKE_MS 1000

struct lane {
	struct lane *next;
	struct linnos_array *array;
	void *part; /* the backend's queue */
	struct attempt *attempts;
	struct attempt *first_unsent,
		*last_unsent;		  /* no room in the backend; linked by attempt.next */
	uint64_t unsent_ns;		  /* time since which none could be sent */
	unsigned int in_flight, n_unsent; /* in_flight includes those that are unsent */
	unsigned int n_interrupted;	  /* consecutive interrupted waits */
	bool fd_is_closed;		  /* noticed by the reaper */
	bool has_new;			  /* since the last wait, which submits it */
};

struct lanes {
	struct lane *free;
	struct lane *lost;	    /* to be taken by the reaper */
	struct linnos_queue *queue; /* the reaper's */
	pthread_t waiter;
	int wake_fd;
	bool stopping;
};

static struct lane *io_channel_new(struct linnos_array *a, int *error)
{
	struct lane *lane;

	if (READ_ONCE(a->has_lost_descriptors)) {
		*error = -EBADF;
		return NULL;
	}
	lane = calloc(1, sizeof(*lane));
	if (!lane) {
		*error = -ENOMEM;
		return NULL;
	}
	lane->array = a;
	*error = a->backend.open(a->backend.context, &lane->part);
	if (!*error)
		return lane;
	free(lane);
	return NULL;
}

static void io_channel_free(struct lane *lane)
{
	lane->array->backend.close(lane->part);
	free(lane);
}

static bool is_registered(const struct lane *lane)
{
	return lane->array->is_files && uring_is_registered(lane->part);
}

static bool is_broken(const struct lane *lane)
{
	return lane->array->is_files && uring_is_broken(lane->part);
}

/* Take a free I/O channel, or create one. */
static struct lane *lane_get(struct linnos_array *a, int *error)
{
	struct lane *lane = NULL;

	array_lock(a);
	if (a->lanes && a->lanes->free) {
		lane = a->lanes->free;
		a->lanes->free = lane->next;
	}
	array_unlock(a);
	return lane ? lane : io_channel_new(a, error);
}

struct lane *io_channel_get(struct linnos_queue *q, int *error)
{
	const bool registers = q->o.register_files || q->o.n_buffers;
	struct linnos_array *a = q->array;

	/* A ring that cannot be entered any more is replaced as soon as it is empty. */
	if (q->lane && is_broken(q->lane) && !q->lane->in_flight) {
		io_channel_free(q->lane);
		q->lane = NULL;
	}
	if (q->lane)
		return q->lane;
	if (!registers || !a->is_files) {
		q->lane = lane_get(a, error);
		return q->lane;
	}
	q->lane = io_channel_new(a, error);
	if (q->lane)
		*error = uring_register(q->lane->part, a, &q->o);
	if (q->lane && *error)
		io_channel_close(q);
	return q->lane;
}

static void done(struct linnos_read *r)
{
	struct linnos_queue *q = r->queue;

	q->n_live--;
	if (r->where != READ_LATER)
		return;
	r->later = NULL;
	*(q->last_done ? &q->last_done->later : &q->first_done) = r;
	q->last_done = r;
}

/* Process the result of an attempt. Return the attempt to be sent next, or NULL. */
static struct attempt *end_attempt(struct attempt *at, ssize_t result)
{
	struct linnos_read *r;

	at->lane->in_flight--;
	switch (attempt_ended(at, result, &r)) {
	case LINNOS_READ_RESUBMIT:
		return read_take_next(r);
	case LINNOS_READ_DONE:
		done(r);
		break;
	case LINNOS_READ_PENDING:
		break;
	}
	return NULL;
}

static int submit(struct lane *lane, struct attempt *at)
{
	const struct linnos_backend *backend = &lane->array->backend;
	struct linnos_request request = {
		.handle = attempt_handle(at),
		.offset = at->offset + at->from,
		.bytes = at->bytes - at->from,
		.buf = at->data + at->from,
		.replica = at->replica,
	};
	int error;

	do
		error = backend->submit(lane->part, &request);
	while (error == -EINTR && ++at->n_interrupted < INTERRUPTED_MAX);
	if (!error)
		lane->unsent_ns = 0;
	return error;
}

static void keep_unsent(struct lane *lane, struct attempt *at)
{
	at->next = NULL;
	at->is_unsent = true;
	*(lane->last_unsent ? &lane->last_unsent->next : &lane->first_unsent) = at;
	lane->last_unsent = at;
	lane->n_unsent++;
}

static struct attempt *take_unsent(struct lane *lane)
{
	struct attempt *at = lane->first_unsent;

	lane->first_unsent = at->next;
	if (!at->next)
		lane->last_unsent = NULL;
	lane->n_unsent--;
	at->next = NULL;
	at->is_unsent = false;
	return at;
}

/* If a submission fails, the next attempt of the read is submitted, if it has one. */
void io_channel_submit(struct lane *lane, struct attempt *at)
{
	while (at) {
		int error;

		if (!at->list)
			attempt_list_add(&lane->attempts, at);
		at->lane = lane;
		lane->in_flight++;
		lane->has_new = true;
		/* Requests are submitted in the order in which they arrived. */
		error = lane->first_unsent ? -EAGAIN : submit(lane, at);
		if (!error)
			return;
		if (error == -EAGAIN) { /* the backend has no room */
			keep_unsent(lane, at);
			return;
		}
		at->not_sent = lane->array->is_files;
		at = end_attempt(at, error);
	}
}

void attempt_not_sent(struct attempt *at, int error)
{
	struct lane *lane = at->lane;

	at->not_sent = true;
	io_channel_submit(lane, end_attempt(at, error));
}

/* Submit the requests for which the backend had no room. A request fails if the backend has refused
 * it for too long and serves no other request of this channel. */
static void send_unsent(struct lane *lane)
{
	uint64_t now_ns = lane->first_unsent ? array_clock_ns(lane->array) : 0;

	while (lane->first_unsent) {
		struct attempt *at = lane->first_unsent;
		/* No read waits for the attempt any more. */
		int error =
			at->read || at->kind == LINNOS_PROBE_COPY ? submit(lane, at) : -ECANCELED;

		if (error == -EAGAIN && lane->in_flight > lane->n_unsent)
			lane->unsent_ns = 0;
		else if (error == -EAGAIN && !lane->unsent_ns)
			lane->unsent_ns = now_ns;
		if (error == -EAGAIN &&
		    (!lane->unsent_ns || now_ns - lane->unsent_ns < UNSENT_MAX_NS))
			return;
		take_unsent(lane);
		lane->has_new = true;
		if (!error)
			continue;
		at->not_sent = lane->array->is_files && at->read;
		io_channel_submit(lane, end_attempt(at, error));
	}
	lane->unsent_ns = 0;
}

void linnos_request_complete(uint64_t handle, ssize_t result)
{
	struct attempt *at = (struct attempt *)(uintptr_t)handle;
	struct lane *lane = at->lane;

	io_channel_submit(lane, end_attempt(at, result));
}

/* Wait for the backend, then submit the requests for which it had no room before. */
static int wait_for_backend(struct lane *lane, int64_t timeout_ns)
{
	int error;

	if (lane->first_unsent && lane->in_flight == lane->n_unsent &&
	    (timeout_ns < 0 || timeout_ns > UNSENT_RETRY_NS))
		timeout_ns = UNSENT_RETRY_NS;
	lane->has_new = false;
	error = lane->array->backend.wait(lane->part, timeout_ns);
	if (lane->array->is_files && uring_descriptor_is_gone(lane->part))
		WRITE_ONCE(lane->array->has_lost_descriptors, true);
	lane->n_interrupted = error == -EINTR ? lane->n_interrupted + 1 : 0;
	if (error == -EINTR && lane->n_interrupted < INTERRUPTED_MAX)
		error = 0;
	send_unsent(lane);
	return error;
}

/* Send the hedges and end the reads that are due now. */
static void serve_due(struct linnos_queue *q)
{
	struct linnos_read *r;
	enum linnos_outcome outcome;

	while ((outcome = read_due(q, &q->in_own, &r)) != LINNOS_READ_PENDING) {
		if (outcome == LINNOS_READ_RESUBMIT)
			io_channel_submit(q->lane, read_take_next(r));
		else
			done(r);
	}
}

void io_channel_cancel_orphans(struct linnos_queue *q)
{
	const struct linnos_backend *backend = &q->array->backend;

	for (struct attempt *at = q->lane->attempts; at && backend->cancel; at = at->later)
		if (at->is_unwanted && !at->is_unsent) {
			at->is_unwanted = false;
			q->lane->has_new = true;
			backend->cancel(q->lane->part, attempt_handle(at));
		}
}

/* The kernel has dropped the attempts in flight, as far as can be known. Do not wait for the
 * reads. */
static void give_up_reads(struct linnos_queue *q, int error)
{
	for (struct attempt *at = q->lane->attempts; at; at = at->later) {
		struct linnos_read *r = at->read;

		if (!r)
			continue;
		read_give_up(r, error);
		done(r);
	}
}

int io_channel_wait(struct linnos_queue *q, int64_t timeout_ns)
{
	struct lane *lane = q->lane;
	int error;

	if (q->in_own.first) {
		uint64_t due_ns = read_due_ns(q->in_own.first), now_ns = queue_time(q);
		int64_t due_in_ns = due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;

		if (timeout_ns < 0 || due_in_ns < timeout_ns)
			timeout_ns = due_in_ns;
	}
	error = wait_for_backend(lane, timeout_ns);
	if (error && q->array->is_files) {
		give_up_reads(q, error);
		error = 0;
	}
	serve_due(q);
	io_channel_cancel_orphans(q);
	/* Submit failovers, hedges and cancel requests now, because the caller may not call again
	 * for a long time. */
	while (!error && lane->has_new) {
		error = wait_for_backend(lane, 0);
		io_channel_cancel_orphans(q);
	}
	return error;
}

static void wake(const struct lanes *lanes)
{
	uint64_t one = 1;

	/* The write fails only if the counter is full, and then the reaper is awake already. */
	if (write(lanes->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static bool can_be_left(const struct lane *lane)
{
	const struct linnos_backend *backend = &lane->array->backend;

	return backend->fd && backend->fd(lane->part) >= 0;
}

static void lane_put(struct lane **list, struct lane *lane)
{
	lane->next = *list;
	*list = lane;
}

/* Hand all attempts of the channel over to the reaper, which also sends those that were not sent.
 * Return false if there is no reaper. */
static bool hand_over(struct lane *lane)
{
	struct linnos_array *a = lane->array;
	const bool waits = lane->in_flight;
	const char *why;
	bool can;

	if (!waits && (is_registered(lane) || is_broken(lane))) {
		io_channel_free(lane);
		return true;
	}
	array_lock(a);
	can = a->lanes || !reaper_start(a, &why);
	if (can) {
		for (struct attempt *at = lane->attempts; at; at = at->later)
			at->queue = a->lanes->queue;
		/* A channel without attempts in flight would never become readable. */
		lane_put(waits ? &a->lanes->lost : &a->lanes->free, lane);
	}
	array_unlock(a);
	if (can && waits)
		wake(a->lanes);
	return can;
}

void io_channel_hand_over(struct linnos_queue *q)
{
	struct lane *lane = q->lane;

	if (!lane || q->n_live || !lane->in_flight || !can_be_left(lane))
		return;
	/* Process completions here. Cancel requests then need not wake up the reaper. */
	wait_for_backend(lane, 0);
	if (hand_over(lane))
		q->lane = NULL;
}

/* No completions will arrive. A drive may still write to the memory of the attempts, so it is not
 * used again. */
static void forsake(struct lane *lane)
{
	while (lane->attempts)
		attempt_forsake(lane->attempts);
	lane->first_unsent = lane->last_unsent = NULL;
	lane->in_flight = lane->n_unsent = 0;
}

/* Wait until nothing is in flight, or the backend fails to wait. */
static void lane_drain(struct lane *lane)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	unsigned int n_failed = 0;

	while (lane->in_flight) {
		int error = wait_for_backend(lane, -1);

		n_failed = error ? n_failed + 1 : 0;
		if (error && (lane->array->is_files ||
			      n_failed > CLOSING_MAX_NS / (uint64_t)pause.tv_nsec)) {
			forsake(lane);
			return;
		}
		if (error)
			nanosleep(&pause, NULL);
	}
}

void io_channel_close(struct linnos_queue *q)
{
	io_channel_hand_over(q);
	if (!q->lane)
		return;
	for (struct attempt *at = q->lane->attempts; at; at = at->later)
		at->is_unwanted = true;
	io_channel_cancel_orphans(q);
	lane_drain(q->lane);
	io_channel_free(q->lane);
	q->lane = NULL;
}

void reaper_submit_probe_copy(struct attempt *copy)
{
	struct linnos_queue *q = copy->queue;
	struct linnos_array *a = q->array;
	struct lane *lane;
	int error = 0;

	/* The copy stays in the queue's channel until the next call for the queue, which is soon if
	 * the queue is in use. */
	if (!a->backend.fd) {
		lane = io_channel_get(q, &error);
		if (lane)
			io_channel_submit(lane, copy);
		else
			probe_copy_cancel(copy, false);
		return;
	}
	lane = lane_get(a, &error);
	if (!lane) {
		/* Later attempts would fail with the same error. */
		probe_copy_cancel(copy, error == -ENOSYS || error == -EPERM);
		return;
	}
	io_channel_submit(lane, copy);
	if (hand_over(lane))
		return;
	lane_drain(lane);
	io_channel_free(lane);
}

/* --- The reaper ------------------------------------------------------------ */

struct waiting {
	struct lane **lanes;
	struct pollfd *fds; /* the last element is the descriptor that wakes up the reaper */
	unsigned int n, allocated;
};

static bool make_room(struct waiting *w, unsigned int n)
{
	unsigned int more = n < 8 ? 8 : 2 * n;
	struct lane **lanes;
	struct pollfd *fds;

	if (n < w->allocated)
		return true;
	lanes = realloc(w->lanes, more * sizeof(*lanes));
	if (lanes)
		w->lanes = lanes;
	fds = realloc(w->fds, (more + 1) * sizeof(*fds));
	if (fds)
		w->fds = fds;
	if (lanes && fds)
		w->allocated = more;
	return lanes && fds;
}

/* Take the channels that were handed over, as far as there is memory. Return true if there will be
 * no more. */
static bool take_lost(struct linnos_array *a, struct waiting *w)
{
	struct lanes *lanes = a->lanes;
	bool stopping;

	array_lock(a);
	while (lanes->lost && make_room(w, w->n)) {
		w->lanes[w->n++] = lanes->lost;
		lanes->lost = lanes->lost->next;
	}
	stopping = lanes->stopping && !lanes->lost;
	array_unlock(a);
	return stopping;
}

static void give_free(struct linnos_array *a, struct waiting *w)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < w->n; i++) {
		struct lane *lane = w->lanes[i];

		/* Entering a ring whose descriptor is closed finds out that it is broken. */
		if (wait_for_backend(lane, lane->fd_is_closed) && a->is_files)
			forsake(lane);
		if (lane->in_flight) {
			w->lanes[n++] = lane;
			continue;
		}
		if (is_registered(lane) || is_broken(lane)) {
			io_channel_free(lane);
			continue;
		}
		array_lock(a);
		lane_put(&a->lanes->free, lane);
		array_unlock(a);
	}
	w->n = n;
}

/* Return true if something must be sent and no completion would wake up the reaper for it. */
static bool has_unsent(const struct lane *lane)
{
	return lane->first_unsent || (lane->array->is_files && uring_has_unsubmitted(lane->part));
}

static void *reaper_thread(void *array)
{
	struct linnos_array *a = array;
	struct waiting w = {0};
	uint64_t calls;
	int wake_fd;

	/* Wait until the thread that starts the reaper has released the lock. */
	array_lock(a);
	wake_fd = a->lanes->wake_fd;
	array_unlock(a);
	for (;;) {
		int timeout_ms = CLOSED_WAKE_MS;
		bool stopping = take_lost(a, &w);

		/* Copies are submitted by this thread: the kernel reports a completion in the
		 * thread that submitted the request, which it cannot do while that thread waits for
		 * a drive in pread(2). */
		give_free(a, &w);
		if (stopping && !w.n)
			break;
		if (!make_room(&w, w.n)) {
			sched_yield();
			continue;
		}
		for (unsigned int i = 0; i < w.n; i++) {
			struct lane *lane = w.lanes[i];

			w.fds[i].events = POLLIN;
			w.fds[i].fd = lane->fd_is_closed ? -1 : a->backend.fd(lane->part);
			if (w.fds[i].fd < 0 || has_unsent(lane))
				timeout_ms = 1;
		}
		w.fds[w.n] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
		if (poll(w.fds, w.n + 1, timeout_ms) <= 0)
			continue;
		for (unsigned int i = 0; i < w.n; i++)
			w.lanes[i]->fd_is_closed |= !!(w.fds[i].revents & POLLNVAL);
		if (w.fds[w.n].revents && read(wake_fd, &calls, sizeof(calls)) < 0 &&
		    errno == EBADF)
			wake_fd = -1;
	}
	free(w.lanes);
	free(w.fds);
	return NULL;
}

int reaper_start(struct linnos_array *a, const char **why)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));
	int error = -ENOMEM;

	*why = "io_uring";
	if (!lanes)
		return error;
	/* Create one for the first read, and to find out whether one can be created. */
	lanes->free = io_channel_new(a, &error);
	if (!lanes->free) {
		free(lanes);
		return error;
	}
	*why = "a thread that waits for hedged reads";
	error = queue_new(&lanes->queue, a, NULL);
	if (!error) {
		lanes->queue->is_waiters = true;
		lanes->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		error = lanes->wake_fd < 0 ? -errno : 0;
	}
	a->lanes = lanes;
	if (!error)
		error = thread_begin(&lanes->waiter, reaper_thread, a);
	if (!error)
		return 0;
	a->lanes = NULL;
	if (lanes->queue && lanes->wake_fd >= 0)
		close(lanes->wake_fd);
	queue_free(lanes->queue);
	io_channel_free(lanes->free);
	free(lanes);
	return error;
}

const struct linnos_queue *reaper_queue(const struct lanes *lanes)
{
	return lanes->queue;
}

void reaper_stop(struct linnos_array *a)
{
	struct lanes *lanes = a->lanes;

	if (!lanes)
		return;
	array_lock(a);
	lanes->stopping = true;
	array_unlock(a);
	wake(lanes);
	pthread_join(lanes->waiter, NULL);
	while (lanes->free) {
		struct lane *lane = lanes->free;

		lanes->free = lane->next;
		io_channel_free(lane);
	}
	close(lanes->wake_fd);
	queue_free(lanes->queue);
	free(lanes);
	a->lanes = NULL;
}
