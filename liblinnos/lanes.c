// SPDX-License-Identifier: MIT
/* Rings for hedged linnos_pread() and for copies: see lanes.h. */
#include "lanes.h"
#include "reads.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Attempts of one read: two at once, each after its own failure. */
#define LANE_ENTRIES 4

struct lane {
	struct lane *next;
	struct io_uring ring;
	unsigned int in_flight;
};

struct lanes {
	struct lane *free;
	struct lane *lost; /* for the waiter to take */
	pthread_t waiter;
	int wake_fd;
	bool stopping;
};

static struct lane *lane_new(int *error)
{
	struct io_uring_params p = {0};
	struct lane *lane = calloc(1, sizeof(*lane));

	if (!lane) {
		*error = -ENOMEM;
		return NULL;
	}
	*error = io_uring_queue_init_params(LANE_ENTRIES, &lane->ring, &p);
	if (!*error && !(p.features & IORING_FEAT_EXT_ARG)) {
		io_uring_queue_exit(&lane->ring);
		*error = -ENOSYS;
	}
	if (!*error)
		return lane;
	free(lane);
	return NULL;
}

static void lane_free(struct lane *lane)
{
	io_uring_queue_exit(&lane->ring);
	free(lane);
}

static struct lane *lane_get(struct linnos_array *a)
{
	struct lane *lane;
	int error;

	array_lock(a);
	lane = a->lanes->free;
	if (lane)
		a->lanes->free = lane->next;
	array_unlock(a);
	return lane ? lane : lane_new(&error);
}

static void wake(const struct lanes *lanes)
{
	uint64_t one = 1;

	/* Full only when it is awake already. */
	if (write(lanes->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void lane_send(struct linnos_array *a, struct lane *lane, struct attempt *at)
{
	/* There is one: two attempts at once, and each is submitted before the next. */
	struct io_uring_sqe *sqe = io_uring_get_sqe(&lane->ring);

	attempt_prepare(a, at, sqe);
	lane->in_flight++;
}

/* Hears of what has come back, until this read is over; true then. */
static bool collect(struct linnos_array *a, struct lane *lane, struct linnos_read *mine)
{
	struct io_uring_cqe *cqe;

	while (lane->in_flight && !io_uring_peek_cqe(&lane->ring, &cqe)) {
		struct attempt *at = attempt_of_user_data(cqe->user_data);
		int result = cqe->res;
		struct linnos_read *r;
		enum linnos_outcome outcome;

		io_uring_cqe_seen(&lane->ring, cqe);
		lane->in_flight--;
		outcome = attempt_ended(a, at, result, &r);
		if (outcome == LINNOS_AGAIN)
			lane_send(a, lane, read_take_next(r));
		if (outcome == LINNOS_DONE && r == mine)
			return true;
	}
	return false;
}

/* Submits, and sleeps until something is back or the time has come; true when it has. */
static bool sleep_until(struct linnos_array *a, struct lane *lane, uint64_t at_ns)
{
	uint64_t now_ns = array_clock_ns(a);
	uint64_t for_ns = at_ns > now_ns ? at_ns - now_ns : 0;
	struct __kernel_timespec ts = {.tv_sec = for_ns / 1000000000,
				       .tv_nsec = for_ns % 1000000000};
	struct io_uring_cqe *cqe;
	int n = io_uring_submit_and_wait_timeout(&lane->ring, &cqe, 1,
						 at_ns == UINT64_MAX ? NULL : &ts, NULL);

	/* The kernel is short of memory for the moment. */
	if (n == -EAGAIN || n == -EBUSY || n == -ENOMEM)
		sched_yield();
	return at_ns != UINT64_MAX && array_clock_ns(a) >= at_ns;
}

/* Back to the others, or to the waiter. */
static void lane_put(struct linnos_array *a, struct lane *lane)
{
	struct lane **list;

	collect(a, lane, NULL);
	/* The rest of what was answered in part may be prepared: the waiter only waits. */
	while (io_uring_sq_ready(&lane->ring) && io_uring_submit(&lane->ring) < 0)
		sched_yield();
	array_lock(a);
	list = lane->in_flight ? &a->lanes->lost : &a->lanes->free;
	lane->next = *list;
	*list = lane;
	array_unlock(a);
	if (list == &a->lanes->lost)
		wake(a->lanes);
}

static uint64_t hedge_time(struct linnos_array *a, const struct linnos_read *r)
{
	uint64_t at_ns;

	array_lock(a);
	at_ns = read_hedge_ns(a, r);
	array_unlock(a);
	return at_ns;
}

ssize_t lanes_read(struct linnos_array *a, struct linnos_read *r)
{
	struct lane *lane = lane_get(a);

	if (!lane) {
		array_lock(a);
		a->stats.without_ring++;
		array_unlock(a);
		return pread_plain(a, r);
	}
	lane_send(a, lane, read_take_next(r));
	for (;;) {
		bool is_time = sleep_until(a, lane, hedge_time(a, r));

		if (collect(a, lane, r))
			break;
		if (is_time && r->is_timed && read_hedge(a, r))
			lane_send(a, lane, read_take_next(r));
	}
	lane_put(a, lane);
	return r->result;
}

void lanes_send_copy(struct linnos_array *a, struct attempt *copy)
{
	struct lane *lane = NULL;
	const char *why;
	int error;

	array_lock(a);
	error = a->lanes ? 0 : lanes_start(a, &why);
	/* It will not be otherwise the next time. */
	a->chooser.users_explore = error == -ENOSYS || error == -EPERM;
	array_unlock(a);
	if (!error)
		lane = lane_get(a);
	if (!lane) {
		copy_take_back(a, copy);
		return;
	}
	lane_send(a, lane, copy);
	lane_put(a, lane);
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

		collect(a, lane, NULL);
		if (lane->in_flight) {
			w->lanes[n++] = lane;
			continue;
		}
		array_lock(a);
		lane->next = a->lanes->free;
		a->lanes->free = lane;
		array_unlock(a);
	}
	w->n = n;
}

static void *wait_for_the_lost(void *array)
{
	struct linnos_array *a = array;
	struct waiting w = {0};
	uint64_t calls;

	for (;;) {
		bool stopping = take_lost(a, &w);

		if (stopping && !w.n)
			break;
		if (!make_room(&w, w.n)) {
			sched_yield();
			continue;
		}
		for (unsigned int i = 0; i < w.n; i++)
			w.fds[i] =
				(struct pollfd){.fd = w.lanes[i]->ring.ring_fd, .events = POLLIN};
		w.fds[w.n] = (struct pollfd){.fd = a->lanes->wake_fd, .events = POLLIN};
		poll(w.fds, w.n + 1, -1);
		if (w.fds[w.n].revents && read(a->lanes->wake_fd, &calls, sizeof(calls)) < 0)
			continue;
		give_free(a, &w);
	}
	free(w.lanes);
	free(w.fds);
	return NULL;
}

int lanes_start(struct linnos_array *a, const char **why)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));
	sigset_t all, before;
	int error = -ENOMEM;

	*why = "io_uring";
	if (!lanes)
		return error;
	/* The first read finds one, and it is known that there can be one. */
	lanes->free = lane_new(&error);
	if (!lanes->free) {
		free(lanes);
		return error;
	}
	*why = "a thread that waits for hedged reads";
	lanes->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = lanes->wake_fd < 0 ? errno : 0;
	a->lanes = lanes;
	if (!error) {
		/* Signals are the program's. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(&lanes->waiter, NULL, wait_for_the_lost, a);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (!error)
		return 0;
	if (lanes->wake_fd >= 0)
		close(lanes->wake_fd);
	lane_free(lanes->free);
	free(lanes);
	a->lanes = NULL;
	return -error;
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
	free(lanes);
	a->lanes = NULL;
}
