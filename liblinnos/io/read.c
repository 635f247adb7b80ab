// SPDX-License-Identifier: MIT
/* The state machine of reads: see read.h. */
#include "read.h"
#include "kernel_query.h"
#include "messages.h"
#include "options.h"
#include "versioned_struct.h"

#include <errno.h>
#include <limits.h>
#include <liburing.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A probe copy of a larger read reads only this number of bytes from its start. */
#define COPIED_BYTES_MAX HEDGED_BYTES_MAX
/* The limit of preadv(2). */
#define IOV_MAX_PARTS 1024
/* The flags that every attempt of a read can have. */
#define SQE_FLAGS (IOSQE_ASYNC | IOSQE_IO_DRAIN)

/* --- Begin ---------------------------------------------------------------------------------- */

int read_options_copy_in(const struct account *account, struct linnos_read_options *copy,
			 const struct linnos_read_options *options)
{
	struct linnos_read_options defaults = LINNOS_READ_OPTIONS_INIT;
	int error;

	*copy = defaults;
	if (!options)
		return 0;
	error = versioned_struct_copy_in(copy, sizeof(*copy), options,
					 LINNOS_READ_OPTIONS_SIZE_VER0,
					 "struct linnos_read_options");
	if (error)
		return error;
	if (copy->flags & ~LINNOS_NEVER_HEDGE)
		return format_error(-EINVAL,
				    "read options: flags is 0x%x; the known flags are 0x%x",
				    copy->flags, LINNOS_NEVER_HEDGE);
	error = options_check_default_replica("read options", copy->home, account->set->n);
	if (error)
		return error;
	if (copy->sqe_flags & ~SQE_FLAGS)
		return format_error(
			-EINVAL,
			"read options: sqe_flags is 0x%x; only IOSQE_ASYNC and IOSQE_IO_DRAIN are "
			"supported, because a read may take several attempts",
			copy->sqe_flags);
	return 0;
}

static int total_bytes(const struct iovec *iov, int n_iov, size_t *bytes)
{
	*bytes = 0;
	if (n_iov < 1 || n_iov > IOV_MAX_PARTS)
		return format_error(-EINVAL, "read: n_iov is %d; it must be between 1 and %d",
				    n_iov, IOV_MAX_PARTS);
	for (int i = 0; i < n_iov; i++) {
		size_t room = READ_BYTES_MAX - *bytes;

		/* preadv(2) rejects such a length, at every replica. A single buffer is cut to
		 * READ_BYTES_MAX instead. */
		if (n_iov > 1 && iov[i].iov_len > SSIZE_MAX)
			return format_error(-EINVAL,
					    "read: iov[%d].iov_len is %zu; it must be at most %zd",
					    i, iov[i].iov_len, SSIZE_MAX);
		*bytes += iov[i].iov_len < room ? iov[i].iov_len : room;
	}
	return 0;
}

/* Set the text of an error: the read, the replica (NULL for none), and what has failed. */
__attribute__((format(printf, 4, 5))) static int
set_error(const struct linnos_read *r, int error, const char *replica, const char *format, ...)
{
	char what[ERROR_BYTES / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return format_error(error, "read of %zu bytes at %llu: %s%s%s", r->bytes,
			    (unsigned long long)r->offset, replica ? replica : "",
			    replica ? ": " : "", what);
}

static const char *name_of(const struct linnos_read *r, unsigned int replica)
{
	return r->account->set->replicas[replica].name;
}

/* Let this attempt be sent next, before a hedge that waits because the caller had no free entry for
 * it. */
static void send_next(struct linnos_read *r, struct attempt *at)
{
	at->next = r->next;
	r->next = at;
}

/* Add an attempt, which is sent next, to the read. @report is that of a submission that was already
 * reported; NULL to report it now. Return false if there is no memory. */
static bool add_attempt(struct linnos_read *r, unsigned int replica, enum linnos_kind kind,
			const struct linnos_attempt *report, uint64_t now_ns)
{
	struct account *account = r->account;
	/* The attempt can outlive the read if another attempt or a deadline ends the read. The same
	 * is true if linnos_pread() gives up because the backend's wait fails. */
	const bool may_outlive =
		read_is_timed(r) || r->in_flight[0] || (r->is_only_read && !account->set->is_files);
	struct attempt *at = attempt_create(account, &r->choice, replica, kind, r->iov,
					    may_outlive ? 0 : r->n_iov);

	if (!at)
		return false;
	if (report) {
		at->report = *report;
	} else {
		linnos_chooser_on_submit(account->chooser, &at->report, &r->choice, replica, kind,
					 now_ns);
		count(&account->counts.in_flight, 1);
	}
	at->read = r;
	at->io.sqe_flags = r->sqe_flags;
	at->io.ioprio = r->ioprio;
	at->in_callers_ring = r->reads->is_callers_ring;
	if (at->in_callers_ring)
		attempt_list_add(&r->reads->attempts, at);
	r->in_flight[r->in_flight[0] ? 1 : 0] = at;
	send_next(r, at);
	return true;
}

/* Return true if the calling thread can read from the chosen replica with pread(2) and without a
 * struct attempt. */
static bool can_read_at_once(const struct linnos_read *r)
{
	const struct replica_set *set = r->account->set;

	return r->is_only_read && set->is_files && r->n_iov == 1 && !r->ioprio &&
	       !read_is_timed(r) && !set->hooks.answer &&
	       !attempt_is_misaligned(&set->replicas[r->choice.replica], r->iov, 1, r->offset,
				      r->bytes);
}

static void add_copy(struct linnos_read *r, uint64_t now_ns)
{
	const struct linnos_choice copied = {
		.offset = r->offset,
		.bytes = r->bytes < COPIED_BYTES_MAX ? r->bytes : COPIED_BYTES_MAX,
	};
	struct linnos_chooser *chooser = r->account->chooser;

	r->copy = attempt_create(r->account, &copied, r->choice.copy, LINNOS_PROBE_COPY, NULL, 0);
	if (r->copy)
		linnos_chooser_on_submit(chooser, &r->copy->report, &copied, r->choice.copy,
					 LINNOS_PROBE_COPY, now_ns);
	else
		chooser_copy_not_sent(chooser, false);
}

int read_begin(struct account *account, struct linnos_read *r, const struct iovec *iov, int n_iov,
	       off_t offset, const struct linnos_read_options *o, struct reads *reads,
	       bool is_only_read)
{
	const struct replica_set *set = account->set;
	struct external_predictions external;
	uint64_t now_ns;
	int error;

	memset(r, 0, offsetof(struct linnos_read, account));
	error = total_bytes(iov, n_iov, &r->bytes);
	if (error)
		return error;
	if (offset < 0 || offset > INT64_MAX - 2 * (off_t)READ_BYTES_MAX)
		return format_error(-EINVAL,
				    "read of %zu bytes at %lld: the offset is out of range",
				    r->bytes, (long long)offset);
	r->account = account;
	r->reads = reads;
	r->is_only_read = is_only_read;
	r->iov = iov;
	r->n_iov = n_iov;
	/* A caller that does not wait may use the same element for its next read. */
	if (n_iov == 1 && !is_only_read) {
		r->one = *iov;
		r->iov = &r->one;
	}
	r->offset = offset;
	r->sqe_flags = o->sqe_flags;
	r->ioprio = o->ioprio;
	r->choice.offset = offset;
	r->choice.bytes = r->bytes;
	r->choice.home = o->home;
	r->choice.flags = o->flags;
	if (set->queries_kernel && kernel_predict(set, r->offset, r->bytes, &external))
		chooser_use_external(account->chooser, &external);
	now_ns = account_now_ns(account);
	r->deadline_ns = o->deadline_ns && o->deadline_ns < UINT64_MAX - now_ns
				 ? now_ns + o->deadline_ns
				 : UINT64_MAX;
	linnos_choose(account->chooser, &r->choice, now_ns);
	if (!can_read_at_once(r) &&
	    !add_attempt(r, r->choice.replica, LINNOS_PRIMARY_ATTEMPT, NULL, now_ns)) {
		count(&account->counts.failed, 1);
		return set_error(r, -ENOMEM, name_of(r, r->choice.replica), "out of memory");
	}
	if (r->choice.copy >= 0)
		add_copy(r, now_ns);
	return 0;
}

struct attempt *read_take_next(struct linnos_read *r)
{
	struct attempt *at = r->next;

	r->next = at->next;
	at->next = NULL;
	return at;
}

/* --- Timed reads ---------------------------------------------------------------------------- */

uint64_t read_due_ns(const struct linnos_read *r)
{
	uint64_t hedge_at_ns = r->choice.hedge_at_ns;

	return hedge_at_ns < r->deadline_ns ? hedge_at_ns : r->deadline_ns;
}

/* Search from the end of the list, because a new read is usually due after the others. */
void read_list(struct linnos_read *r)
{
	struct reads *list = r->reads;
	struct linnos_read *later = NULL, *earlier = list->last_timed;
	uint64_t at_ns = read_due_ns(r);

	if (r->is_listed || at_ns == UINT64_MAX)
		return;
	while (earlier && read_due_ns(earlier) > at_ns) {
		later = earlier;
		earlier = earlier->earlier;
	}
	r->later = later;
	r->earlier = earlier;
	*(earlier ? &earlier->later : &list->first_timed) = r;
	*(later ? &later->earlier : &list->last_timed) = r;
	r->is_listed = true;
}

static void read_unlist(struct linnos_read *r)
{
	if (!r->is_listed)
		return;
	*(r->earlier ? &r->earlier->later : &r->reads->first_timed) = r->later;
	*(r->later ? &r->later->earlier : &r->reads->last_timed) = r->earlier;
	r->is_listed = false;
}

/* --- Completion ----------------------------------------------------------------------------- */

/* Detach an attempt from its read, which completes without it. */
static void orphan(struct attempt *at)
{
	bool is_sent = at != at->read->next;

	at->read = NULL;
	at->is_orphan = true;
	if (is_sent)
		attempt_set_unwanted(at);
}

static void remove_attempt(struct linnos_read *r, const struct attempt *at)
{
	if (r->in_flight[0] == at)
		r->in_flight[0] = r->in_flight[1];
	r->in_flight[1] = NULL;
}

/* Complete the read. @at is the attempt that has answered or failed, or NULL if no attempt has
 * ended. Attempts that are still in flight become orphans. */
static enum linnos_outcome finish(struct linnos_read *r, const struct attempt *at, ssize_t result,
				  uint64_t now_ns)
{
	struct account *account = r->account;

	r->result = result;
	r->replica = at ? at->replica : r->choice.replica;
	r->is_done = true;
	read_unlist(r);
	if (result >= 0 || !at)
		linnos_chooser_on_answer(account->chooser, &r->choice, at ? &at->report : NULL,
					 at && r->in_flight[0] ? &r->in_flight[0]->report : NULL,
					 now_ns);
	if (result >= 0) {
		count(&account->counts.bytes, result);
	} else {
		count(&account->counts.failed, 1);
		/* A caller that waits for several reads cannot call linnos_error() for each of
		 * them. */
		if (!r->is_only_read)
			r->error_text = strdup(linnos_error());
	}
	for (unsigned int i = 0; i < 2; i++)
		if (r->in_flight[i])
			orphan(r->in_flight[i]);
	return LINNOS_READ_DONE;
}

void read_give_up(struct linnos_read *r, int error)
{
	finish(r, NULL,
	       set_error(r, error, name_of(r, r->choice.replica), "waiting for it: %s",
			 strerror(-error)),
	       account_now_ns(r->account));
}

enum linnos_outcome read_expire(struct reads *reads, struct linnos_read **read)
{
	struct account *account = reads->first_timed ? reads->first_timed->account : NULL;
	uint64_t now_ns = account ? account_now_ns(account) : 0;

	while (reads->first_timed && read_due_ns(reads->first_timed) <= now_ns) {
		struct linnos_read *r = reads->first_timed;
		int replica;

		*read = r;
		read_unlist(r);
		/* A read with an attempt to be sent cannot expire now: the caller has a pointer to
		 * it, for linnos_queue_prep_retry(). */
		if (r->deadline_ns <= now_ns && !r->next) {
			count(&account->counts.late, 1);
			return finish(r, NULL,
				      set_error(r, -ETIME, name_of(r, r->choice.replica),
						"no answer by its deadline"),
				      now_ns);
		}
		if (r->choice.hedge_at_ns > now_ns || r->next || r->in_flight[1]) {
			r->choice.hedge_at_ns = UINT64_MAX;
			if (!r->next)
				read_list(r);
			continue;
		}
		replica = linnos_choose_hedge(account->chooser, &r->choice, now_ns);
		if (replica >= 0 && add_attempt(r, replica, LINNOS_HEDGE_ATTEMPT, NULL, now_ns)) {
			read_list(r);
			return LINNOS_READ_RESUBMIT;
		}
		read_list(r);
	}
	return LINNOS_READ_PENDING;
}

static enum linnos_outcome fail_over(struct linnos_read *r, const struct attempt *at,
				     uint64_t now_ns)
{
	const char *name = name_of(r, at->replica);
	int replica, error = r->error ? r->error : -EIO;

	if (r->in_flight[0])
		return LINNOS_READ_PENDING;
	replica = linnos_choose_next(r->account->chooser, &r->choice, now_ns);
	if (replica < 0)
		set_error(r, error, NULL,
			  "all %u replicas have failed; the last one, %s: %s; the kernel log "
			  "(dmesg) has the errors of drives",
			  r->account->set->n, name,
			  r->error ? strerror(-r->error) : "it ends before the others do");
	else if (add_attempt(r, replica, LINNOS_PRIMARY_ATTEMPT, NULL, now_ns))
		return LINNOS_READ_RESUBMIT;
	else
		error = set_error(r, -ENOMEM, name_of(r, replica), "out of memory");
	return finish(r, at, error, now_ns);
}

static enum linnos_outcome on_end(struct linnos_read *r, struct attempt *at, enum attempt_end end,
				  ssize_t result, uint64_t now_ns)
{
	const char *name = name_of(r, at->replica);

	remove_attempt(r, at);
	switch (end) {
	case ATTEMPT_FULL:
	case ATTEMPT_AT_END:
		return finish(r, at, r->got, now_ns);
	case ATTEMPT_CANCELLED:
		/* The library cancels only orphans. This attempt was cancelled by the caller,
		 * because a chain of the caller's entries was broken, or because the ring was
		 * closed. */
		set_error(r, result, name, "the attempt was cancelled");
		return finish(r, at, result, now_ns);
	case ATTEMPT_CALLERS_FAULT:
		set_error(r, result, name, "the memory to read into is not writable");
		return finish(r, at, result, now_ns);
	case ATTEMPT_NO_MEMORY:
		return finish(r, at, set_error(r, -ENOMEM, name, "out of memory"), now_ns);
	case ATTEMPT_NOT_SENT:
		/* The replica did not cause the error, and no other replica could be read either.
		 */
		if (r->in_flight[0])
			return LINNOS_READ_PENDING;
		set_error(r, result, name,
			  "io_uring cannot be used any more: %s; was io_uring_enter(2) forbidden, "
			  "or the ring's descriptor closed, after the array was opened?",
			  strerror(-(int)result));
		return finish(r, at, result, now_ns);
	default:
		r->error = result < 0 ? result : 0;
		return fail_over(r, at, now_ns);
	}
}

enum linnos_outcome read_attempt_complete(struct attempt *at, ssize_t result,
					  struct linnos_read **read)
{
	const struct hooks *hooks = &at->account->set->hooks;
	struct linnos_read *r = at->read;
	enum linnos_outcome outcome = LINNOS_READ_PENDING;
	enum attempt_end end;
	uint64_t now_ns;

	*read = r;
	if (hooks->answer)
		result = hooks->answer(hooks->context, at->replica,
				       at->io.request.offset + at->from, (int)result);
	if (attempt_continues(at, result) && r) {
		send_next(r, at);
		return LINNOS_READ_RESUBMIT;
	}
	end = attempt_classify(at, result);
	if (r && (end == ATTEMPT_FULL || end == ATTEMPT_AT_END))
		r->got = attempt_copy_out(at, r->iov);
	now_ns = account_now_ns(at->account);
	attempt_report(at, end, now_ns);
	if (r)
		outcome = on_end(r, at, end, result, now_ns);
	attempt_free(at);
	return outcome;
}

/* Continue a read after read_at_once() has read only a part of it, or has failed. */
static enum linnos_outcome continue_read(struct linnos_read *r, struct linnos_attempt *report,
					 ssize_t result)
{
	struct account *account = r->account;
	struct linnos_read *unused;
	uint64_t now_ns;

	if (add_attempt(r, r->choice.replica, LINNOS_PRIMARY_ATTEMPT, report, 0))
		return read_attempt_complete(read_take_next(r), result, &unused);
	now_ns = account_now_ns(account);
	linnos_chooser_on_complete(account->chooser, report, LINNOS_RESULT_IGNORED, now_ns);
	count(&account->counts.in_flight, -1);
	return finish(r, NULL,
		      set_error(r, -ENOMEM, name_of(r, r->choice.replica), "out of memory"),
		      now_ns);
}

enum linnos_outcome read_at_once(struct linnos_read *r)
{
	struct account *account = r->account;
	const unsigned int replica = r->choice.replica;
	struct linnos_attempt report;
	uint64_t now_ns;
	ssize_t n;

	linnos_chooser_on_submit(account->chooser, &report, &r->choice, replica,
				 LINNOS_PRIMARY_ATTEMPT, account->now_ns);
	count(&account->counts.in_flight, 1);
	n = pread(account->set->replicas[replica].fd, r->iov->iov_base, r->bytes, r->offset);
	if (n != (ssize_t)r->bytes)
		return continue_read(r, &report, n < 0 ? -errno : n);
	now_ns = account_now_ns(account);
	linnos_chooser_on_complete(account->chooser, &report, LINNOS_SUCCEEDED, now_ns);
	linnos_chooser_on_answer(account->chooser, &r->choice, &report, NULL, now_ns);
	count(&account->counts.in_flight, -1);
	count(&account->counts.bytes, n);
	r->result = n;
	return LINNOS_READ_DONE;
}

void read_fail_unsent(struct linnos_read *r, struct attempt *at, int error)
{
	uint64_t now_ns = account_now_ns(r->account);

	set_error(r, error, name_of(r, at->replica),
		  "a deadline needs io_uring, or the backend's queue: %s", strerror(-error));
	attempt_report(at, ATTEMPT_CALLERS_FAULT, now_ns);
	remove_attempt(r, at);
	finish(r, at, error, now_ns);
	attempt_free(at);
}

void read_abandon_attempts(struct attempt_list *ring, struct linnos_read **unused)
{
	while (ring->first) {
		struct attempt *at = ring->first;
		struct linnos_read *r = at->read, *ended = at->retry_of;

		if (r)
			remove_attempt(r, at);
		if (r && !r->in_flight[0]) {
			read_unlist(r);
			ended = r;
		}
		if (ended) {
			ended->later = *unused;
			*unused = ended;
		}
		attempt_abandon(at);
	}
}
