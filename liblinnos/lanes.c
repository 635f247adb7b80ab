// SPDX-License-Identifier: MIT
/* A queue's part of the backend: see lanes.h. */
#include "lanes.h"
#include "messages.h"
#include "thread.h"
#include "uring_backend.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lane {
	struct lane *next;
	struct linnos_array *array;
	void *part; /* of the backend */
	struct attempt *attempts;
	unsigned int in_flight;
	bool has_new; /* since the last wait, which sends it */
};

struct lanes {
	struct lane *free;
	struct lane *lost;	    /* for the waiter to take */
	struct linnos_queue *queue; /* the waiter's */
	pthread_t waiter;
	int wake_fd;
	bool stopping;
};

static struct lane *lane_new(struct linnos_array *a, int *error)
{
	struct lane *lane = calloc(1, sizeof(*lane));

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

static void lane_free(struct lane *lane)
{
	lane->array->backend.close(lane->part);
	free(lane);
}

static bool is_registered(const struct lane *lane)
{
	return lane->array->is_files && uring_is_registered(lane->part);
}

/* One that is free, or a new one. */
static struct lane *lane_get(struct linnos_array *a, int *error)
{
	struct lane *lane = NULL;

	array_lock(a);
	if (a->lanes && a->lanes->free) {
		lane = a->lanes->free;
		a->lanes->free = lane->next;
	}
	array_unlock(a);
	return lane ? lane : lane_new(a, error);
}

struct lane *lane_of(struct linnos_queue *q, int *error)
{
	const bool registers = q->o.register_files || q->o.n_buffers;
	struct linnos_array *a = q->array;

	if (q->lane)
		return q->lane;
	if (!registers || !a->is_files) {
		q->lane = lane_get(a, error);
		return q->lane;
	}
	q->lane = lane_new(a, error);
	if (q->lane)
		*error = uring_register(q->lane->part, a, &q->o);
	if (q->lane && *error)
		lane_close(q);
	return q->lane;
}

void lane_send(struct lane *lane, struct attempt *at)
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

	if (!at->list)
		attempt_join(&lane->attempts, at);
	at->lane = lane;
	lane->in_flight++;
	lane->has_new = true;
	error = backend->submit(lane->part, &request);
	if (error)
		linnos_ended(request.handle, error);
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

void linnos_ended(uint64_t handle, ssize_t result)
{
	struct attempt *at = (struct attempt *)(uintptr_t)handle;
	struct lane *lane = at->lane;
	struct linnos_read *r;

	lane->in_flight--;
	switch (attempt_ended(at, result, &r)) {
	case LINNOS_AGAIN:
		lane_send(lane, read_take_next(r));
		break;
	case LINNOS_DONE:
		done(r);
		break;
	case LINNOS_NOTHING:
		break;
	}
}

/* What is due now. */
static void serve_due(struct linnos_queue *q)
{
	struct linnos_read *r;
	enum linnos_outcome outcome;

	while ((outcome = read_due(q, &q->in_own, &r)) != LINNOS_NOTHING) {
		if (outcome == LINNOS_AGAIN)
			lane_send(q->lane, read_take_next(r));
		else
			done(r);
	}
}

void lane_cancel_lost(struct linnos_queue *q)
{
	const struct linnos_backend *backend = &q->array->backend;

	for (struct attempt *at = q->lane->attempts; at && backend->cancel; at = at->later)
		if (at->is_unwanted) {
			at->is_unwanted = false;
			q->lane->has_new = true;
			backend->cancel(q->lane->part, attempt_handle(at));
		}
}

int lane_wait(struct linnos_queue *q, int64_t timeout_ns)
{
	const struct linnos_backend *backend = &q->array->backend;
	struct lane *lane = q->lane;
	int error;

	if (q->in_own.first) {
		uint64_t due_ns = read_due_ns(q->in_own.first), now_ns = queue_time(q);
		int64_t due_in_ns = due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;

		if (timeout_ns < 0 || due_in_ns < timeout_ns)
			timeout_ns = due_in_ns;
	}
	lane->has_new = false;
	error = backend->wait(lane->part, timeout_ns);
	serve_due(q);
	lane_cancel_lost(q);
	/* Failovers, hedges and cancels: the caller may not come back for long. */
	while (!error && lane->has_new) {
		lane->has_new = false;
		error = backend->wait(lane->part, 0);
		lane_cancel_lost(q);
	}
	return error;
}

static void wake(const struct lanes *lanes)
{
	uint64_t one = 1;

	/* Full only when it is awake already. */
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

/* All attempts in it are the waiter's from now on, who sends what was not sent. False: there is no
 * waiter. */
static bool hand_over(struct lane *lane)
{
	struct linnos_array *a = lane->array;
	const bool waits = lane->in_flight;
	const char *why;
	bool can;

	if (!waits && is_registered(lane)) {
		lane_free(lane);
		return true;
	}
	array_lock(a);
	can = a->lanes || !lanes_start(a, &why);
	if (can) {
		for (struct attempt *at = lane->attempts; at; at = at->later)
			at->queue = a->lanes->queue;
		/* One in which nothing is under way would never be readable. */
		lane_put(waits ? &a->lanes->lost : &a->lanes->free, lane);
	}
	array_unlock(a);
	if (can && waits)
		wake(a->lanes);
	return can;
}

void lane_leave(struct linnos_queue *q)
{
	struct lane *lane = q->lane;

	if (!lane || q->n_live || !lane->in_flight || !can_be_left(lane))
		return;
	/* What has ended is heard of here; and cancels need nobody to wake up. */
	q->array->backend.wait(lane->part, 0);
	if (hand_over(lane))
		q->lane = NULL;
}

void lane_close(struct linnos_queue *q)
{
	lane_leave(q);
	if (!q->lane)
		return;
	for (struct attempt *at = q->lane->attempts; at; at = at->later)
		at->is_unwanted = true;
	lane_cancel_lost(q);
	while (q->lane->in_flight)
		if (lane_wait(q, -1))
			sched_yield();
	lane_free(q->lane);
	q->lane = NULL;
}

void lanes_send_copy(struct attempt *copy)
{
	struct linnos_queue *q = copy->queue;
	struct linnos_array *a = q->array;
	struct lane *lane;
	int error = 0;

	/* It would stay there until the queue's next call; which is soon where it is in use. */
	if (!a->backend.fd) {
		lane = lane_of(q, &error);
		if (lane)
			lane_send(lane, copy);
		else
			copy_take_back(copy, false);
		return;
	}
	lane = lane_get(a, &error);
	if (!lane) {
		/* It will not be otherwise the next time. */
		copy_take_back(copy, error == -ENOSYS || error == -EPERM);
		return;
	}
	lane_send(lane, copy);
	if (hand_over(lane))
		return;
	while (lane->in_flight)
		a->backend.wait(lane->part, -1);
	lane_free(lane);
}

/* --- The waiter ------------------------------------------------------------- */

struct waiting {
	struct lane **lanes;
	struct pollfd *fds; /* the last one is the call to wake up */
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

/* Takes the lanes that were handed over, as far as there is room. True when there will be no more.
 */
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

		a->backend.wait(lane->part, 0);
		if (lane->in_flight) {
			w->lanes[n++] = lane;
			continue;
		}
		if (is_registered(lane)) {
			lane_free(lane);
			continue;
		}
		array_lock(a);
		lane_put(&a->lanes->free, lane);
		array_unlock(a);
	}
	w->n = n;
}

static void *wait_for_the_lost(void *array)
{
	struct linnos_array *a = array;
	struct waiting w = {0};
	uint64_t calls;

	/* Until whoever starts it has left. */
	array_lock(a);
	array_unlock(a);
	for (;;) {
		bool stopping = take_lost(a, &w);

		/* Copies are sent here: the kernel tells of an answer in the thread that has sent,
		 * which it does not while that waits for a drive in pread(2). */
		give_free(a, &w);
		if (stopping && !w.n)
			break;
		if (!make_room(&w, w.n)) {
			sched_yield();
			continue;
		}
		for (unsigned int i = 0; i < w.n; i++)
			w.fds[i] = (struct pollfd){.fd = a->backend.fd(w.lanes[i]->part),
						   .events = POLLIN};
		w.fds[w.n] = (struct pollfd){.fd = a->lanes->wake_fd, .events = POLLIN};
		poll(w.fds, w.n + 1, -1);
		if (w.fds[w.n].revents && read(a->lanes->wake_fd, &calls, sizeof(calls)) < 0)
			continue;
	}
	free(w.lanes);
	free(w.fds);
	return NULL;
}

int lanes_start(struct linnos_array *a, const char **why)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));
	int error = -ENOMEM;

	*why = "io_uring";
	if (!lanes)
		return error;
	/* The first read finds one, and it is known that there can be one. */
	lanes->free = lane_new(a, &error);
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
		error = thread_begin(&lanes->waiter, wait_for_the_lost, a);
	if (!error)
		return 0;
	a->lanes = NULL;
	if (lanes->queue && lanes->wake_fd >= 0)
		close(lanes->wake_fd);
	queue_free(lanes->queue);
	lane_free(lanes->free);
	free(lanes);
	return error;
}

const struct linnos_queue *lanes_queue(const struct lanes *lanes)
{
	return lanes->queue;
}

void lanes_stop(struct linnos_array *a)
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
		lane_free(lane);
	}
	close(lanes->wake_fd);
	queue_free(lanes->queue);
	free(lanes);
	a->lanes = NULL;
}
