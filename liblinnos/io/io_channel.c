// SPDX-License-Identifier: MIT
/* I/O channels: see io_channel.h. */
#include "io_channel.h"
#include "messages.h"
#include "uring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A request for which the backend had no room is submitted again after a completion or after
 * UNSENT_RETRY_NS. It fails if a backend that serves nothing has had no room for UNSENT_MAX_NS. */
#define UNSENT_RETRY_NS 1000000
#define UNSENT_MAX_NS 1000000000ull
/* When a queue is closed, a backend whose wait fails has this time to complete what is in flight.
 */
#define CLOSING_MAX_NS 1000000000ull

struct io_channel *io_channel_open(struct replica_set *set,
				   const struct linnos_queue_options *registrations, int *error)
{
	struct io_channel *ch;

	ch = calloc(1, sizeof(*ch));
	if (!ch) {
		*error = error_memory();
		return NULL;
	}
	ch->set = set;
	*error = READ_ONCE(set->has_lost_descriptors)
			 ? -EBADF
			 : set->backend.open(set->backend.context, &ch->backend_queue);
	if (*error) {
		format_error(*error, "%s: %s",
			     set->is_files ? "cannot create an io_uring"
					   : "the backend cannot create a queue",
			     strerror(-*error));
		free(ch);
		return NULL;
	}
	ch->has_registrations = registrations;
	if (registrations)
		*error = uring_register(ch->backend_queue, registrations);
	if (!*error)
		return ch;
	io_channel_close(ch);
	return NULL;
}

void io_channel_close(struct io_channel *ch)
{
	ch->set->backend.close(ch->backend_queue);
	free(ch);
}

bool io_channel_is_broken(const struct io_channel *ch)
{
	return ch->set->is_files && uring_is_broken(ch->backend_queue);
}

bool io_channel_is_reusable(const struct io_channel *ch)
{
	return !ch->has_registrations && !io_channel_is_broken(ch);
}

bool io_channel_has_unsent(const struct io_channel *ch)
{
	return ch->first_unsent || (ch->set->is_files && uring_has_unsubmitted(ch->backend_queue));
}

static void on_read_done(struct linnos_read *r)
{
	struct reads *reads = r->reads;

	reads->n_in_flight--;
	if (r->is_only_read)
		return;
	r->later = NULL;
	*(reads->last_done ? &reads->last_done->later : &reads->first_done) = r;
	reads->last_done = r;
}

/* Process the result of an attempt. Return the attempt to be sent next, or NULL. */
static struct attempt *complete(struct attempt *at, ssize_t result)
{
	struct linnos_read *r;

	at->channel->in_flight--;
	switch (read_attempt_complete(at, result, &r)) {
	case LINNOS_READ_RESUBMIT:
		return read_take_next(r);
	case LINNOS_READ_DONE:
		on_read_done(r);
		break;
	case LINNOS_READ_PENDING:
		break;
	}
	return NULL;
}

static int submit(struct io_channel *ch, struct attempt *at)
{
	struct io_request io = attempt_request(at);
	int error;

	do
		error = ch->set->backend.submit(ch->backend_queue, &io.request);
	while (error == -EINTR && ++at->n_interrupted < INTERRUPTED_MAX);
	if (!error)
		ch->unsent_ns = 0;
	return error;
}

static void keep_unsent(struct io_channel *ch, struct attempt *at)
{
	at->next = NULL;
	at->is_unsent = true;
	*(ch->last_unsent ? &ch->last_unsent->next : &ch->first_unsent) = at;
	ch->last_unsent = at;
	ch->n_unsent++;
}

static struct attempt *take_unsent(struct io_channel *ch)
{
	struct attempt *at = ch->first_unsent;

	ch->first_unsent = at->next;
	if (!at->next)
		ch->last_unsent = NULL;
	ch->n_unsent--;
	at->next = NULL;
	at->is_unsent = false;
	return at;
}

void io_channel_submit(struct io_channel *ch, struct attempt *at)
{
	while (at) {
		int error;

		if (!at->list)
			attempt_list_add(&ch->attempts, at);
		at->channel = ch;
		ch->in_flight++;
		ch->has_new = true;
		/* Requests are submitted in the order in which they arrived. */
		error = ch->first_unsent ? -EAGAIN : submit(ch, at);
		if (!error)
			return;
		if (error == -EAGAIN) { /* the backend has no room */
			keep_unsent(ch, at);
			return;
		}
		at->not_sent = ch->set->is_files;
		at = complete(at, error);
	}
}

/* Submit the requests for which the backend had no room. A request fails if the backend has refused
 * it for too long and serves no other request of this channel. */
static void send_unsent(struct io_channel *ch)
{
	uint64_t now_ns = ch->first_unsent ? replica_set_clock_ns(ch->set) : 0;

	while (ch->first_unsent) {
		struct attempt *at = ch->first_unsent;
		/* No read waits for the attempt any more. */
		int error = at->read || at->kind == LINNOS_PROBE_COPY ? submit(ch, at) : -ECANCELED;

		if (error == -EAGAIN && ch->in_flight > ch->n_unsent)
			ch->unsent_ns = 0;
		else if (error == -EAGAIN && !ch->unsent_ns)
			ch->unsent_ns = now_ns;
		if (error == -EAGAIN && (!ch->unsent_ns || now_ns - ch->unsent_ns < UNSENT_MAX_NS))
			return;
		take_unsent(ch);
		ch->has_new = true;
		if (!error)
			continue;
		at->not_sent = ch->set->is_files && at->read;
		io_channel_submit(ch, complete(at, error));
	}
	ch->unsent_ns = 0;
}

void io_channel_on_complete(uint64_t handle, ssize_t result, bool is_sent)
{
	struct attempt *at = attempt_of(handle);
	struct io_channel *ch = at->channel;

	at->not_sent |= !is_sent;
	io_channel_submit(ch, complete(at, result));
}

void linnos_request_complete(uint64_t handle, ssize_t result)
{
	io_channel_on_complete(handle, result, true);
}

int io_channel_poll(struct io_channel *ch, int64_t timeout_ns)
{
	int error;

	if (ch->first_unsent && ch->in_flight == ch->n_unsent &&
	    (timeout_ns < 0 || timeout_ns > UNSENT_RETRY_NS))
		timeout_ns = UNSENT_RETRY_NS;
	ch->has_new = false;
	error = ch->set->backend.wait(ch->backend_queue, timeout_ns);
	if (ch->set->is_files && uring_descriptor_is_gone(ch->backend_queue))
		WRITE_ONCE(ch->set->has_lost_descriptors, true);
	ch->n_interrupted = error == -EINTR ? ch->n_interrupted + 1 : 0;
	if (error == -EINTR && ch->n_interrupted < INTERRUPTED_MAX)
		error = 0;
	send_unsent(ch);
	return error;
}

/* Send the hedges and complete the reads that are due now. */
static void serve_due(struct io_channel *ch, struct reads *reads)
{
	struct linnos_read *r;
	enum linnos_outcome outcome;

	while ((outcome = read_expire(reads, &r)) != LINNOS_READ_PENDING) {
		if (outcome == LINNOS_READ_RESUBMIT)
			io_channel_submit(ch, read_take_next(r));
		else
			on_read_done(r);
	}
}

void io_channel_cancel_unwanted(struct io_channel *ch)
{
	const struct linnos_backend *backend = &ch->set->backend;
	struct attempt *at;

	while (backend->cancel && (at = attempt_take_unwanted(&ch->attempts))) {
		ch->has_new = true;
		backend->cancel(ch->backend_queue, attempt_handle(at));
	}
}

/* Complete all reads with an error, because the kernel has probably dropped their attempts. */
static void give_up_reads(struct io_channel *ch, int error)
{
	for (struct attempt *at = ch->attempts.first; at; at = at->later) {
		struct linnos_read *r = at->read;

		if (!r)
			continue;
		read_give_up(r, error);
		on_read_done(r);
	}
}

int io_channel_wait(struct io_channel *ch, struct reads *reads, int64_t timeout_ns, uint64_t now_ns)
{
	int error;

	if (reads->first_timed) {
		uint64_t due_ns = read_due_ns(reads->first_timed);
		int64_t due_in_ns = due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;

		if (timeout_ns < 0 || due_in_ns < timeout_ns)
			timeout_ns = due_in_ns;
	}
	error = io_channel_poll(ch, timeout_ns);
	if (error && ch->set->is_files) {
		give_up_reads(ch, error);
		error = 0;
	}
	serve_due(ch, reads);
	io_channel_cancel_unwanted(ch);
	/* Submit failovers, hedges and cancel requests now, because the caller may not call again
	 * for a long time. */
	while (!error && ch->has_new) {
		error = io_channel_poll(ch, 0);
		io_channel_cancel_unwanted(ch);
	}
	return error;
}

void io_channel_abandon(struct io_channel *ch)
{
	while (ch->attempts.first)
		attempt_abandon(ch->attempts.first);
	ch->first_unsent = ch->last_unsent = NULL;
	ch->in_flight = ch->n_unsent = 0;
}

void io_channel_drain(struct io_channel *ch)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	unsigned int n_failed = 0;

	while (ch->in_flight) {
		int error = io_channel_poll(ch, -1);

		n_failed = error ? n_failed + 1 : 0;
		if (error &&
		    (ch->set->is_files || n_failed > CLOSING_MAX_NS / (uint64_t)pause.tv_nsec)) {
			io_channel_abandon(ch);
			return;
		}
		if (error)
			nanosleep(&pause, NULL);
	}
}
