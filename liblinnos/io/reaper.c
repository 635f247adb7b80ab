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

struct waiting {
	struct io_channel **channels;
	struct pollfd *fds; /* the last element is the descriptor that wakes up the thread */
	unsigned int n, allocated;
};

static bool make_room(struct waiting *w, unsigned int n)
{
	unsigned int more = n < 8 ? 8 : 2 * n;
	struct io_channel **channels;
	struct pollfd *fds;

	if (n < w->allocated)
		return true;
	channels = realloc(w->channels, more * sizeof(*channels));
	if (channels)
		w->channels = channels;
	fds = realloc(w->fds, (more + 1) * sizeof(*fds));
	if (fds)
		w->fds = fds;
	if (channels && fds)
		w->allocated = more;
	return channels && fds;
}

/* Take the channels that were handed over, as far as there is memory. Return true if there will be
 * no more. */
static bool take_channels(struct reaper *reaper, struct waiting *w)
{
	bool stopping;

	pthread_mutex_lock(&reaper->lock);
	while (reaper->handed_over && make_room(w, w->n))
		w->channels[w->n++] = pop(&reaper->handed_over);
	stopping = reaper->stopping && !reaper->handed_over;
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

/* Submit and process what is possible now. Release the channels in which nothing is in flight. */
static void serve_channels(struct reaper *reaper, struct waiting *w)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < w->n; i++) {
		struct io_channel *ch = w->channels[i];

		/* Entering a ring whose descriptor is closed finds out that it is broken. */
		if (io_channel_poll(ch, ch->fd_is_closed) && reaper->set->is_files)
			io_channel_abandon(ch);
		if (ch->in_flight)
			w->channels[n++] = ch;
		else
			release(reaper, ch);
	}
	w->n = n;
}

/* Return the timeout. */
static int set_descriptors(const struct reaper *reaper, struct waiting *w, int wake_fd)
{
	int timeout_ms = CLOSED_WAKE_MS;

	for (unsigned int i = 0; i < w->n; i++) {
		struct io_channel *ch = w->channels[i];

		w->fds[i].events = POLLIN;
		w->fds[i].fd = ch->fd_is_closed ? -1 : reaper->set->backend.fd(ch->backend_queue);
		if (w->fds[i].fd < 0 || io_channel_has_unsent(ch))
			timeout_ms = 1;
	}
	w->fds[w->n] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
	return timeout_ms;
}

static void *run(void *context)
{
	struct reaper *reaper = context;
	struct waiting w = {0};
	uint64_t calls;
	int wake_fd;

	/* Wait until the thread that starts this one has released the lock. */
	pthread_mutex_lock(&reaper->lock);
	wake_fd = reaper->wake_fd;
	pthread_mutex_unlock(&reaper->lock);
	for (;;) {
		bool stopping = take_channels(reaper, &w);
		int timeout_ms;

		/* Copies are submitted by this thread: the kernel reports a completion in the
		 * thread that submitted the request, which it cannot do while that thread waits for
		 * a drive in pread(2). */
		serve_channels(reaper, &w);
		if (stopping && !w.n)
			break;
		if (!make_room(&w, w.n)) {
			sched_yield();
			continue;
		}
		timeout_ms = set_descriptors(reaper, &w, wake_fd);
		if (poll(w.fds, w.n + 1, timeout_ms) <= 0)
			continue;
		for (unsigned int i = 0; i < w.n; i++)
			w.channels[i]->fd_is_closed |= !!(w.fds[i].revents & POLLNVAL);
		if (w.fds[w.n].revents && read(wake_fd, &calls, sizeof(calls)) < 0 &&
		    errno == EBADF)
			wake_fd = -1;
	}
	free(w.channels);
	free(w.fds);
	return NULL;
}

/* --- Its users ------------------------------------------------------------------------------ */

/* On failure *what is set to what cannot be created. The caller holds the lock. */
static int start(struct reaper *reaper, const char **what)
{
	int error = 0;

	if (reaper->is_running)
		return 0;
	*what = "an io_uring";
	/* For the first read, and to find out whether one can be created. */
	if (!reaper->unused)
		reaper->unused = io_channel_open(reaper->set, &error);
	*what = error ? *what : "a thread";
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
	const char *what;
	int error;

	pthread_mutex_lock(&reaper->lock);
	error = start(reaper, &what);
	pthread_mutex_unlock(&reaper->lock);
	return error ? format_error(error,
				    "hedging needs %s, which cannot be created: %s; to read "
				    "without hedging, do not set the options for it",
				    what, strerror(-error))
		     : 0;
}

struct io_channel *reaper_get_channel(struct reaper *reaper, int *error)
{
	struct io_channel *ch;

	pthread_mutex_lock(&reaper->lock);
	ch = pop(&reaper->unused);
	pthread_mutex_unlock(&reaper->lock);
	return ch ? ch : io_channel_open(reaper->set, error);
}

bool reaper_can_wait(const struct io_channel *ch)
{
	const struct linnos_backend *backend = &ch->set->backend;

	return backend->fd && backend->fd(ch->backend_queue) >= 0;
}

bool reaper_hand_over(struct reaper *reaper, struct io_channel *ch)
{
	const char *what;
	bool can, wakes = false;

	if (!ch->in_flight && !io_channel_is_reusable(ch)) {
		io_channel_close(ch);
		return true;
	}
	pthread_mutex_lock(&reaper->lock);
	can = !start(reaper, &what);
	if (can) {
		for (struct attempt *at = ch->attempts.first; at; at = at->later)
			at->account = &reaper->account;
		/* A channel without attempts in flight would never become readable. */
		wakes = ch->in_flight;
		push(wakes ? &reaper->handed_over : &reaper->unused, ch);
	}
	pthread_mutex_unlock(&reaper->lock);
	/* Not before, because the thread needs the lock as soon as it is awake. */
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
