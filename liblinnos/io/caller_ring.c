// SPDX-License-Identifier: MIT
/* Reads in the caller's io_uring: the library prepares entries and processes completions, the
 * caller submits and waits. */
#include "messages.h"
#include "queue.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>

static void prepare(struct linnos_queue *q, struct linnos_read *r, struct io_uring_sqe *sqe)
{
	const struct attempt *at = read_take_next(r);
	const struct io_request io = attempt_request(at);

	uring_prepare(sqe, &q->array->set, &io,
		      q->o.fixed_files ? q->o.fixed_files[at->replica] : -1,
		      q->o.n_buffers ? (int)q->o.first_buffer : -1);
}

static int prepare_nothing(struct io_uring_sqe *sqe, int error)
{
	io_uring_prep_nop(sqe);
	sqe->user_data = 0;
	return error;
}

int linnos_queue_prep_read(struct linnos_queue *q, struct io_uring_sqe *sqe,
			   const struct iovec *iov, int n_iov, off_t offset,
			   const struct linnos_read_options *options, void *user)
{
	struct linnos_read *r;
	int error;

	/* The ring is full, and nothing has begun. */
	if (!sqe)
		return -EAGAIN;
	if (!q)
		return prepare_nothing(sqe, error_null("queue"));
	if (!q->array->set.is_files)
		return prepare_nothing(
			sqe, format_error(-EINVAL, "a ring cannot read the replicas of a backend; "
						   "call linnos_queue_submit_read() instead"));
	r = queue_begin_read(q, iov, n_iov, offset, options, user, &q->in_callers_ring, &error);
	if (!r)
		return prepare_nothing(sqe, error);
	read_list(r);
	prepare(q, r, sqe);
	return 0;
}

int linnos_queue_prep_retry(struct linnos_read *r, struct io_uring_sqe *sqe)
{
	struct linnos_queue *q;

	if (!sqe)
		return -EAGAIN;
	if (!r)
		return prepare_nothing(sqe, error_null("read"));
	q = queue_of(r->account);
	if (r->is_done) {
		attempt_cancel_unsent(read_take_next(r));
		queue_put_read(q, r);
		return prepare_nothing(sqe, 0);
	}
	prepare(q, r, sqe);
	read_list(r);
	return 0;
}

static enum linnos_outcome fill(struct linnos_completion *c, enum linnos_outcome outcome,
				struct linnos_read *r)
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
		r->next->retry_of = r;
	else
		queue_put_read(queue_of(r->account), r);
	return outcome;
}

enum linnos_outcome linnos_queue_complete(uint64_t handle, int result, struct linnos_completion *c)
{
	struct attempt *at = attempt_of(handle);
	enum linnos_outcome outcome;
	struct linnos_read *r;

	memset(c, 0, sizeof(*c));
	if (!at)
		return LINNOS_READ_PENDING;
	c->queue = queue_of(at->account);
	outcome = read_attempt_complete(at, result, &r);
	return fill(c, outcome, r);
}

int64_t linnos_queue_next_timeout_ns(struct linnos_queue *q)
{
	uint64_t now_ns, due_ns;

	if (!q || !q->in_callers_ring.first_timed)
		return -1;
	now_ns = account_now_ns(&q->account);
	due_ns = read_due_ns(q->in_callers_ring.first_timed);
	return due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;
}

enum linnos_outcome linnos_queue_next_expired(struct linnos_queue *q, struct linnos_completion *c)
{
	struct linnos_read *r = NULL;
	enum linnos_outcome outcome;

	memset(c, 0, sizeof(*c));
	if (!q)
		return LINNOS_READ_PENDING;
	outcome = read_expire(&q->in_callers_ring, &r);
	c->queue = q;
	return fill(c, outcome, r);
}

uint64_t linnos_queue_next_orphan(struct linnos_queue *q)
{
	const struct attempt *at = q ? attempt_take_unwanted(&q->in_callers_ring.attempts) : NULL;

	return at ? attempt_handle(at) : 0;
}

void linnos_queue_abandon_reads(struct linnos_queue *q)
{
	struct linnos_read *unused = NULL;

	if (q)
		read_abandon_attempts(&q->in_callers_ring.attempts, &unused);
	while (unused) {
		struct linnos_read *r = unused;

		unused = r->later;
		queue_put_read(q, r);
	}
}
