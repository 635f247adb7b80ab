// SPDX-License-Identifier: MIT
/* Queues and their reads. The calling thread waits for the drive itself, or the read is sent
 * through the queue's I/O channel. */
#include "messages.h"
#include "io_context.h"
#include "versioned_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define ALIGN 64

int queue_new(struct linnos_queue **queue, struct linnos_array *a,
	      const struct linnos_queue_options *o)
{
	struct linnos_queue_options defaults = LINNOS_QUEUE_OPTIONS_INIT;
	struct linnos_queue *q = aligned_alloc(ALIGN, (sizeof(*q) + ALIGN - 1) / ALIGN * ALIGN);
	int error;

	*queue = NULL;
	if (!q)
		return error_say(-ENOMEM, "out of memory");
	memset(q, 0, sizeof(*q));
	q->array = a;
	q->o = o ? *o : defaults;
	if (q->o.fixed_files) {
		memcpy(q->fixed_files, q->o.fixed_files, a->n * sizeof(*q->fixed_files));
		q->o.fixed_files = q->fixed_files;
	}
	error = linnos_chooser_create(&q->chooser, a->known);
	if (error)
		free(q);
	else
		*queue = q;
	return error;
}

void queue_free(struct linnos_queue *q)
{
	if (!q)
		return;
	reads_free(q);
	bounces_free(&q->bounces);
	linnos_chooser_free(q->chooser);
	free(q);
}

static int check_options(const struct linnos_array *a, const struct linnos_queue_options *o)
{
	if (o->n_buffers && !o->buffers)
		return error_say(-EINVAL, "queue options: %u buffers, and none is given",
				 o->n_buffers);
	if (!a->is_files && (o->n_buffers || o->register_files || o->fixed_files))
		return error_say(-EINVAL, "queue options: buffers and files are registered of "
					  "files and block devices, not of a backend");
	return 0;
}

int linnos_queue_create(struct linnos_queue **queue, struct linnos_array *a,
			const struct linnos_queue_options *options)
{
	struct linnos_queue_options o = LINNOS_QUEUE_OPTIONS_INIT;
	int error =
		a ? versioned_struct_copy_in(&o, sizeof(o), options, LINNOS_QUEUE_OPTIONS_SIZE_VER0,
					     "queue options, of LINNOS_QUEUE_OPTIONS_INIT")
		  : error_null("array");

	*queue = NULL;
	if (!error)
		error = check_options(a, &o);
	if (!error)
		error = queue_new(queue, a, &o);
	if (error)
		return error;
	/* Register at once, so that this call returns the error. */
	if ((o.register_files || (o.n_buffers && !o.fixed_files && !o.first_buffer)) &&
	    !io_channel_get(*queue, &error)) {
		queue_free(*queue);
		*queue = NULL;
		return error;
	}
	array_lock(a);
	(*queue)->next = a->queues;
	a->queues = *queue;
	array_unlock(a);
	return 0;
}

/* All members are 64 bits wide. */
static void keep_counts(struct linnos_array *a, const struct queue_counts *counts)
{
	uint64_t *to = (uint64_t *)&a->past;
	const uint64_t *from = (const uint64_t *)counts;

	for (size_t i = 0; i < sizeof(*counts) / sizeof(*to); i++)
		to[i] += from[i];
}

int linnos_queue_close(struct linnos_queue *q)
{
	struct linnos_queue **at;
	unsigned int under_way = 0;
	struct linnos_array *a;

	if (!q)
		return 0;
	a = q->array;
	for (struct attempt *attempt = q->ring_attempts; attempt; attempt = attempt->later)
		under_way++;
	if (under_way)
		return error_say(
			-EBUSY,
			"%u attempts of linnos_queue_prep_read() are under way; give their "
			"completions to linnos_queue_complete() first, or call "
			"linnos_queue_abandon_reads() "
			"when their ring is gone",
			under_way);
	if (q->n_live || q->first_done)
		return error_say(-EBUSY,
				 "reads of linnos_queue_submit_read() have not come back; call "
				 "linnos_queue_wait() until all have");
	io_channel_close(q);
	array_lock(a);
	for (at = &a->queues; *at != q; at = &(*at)->next)
		;
	*at = q->next;
	keep_counts(a, &q->counts);
	array_unlock(a);
	queue_free(q);
	return 0;
}

static int ask_drive(const struct linnos_array *a, const struct attempt *at)
{
	int fd = a->replicas[at->replica].fd;
	off_t offset = (off_t)(at->offset + at->from);
	ssize_t n;

	/* pread() has less overhead than preadv() with a single buffer. */
	if (at->iov)
		n = preadv(fd, at->iov, at->n_iov, offset);
	else
		n = pread(fd, at->data + at->from, at->bytes - at->from, offset);
	return n < 0 ? -errno : (int)n;
}

/* The calling thread waits for the drive in pread(2). */
static ssize_t read_plainly(struct linnos_read *r)
{
	const struct linnos_array *a = r->queue->array;
	struct linnos_read *ended;
	enum linnos_outcome outcome;

	do {
		struct attempt *at = read_take_next(r);

		outcome = attempt_ended(at, ask_drive(a, at), &ended);
	} while (outcome == LINNOS_READ_RESUBMIT);
	return r->result;
}

static ssize_t read_in_lane(struct linnos_queue *q, struct linnos_read *r)
{
	q->n_live++;
	/* The read may be complete as soon as it has been sent. */
	read_list(q, r);
	io_channel_submit(q->lane, read_take_next(r));
	while (!r->is_done) {
		int error = io_channel_wait(q, -1);

		if (error && !r->is_done) {
			read_give_up(r, error);
			q->n_live--;
		}
	}
	/* Copies as well, if the channel has any. */
	io_channel_cancel_orphans(q);
	io_channel_hand_over(q);
	return r->result;
}

/* Without a ring the read is not hedged. It fails if it has a deadline. */
static ssize_t read_without_lane(struct linnos_queue *q, struct linnos_read *r, int error)
{
	struct attempt *at;

	if (q->array->is_files && r->deadline_ns == UINT64_MAX) {
		count(&q->counts.without_ring, 1);
		r->choice.hedge_at_ns = UINT64_MAX;
		return read_plainly(r);
	}
	at = read_take_next(r);
	error_say(error,
		  "read of %zu bytes at %llu: a deadline needs io_uring, or what a backend "
		  "opens: %s",
		  r->bytes, (unsigned long long)r->offset, strerror(-error));
	read_cannot_be_sent(r, at, error);
	return error;
}

static ssize_t preadv_now(struct linnos_queue *q, const struct iovec *iov, int n_iov, off_t offset,
			  const struct linnos_read_options *o)
{
	struct linnos_read r;
	int error = q ? read_begin(q, &r, iov, n_iov, offset, o, READ_NOW) : error_null("queue");

	if (error)
		return error;
	if (r.copy)
		reaper_submit_probe_copy(r.copy);
	/* A priority needs an io_uring entry. */
	if (q->array->is_files && !read_is_timed(&r) && !r.ioprio)
		return read_plainly(&r);
	return io_channel_get(q, &error) ? read_in_lane(q, &r) : read_without_lane(q, &r, error);
}

ssize_t linnos_pread(struct linnos_queue *q, void *buf, size_t bytes, off_t offset)
{
	struct iovec one = {.iov_base = buf, .iov_len = bytes};

	return preadv_now(q, &one, 1, offset, NULL);
}

ssize_t linnos_preadv(struct linnos_queue *q, const struct iovec *iov, int n_iov, off_t offset,
		      const struct linnos_read_options *options)
{
	struct linnos_read_options o;
	int error = read_options_copy_in(q, &o, options);

	return error ? error : preadv_now(q, iov, n_iov, offset, &o);
}

int linnos_queue_submit_read(struct linnos_queue *q, const struct iovec *iov, int n_iov,
			     off_t offset, const struct linnos_read_options *options, void *user)
{
	struct linnos_read_options o;
	int error = read_options_copy_in(q, &o, options);
	struct linnos_read *r;

	if (error)
		return error;
	if (!io_channel_get(q, &error))
		return error_say(error, "a queue's own ring: %s", strerror(-error));
	r = read_new(q);
	error = r ? read_begin(q, r, iov, n_iov, offset, &o, READ_LATER)
		  : error_say(-ENOMEM, "out of memory");
	if (error) {
		if (r)
			read_put(q, r);
		return error;
	}
	r->user = user;
	if (r->copy)
		reaper_submit_probe_copy(r->copy);
	q->n_live++;
	read_list(q, r);
	io_channel_submit(q->lane, read_take_next(r));
	return 0;
}

static unsigned int take_done(struct linnos_queue *q, struct linnos_completion *completions,
			      unsigned int n)
{
	unsigned int taken = 0;

	for (; taken < n && q->first_done; taken++) {
		struct linnos_read *r = q->first_done;

		q->first_done = r->later;
		if (!q->first_done)
			q->last_done = NULL;
		completions[taken] = (struct linnos_completion){
			.user = r->user,
			.queue = q,
			.result = r->result,
			.replica = r->replica,
			.error_text = r->error_text,
		};
		read_put(q, r);
	}
	return taken;
}

int linnos_queue_wait(struct linnos_queue *q, struct linnos_completion *completions, unsigned int n,
		      int64_t timeout_ns)
{
	uint64_t end_ns;
	int error = 0;

	if (!q)
		return error_null("queue");
	end_ns = timeout_ns > 0 ? queue_time(q) + (uint64_t)timeout_ns : 0;
	/* Take also what has already completed. */
	if (q->lane)
		error = io_channel_wait(q, 0);
	while (!error && !q->first_done && q->n_live && timeout_ns) {
		uint64_t now_ns = timeout_ns > 0 ? queue_time(q) : 0;

		if (timeout_ns > 0 && now_ns >= end_ns)
			break;
		error = io_channel_wait(q, timeout_ns < 0 ? -1 : (int64_t)(end_ns - now_ns));
	}
	if (!q->n_live && q->lane)
		io_channel_hand_over(q);
	if (error && !q->first_done)
		return error_say(error, "waiting for reads: %s", strerror(-error));
	return (int)take_done(q, completions, n);
}
