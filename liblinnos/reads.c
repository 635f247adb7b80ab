// SPDX-License-Identifier: MIT
/* Reads and the attempts that serve them: see reads.h. */
#include "reads.h"
#include "best.h"
#include "latcrit.h"

#include <errno.h>
#include <liburing.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
/* A copy of a larger read has its beginning. */
#define COPIED_BYTES_MAX HEDGED_BYTES_MAX
/* As no pointer to an attempt has it. */
#define TAG 3u

/* Thresholds by percentile: beyond it must lie so many of the latencies seen, it is looked up again
 * after so many, and half of them are forgotten when there are so many. */
#define BEYOND_MIN 10
#define LOOK_UP_EVERY 64
#define LATENCIES_MAX 20000

/* Where so many of the replica's bytes go: to buf, if nothing forbids it. */
static bool place(struct linnos_array *a, struct attempt *at, uint64_t offset, size_t bytes,
		  char *buf, bool may_outlive)
{
	const struct replica *replica = &a->replicas[at->replica];
	const uint64_t within = replica->align_bytes - 1;
	bool is_askew =
		(offset | bytes) & within || (uintptr_t)buf & (replica->memory_align_bytes - 1);
	uint64_t end = offset + bytes;

	at->offset = offset & ~within;
	at->lead = offset - at->offset;
	at->bytes = ((end + within) & ~within) - at->offset;
	at->data = buf;
	at->want = at->lead + bytes;
	if (!is_askew && !may_outlive)
		return true;
	at->bounce = bounce_get(&a->bounces, at->bytes);
	if (at->bounce)
		at->data = at->bounce->data;
	return at->bounce;
}

static uint32_t pages_of(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
}

static bool may_be_hedged(const struct linnos_array *a, const struct linnos_read *r)
{
	return a->hedging && r->bytes <= HEDGED_BYTES_MAX;
}

static void ring_list_add(struct linnos_array *a, struct attempt *at)
{
	at->later = a->ring_attempts;
	if (at->later)
		at->later->earlier = at;
	a->ring_attempts = at;
}

static void ring_list_remove(struct linnos_array *a, struct attempt *at)
{
	*(at->earlier ? &at->earlier->later : &a->ring_attempts) = at->later;
	if (at->later)
		at->later->earlier = at->earlier;
}

static void attempt_put(struct linnos_array *a, struct attempt *at)
{
	if (at->in_callers_ring)
		ring_list_remove(a, at);
	bounce_put(&a->bounces, at->bounce);
	at->next = a->free_attempts;
	a->free_attempts = at;
}

/* Of so many bytes at an offset, into buf; counts from now on. */
static struct attempt *attempt_of(struct linnos_array *a, unsigned int replica, uint64_t offset,
				  size_t bytes, char *buf, bool may_outlive, uint64_t now_ns)
{
	struct attempt *at = a->free_attempts;

	if (at)
		a->free_attempts = at->next;
	else
		at = malloc(sizeof(*at));
	if (!at)
		return NULL;
	memset(at, 0, sizeof(*at));
	at->array = a;
	at->replica = replica;
	if (!place(a, at, offset, bytes, buf, may_outlive)) {
		attempt_put(a, at);
		return NULL;
	}
	if (a->races) {
		at->predicted_us = a->chooser.us[replica];
		linnos_see_load(&a->drives[replica].drive, &at->met);
	}
	observer_sent(&a->drives[replica], &at->observed, now_ns, offset, pages_of(bytes), true);
	return at;
}

static struct attempt *attempt_new(struct linnos_array *a, struct linnos_read *r,
				   unsigned int replica, uint64_t now_ns)
{
	struct attempt *at =
		attempt_of(a, replica, r->offset, r->bytes, r->buf, may_be_hedged(a, r), now_ns);

	if (!at)
		return NULL;
	at->read = r;
	at->in_callers_ring = r->in_callers_ring;
	if (at->in_callers_ring)
		ring_list_add(a, at);
	r->tried |= 1u << replica;
	/* The last one has nobody after it. */
	at->hinted = a->hint && !r->is_plain && (r->tried | a->chooser.gone) != (1u << a->n) - 1;
	r->flying[r->flying[0] ? 1 : 0] = at;
	r->next = at;
	a->stats.in_flight++;
	return at;
}

/* NULL: there is no memory for it, or nothing to read. */
static struct attempt *copy_of(struct linnos_array *a, const struct linnos_read *r,
			       unsigned int replica, uint64_t now_ns)
{
	size_t bytes = r->bytes < COPIED_BYTES_MAX ? r->bytes : COPIED_BYTES_MAX;
	struct attempt *at =
		bytes ? attempt_of(a, replica, r->offset, bytes, NULL, true, now_ns) : NULL;

	if (at) {
		at->is_copy = true;
		a->n_copies++;
	}
	return at;
}

void copy_take_back(struct linnos_array *a, struct attempt *copy)
{
	uint64_t clock_ns = array_clock_ns(a);

	array_lock(a);
	observer_ended(&a->drives[copy->replica], &copy->observed, array_time(a, clock_ns),
		       OBSERVED_TAKEN_BACK);
	a->n_copies--;
	a->stats.explored--;
	a->stats.without_ring++;
	attempt_put(a, copy);
	array_unlock(a);
}

/* What sending a read there as well would gain, and when that would be most. */
static struct race_plan plan_second(const struct linnos_array *a, const struct linnos_read *r,
				    int replica, uint64_t now_ns)
{
	const struct attempt *first = r->flying[0];
	struct racing read = {.pages = pages_of(r->bytes)};
	struct linnos_load load;

	if (replica < 0 || !first)
		return (struct race_plan){.wait_us = INFINITY};
	linnos_see_load(&a->drives[replica].drive, &load);
	read.first_us = first->predicted_us;
	read.second_us = a->chooser.us[replica];
	read.waited_us = (now_ns - first->observed.issued_ns) / 1000.0;
	read.reads = load.reads;
	return race_plan(&a->race, &read);
}

/* Is it time? Else when, if ever. */
static bool is_second_due(struct linnos_array *a, struct linnos_read *r, int replica,
			  uint64_t now_ns)
{
	struct race_plan plan = plan_second(a, r, replica, now_ns);

	r->is_timed = isfinite(plan.wait_us);
	if (!r->is_timed)
		return false;
	r->claimed_us = plan.gain_us;
	r->hedge_after_ns = now_ns - r->start_ns + (uint64_t)(1000 * plan.wait_us) + 1;
	return plan.wait_us <= 0;
}

static int next_best(struct linnos_array *a, const struct linnos_read *r, uint64_t now_ns)
{
	return chooser_lowest(&a->chooser, r->home, r->offset, pages_of(r->bytes), now_ns,
			      r->tried);
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

int read_begin(struct linnos_array *a, struct linnos_read *r, void *buf, size_t bytes, off_t offset,
	       bool in_callers_ring)
{
	uint64_t clock_ns, now_ns;
	struct choice choice;
	bool is_told;
	struct told told;
	int error = refuse(a, bytes, offset);

	if (error)
		return error;
	memset(r, 0, sizeof(*r));
	r->array = a;
	r->in_callers_ring = in_callers_ring;
	r->buf = buf;
	r->bytes = bytes < READ_BYTES_MAX ? bytes : READ_BYTES_MAX;
	r->offset = offset;
	is_told = a->asks && best_tell(a, r->offset, r->bytes, &told);
	clock_ns = array_clock_ns(a);
	array_lock(a);
	now_ns = array_time(a, clock_ns);
	r->start_ns = now_ns;
	r->home = next_home(a);
	a->chooser.told = is_told ? &told : NULL;
	choice = chooser_read(&a->chooser, r->home, r->offset, pages_of(r->bytes), now_ns);
	a->chooser.told = NULL;
	r->moved = choice.drive != r->home;
	r->lot = choice.lot;
	if (choice.copy >= 0 && a->chooser.users_explore) {
		choice.drive = choice.copy;
		r->moved = false;
		r->lot = (struct linnos_lot){0};
	}
	r->home_us = a->chooser.us[r->home];
	if (a->hedge_tables)
		r->hedge_after_ns = 1000ull * hedge_table_after_us(&a->hedge_tables[choice.drive],
								   a->chooser.us[choice.drive]);
	if (!attempt_new(a, r, choice.drive, now_ns)) {
		error = array_fail(a, -ENOMEM, "read of %zu bytes at %lld: out of memory", bytes,
				   (long long)offset);
	} else {
		a->stats.reads++;
		budget_earn(&a->hedge_budget);
		r->is_timed = may_be_hedged(a, r);
		if (a->races && r->is_timed) {
			race_begin(&a->race, r->next->met.reads);
			is_second_due(a, r, next_best(a, r, now_ns), now_ns);
		}
		a->stats.moved += r->moved;
		a->stats.stayed += r->lot.wish != LINNOS_STAY && !r->lot.left;
		a->stats.asked += is_told;
		if (choice.copy >= 0 && !a->chooser.users_explore)
			r->copy = copy_of(a, r, choice.copy, now_ns);
		a->stats.explored += r->copy || choice.drive == (unsigned int)choice.copy;
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
	       (double)(a->stats.hedges + a->stats.explored + 1) * 100 <=
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
	replica = next_best(a, r, now_ns);
	if (a->races && !is_second_due(a, r, replica, now_ns)) {
		array_unlock(a);
		return false;
	}
	r->is_timed = false;
	if (a->races)
		race_wanted(&a->race);
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
	at->from -= at->from % a->replicas[at->replica].align_bytes;
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

static void note_race(struct linnos_array *a, const struct attempt *at, uint64_t now_ns)
{
	if (!a->races || at->is_copy || !at->observed.pages)
		return;
	race_answered(&a->race, at->predicted_us, at->met.read_pages,
		      (now_ns - at->observed.issued_ns) / 1000.0);
	if (at->claimed_us > 0)
		race_ended(&a->race, at->claimed_us,
			   at->lost_to_hedge ? (now_ns - at->lost_ns) / 1000.0 : 0);
}

static void account(struct linnos_array *a, struct attempt *at, enum how how, uint64_t now_ns)
{
	static const enum observed_end ends[] = {
		[FULL] = OBSERVED_ANSWERED,	    [AT_END] = OBSERVED_TAKEN_BACK,
		[REVOKED] = OBSERVED_TAKEN_BACK,    [CALLERS_FAULT] = OBSERVED_TAKEN_BACK,
		[UNFINISHED] = OBSERVED_TAKEN_BACK, [FAILED] = OBSERVED_FAILED,
	};

	/* Of no bytes a drive is not asked. */
	observer_ended(&a->drives[at->replica], &at->observed, now_ns,
		       at->observed.pages ? ends[how] : OBSERVED_TAKEN_BACK);
	*(at->is_copy ? &a->n_copies : &a->stats.in_flight) -= 1;
	a->stats.refused += how == REVOKED;
	a->stats.errors += how == FAILED;
	a->stats.errors_by[at->replica] += how == FAILED;
	if (how == FULL && !at->is_hedge && !at->is_copy && at->observed.pages)
		note_latency(a, now_ns - at->observed.issued_ns);
	if (how == FULL)
		note_race(a, at, now_ns);
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
		if (at->is_hedge || lost->is_hedge)
			lost->claimed_us = r->claimed_us;
	}
	if (result < 0) {
		a->stats.failed++;
		return LINNOS_DONE;
	}
	chooser_answered(&a->chooser, r->lot, now_ns - r->start_ns);
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

/* The next best, and when there is none of those that have only refused. */
static int next_after_failure(struct linnos_array *a, struct linnos_read *r, uint64_t now_ns)
{
	int replica = next_best(a, r, now_ns);

	if (replica >= 0 || !r->refused)
		return replica;
	r->tried &= ~r->refused;
	r->refused = 0;
	r->is_plain = true;
	return next_best(a, r, now_ns);
}

static enum linnos_outcome fail_over(struct linnos_array *a, struct linnos_read *r,
				     struct attempt *at, uint64_t now_ns)
{
	int replica;

	if (r->flying[0])
		return LINNOS_NOTHING;
	replica = next_after_failure(a, r, now_ns);
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
	case REVOKED:
		r->refused |= 1u << at->replica;
		return fail_over(a, r, at, now_ns);
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

void attempts_forsake(struct linnos_array *a)
{
	uint64_t clock_ns = array_clock_ns(a), now_ns;

	array_lock(a);
	now_ns = array_time(a, clock_ns);
	while (a->ring_attempts) {
		struct attempt *at = a->ring_attempts;
		struct linnos_read *r = at->read;

		observer_ended(&a->drives[at->replica], &at->observed, now_ns, OBSERVED_TAKEN_BACK);
		a->stats.in_flight--;
		if (r) {
			land(r, at);
			if (!r->flying[0])
				read_forget(a, r);
		}
		bounce_forsake(at->bounce);
		at->bounce = NULL;
		attempt_put(a, at);
	}
	array_unlock(a);
}

void attempts_free(struct linnos_array *a)
{
	while (a->free_attempts) {
		struct attempt *at = a->free_attempts;

		a->free_attempts = at->next;
		free(at);
	}
}
