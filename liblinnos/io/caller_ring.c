// SPDX-License-Identifier: MIT
/* Reads in the caller's io_uring: the library prepares entries and processes completions, the
 * caller submits and waits. */
#include "messages.h"
#include "io_context.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>

static void prepare(struct linnos_read *r, struct io_uring_sqe *sqe)
{
	const struct linnos_queue *q = r->queue;
	const struct attempt *at = read_take_next(r);

	attempt_prepare(at, sqe, q->o.fixed_files ? q->o.fixed_files[at->replica] : -1,
			q->o.n_buffers ? (int)q->o.first_buffer : -1);
}

static void prepare_nothing(struct io_uring_sqe *sqe)
{
	io_uring_prep_nop(sqe);
	sqe->user_data = 0;
}

static int begin(struct linnos_queue *q, struct linnos_read **r, const struct iovec *iov, int n_iov,
		 off_t offset, const struct linnos_read_options *options)
{
	struct linnos_read_options o;
	int error = read_options_copy_in(q, &o, options);

	*r = NULL;
	if (error)
		return error;
	if (!q->array->is_files)
		return error_say(-EINVAL, "a ring reads files and block devices, no backend's "
					  "replicas; linnos_queue_submit_read() does");
	*r = read_new(q);
	if (!*r)
		return error_say(-ENOMEM, "out of memory");
	return read_begin(q, *r, iov, n_iov, offset, &o, READ_CALLERS_RING);
}

int linnos_queue_prep_read(struct linnos_queue *q, struct io_uring_sqe *sqe,
			   const struct iovec *iov, int n_iov, off_t offset,
			   const struct linnos_read_options *options, void *user)
{
	struct linnos_read *r;
	int error;

	/* The ring is full: nothing has begun. */
	if (!sqe)
		return -EAGAIN;
	error = begin(q, &r, iov, n_iov, offset, options);
	if (error) {
		if (r)
			read_put(q, r);
		prepare_nothing(sqe);
		return error;
	}
	r->user = user;
	if (r->copy)
		reaper_submit_probe_copy(r->copy);
	read_list(q, r);
	prepare(r, sqe);
	return 0;
}

int linnos_queue_prep_retry(struct linnos_read *r, struct io_uring_sqe *sqe)
{
	if (!sqe)
		return -EAGAIN;
	if (!r) {
		prepare_nothing(sqe);
		return error_null("read");
	}
	if (r->is_done) {
		attempt_cancel_unsent(read_take_next(r));
		read_put(r->queue, r);
		prepare_nothing(sqe);
		return 0;
	}
	prepare(r, sqe);
	read_list(r->queue, r);
	return 0;
}

static enum linnos_outcome tell(enum linnos_outcome outcome, struct linnos_read *r,
				struct linnos_completion *c)
{
	if (outcome == LINNOS_READ_PENDING)
		return outcome;
	c->user = r->user;
	if (outcome == LINNOS_READ_RESUBMIT) {
		c->read = r;
		return outcome;
	}
	c->result = r->result;
	c->replica = r->replica;
	c->error_text = r->error_text;
	/* The caller still has the read and will pass it to linnos_queue_prep_retry(). */
	if (r->next)
		r->next->held = r;
	else
		read_put(r->queue, r);
	return outcome;
}

enum linnos_outcome linnos_queue_complete(uint64_t handle, int result, struct linnos_completion *c)
{
	struct attempt *at = (struct attempt *)(uintptr_t)(handle & ~(uint64_t)(ATTEMPT_ALIGN - 1));
	enum linnos_outcome outcome;
	struct linnos_read *r;

	memset(c, 0, sizeof(*c));
	if (!at)
		return LINNOS_READ_PENDING;
	c->queue = at->queue;
	outcome = attempt_ended(at, result, &r);
	return tell(outcome, r, c);
}

int64_t linnos_queue_next_timeout_ns(struct linnos_queue *q)
{
	uint64_t now_ns, due_ns;

	if (!q || !q->in_callers_ring.first)
		return -1;
	now_ns = queue_time(q);
	due_ns = read_due_ns(q->in_callers_ring.first);
	return due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;
}

enum linnos_outcome linnos_queue_next_expired(struct linnos_queue *q, struct linnos_completion *c)
{
	struct linnos_read *r = NULL;
	enum linnos_outcome outcome;

	memset(c, 0, sizeof(*c));
	if (!q)
		return LINNOS_READ_PENDING;
	outcome = read_due(q, &q->in_callers_ring, &r);
	c->queue = q;
	return tell(outcome, r, c);
}

uint64_t linnos_queue_next_orphan(struct linnos_queue *q)
{
	for (struct attempt *at = q && q->n_lost ? q->ring_attempts : NULL; at; at = at->later)
		if (at->is_unwanted) {
			at->is_unwanted = false;
			q->n_lost--;
			return attempt_handle(at);
		}
	return 0;
}

void linnos_queue_abandon_reads(struct linnos_queue *q)
{
	if (q)
		attempts_abandon(q);
}
