// SPDX-License-Identifier: MIT
/* The reaper thread: see reaper.h. */
#include "reaper.h"
#include "messages.h"
#include "thread.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Interval at which the thread checks for work without being woken up. The program may have closed
 * the descriptor that wakes it up, as closefrom(3) does. */
#define CLOSED_WAKE_MS 1000

void reaper_init(struct reaper *reaper, struct replica_set *set)
{
	reaper->set = set;
	pthread_mutex_init(&reaper->lock, NULL);
}

static void wake(const struct reaper *reaper)
{
	uint64_t one = 1;

	/* The write fails only if the counter is full, and then the thread is awake already. */
	if (write(reaper->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void push(struct io_channel **list, struct io_channel *ch)
{
	ch->next = *list;
	*list = ch;
}

static struct io_channel *pop(struct io_channel **list)
{
	struct io_channel *ch = *list;

	if (ch)
		*list = ch->next;
	return ch;
}

/* --- The thread ----------------------------------------------------------------------------- */

/* Take the channels that were handed over. Return true if the thread must stop. */
static bool take_channels(struct reaper *reaper, struct io_channel **waiting)
{
	bool stopping;

	pthread_mutex_lock(&reaper->lock);
	while (reaper->handed_over)
		push(waiting, pop(&reaper->handed_over));
	stopping = reaper->stopping;
	pthread_mutex_unlock(&reaper->lock);
	return stopping;
}

static void release(struct reaper *reaper, struct io_channel *ch)
{
	if (!io_channel_is_reusable(ch)) {
		io_channel_close(ch);
		return;
	}
	pthread_mutex_lock(&reaper->lock);
	push(&reaper->unused, ch);
	pthread_mutex_unlock(&reaper->lock);
}

/* Submit and process what is possible now. Release the channels in which nothing is in flight.
 * Return the number of the others. */
static unsigned int serve_channels(struct reaper *reaper, struct io_channel **waiting)
{
	struct io_channel *all = *waiting, *ch;
	unsigned int n = 0;

	*waiting = NULL;
	while ((ch = pop(&all))) {
		/* Entering a ring whose descriptor is closed finds out that it is broken. */
		if (io_channel_poll(ch, ch->fd_is_closed) && reaper->set->is_files)
			io_channel_abandon(ch);
		if (!ch->in_flight) {
			release(reaper, ch);
			continue;
		}
		push(waiting, ch);
		n++;
	}
	return n;
}

/* Wait until a channel is readable, or for a limited time. The last element of @fds is for the
 * descriptor that wakes up the thread. */
static void wait_for_channels(const struct reaper *reaper, struct io_channel *waiting,
			      struct pollfd *fds, int *wake_fd)
{
	int timeout_ms = CLOSED_WAKE_MS;
	unsigned int n = 0;
	uint64_t calls;

	for (struct io_channel *ch = waiting; ch; ch = ch->next, n++) {
		fds[n].events = POLLIN;
		fds[n].fd = ch->fd_is_closed ? -1 : reaper->set->backend.fd(ch->backend_queue);
		if (fds[n].fd < 0 || io_channel_has_unsent(ch))
			timeout_ms = 1;
	}
	fds[n] = (struct pollfd){.fd = *wake_fd, .events = POLLIN};
	if (poll(fds, n + 1, timeout_ms) <= 0)
		return;
	if (fds[n].revents && read(*wake_fd, &calls, sizeof(calls)) < 0 && errno == EBADF)
		*wake_fd = -1;
	for (struct io_channel *ch = waiting; ch; ch = ch->next)
		ch->fd_is_closed |= !!(fds++->revents & POLLNVAL);
}

static void *run(void *context)
{
	struct reaper *reaper = context;
	struct io_channel *waiting = NULL;
	struct pollfd *fds = NULL;
	/* It becomes -1 if the program has closed it. */
	int wake_fd = reaper->wake_fd;

	for (;;) {
		bool stopping = take_channels(reaper, &waiting);
		/* Copies are submitted by this thread: the kernel reports a completion in the
		 * thread that submitted the request, which it cannot do while that thread waits for
		 * a drive in pread(2). */
		unsigned int n = serve_channels(reaper, &waiting);
		struct pollfd *more;

		if (stopping && !n)
			break;
		more = realloc(fds, (n + 1) * sizeof(*fds));
		if (!more) {
			sched_yield();
			continue;
		}
		fds = more;
		wait_for_channels(reaper, waiting, fds, &wake_fd);
	}
	free(fds);
	return NULL;
}

/* --- Its users ------------------------------------------------------------------------------ */

/* The caller holds the lock. */
static int start(struct reaper *reaper)
{
	int error = 0;

	if (reaper->is_running)
		return 0;
	/* Create a channel for the first read, which also shows whether that is possible. */
	if (!reaper->unused)
		reaper->unused = io_channel_open(reaper->set, NULL, &error);
	if (!error && !reaper->account.chooser)
		error = account_init(&reaper->account, reaper->set, reaper->predictor);
	if (error)
		return error;
	reaper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reaper->wake_fd < 0)
		return -errno;
	error = thread_begin(&reaper->thread, run, reaper);
	reaper->is_running = !error;
	if (error)
		close(reaper->wake_fd);
	return error;
}

int reaper_start(struct reaper *reaper)
{
	int error;

	pthread_mutex_lock(&reaper->lock);
	error = start(reaper);
	pthread_mutex_unlock(&reaper->lock);
	return error ? format_error(error,
				    "hedging needs an io_uring and a thread, which cannot be "
				    "created: %s; to read without hedging, do not set the options "
				    "for it",
				    strerror(-error))
		     : 0;
}

struct io_channel *reaper_get_channel(struct reaper *reaper, int *error)
{
	struct io_channel *ch;

	pthread_mutex_lock(&reaper->lock);
	ch = pop(&reaper->unused);
	pthread_mutex_unlock(&reaper->lock);
	return ch ? ch : io_channel_open(reaper->set, NULL, error);
}

bool reaper_can_wait(const struct io_channel *ch)
{
	const struct linnos_backend *backend = &ch->set->backend;

	return backend->fd && backend->fd(ch->backend_queue) >= 0;
}

bool reaper_hand_over(struct reaper *reaper, struct io_channel *ch)
{
	bool can, wakes = false;

	if (!ch->in_flight && !io_channel_is_reusable(ch)) {
		io_channel_close(ch);
		return true;
	}
	pthread_mutex_lock(&reaper->lock);
	can = !start(reaper);
	if (can) {
		for (struct attempt *at = ch->attempts.first; at; at = at->later)
			at->account = &reaper->account;
		/* A channel without attempts in flight would never become readable. */
		wakes = ch->in_flight;
		push(wakes ? &reaper->handed_over : &reaper->unused, ch);
	}
	pthread_mutex_unlock(&reaper->lock);
	/* Wake it up after unlocking, because it needs the lock at once. */
	if (wakes)
		wake(reaper);
	return can;
}

void reaper_destroy(struct reaper *reaper)
{
	struct io_channel *ch;

	if (reaper->is_running) {
		pthread_mutex_lock(&reaper->lock);
		reaper->stopping = true;
		pthread_mutex_unlock(&reaper->lock);
		wake(reaper);
		pthread_join(reaper->thread, NULL);
		close(reaper->wake_fd);
	}
	while ((ch = pop(&reaper->unused)))
		io_channel_close(ch);
	account_destroy(&reaper->account);
	pthread_mutex_destroy(&reaper->lock);
}
