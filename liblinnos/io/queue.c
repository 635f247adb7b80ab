// SPDX-License-Identifier: MIT
/* Queues and their reads. Either the calling thread reads with pread(2), or the read is sent
 * through the queue's I/O channel. */
#include "queue.h"
#include "messages.h"
#include "versioned_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define ALIGN 64

/* --- Channel -------------------------------------------------------------------------------- */

/* Get the queue's channel, which is created if there is none. On failure return NULL, and set
 * *error and the error text. */
static struct io_channel *get_channel(struct linnos_queue *q, int *error)
{
	const bool registers = q->o.register_files || q->o.n_buffers;

	/* A ring that cannot be entered any more is replaced as soon as it is empty. */
	if (q->channel && !q->channel->in_flight && io_channel_is_broken(q->channel)) {
		io_channel_close(q->channel);
		q->channel = NULL;
	}
	if (!q->channel)
		q->channel = registers ? io_channel_open(&q->array->set, &q->o, error)
				       : reaper_get_channel(&q->array->reaper, error);
	return q->channel;
}

/* If only orphaned attempts and copies are left in the channel, hand it over to the reaper if that
 * is possible. */
static void hand_over_channel(struct linnos_queue *q)
{
	struct io_channel *ch = q->channel;

	if (!ch || q->in_channel.n_in_flight || !ch->in_flight || !reaper_can_wait(ch))
		return;
	/* Process the completions that have arrived, so that those of cancel requests do not wake
	 * up the reaper. */
	io_channel_poll(ch, 0);
	if (reaper_hand_over(&q->array->reaper, ch))
		q->channel = NULL;
}

/* Release the channel after everything in flight has completed. */
static void close_channel(struct linnos_queue *q)
{
	hand_over_channel(q);
	if (!q->channel)
		return;
	for (struct attempt *at = q->channel->attempts.first; at; at = at->later)
		attempt_set_unwanted(at);
	io_channel_cancel_unwanted(q->channel);
	io_channel_drain(q->channel);
	io_channel_close(q->channel);
	q->channel = NULL;
}

/* Submit the copy of a read, if there is one. It is cancelled if there is no ring for it. */
static void submit_copy(struct linnos_queue *q, struct attempt *copy)
{
	struct io_channel *ch;
	int error = 0;

	if (!copy)
		return;
	/* The copy stays in the queue's channel until the next call for the queue, which is soon if
	 * the queue is in use. */
	if (!q->array->set.backend.fd) {
		ch = get_channel(q, &error);
		if (ch)
			io_channel_submit(ch, copy);
		else
			probe_copy_cancel(copy, false);
		return;
	}
	ch = reaper_get_channel(&q->array->reaper, &error);
	if (!ch) {
		/* Later attempts would fail with the same error. */
		probe_copy_cancel(copy, error == -ENOSYS || error == -EPERM);
		return;
	}
	io_channel_submit(ch, copy);
	if (reaper_hand_over(&q->array->reaper, ch))
		return;
	io_channel_drain(ch);
	io_channel_close(ch);
}

/* --- Create and close ----------------------------------------------------------------------- */

static int check_options(const struct linnos_array *a, const struct linnos_queue_options *o)
{
	if (o->n_buffers && !o->buffers)
		return format_error(-EINVAL, "queue options: n_buffers is %u, but buffers is NULL",
				    o->n_buffers);
	if (!a->set.is_files && (o->n_buffers || o->register_files || o->fixed_files))
		return format_error(-EINVAL, "queue options: a backend supports no registered "
					     "buffers or files; only files and block devices do");
	return 0;
}

static void destroy(struct linnos_queue *q)
{
	while (q->free_reads) {
		struct linnos_read *r = q->free_reads;

		q->free_reads = r->later;
		free(r->error_text);
		free(r);
	}
	account_destroy(&q->account);
	free(q);
}

int linnos_queue_create(struct linnos_queue **queue, struct linnos_array *a,
			const struct linnos_queue_options *options)
{
	struct linnos_queue_options o = LINNOS_QUEUE_OPTIONS_INIT;
	int error =
		a ? versioned_struct_copy_in(&o, sizeof(o), options, LINNOS_QUEUE_OPTIONS_SIZE_VER0,
					     "struct linnos_queue_options")
		  : error_null("array");
	struct linnos_queue *q;

	*queue = NULL;
	if (!error)
		error = check_options(a, &o);
	if (error)
		return error;
	q = aligned_alloc(ALIGN, (sizeof(*q) + ALIGN - 1) / ALIGN * ALIGN);
	if (!q)
		return error_memory();
	memset(q, 0, sizeof(*q));
	q->array = a;
	q->o = o;
	if (o.fixed_files) {
		memcpy(q->fixed_files, o.fixed_files, a->set.n * sizeof(*q->fixed_files));
		q->o.fixed_files = q->fixed_files;
	}
	q->in_callers_ring.is_callers_ring = true;
	q->account.reuses_memory = true;
	q->account.buffers = o.buffers;
	q->account.n_buffers = o.n_buffers;
	error = account_init(&q->account, &a->set, a->predictor);
	/* Register at once, so that this call returns the error. */
	if (!error && (o.register_files || (o.n_buffers && !o.fixed_files && !o.first_buffer)))
		get_channel(q, &error);
	if (error) {
		destroy(q);
		return error;
	}
	array_add_queue(a, &q->account);
	*queue = q;
	return 0;
}

int linnos_queue_close(struct linnos_queue *q)
{
	unsigned int n = 0;

	if (!q)
		return 0;
	for (struct attempt *at = q->in_callers_ring.attempts.first; at; at = at->later)
		n++;
	if (n)
		return format_error(-EBUSY,
				    "%u attempts of linnos_queue_prep_read() are in flight; pass "
				    "their completions to linnos_queue_complete(), or call "
				    "linnos_queue_abandon_reads() after their ring was torn down",
				    n);
	if (q->in_channel.n_in_flight || q->in_channel.first_done)
		return format_error(-EBUSY,
				    "reads of linnos_queue_submit_read() have not been returned; "
				    "call linnos_queue_wait() until it has returned all of them");
	close_channel(q);
	array_remove_queue(q->array, &q->account);
	destroy(q);
	return 0;
}

/* --- Reads ---------------------------------------------------------------------------------- */

static int read_replica(const struct replica_set *set, const struct attempt *at)
{
	const struct linnos_request *r = &at->io.request;
	off_t offset = (off_t)(r->offset + at->from);
	int fd = set->replicas[at->replica].fd;
	ssize_t n;

	/* pread() has less overhead than preadv() with a single buffer. */
	if (at->io.iov)
		n = preadv(fd, at->io.iov, at->io.n_iov, offset);
	else
		n = pread(fd, (char *)r->buf + at->from, r->bytes - at->from, offset);
	return n < 0 ? -errno : (int)n;
}

/* Read with pread(2) in the calling thread. */
static ssize_t read_directly(struct linnos_read *r)
{
	enum linnos_outcome outcome = r->next ? LINNOS_READ_RESUBMIT : read_at_once(r);
	struct linnos_read *ended;

	while (outcome == LINNOS_READ_RESUBMIT) {
		struct attempt *at = read_take_next(r);

		outcome = read_attempt_complete(at, read_replica(r->account->set, at), &ended);
	}
	return r->result;
}

static void submit_in_channel(struct linnos_queue *q, struct linnos_read *r)
{
	q->in_channel.n_in_flight++;
	/* The read may be complete as soon as it has been sent. */
	read_list(r);
	io_channel_submit(q->channel, read_take_next(r));
}

static ssize_t read_in_channel(struct linnos_queue *q, struct linnos_read *r)
{
	submit_in_channel(q, r);
	while (!r->is_done) {
		/* account.now_ns is recent: the read has just begun, or a wait has just ended. */
		int error = io_channel_wait(q->channel, &q->in_channel, -1, q->account.now_ns);

		if (error && !r->is_done) {
			read_give_up(r, error);
			q->in_channel.n_in_flight--;
		}
	}
	/* This cancels copies, too, if the channel has any. */
	io_channel_cancel_unwanted(q->channel);
	hand_over_channel(q);
	return r->result;
}

/* Without a ring the read is not hedged. It fails if it has a deadline. */
static ssize_t read_without_channel(struct linnos_queue *q, struct linnos_read *r, int error)
{
	if (q->array->set.is_files && r->deadline_ns == UINT64_MAX) {
		count(&q->account.counts.without_ring, 1);
		r->choice.hedge_at_ns = UINT64_MAX;
		return read_directly(r);
	}
	read_fail_unsent(r, read_take_next(r), error);
	return error;
}

static ssize_t read_now(struct linnos_queue *q, const struct iovec *iov, int n_iov, off_t offset,
			const struct linnos_read_options *o)
{
	struct linnos_read r;
	int error = read_begin(&q->account, &r, iov, n_iov, offset, o, &q->in_channel, true);

	if (error)
		return error;
	submit_copy(q, r.copy);
	/* A priority needs an io_uring entry. */
	if (!r.next || (q->array->set.is_files && !read_is_timed(&r) && !r.ioprio))
		return read_directly(&r);
	return get_channel(q, &error) ? read_in_channel(q, &r) : read_without_channel(q, &r, error);
}

ssize_t linnos_pread(struct linnos_queue *q, void *buf, size_t bytes, off_t offset)
{
	static const struct linnos_read_options defaults = LINNOS_READ_OPTIONS_INIT;
	struct iovec one = {.iov_base = buf, .iov_len = bytes};

	return q ? read_now(q, &one, 1, offset, &defaults) : error_null("queue");
}

ssize_t linnos_preadv(struct linnos_queue *q, const struct iovec *iov, int n_iov, off_t offset,
		      const struct linnos_read_options *options)
{
	struct linnos_read_options o;
	int error = q ? read_options_copy_in(&q->account, &o, options) : error_null("queue");

	return error ? error : read_now(q, iov, n_iov, offset, &o);
}

void queue_put_read(struct linnos_queue *q, struct linnos_read *r)
{
	r->later = q->free_reads;
	q->free_reads = r;
}

static struct linnos_read *get_read(struct linnos_queue *q)
{
	struct linnos_read *r = q->free_reads;

	if (r) {
		q->free_reads = r->later;
		free(r->error_text);
	} else {
		r = malloc(sizeof(*r));
	}
	if (r)
		r->error_text = NULL;
	return r;
}

struct linnos_read *queue_begin_read(struct linnos_queue *q, const struct iovec *iov, int n_iov,
				     off_t offset, const struct linnos_read_options *options,
				     void *user, struct reads *reads, int *error)
{
	struct linnos_read_options o;
	struct linnos_read *r;

	*error = read_options_copy_in(&q->account, &o, options);
	if (*error)
		return NULL;
	r = get_read(q);
	*error = r ? read_begin(&q->account, r, iov, n_iov, offset, &o, reads, false)
		   : error_memory();
	if (!*error) {
		r->user = user;
		submit_copy(q, r->copy);
		return r;
	}
	if (r)
		queue_put_read(q, r);
	return NULL;
}

int linnos_queue_submit_read(struct linnos_queue *q, const struct iovec *iov, int n_iov,
			     off_t offset, const struct linnos_read_options *options, void *user)
{
	struct linnos_read *r;
	int error;

	if (!q)
		return error_null("queue");
	if (!get_channel(q, &error))
		return error;
	r = queue_begin_read(q, iov, n_iov, offset, options, user, &q->in_channel, &error);
	if (r)
		submit_in_channel(q, r);
	return error;
}

static unsigned int take_done(struct linnos_queue *q, struct linnos_completion *completions,
			      unsigned int n)
{
	struct reads *reads = &q->in_channel;
	unsigned int taken = 0;

	for (; taken < n && reads->first_done; taken++) {
		struct linnos_read *r = reads->first_done;

		reads->first_done = r->later;
		if (!reads->first_done)
			reads->last_done = NULL;
		completions[taken] = (struct linnos_completion){
			.user = r->user,
			.queue = q,
			.result = r->result,
			.replica = r->replica,
			.error_text = r->error_text,
		};
		queue_put_read(q, r);
	}
	return taken;
}

int linnos_queue_wait(struct linnos_queue *q, struct linnos_completion *completions, unsigned int n,
		      int64_t timeout_ns)
{
	struct reads *reads;
	uint64_t end_ns;
	int error = 0;

	if (!q)
		return error_null("queue");
	reads = &q->in_channel;
	end_ns = timeout_ns > 0 ? account_now_ns(&q->account) + (uint64_t)timeout_ns : 0;
	/* Process the completions that have already arrived. */
	if (q->channel)
		error = io_channel_wait(q->channel, reads, 0, 0);
	while (!error && !reads->first_done && reads->n_in_flight && timeout_ns) {
		uint64_t now_ns = account_now_ns(&q->account);

		if (timeout_ns > 0 && now_ns >= end_ns)
			break;
		error = io_channel_wait(q->channel, reads,
					timeout_ns < 0 ? -1 : (int64_t)(end_ns - now_ns), now_ns);
	}
	if (!reads->n_in_flight && q->channel)
		hand_over_channel(q);
	if (error && !reads->first_done)
		return format_error(error, "waiting for reads: %s", strerror(-error));
	return (int)take_done(q, completions, n);
}
