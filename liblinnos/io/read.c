// SPDX-License-Identifier: MIT
/* Reads and the attempts that serve them: see reads.h. */
#include "read.h"
#include "kernel_query.h"
#include "messages.h"
#include "versioned_struct.h"

#include <errno.h>
#include <limits.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

/* A copy of a larger read contains only its first bytes. */
#define COPIED_BYTES_MAX HEDGED_BYTES_MAX
/* The limit of preadv(2). */
#define IOV_MAX_PARTS 1024
/* Flags that any attempt of a read can have. */
#define SQE_FLAGS (IOSQE_ASYNC | IOSQE_IO_DRAIN)

/* --- Attempts ------------------------------------------------------------------------------ */

void attempt_list_add(struct attempt **list, struct attempt *at)
{
	at->list = list;
	at->earlier = NULL;
	at->later = *list;
	if (at->later)
		at->later->earlier = at;
	*list = at;
}

void attempt_list_del(struct attempt *at)
{
	if (!at->list)
		return;
	*(at->earlier ? &at->earlier->later : at->list) = at->later;
	if (at->later)
		at->later->earlier = at->earlier;
	at->list = NULL;
}

static void attempt_put(struct attempt *at)
{
	struct linnos_queue *q = at->queue;

	attempt_list_del(at);
	if (at->is_lost && at->in_callers_ring && at->is_unwanted)
		q->n_lost--;
	bounce_put(q->is_waiters ? NULL : &q->bounces, at->bounce);
	if (q->is_waiters) {
		free(at);
		return;
	}
	at->next = q->free_attempts;
	q->free_attempts = at;
}

/* Return the index of the registered buffer that contains all of it; -1 if there is none. */
static int buffer_of(const struct linnos_queue *q, const char *data, size_t bytes)
{
	for (uint32_t i = 0; i < q->o.n_buffers; i++) {
		const char *start = q->o.buffers[i].iov_base;

		if (data >= start && data + bytes <= start + q->o.buffers[i].iov_len)
			return (int)i;
	}
	return -1;
}

static bool is_misaligned(const struct replica *replica, const struct linnos_read *r,
			  uint64_t offset, size_t bytes)
{
	const uint64_t within = replica->align_bytes - 1;
	const uintptr_t within_memory = replica->memory_align_bytes - 1;

	if ((offset | bytes) & within)
		return true;
	for (int i = 0; i < r->n_iov; i++)
		if ((uintptr_t)r->iov[i].iov_base & within_memory ||
		    (r->n_iov > 1 && r->iov[i].iov_len & within))
			return true;
	return false;
}

static bool bounce_it(struct attempt *at)
{
	at->iov = NULL;
	at->buffer = -1;
	at->bounce = bounce_get(&at->queue->bounces, at->bytes);
	at->data = at->bounce ? at->bounce->data : NULL;
	return at->bounce;
}

/* Decide where this part of the replica is read to: the memory of the read, unless something
 * forbids it. Return false if there is no memory. */
static bool place(struct attempt *at, uint64_t offset, size_t bytes, bool may_outlive)
{
	const struct linnos_array *a = at->queue->array;
	const struct replica *replica = &a->replicas[at->replica];
	const uint64_t within = replica->align_bytes - 1;
	const struct linnos_read *r = at->read;
	uint64_t end = offset + bytes;

	at->offset = offset & ~within;
	at->lead = offset - at->offset;
	at->bytes = ((end + within) & ~within) - at->offset;
	at->want = at->lead + bytes;
	at->buffer = -1;
	if (!r || may_outlive || (r->n_iov > 1 && !a->is_files) ||
	    is_misaligned(replica, r, offset, bytes))
		return bounce_it(at);
	if (r->n_iov > 1) {
		at->iov = r->iov;
		at->n_iov = r->n_iov;
		return true;
	}
	at->data = r->iov[0].iov_base;
	if (at->queue->o.n_buffers)
		at->buffer = buffer_of(at->queue, at->data, at->bytes);
	return true;
}

/* Create an attempt for the range in @c, which predictions count from now on. */
static struct attempt *attempt_of(struct linnos_queue *q, struct linnos_read *r,
				  const struct linnos_choice *c, unsigned int replica,
				  enum linnos_kind kind, bool may_outlive, uint64_t now_ns)
{
	struct attempt *at = q->free_attempts;

	if (at)
		q->free_attempts = at->next;
	else
		at = aligned_alloc(ATTEMPT_ALIGN, sizeof(*at));
	if (!at)
		return NULL;
	memset(at, 0, offsetof(struct attempt, sending));
	at->queue = q;
	at->read = r;
	at->replica = replica;
	at->kind = kind;
	if (!place(at, c->offset, c->bytes, may_outlive)) {
		attempt_put(at);
		return NULL;
	}
	linnos_chooser_on_submit(q->chooser, &at->sending, c, replica, kind, now_ns);
	count(kind == LINNOS_PROBE_COPY ? &q->counts.copies : &q->counts.sent, 1);
	return at;
}

bool read_is_timed(const struct linnos_read *r)
{
	return read_due_ns(r) != UINT64_MAX;
}

/* It goes before an attempt that is already waiting: a hedge for which the caller had no entry. */
static void send_next(struct linnos_read *r, struct attempt *at)
{
	at->next = r->next;
	r->next = at;
}

static struct attempt *attempt_new(struct linnos_read *r, unsigned int replica,
				   enum linnos_kind kind, uint64_t now_ns)
{
	struct linnos_queue *q = r->queue;
	/* The other attempt of a hedged read may be answered while this one is in flight. Also, a
	 * backend's wait may fail while the caller waits for nothing else. */
	bool may_outlive =
		read_is_timed(r) || r->flying[0] || (r->where == READ_NOW && !q->array->is_files);
	struct attempt *at = attempt_of(q, r, &r->choice, replica, kind, may_outlive, now_ns);

	if (!at)
		return NULL;
	at->sqe_flags = r->sqe_flags;
	at->ioprio = r->ioprio;
	at->in_callers_ring = r->where == READ_CALLERS_RING;
	if (at->in_callers_ring)
		attempt_list_add(&q->ring_attempts, at);
	r->flying[r->flying[0] ? 1 : 0] = at;
	send_next(r, at);
	return at;
}

/* Return NULL if there is no memory. */
static struct attempt *copy_of(struct linnos_read *r, uint64_t now_ns)
{
	struct linnos_choice copied = {
		.offset = r->offset,
		.bytes = r->bytes < COPIED_BYTES_MAX ? r->bytes : COPIED_BYTES_MAX,
	};

	return attempt_of(r->queue, NULL, &copied, r->choice.copy, LINNOS_PROBE_COPY, true, now_ns);
}

void probe_copy_cancel(struct attempt *copy, bool for_ever)
{
	struct linnos_queue *q = copy->queue;

	linnos_chooser_on_complete(q->chooser, &copy->sending, LINNOS_RESULT_IGNORED,
				   queue_time(q));
	chooser_copy_not_sent(q->chooser, for_ever);
	count(&q->counts.copies_landed, 1);
	count(&q->counts.without_ring, 1);
	attempt_put(copy);
}

void attempt_prepare(const struct attempt *at, struct io_uring_sqe *sqe, int fixed_file,
		     int first_buffer)
{
	const struct linnos_array *a = at->queue->array;
	int fd = fixed_file < 0 ? a->replicas[at->replica].fd : fixed_file;

	if (at->iov) {
		io_uring_prep_readv(sqe, fd, at->iov, at->n_iov, at->offset);
	} else if (at->buffer >= 0 && first_buffer >= 0) {
		io_uring_prep_read_fixed(sqe, fd, at->data + at->from, at->bytes - at->from,
					 at->offset + at->from, first_buffer + at->buffer);
	} else {
		io_uring_prep_read(sqe, fd, at->data + at->from, at->bytes - at->from,
				   at->offset + at->from);
	}
	io_uring_sqe_set_flags(sqe, at->sqe_flags | (fixed_file < 0 ? 0 : IOSQE_FIXED_FILE));
	sqe->ioprio = at->ioprio;
	sqe->user_data = attempt_handle(at);
	if (a->hooks.prepared)
		a->hooks.prepared(a->hooks.context, at->replica, sqe);
}

/* Return true if the attempt must be sent to the same replica again, because it was interrupted or
 * only part of it was read. */
static bool goes_on(struct attempt *at, ssize_t result)
{
	const struct linnos_array *a = at->queue->array;
	size_t end = at->from + (result > 0 ? result : 0);

	if (at->not_sent)
		return false;
	if (result == -EINTR)
		return ++at->n_interrupted < INTERRUPTED_MAX;
	/*
	 * When a thread exits, the kernel ends its reads with EFAULT or ECANCELED. The thread that
	 * waits for the read sends it again, once: if the memory is invalid, the second attempt
	 * fails as well.
	 */
	if ((result == -EFAULT || result == -ECANCELED) && at->read && at->lane &&
	    !at->is_retried) {
		at->is_retried = true;
		return true;
	}
	if (end <= at->got)
		return false;
	at->got = end;
	if (at->got >= at->want)
		return false;
	/* The remainder of several buffers does not start at a buffer. Read everything again, into
	 * one. */
	if (at->iov) {
		at->got = 0;
		at->no_memory = !bounce_it(at);
		return !at->no_memory;
	}
	at->from = at->got;
	at->from -= at->from % a->replicas[at->replica].align_bytes;
	return true;
}

enum how {
	FULL,
	AT_END, /* everything up to the end of the replicas */
	CALLERS_FAULT,
	CANCELLED,
	NO_MEMORY,
	NOT_SENT,
	UNFINISHED, /* orphaned: the remainder is not needed */
	FAILED,
};

static enum how how_ended(const struct attempt *at, ssize_t result)
{
	if (at->no_memory)
		return NO_MEMORY;
	if (at->not_sent)
		return NOT_SENT;
	if (result >= 0 && at->got >= at->want)
		return FULL;
	/* In the caller's ring only the caller cancels. In a queue's own ring only orphans are
	 * cancelled. */
	if (result == -ECANCELED)
		return at->read && !at->in_callers_ring ? FAILED : CANCELLED;
	if (result == -EFAULT)
		return CALLERS_FAULT;
	if (!at->read && (result > 0 || result == -EINTR))
		return UNFINISHED;
	/* A replica that ends before the others has lost data. */
	return result >= 0 && at->offset + at->got >= array_size_now(at->queue->array) ? AT_END
										       : FAILED;
}

static void account(struct attempt *at, enum how how, uint64_t now_ns)
{
	static const enum linnos_end ends[] = {
		[FULL] = LINNOS_SUCCEEDED,
		[AT_END] = LINNOS_RESULT_IGNORED,
		[CALLERS_FAULT] = LINNOS_RESULT_IGNORED,
		[CANCELLED] = LINNOS_CANCELLED,
		[NO_MEMORY] = LINNOS_RESULT_IGNORED,
		[NOT_SENT] = LINNOS_RESULT_IGNORED,
		[UNFINISHED] = LINNOS_RESULT_IGNORED,
		[FAILED] = LINNOS_FAILED,
	};
	struct linnos_queue *q = at->queue;

	linnos_chooser_on_complete(q->chooser, &at->sending, ends[how], now_ns);
	count(at->kind == LINNOS_PROBE_COPY ? &q->counts.copies_landed : &q->counts.landed, 1);
	if (how == CANCELLED && at->is_lost)
		count(&q->counts.cancelled, 1);
}

/* --- Reads --------------------------------------------------------------------------------- */

struct linnos_read *read_new(struct linnos_queue *q)
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

void read_put(struct linnos_queue *q, struct linnos_read *r)
{
	r->later = q->free_reads;
	q->free_reads = r;
}

int read_options_copy_in(const struct linnos_queue *q, struct linnos_read_options *taken,
			 const struct linnos_read_options *given)
{
	struct linnos_read_options defaults = LINNOS_READ_OPTIONS_INIT;
	int error;

	*taken = defaults;
	if (!q)
		return error_null("queue");
	if (!given)
		return 0;
	error = versioned_struct_copy_in(taken, sizeof(*taken), given,
					 LINNOS_READ_OPTIONS_SIZE_VER0,
					 "read options, of LINNOS_READ_OPTIONS_INIT");
	if (error)
		return error;
	if (taken->flags & ~LINNOS_NEVER_HEDGE)
		return error_say(-EINVAL, "read options: flags 0x%x; known are 0x%x", taken->flags,
				 LINNOS_NEVER_HEDGE);
	if (taken->home >= (int32_t)q->array->n || taken->home < LINNOS_DEFAULT_ROUND_ROBIN)
		return error_say(-EINVAL, "read options: home %d of %u replicas", taken->home,
				 q->array->n);
	if (taken->sqe_flags & ~SQE_FLAGS)
		return error_say(-EINVAL,
				 "read options: sqe_flags 0x%x; IOSQE_ASYNC and IOSQE_IO_DRAIN can "
				 "be: a read may take several attempts, so none is linked, skipped "
				 "or of a selected buffer",
				 taken->sqe_flags);
	return 0;
}

static int total_bytes(const struct iovec *iov, int n_iov, size_t *bytes)
{
	*bytes = 0;
	if (n_iov < 1 || n_iov > IOV_MAX_PARTS)
		return error_say(-EINVAL, "a read into %d places; 1 to %d can be", n_iov,
				 IOV_MAX_PARTS);
	for (int i = 0; i < n_iov; i++) {
		size_t room = READ_BYTES_MAX - *bytes;

		/* Every replica's kernel call would fail. */
		if (n_iov > 1 && iov[i].iov_len > SSIZE_MAX)
			return error_say(-EINVAL, "a read into %zu bytes at one place",
					 iov[i].iov_len);
		*bytes += iov[i].iov_len < room ? iov[i].iov_len : room;
	}
	return 0;
}

int read_begin(struct linnos_queue *q, struct linnos_read *r, const struct iovec *iov, int n_iov,
	       off_t offset, const struct linnos_read_options *o, enum read_where where)
{
	struct linnos_array *a = q->array;
	struct told told;
	uint64_t now_ns;
	int error;

	memset(r, 0, offsetof(struct linnos_read, choice));
	error = total_bytes(iov, n_iov, &r->bytes);
	if (error)
		return error;
	if (offset < 0 || offset > INT64_MAX - 2 * (off_t)READ_BYTES_MAX)
		return error_say(-EINVAL, "read of %zu bytes at %lld: no such offset", r->bytes,
				 (long long)offset);
	r->queue = q;
	r->where = where;
	r->iov = iov;
	r->n_iov = n_iov;
	if (n_iov == 1) {
		r->one = *iov;
		r->iov = &r->one;
	}
	r->offset = offset;
	r->deadline_ns = UINT64_MAX;
	r->choice.offset = offset;
	r->choice.bytes = r->bytes;
	r->choice.home = LINNOS_DEFAULT_ROUND_ROBIN;
	r->choice.flags = 0;
	if (a->asks && best_tell(a, r->offset, r->bytes, &told))
		chooser_tell(q->chooser, &told);
	now_ns = queue_time(q);
	if (o) {
		r->choice.home = o->home;
		r->choice.flags = o->flags & LINNOS_NEVER_HEDGE;
		r->sqe_flags = o->sqe_flags;
		r->ioprio = o->ioprio;
		if (o->deadline_ns && o->deadline_ns < UINT64_MAX - now_ns)
			r->deadline_ns = now_ns + o->deadline_ns;
	}
	linnos_choose(q->chooser, &r->choice, now_ns);
	if (!attempt_new(r, r->choice.replica, LINNOS_PRIMARY_ATTEMPT, now_ns)) {
		count(&q->counts.failed, 1);
		return error_say(-ENOMEM, "read of %zu bytes at %lld: out of memory", r->bytes,
				 (long long)offset);
	}
	if (r->choice.copy >= 0)
		r->copy = copy_of(r, now_ns);
	if (r->choice.copy >= 0 && !r->copy)
		chooser_copy_not_sent(q->chooser, false);
	return 0;
}

struct attempt *read_take_next(struct linnos_read *r)
{
	struct attempt *at = r->next;

	r->next = at->next;
	at->next = NULL;
	return at;
}

uint64_t read_due_ns(const struct linnos_read *r)
{
	uint64_t hedge_at_ns = r->choice.hedge_at_ns;

	return hedge_at_ns < r->deadline_ns ? hedge_at_ns : r->deadline_ns;
}

static struct timed_reads *list_of(struct linnos_queue *q, const struct linnos_read *r)
{
	return r->where == READ_CALLERS_RING ? &q->in_callers_ring : &q->in_own;
}

/* Reads usually begin in the order of their times, so few entries have to be passed. */
void read_list(struct linnos_queue *q, struct linnos_read *r)
{
	struct timed_reads *list = list_of(q, r);
	struct linnos_read *later = NULL, *earlier = list->last;
	uint64_t at_ns = read_due_ns(r);

	if (r->is_listed || at_ns == UINT64_MAX)
		return;
	while (earlier && read_due_ns(earlier) > at_ns) {
		later = earlier;
		earlier = earlier->earlier;
	}
	r->later = later;
	r->earlier = earlier;
	*(earlier ? &earlier->later : &list->first) = r;
	*(later ? &later->earlier : &list->last) = r;
	r->is_listed = true;
}

static void read_unlist(struct linnos_queue *q, struct linnos_read *r)
{
	struct timed_reads *list = list_of(q, r);

	if (!r->is_listed)
		return;
	*(r->earlier ? &r->earlier->later : &list->first) = r->later;
	*(r->later ? &r->later->earlier : &list->last) = r->earlier;
	r->is_listed = false;
}

/* Detach an attempt from its read, which completes without it. */
static void lose(struct linnos_queue *q, struct attempt *at)
{
	bool is_sent = at != at->read->next;

	at->read = NULL;
	at->is_lost = true;
	at->is_unwanted = is_sent;
	if (at->in_callers_ring && is_sent)
		q->n_lost++;
}

static void land(struct linnos_read *r, const struct attempt *at)
{
	unsigned int i = r->flying[0] == at ? 0 : 1;

	r->flying[i] = NULL;
	if (!i) {
		r->flying[0] = r->flying[1];
		r->flying[1] = NULL;
	}
}

/* A caller that does not wait for this read only cannot call linnos_error() for it. */
static void keep_error_text(struct linnos_read *r)
{
	if (r->where != READ_NOW && !r->error_text)
		r->error_text = strdup(linnos_error());
}

static enum linnos_outcome finish(struct linnos_read *r, const struct attempt *at, ssize_t result,
				  uint64_t now_ns)
{
	struct linnos_queue *q = r->queue;
	struct attempt *lost = r->flying[0];

	r->result = result;
	r->replica = at->replica;
	r->is_done = true;
	read_unlist(q, r);
	if (result >= 0) {
		linnos_chooser_on_answer(q->chooser, &r->choice, &at->sending,
					 lost ? &lost->sending : NULL, now_ns);
		count(&q->counts.bytes, result);
	} else {
		count(&q->counts.failed, 1);
		keep_error_text(r);
	}
	if (lost)
		lose(q, lost);
	return LINNOS_READ_DONE;
}

/* Complete the read with an error. Attempts in flight are too late. */
static enum linnos_outcome leave_it(struct linnos_read *r, int error, uint64_t now_ns)
{
	struct linnos_queue *q = r->queue;

	r->replica = r->choice.replica;
	r->result = error;
	r->is_done = true;
	read_unlist(q, r);
	linnos_chooser_on_answer(q->chooser, &r->choice, NULL, NULL, now_ns);
	for (unsigned int i = 0; i < 2; i++)
		if (r->flying[i])
			lose(q, r->flying[i]);
	count(&q->counts.failed, 1);
	keep_error_text(r);
	return LINNOS_READ_DONE;
}

static enum linnos_outcome expire(struct linnos_read *r, uint64_t now_ns)
{
	count(&r->queue->counts.late, 1);
	return leave_it(r,
			error_say(-ETIME, "read of %zu bytes at %llu: no answer by its deadline",
				  r->bytes, (unsigned long long)r->offset),
			now_ns);
}

void read_give_up(struct linnos_read *r, int error)
{
	leave_it(r,
		 error_say(error, "read of %zu bytes at %llu: waiting for it: %s", r->bytes,
			   (unsigned long long)r->offset, strerror(-error)),
		 queue_time(r->queue));
}

enum linnos_outcome read_due(struct linnos_queue *q, struct timed_reads *list,
			     struct linnos_read **read)
{
	uint64_t now_ns = list->first ? queue_time(q) : 0;

	while (list->first && read_due_ns(list->first) <= now_ns) {
		struct linnos_read *r = list->first;
		int replica;

		*read = r;
		read_unlist(q, r);
		/* The caller holds a read that waits to be prepared again, so it cannot expire
		 * now. */
		if (r->deadline_ns <= now_ns && !r->next)
			return expire(r, now_ns);
		if (r->choice.hedge_at_ns > now_ns || r->next || r->flying[1]) {
			r->choice.hedge_at_ns = UINT64_MAX;
			if (!r->next)
				read_list(q, r);
			continue;
		}
		replica = linnos_choose_hedge(q->chooser, &r->choice, now_ns);
		if (replica >= 0 && attempt_new(r, replica, LINNOS_HEDGE_ATTEMPT, now_ns)) {
			read_list(q, r);
			return LINNOS_READ_RESUBMIT;
		}
		read_list(q, r);
	}
	return LINNOS_READ_PENDING;
}

static enum linnos_outcome all_failed(struct linnos_read *r, const struct attempt *at,
				      uint64_t now_ns)
{
	const struct linnos_array *a = r->queue->array;
	const char *why = r->error ? strerror(-r->error) : "it ends before the others do";

	error_say(r->error,
		  "read of %zu bytes at %llu: no replica of %u has them; the last one, %s: %s; see "
		  "the kernel's log (dmesg) for the drives' errors",
		  r->bytes, (unsigned long long)r->offset, a->n, a->replicas[at->replica].name,
		  why);
	return finish(r, at, r->error ? r->error : -EIO, now_ns);
}

static enum linnos_outcome fail_over(struct linnos_read *r, const struct attempt *at,
				     uint64_t now_ns)
{
	int replica;

	if (r->flying[0])
		return LINNOS_READ_PENDING;
	replica = linnos_choose_next(r->queue->chooser, &r->choice, now_ns);
	if (replica < 0)
		return all_failed(r, at, now_ns);
	if (attempt_new(r, replica, LINNOS_PRIMARY_ATTEMPT, now_ns))
		return LINNOS_READ_RESUBMIT;
	return finish(r, at,
		      error_say(-ENOMEM, "read of %zu bytes at %llu: out of memory", r->bytes,
				(unsigned long long)r->offset),
		      now_ns);
}

/* Copy the bytes of an attempt with its own memory to the caller. */
static void copy_out(const struct attempt *at, struct linnos_read *r)
{
	size_t end = at->got < at->want ? at->got : at->want, left;
	const char *from = at->data + at->lead;

	r->got = end > at->lead ? end - at->lead : 0;
	left = at->bounce ? r->got : 0;
	for (int i = 0; left; i++) {
		size_t bytes = r->iov[i].iov_len < left ? r->iov[i].iov_len : left;

		memcpy(r->iov[i].iov_base, from, bytes);
		from += bytes;
		left -= bytes;
	}
}

static enum linnos_outcome read_resubmit_remainder(struct linnos_read *r, struct attempt *at,
						   enum how how, ssize_t result, uint64_t now_ns)
{
	land(r, at);
	switch (how) {
	case FULL:
	case AT_END:
		return finish(r, at, r->got, now_ns);
	case CANCELLED:
		/* Not cancelled by the library: by the caller, by the caller's chain of entries, or
		 * by the end of the ring. */
		return finish(r, at,
			      error_say(result, "read of %zu bytes at %llu: it was cancelled",
					r->bytes, (unsigned long long)r->offset),
			      now_ns);
	case CALLERS_FAULT:
		return finish(r, at,
			      error_say(result,
					"read of %zu bytes at %llu: the memory to read into is not "
					"the caller's to write to",
					r->bytes, (unsigned long long)r->offset),
			      now_ns);
	case NO_MEMORY:
		return finish(r, at,
			      error_say(-ENOMEM, "read of %zu bytes at %llu: out of memory",
					r->bytes, (unsigned long long)r->offset),
			      now_ns);
	case NOT_SENT:
		/* The replica did not cause the error, and no other replica could be read
		 * either. */
		if (r->flying[0])
			return LINNOS_READ_PENDING;
		return finish(r, at,
			      error_say(result,
					"read of %zu bytes at %llu: io_uring cannot be used any "
					"more: %s; was io_uring_enter(2) forbidden, or the ring's "
					"descriptor closed, after the array was opened?",
					r->bytes, (unsigned long long)r->offset,
					strerror(-(int)result)),
			      now_ns);
	default:
		r->error = result < 0 ? result : 0;
		return fail_over(r, at, now_ns);
	}
}

enum linnos_outcome attempt_ended(struct attempt *at, ssize_t result, struct linnos_read **read)
{
	const struct linnos_array *a = at->queue->array;
	struct linnos_read *r = at->read;
	enum linnos_outcome outcome = LINNOS_READ_PENDING;
	uint64_t now_ns;
	enum how how;

	*read = r;
	if (a->hooks.answer)
		result = a->hooks.answer(a->hooks.context, at->replica, at->offset + at->from,
					 (int)result);
	if (goes_on(at, result) && r) {
		send_next(r, at);
		return LINNOS_READ_RESUBMIT;
	}
	how = how_ended(at, result);
	if (r && (how == FULL || how == AT_END))
		copy_out(at, r);
	now_ns = queue_time(at->queue);
	account(at, how, now_ns);
	if (r)
		outcome = read_resubmit_remainder(r, at, how, result, now_ns);
	attempt_put(at);
	return outcome;
}

void read_cannot_be_sent(struct linnos_read *r, struct attempt *at, int error)
{
	uint64_t now_ns = queue_time(r->queue);

	account(at, CALLERS_FAULT, now_ns);
	land(r, at);
	finish(r, at, error, now_ns);
	attempt_put(at);
}

void attempt_cancel_unsent(struct attempt *at)
{
	account(at, UNFINISHED, queue_time(at->queue));
	attempt_put(at);
}

void attempt_forsake(struct attempt *at)
{
	struct linnos_queue *q = at->queue;

	linnos_chooser_on_complete(q->chooser, &at->sending, LINNOS_RESULT_IGNORED, queue_time(q));
	count(at->kind == LINNOS_PROBE_COPY ? &q->counts.copies_landed : &q->counts.landed, 1);
	bounce_quarantine(at->bounce);
	at->bounce = NULL;
	attempt_put(at);
}

void attempts_abandon(struct linnos_queue *q)
{
	uint64_t now_ns = queue_time(q);

	while (q->ring_attempts) {
		struct attempt *at = q->ring_attempts;
		struct linnos_read *r = at->read;

		linnos_chooser_on_complete(q->chooser, &at->sending, LINNOS_RESULT_IGNORED, now_ns);
		count(&q->counts.landed, 1);
		if (r) {
			land(r, at);
			if (!r->flying[0]) {
				read_unlist(q, r);
				read_put(q, r);
			}
		}
		if (at->held)
			read_put(q, at->held);
		bounce_quarantine(at->bounce);
		at->bounce = NULL;
		attempt_put(at);
	}
}

void reads_free(struct linnos_queue *q)
{
	while (q->free_reads) {
		struct linnos_read *r = q->free_reads;

		q->free_reads = r->later;
		free(r->error_text);
		free(r);
	}
	while (q->free_attempts) {
		struct attempt *at = q->free_attempts;

		q->free_attempts = at->next;
		free(at);
	}
}
