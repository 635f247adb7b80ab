// SPDX-License-Identifier: MIT
/* Attempts: see attempt.h. */
#include "attempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void attempt_list_add(struct attempt_list *list, struct attempt *at)
{
	at->list = list;
	at->earlier = NULL;
	at->later = list->first;
	if (at->later)
		at->later->earlier = at;
	list->first = at;
}

static void clear_unwanted(struct attempt *at)
{
	at->list->n_unwanted--;
	at->is_unwanted = false;
}

void attempt_list_del(struct attempt *at)
{
	if (!at->list)
		return;
	if (at->is_unwanted)
		clear_unwanted(at);
	*(at->earlier ? &at->earlier->later : &at->list->first) = at->later;
	if (at->later)
		at->later->earlier = at->earlier;
	at->list = NULL;
}

void attempt_set_unwanted(struct attempt *at)
{
	if (at->is_unwanted || !at->list)
		return;
	at->is_unwanted = true;
	at->list->n_unwanted++;
}

struct attempt *attempt_take_unwanted(struct attempt_list *list)
{
	struct attempt *at = list->n_unwanted ? list->first : NULL;

	while (at && (!at->is_unwanted || at->is_unsent))
		at = at->later;
	if (at)
		clear_unwanted(at);
	return at;
}

void attempt_free(struct attempt *at)
{
	struct account *account = at->account;

	attempt_list_del(at);
	bounce_put(account->reuses_memory ? &account->bounces : NULL, at->bounce);
	if (!account->reuses_memory) {
		free(at);
		return;
	}
	at->next = account->free_attempts;
	account->free_attempts = at;
}

int account_init(struct account *account, const struct replica_set *set,
		 struct linnos_predictor *predictor)
{
	account->set = set;
	return linnos_chooser_create(&account->chooser, predictor);
}

void account_destroy(struct account *account)
{
	while (account->free_attempts) {
		struct attempt *at = account->free_attempts;

		account->free_attempts = at->next;
		free(at);
	}
	bounces_free(&account->bounces);
	linnos_chooser_free(account->chooser);
}

/* Return the index of the registered buffer that contains all of it; -1 if there is none. */
static int find_buffer(const struct account *account, const char *data, size_t bytes)
{
	for (unsigned int i = 0; i < account->n_buffers; i++) {
		const char *start = account->buffers[i].iov_base;

		if (data >= start && data + bytes <= start + account->buffers[i].iov_len)
			return (int)i;
	}
	return -1;
}

bool attempt_is_misaligned(const struct replica *replica, const struct iovec *iov, int n_iov,
			   uint64_t offset, size_t bytes)
{
	const uint64_t within = replica->align_bytes - 1;
	const uintptr_t within_memory = replica->memory_align_bytes - 1;

	if ((offset | bytes) & within)
		return true;
	for (int i = 0; i < n_iov; i++)
		if ((uintptr_t)iov[i].iov_base & within_memory ||
		    (n_iov > 1 && iov[i].iov_len & within))
			return true;
	return false;
}

static bool use_bounce(struct attempt *at)
{
	at->io.iov = NULL;
	at->io.buffer = -1;
	at->bounce = bounce_get(&at->account->bounces, at->io.request.bytes);
	at->io.request.buf = at->bounce ? at->bounce->data : NULL;
	return at->bounce;
}

/* Set the range of the replica to read, and the memory to read into: if possible, that of the
 * caller. Return false if there is no memory. */
static bool set_range(struct attempt *at, uint64_t offset, size_t bytes, const struct iovec *iov,
		      int n_iov)
{
	const struct replica_set *set = at->account->set;
	const struct replica *replica = &set->replicas[at->replica];
	const uint64_t within = replica->align_bytes - 1;
	struct linnos_request *r = &at->io.request;

	r->offset = offset & ~within;
	at->lead = offset - r->offset;
	r->bytes = ((offset + bytes + within) & ~within) - r->offset;
	at->want = at->lead + bytes;
	if (!n_iov || (n_iov > 1 && !set->is_files) ||
	    attempt_is_misaligned(replica, iov, n_iov, offset, bytes))
		return use_bounce(at);
	if (n_iov > 1) {
		at->io.iov = iov;
		at->io.n_iov = n_iov;
		return true;
	}
	r->buf = iov->iov_base;
	if (at->account->n_buffers)
		at->io.buffer = find_buffer(at->account, r->buf, r->bytes);
	return true;
}

struct attempt *attempt_create(struct account *account, const struct linnos_choice *c,
			       unsigned int replica, enum linnos_kind kind, const struct iovec *iov,
			       int n_iov)
{
	struct attempt *at = account->free_attempts;

	if (at)
		account->free_attempts = at->next;
	else
		at = aligned_alloc(ATTEMPT_ALIGN, sizeof(*at));
	if (!at)
		return NULL;
	memset(at, 0, offsetof(struct attempt, account));
	at->account = account;
	at->replica = replica;
	at->kind = kind;
	at->io = (struct io_request){
		.request = {.handle = attempt_handle(at), .replica = replica},
		.buffer = -1,
	};
	if (set_range(at, c->offset, c->bytes, iov, n_iov))
		return at;
	attempt_free(at);
	return NULL;
}

struct io_request attempt_request(const struct attempt *at)
{
	struct io_request io = at->io;

	io.request.offset += at->from;
	io.request.bytes -= at->from;
	io.request.buf = (char *)io.request.buf + at->from;
	return io;
}

bool attempt_continues(struct attempt *at, ssize_t result)
{
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
	if ((result == -EFAULT || result == -ECANCELED) && at->read && at->channel &&
	    !at->is_retried) {
		at->is_retried = true;
		return true;
	}
	if (end <= at->got)
		return false;
	at->got = end;
	if (at->got >= at->want)
		return false;
	/* The remainder does not start at the start of one of the buffers. Read everything again,
	 * into a single buffer. */
	if (at->io.iov) {
		at->got = 0;
		at->no_memory = !use_bounce(at);
		return !at->no_memory;
	}
	at->from = at->got;
	at->from -= at->from % at->account->set->replicas[at->replica].align_bytes;
	return true;
}

enum attempt_end attempt_classify(const struct attempt *at, ssize_t result)
{
	if (at->no_memory)
		return ATTEMPT_NO_MEMORY;
	if (at->not_sent)
		return ATTEMPT_NOT_SENT;
	if (result >= 0 && at->got >= at->want)
		return ATTEMPT_FULL;
	/* In the caller's ring only the caller cancels. In a queue's own ring only orphans are
	 * cancelled. */
	if (result == -ECANCELED)
		return at->read && !at->in_callers_ring ? ATTEMPT_FAILED : ATTEMPT_CANCELLED;
	if (result == -EFAULT)
		return ATTEMPT_CALLERS_FAULT;
	if (!at->read && (result > 0 || result == -EINTR))
		return ATTEMPT_UNFINISHED;
	/* A replica that ends before the others has lost data. */
	if (result >= 0 &&
	    at->io.request.offset + at->got >= replica_set_size_now(at->account->set))
		return ATTEMPT_AT_END;
	return ATTEMPT_FAILED;
}

size_t attempt_copy_out(const struct attempt *at, const struct iovec *iov)
{
	size_t end = at->got < at->want ? at->got : at->want;
	size_t got = end > at->lead ? end - at->lead : 0, left = at->bounce ? got : 0;
	const char *from = (const char *)at->io.request.buf + at->lead;

	for (int i = 0; left; i++) {
		size_t bytes = iov[i].iov_len < left ? iov[i].iov_len : left;

		memcpy(iov[i].iov_base, from, bytes);
		from += bytes;
		left -= bytes;
	}
	return got;
}

void attempt_report(struct attempt *at, enum attempt_end end, uint64_t now_ns)
{
	static const enum linnos_end reported[] = {
		[ATTEMPT_FULL] = LINNOS_SUCCEEDED,
		[ATTEMPT_AT_END] = LINNOS_RESULT_IGNORED,
		[ATTEMPT_CALLERS_FAULT] = LINNOS_RESULT_IGNORED,
		[ATTEMPT_CANCELLED] = LINNOS_CANCELLED,
		[ATTEMPT_NO_MEMORY] = LINNOS_RESULT_IGNORED,
		[ATTEMPT_NOT_SENT] = LINNOS_RESULT_IGNORED,
		[ATTEMPT_UNFINISHED] = LINNOS_RESULT_IGNORED,
		[ATTEMPT_FAILED] = LINNOS_FAILED,
	};
	struct linnos_stats *counts = &at->account->counts;

	linnos_chooser_on_complete(at->account->chooser, &at->report, reported[end], now_ns);
	if (at->kind != LINNOS_PROBE_COPY)
		count(&counts->in_flight, -1);
	if (end == ATTEMPT_CANCELLED && at->is_orphan)
		count(&counts->cancelled, 1);
}

void attempt_abandon(struct attempt *at)
{
	attempt_report(at, ATTEMPT_UNFINISHED, account_now_ns(at->account));
	bounce_quarantine(at->bounce);
	at->bounce = NULL;
	attempt_free(at);
}

void attempt_cancel_unsent(struct attempt *at)
{
	attempt_report(at, ATTEMPT_UNFINISHED, account_now_ns(at->account));
	attempt_free(at);
}

void probe_copy_cancel(struct attempt *copy, bool permanent)
{
	chooser_copy_not_sent(copy->account->chooser, permanent);
	count(&copy->account->counts.without_ring, 1);
	attempt_cancel_unsent(copy);
}
