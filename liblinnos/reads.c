// SPDX-License-Identifier: MIT
/* Reads and the attempts that serve them: see reads.h. */
#include "reads.h"
#include "best.h"
#include "latcrit.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
/* As no pointer to an attempt has it. */
#define TAG 3u

/* Thresholds by percentile: beyond it must lie so many of the latencies seen, it is looked up again
 * after so many, and half of them are forgotten when there are so many. */
#define BEYOND_MIN 10
#define LOOK_UP_EVERY 64
#define LATENCIES_MAX 20000

/* Where the replica's bytes go: to the caller, if nothing forbids it. */
static bool place(struct linnos_array *a, struct attempt *at, const struct linnos_read *r,
		  bool may_outlive)
{
	const uint64_t within = BOUNCE_ALIGN - 1;
	bool is_askew = a->replicas[at->replica].is_direct &&
			(r->offset | r->bytes | (uintptr_t)r->buf) & within;
	uint64_t end = r->offset + r->bytes;

	at->offset = r->offset;
	at->lead = 0;
	at->bytes = r->bytes;
	at->data = r->buf;
	if (is_askew) {
		at->offset = r->offset & ~within;
		at->lead = r->offset - at->offset;
		at->bytes = ((end + within) & ~within) - at->offset;
	}
	at->want = at->lead + r->bytes;
	if (!is_askew && !may_outlive)
		return true;
	at->bounce = bounce_get(&a->bounces, at->bytes);
	if (at->bounce)
		at->data = at->bounce->data;
	return at->bounce;
}

static uint32_t pages_of(const struct linnos_read *r)
{
	return (r->bytes + PAGE_BYTES - 1) / PAGE_BYTES;
}

static bool may_be_hedged(const struct linnos_array *a, const struct linnos_read *r)
{
	return a->hedging && r->bytes <= HEDGED_BYTES_MAX;
}

static void attempt_put(struct linnos_array *a, struct attempt *at)
{
	bounce_put(&a->bounces, at->bounce);
	at->next = a->free_attempts;
	a->free_attempts = at;
}

static struct attempt *attempt_new(struct linnos_array *a, struct linnos_read *r,
				   unsigned int replica, uint64_t now_ns)
{
	struct attempt *at = a->free_attempts;

	if (at)
		a->free_attempts = at->next;
	else
		at = malloc(sizeof(*at));
	if (!at)
		return NULL;
	memset(at, 0, sizeof(*at));
	at->replica = replica;
	if (!place(a, at, r, may_be_hedged(a, r))) {
		attempt_put(a, at);
		return NULL;
	}
	at->read = r;
	r->tried |= 1u << replica;
	/* The last one has nobody after it. */
	at->hinted = a->hint && (r->tried | a->chooser.gone) != (1u << a->n) - 1;
	r->flying[r->flying[0] ? 1 : 0] = at;
	r->next = at;
	a->stats.in_flight++;
	observer_sent(&a->drives[replica], &at->observed, now_ns, pages_of(r), true);
	return at;
}

static unsigned int next_home(struct linnos_array *a)
{
	unsigned int home = a->o.home >= 0 ? (unsigned int)a->o.home : a->next_home++ % a->n;

	while (a->chooser.gone & 1u << home)
		home = (home + 1) % a->n;
	return home;
}

static int refuse(struct linnos_array *a, size_t bytes, off_t offset)
{
	int error;

	if (!a->n)
		return -EBADF;
	if (offset >= 0 && offset <= INT64_MAX - 2 * (off_t)READ_BYTES_MAX)
		return 0;
	array_lock(a);
	error = array_fail(a, -EINVAL, "read of %zu bytes at %lld: no such offset", bytes,
			   (long long)offset);
	array_unlock(a);
	return error;
}

int read_begin(struct linnos_array *a, struct linnos_read *r, void *buf, size_t bytes, off_t offset)
{
	uint64_t clock_ns, now_ns;
	unsigned int replica;
	bool explored, is_told;
	struct told told;
	int error = refuse(a, bytes, offset);

	if (error)
		return error;
	memset(r, 0, sizeof(*r));
	r->buf = buf;
	r->bytes = bytes < READ_BYTES_MAX ? bytes : READ_BYTES_MAX;
	r->offset = offset;
	is_told = a->asks && best_tell(a, r->bytes, &told);
	clock_ns = array_clock_ns(a);
	array_lock(a);
	now_ns = array_time(a, clock_ns);
	r->start_ns = now_ns;
	r->home = next_home(a);
	a->chooser.told = is_told ? &told : NULL;
	replica = chooser_read(&a->chooser, r->home, pages_of(r), now_ns, &explored);
	a->chooser.told = NULL;
	r->home_us = a->chooser.us[r->home];
	if (a->hedge_tables)
		r->hedge_after_ns = 1000ull * hedge_table_after_us(&a->hedge_tables[replica],
								   a->chooser.us[replica]);
	if (!attempt_new(a, r, replica, now_ns)) {
		error = array_fail(a, -ENOMEM, "read of %zu bytes at %lld: out of memory", bytes,
				   (long long)offset);
	} else {
		a->stats.reads++;
		budget_earn(&a->hedge_budget);
		r->is_timed = may_be_hedged(a, r);
		r->moved = replica != r->home && !explored;
		a->stats.moved += r->moved;
		a->stats.explored += explored;
		a->stats.asked += is_told;
	}
	array_unlock(a);
	return error;
}

struct attempt *read_take_next(struct linnos_read *r)
{
	struct attempt *at = r->next;

	r->next = NULL;
	return at;
}

uint64_t read_hedge_ns(const struct linnos_array *a, const struct linnos_read *r)
{
	uint64_t after_ns = r->hedge_after_ns ? r->hedge_after_ns : a->hedge_ns;

	return r->is_timed && after_ns ? r->start_ns + after_ns : UINT64_MAX;
}

/* Beside the bucket, which counts in fractions: at no moment more than the share of the reads. */
static bool cap_allows(const struct linnos_array *a)
{
	return budget_allows(&a->hedge_budget) &&
	       (double)(a->stats.hedges + 1) * 100 <=
		       a->o.extra_io_percent * (double)a->stats.reads;
}

bool read_hedge(struct linnos_array *a, struct linnos_read *r)
{
	uint64_t clock_ns = array_clock_ns(a), now_ns;
	bool sent = false;
	int replica;

	array_lock(a);
	now_ns = array_time(a, clock_ns);
	r->is_timed = false;
	replica = chooser_lowest(&a->chooser, r->home, pages_of(r), now_ns, r->tried);
	if (replica >= 0 && !cap_allows(a)) {
		a->stats.hedges_denied++;
	} else if (replica >= 0 && attempt_new(a, r, replica, now_ns)) {
		r->next->is_hedge = true;
		r->next->hinted = false;
		budget_spend(&a->hedge_budget);
		a->stats.hedges++;
		sent = true;
	}
	array_unlock(a);
	return sent;
}

static void note_latency(struct linnos_array *a, uint64_t ns)
{
	double fraction = a->o.hedge_percentile / 100;

	if (!a->o.hedge_percentile)
		return;
	histogram_add(&a->latencies, ns);
	if (++a->n_latencies >= LATENCIES_MAX)
		a->n_latencies = histogram_fade(&a->latencies);
	if (a->n_latencies % LOOK_UP_EVERY || (double)a->n_latencies * (1 - fraction) < BEYOND_MIN)
		return;
	a->hedge_ns = histogram_at_rank(&a->latencies, nearest_rank(a->n_latencies, fraction));
	a->hedge_ns += !a->hedge_ns;
}

/* Sent again where it was: interrupted, or done in part. */
static bool goes_on(const struct linnos_array *a, struct attempt *at, int result)
{
	size_t end = at->from + (result > 0 ? result : 0);

	if (result == -EINTR)
		return true;
	if (end <= at->got)
		return false;
	at->got = end;
	if (at->got >= at->want)
		return false;
	at->from = at->got;
	if (a->replicas[at->replica].is_direct)
		at->from = at->got / BOUNCE_ALIGN * BOUNCE_ALIGN;
	at->hinted = false;
	return true;
}

enum how {
	FULL,
	AT_END, /* all that there is */
	REVOKED,
	CALLERS_FAULT,
	UNFINISHED, /* lost: nobody wants the rest */
	FAILED,
};

static enum how how_ended(const struct linnos_array *a, const struct attempt *at, int result)
{
	if (result >= 0 && at->got >= at->want)
		return FULL;
	if (result == -EFAULT)
		return CALLERS_FAULT;
	if (at->hinted && result == -EBUSY)
		return REVOKED;
	if (!at->read && (result > 0 || result == -EINTR))
		return UNFINISHED;
	/* A replica that ends before others do has lost bytes. */
	return result >= 0 && at->offset + at->got >= array_size_now(a) ? AT_END : FAILED;
}

static void account(struct linnos_array *a, struct attempt *at, enum how how, uint64_t now_ns)
{
	static const enum observed_end ends[] = {
		[FULL] = OBSERVED_ANSWERED,	    [AT_END] = OBSERVED_TAKEN_BACK,
		[REVOKED] = OBSERVED_TAKEN_BACK,    [CALLERS_FAULT] = OBSERVED_TAKEN_BACK,
		[UNFINISHED] = OBSERVED_TAKEN_BACK, [FAILED] = OBSERVED_FAILED,
	};

	observer_ended(&a->drives[at->replica], &at->observed, now_ns, ends[how]);
	a->stats.in_flight--;
	a->stats.refused += how == REVOKED;
	a->stats.errors += how == FAILED;
	a->stats.errors_by[at->replica] += how == FAILED;
	if (how == FULL && !at->is_hedge)
		note_latency(a, now_ns - at->observed.start_ns);
	if (how == FULL && at->lost_to_hedge)
		a->stats.hedges_saved_us += (now_ns - at->lost_ns) / 1000;
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

static enum linnos_outcome finish(struct linnos_array *a, struct linnos_read *r,
				  const struct attempt *at, ssize_t result, uint64_t now_ns)
{
	struct attempt *lost = r->flying[0];

	r->result = result;
	r->replica = at->replica;
	r->is_timed = false;
	if (lost) {
		lost->read = NULL;
		lost->lost_ns = now_ns;
		lost->lost_to_hedge = at->is_hedge;
	}
	if (result < 0) {
		a->stats.failed++;
		return LINNOS_DONE;
	}
	a->stats.bytes += result;
	a->stats.served_by[at->replica]++;
	a->stats.hedges_won += at->is_hedge;
	if (r->moved)
		a->stats.saved_us_estimate +=
			(int64_t)r->home_us - (int64_t)((now_ns - r->start_ns) / 1000);
	return LINNOS_DONE;
}

static enum linnos_outcome all_failed(struct linnos_array *a, struct linnos_read *r,
				      const struct attempt *at, uint64_t now_ns)
{
	const char *why = r->error ? strerror(-r->error) : "it ends before the others do";

	array_fail(
		a, r->error,
		"read of %zu bytes at %llu: no replica of %u has them; the last one, %s: %s; see "
		"the kernel's log (dmesg) for the drives' errors",
		r->bytes, (unsigned long long)r->offset, a->n, a->replicas[at->replica].name, why);
	return finish(a, r, at, r->error ? r->error : -EIO, now_ns);
}

static enum linnos_outcome fail_over(struct linnos_array *a, struct linnos_read *r,
				     struct attempt *at, uint64_t now_ns)
{
	int replica;

	if (r->flying[0])
		return LINNOS_NOTHING;
	replica = chooser_lowest(&a->chooser, r->home, pages_of(r), now_ns, r->tried);
	if (replica < 0)
		return all_failed(a, r, at, now_ns);
	if (!attempt_new(a, r, replica, now_ns)) {
		array_fail(a, -ENOMEM, "read of %zu bytes at %llu: out of memory", r->bytes,
			   (unsigned long long)r->offset);
		return finish(a, r, at, -ENOMEM, now_ns);
	}
	a->stats.failovers++;
	return LINNOS_AGAIN;
}

/* An attempt with memory of its own has bytes for the caller. */
static void copy_out(const struct attempt *at, struct linnos_read *r)
{
	size_t end = at->got < at->want ? at->got : at->want;

	r->got = end > at->lead ? end - at->lead : 0;
	if (at->bounce)
		memcpy(r->buf, at->data + at->lead, r->got);
}

static enum linnos_outcome read_goes_on(struct linnos_array *a, struct linnos_read *r,
					struct attempt *at, enum how how, int result,
					uint64_t now_ns)
{
	land(r, at);
	switch (how) {
	case FULL:
	case AT_END:
		return finish(a, r, at, r->got, now_ns);
	case CALLERS_FAULT:
		return finish(a, r, at,
			      array_fail(a, result,
					 "read of %zu bytes at %llu: the memory "
					 "to read into is not the caller's to write to",
					 r->bytes, (unsigned long long)r->offset),
			      now_ns);
	default:
		r->error = result < 0 ? result : 0;
		return fail_over(a, r, at, now_ns);
	}
}

enum linnos_outcome attempt_ended(struct linnos_array *a, struct attempt *at, int result,
				  struct linnos_read **read)
{
	uint64_t clock_ns, now_ns;
	struct linnos_read *r = at->read;
	enum linnos_outcome outcome = LINNOS_NOTHING;
	enum how how;

	*read = r;
	if (a->hooks.answer)
		result = a->hooks.answer(a->hooks.context, at->replica, at->offset + at->from,
					 result);
	clock_ns = array_clock_ns(a);
	if (goes_on(a, at, result) && r) {
		r->next = at;
		return LINNOS_AGAIN;
	}
	how = how_ended(a, at, result);
	if (r && (how == FULL || how == AT_END))
		copy_out(at, r);

	array_lock(a);
	now_ns = array_time(a, clock_ns);
	account(a, at, how, now_ns);
	if (r)
		outcome = read_goes_on(a, r, at, how, result, now_ns);
	attempt_put(a, at);
	array_unlock(a);
	return outcome;
}

void attempt_prepare(const struct linnos_array *a, struct attempt *at, struct io_uring_sqe *sqe)
{
	io_uring_prep_read(sqe, a->replicas[at->replica].fd, at->data + at->from,
			   at->bytes - at->from, at->offset + at->from);
	if (at->hinted)
		sqe->rw_flags = RWF_LATCRIT;
	sqe->user_data = (uintptr_t)at | TAG;
	if (a->hooks.prepared)
		a->hooks.prepared(a->hooks.context, at->replica, sqe);
}

uint64_t user_data_of_nop(void)
{
	return TAG;
}

bool user_data_is_ours(uint64_t user_data)
{
	return (user_data & TAG) == TAG;
}

struct attempt *attempt_of_user_data(uint64_t user_data)
{
	return (struct attempt *)(uintptr_t)(user_data & ~(uint64_t)TAG);
}

void attempts_free(struct linnos_array *a)
{
	while (a->free_attempts) {
		struct attempt *at = a->free_attempts;

		a->free_attempts = at->next;
		free(at);
	}
}
