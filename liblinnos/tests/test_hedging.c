// SPDX-License-Identifier: MIT
/*
 * The functions for io_uring and hedging. This file takes the place of the kernel: it receives the
 * requests, and completes them when and how a test requires. Also linnos_pread() with hedging, in a
 * ring.
 */
#include "made_up.h"

#include "test.h"

#include <liburing.h>
#include <sched.h>

#define N 3
#define BYTES (1u << 20)
#define READ_BYTES 4096
#define PENDING_MAX 256

struct kernel {
	uint64_t now_ns;
	struct io_uring_sqe pending[PENDING_MAX];
	unsigned int n_pending;
};

static uint64_t clock_ns(void *context)
{
	return ((struct kernel *)context)->now_ns;
}

static struct linnos_array *array_on(struct kernel *k, const struct linnos_options *o)
{
	struct linnos_array *a = made_up_array(N, BYTES, o);

	k->now_ns = MS;
	a->set.hooks = (struct hooks){.clock_ns = clock_ns, .context = k};
	return a;
}

static struct io_uring_sqe *new_sqe(struct kernel *k)
{
	assert(k->n_pending < PENDING_MAX);
	return &k->pending[k->n_pending++];
}

static enum linnos_outcome complete_as(struct linnos_array *a, struct kernel *k, unsigned int i,
				       int result, struct linnos_completion *c)
{
	struct io_uring_cqe cqe = {.user_data = k->pending[i].user_data, .res = result};
	enum linnos_outcome outcome;

	assert(cqe.user_data % 64 == 0);
	k->pending[i] = k->pending[--k->n_pending];
	/* The library ignores the tags that the caller has stored in the low bits. */
	cqe.user_data |= i % 64;
	outcome = linnos_queue_complete(cqe.user_data, cqe.res, c);
	assert((outcome == LINNOS_READ_RESUBMIT) == (c->read != NULL));
	assert(c->queue == (k->pending[k->n_pending].user_data ? only_queue(a) : NULL));
	if (outcome == LINNOS_READ_RESUBMIT)
		assert(!linnos_queue_prep_retry(c->read, new_sqe(k)));
	return outcome;
}

/* Serve a request with at most this number of bytes. */
static enum linnos_outcome complete(struct linnos_array *a, struct kernel *k, unsigned int i,
				    size_t at_most, struct linnos_completion *c)
{
	const struct io_uring_sqe *sqe = &k->pending[i];
	size_t bytes = sqe->len < at_most ? sqe->len : at_most;

	assert(sqe->opcode == IORING_OP_READ);
	return complete_as(a, k, i, pread(sqe->fd, (void *)(uintptr_t)sqe->addr, bytes, sqe->off),
			   c);
}

static struct linnos_options hedged(uint32_t hedge_us, double percent)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;

	o.hedge_us = hedge_us;
	o.max_duplicates = percent;
	o.probe_after_ms = 0;
	return o;
}

/* Reads that are answered at once earn the hedges of later ones. */
static void calm(struct linnos_array *a, struct kernel *k, unsigned int reads)
{
	char buf[READ_BYTES];

	for (unsigned int i = 0; i < reads; i++) {
		struct linnos_completion c;

		assert(!prep_read(a, new_sqe(k), buf, sizeof(buf), 0, NULL));
		k->now_ns += 50 * US;
		assert(complete(a, k, k->n_pending - 1, -1, &c) == LINNOS_READ_DONE);
	}
}

/* An array with a read from offset 0 and its hedge, sent 600 us later, in flight. */
static struct linnos_array *array_with_hedge(struct kernel *k, char *buf)
{
	struct linnos_options o = hedged(500, 100);
	struct linnos_array *a = array_on(k, &o);

	calm(a, k, 10);
	assert(!prep_read(a, new_sqe(k), buf, READ_BYTES, 0, buf));
	k->now_ns += 600 * US;
	linnos_queue_prep_retry(hedge_due(a), new_sqe(k));
	return a;
}

TEST(completion_has_the_user_pointer_of_its_read)
{
	struct kernel k = {0};
	struct linnos_completion c;
	char bufs[8][READ_BYTES];
	struct linnos_array *a = array_on(&k, NULL);

	for (int i = 0; i < 8; i++)
		assert(!prep_read(a, new_sqe(&k), bufs[i], READ_BYTES, 1000 * i, bufs[i]));
	assert(stats_of(a).in_flight == 8 && linnos_queue_close(only_queue(a)) == -EBUSY);
	assert(says("8 attempts of linnos_queue_prep_read() are in flight"));
	while (k.n_pending) {
		assert(complete(a, &k, k.n_pending / 2, -1, &c) == LINNOS_READ_DONE);
		assert(c.result == READ_BYTES);
		assert(is_right(c.user, READ_BYTES,
				1000 * (((char *)c.user - bufs[0]) / READ_BYTES)));
	}
	assert(linnos_queue_next_timeout_ns(only_queue(a)) == -1 && !hedge_due(a));
	put_away(a);
}

TEST(failed_attempt_changes_replica_and_short_one_does_not)
{
	struct kernel k = {0};
	struct linnos_completion c;
	char buf[READ_BYTES];
	int first;
	struct linnos_array *a = array_on(&k, NULL);

	assert(!prep_read(a, new_sqe(&k), buf, sizeof(buf), 77, &k));
	first = k.pending[0].fd;
	assert(complete(a, &k, 0, 1000, &c) == LINNOS_READ_RESUBMIT && c.user == &k);
	assert(k.pending[0].fd == first && k.pending[0].off == 1077 && k.pending[0].len == 3096);
	assert(complete_as(a, &k, 0, -EIO, &c) == LINNOS_READ_RESUBMIT);
	assert(k.pending[0].fd != first && k.pending[0].off == 77);
	assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_DONE && c.result == READ_BYTES);
	assert(is_right(buf, sizeof(buf), 77) && fd_of(a, c.replica) != first);

	assert(!prep_read(a, new_sqe(&k), buf, sizeof(buf), 0, &k));
	assert(complete_as(a, &k, 0, -EIO, &c) == LINNOS_READ_RESUBMIT);
	assert(complete_as(a, &k, 0, -EIO, &c) == LINNOS_READ_RESUBMIT);
	assert(complete_as(a, &k, 0, -ENODATA, &c) == LINNOS_READ_DONE);
	assert(c.result == -ENODATA && c.user == &k && says("No data available"));
	put_away(a);
}

TEST(prep_read_prepares_nop_on_error)
{
	struct kernel k = {0};
	struct linnos_completion c;
	char buf[16];
	struct linnos_array *a = array_on(&k, NULL);

	assert(prep_read(a, new_sqe(&k), buf, sizeof(buf), -5, NULL) == -EINVAL);
	assert(k.pending[0].opcode == IORING_OP_NOP);
	assert(complete_as(a, &k, 0, 0, &c) == LINNOS_READ_PENDING);
	put_away(a);
}

TEST(orphaned_attempt_does_not_write_to_callers_memory)
{
	struct linnos_options o = hedged(500, 100);
	struct kernel k = {0};
	struct linnos_completion c;
	struct linnos_read *due;
	char *buf = malloc(READ_BYTES);
	struct linnos_array *a = array_on(&k, &o);

	calm(a, &k, 10);
	assert(!prep_read(a, new_sqe(&k), buf, READ_BYTES, 4096, buf));
	assert(linnos_queue_next_timeout_ns(only_queue(a)) == 500 * US && !hedge_due(a));
	k.now_ns += 499 * US;
	assert(linnos_queue_next_timeout_ns(only_queue(a)) == 1 * US && !hedge_due(a));
	k.now_ns += 1 * US;
	due = hedge_due(a);
	assert(due && !hedge_due(a) && linnos_queue_next_timeout_ns(only_queue(a)) == -1);
	linnos_queue_prep_retry(due, new_sqe(&k));
	assert(k.pending[0].fd != k.pending[1].fd && k.pending[0].addr != k.pending[1].addr);
	k.now_ns += 80 * US;
	assert(complete(a, &k, 1, -1, &c) == LINNOS_READ_DONE && c.user == buf);
	assert(c.result == READ_BYTES && is_right(buf, READ_BYTES, 4096));
	/* The caller no longer uses the memory, but the drive does. */
	free(buf);
	memset((void *)(uintptr_t)k.pending[0].addr, 0xff, READ_BYTES);
	k.now_ns += 3000 * US;
	assert(linnos_queue_close(only_queue(a)) == -EBUSY);
	assert(complete_as(a, &k, 0, READ_BYTES, &c) == LINNOS_READ_PENDING && !c.user);
	assert(stats_of(a).hedges == 1 && stats_of(a).hedges_won == 1);
	assert(stats_of(a).hedges_saved_us == 3000 && stats_of(a).in_flight == 0);
	put_away(a);
}

TEST(hedge_is_not_counted_as_won_when_the_primary_answers)
{
	struct kernel k = {0};
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct linnos_array *a = array_with_hedge(&k, buf);

	assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_DONE && is_right(buf, READ_BYTES, 0));
	assert(complete_as(a, &k, 0, -EIO, &c) == LINNOS_READ_PENDING);
	assert(stats_of(a).hedges == 1 && !stats_of(a).hedges_won && !stats_of(a).hedges_saved_us);
	assert(stats_of(a).errors == 1 && !stats_of(a).failovers);
	put_away(a);
}

TEST(failed_attempt_waits_for_the_other_attempt)
{
	struct kernel k = {0};
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct linnos_array *a = array_with_hedge(&k, buf);

	assert(complete_as(a, &k, 0, -EIO, &c) == LINNOS_READ_PENDING && !c.user);
	assert(complete_as(a, &k, 0, -EIO, &c) == LINNOS_READ_RESUBMIT);
	assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_DONE && is_right(buf, READ_BYTES, 0));
	assert(c.result == READ_BYTES && stats_of(a).failovers == 1 && !stats_of(a).hedges_won);
	put_away(a);
}

TEST(percentile_hedging_starts_after_enough_latencies)
{
	struct linnos_options o = hedged(0, 50);
	struct kernel k = {0};
	struct linnos_completion c;
	struct linnos_array *a;
	char buf[READ_BYTES];

	o.hedge_percentile = 90;
	o.probe_after_ms = 0;
	a = array_on(&k, &o);
	for (unsigned int i = 0; i < 400; i++) {
		assert(!prep_read(a, new_sqe(&k), buf, sizeof(buf), 0, NULL));
		/* p90 is 100 us: one of twenty reads takes ten times as long. */
		assert((linnos_queue_next_timeout_ns(only_queue(a)) == -1) == (i < 128));
		if (i >= 128)
			assert(llabs(linnos_queue_next_timeout_ns(only_queue(a)) -
				     (int64_t)(100 * US)) < (int64_t)(2 * US));
		k.now_ns += i % 20 ? 100 * US : 1000 * US;
		assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_DONE);
	}
	put_away(a);
}

/* As a percentile that changes between reads, or the gain of duplicates, can demand. */
TEST(reads_begun_later_can_be_hedged_earlier)
{
	/* In the order of the reads: begun, and hedged after, in us. */
	static const uint64_t reads[][2] = {{0, 5001}, {100, 700}, {101, 700}, {102, 5001}};
	/* In the order of the hedges. */
	static const int expected[] = {1, 2, 0, 3};
	struct linnos_options o = hedged(1, 100);
	struct kernel k = {0};
	struct linnos_completion c;
	struct linnos_array *a;
	struct linnos_read *due;
	char bufs[4][READ_BYTES];

	o.probe_after_ms = 0;
	a = array_on(&k, &o);
	for (int i = 0; i < 4; i++) {
		k.now_ns = 20 * MS + reads[i][0] * US;
		a->predictor->learning.hedge_ns = reads[i][1] * US;
		assert(!prep_read(a, new_sqe(&k), bufs[i], READ_BYTES, 0, bufs[i]));
	}
	for (int i = 0; i < 4; i++) {
		const uint64_t *read = reads[expected[i]];

		k.now_ns += linnos_queue_next_timeout_ns(only_queue(a)) - 1;
		assert(!hedge_due(a));
		k.now_ns += 1;
		assert(k.now_ns == 20 * MS + (read[0] + read[1]) * US);
		due = hedge_due(a);
		assert(due && !hedge_due(a));
		linnos_queue_prep_retry(due, new_sqe(&k));
		assert(complete(a, &k, k.n_pending - 1, -1, &c) == LINNOS_READ_DONE);
		assert(c.user == bufs[expected[i]]);
	}
	assert(linnos_queue_next_timeout_ns(only_queue(a)) == -1);
	while (k.n_pending)
		complete(a, &k, 0, -1, &c);
	put_away(a);
}

TEST(large_reads_are_not_hedged)
{
	struct linnos_options o = hedged(1, 100);
	struct kernel k = {0};
	struct linnos_completion c;
	static char buf[(1 << 20) + 1];
	struct linnos_array *a = array_on(&k, &o);

	assert(!prep_read(a, new_sqe(&k), buf, sizeof(buf), 0, NULL));
	assert(k.pending[0].addr == (uintptr_t)buf &&
	       linnos_queue_next_timeout_ns(only_queue(a)) == -1);
	/* One byte more than there is: the end is found when no bytes follow. */
	assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_RESUBMIT);
	assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_DONE && c.result == 1 << 20);
	put_away(a);
}

/* --- Random events --------------------------------------------------------------- */

struct user {
	char buf[READ_BYTES];
	uint64_t offset;
	bool waits;
};

static void assert_cap(struct linnos_array *a, double percent)
{
	struct linnos_stats s = stats_of(a);

	assert((double)(s.hedges + s.probes) * 100 <= percent * (double)s.reads);
	assert(s.hedges_won <= s.hedges);
}

/* Each read that waits for its hedge is in the list once, ordered by time. */
static void assert_list(const struct linnos_array *a, unsigned int waiting)
{
	const struct linnos_read *last = NULL;
	unsigned int n = 0;

	for (const struct linnos_read *r = only_queue(a)->in_callers_ring.first; r; r = r->later) {
		assert(++n <= waiting && r->earlier == last);
		assert(r->is_listed && !r->is_done && r->flying[0] && !r->flying[1]);
		assert(!last || read_due_ns(r) >= read_due_ns(last));
		last = r;
	}
	assert(only_queue(a)->in_callers_ring.last == last);
}

/* Random events from a seed: reads begin, time passes, results arrive in any order, complete,
 * partial or empty. Return the number of hedges. Flags may select hedging by gain. */
static uint64_t live(uint64_t seed, uint32_t flags, double percent, uint32_t burst,
		     unsigned int steps)
{
	enum { USERS = 40 };
	uint32_t hedge_us = 1 + chance(&seed) % 300;
	struct linnos_options o = hedged(flags & LINNOS_DUPLICATES ? 0 : hedge_us, percent);
	struct kernel k = {0};
	struct user *users = calloc(USERS, sizeof(*users));
	unsigned int waiting = 0;
	uint64_t n_failed = 0, n_done = 0, hedges;
	struct linnos_array *a;

	o.flags = flags;
	o.duplicates_burst = burst;
	o.probe_after_ms = 1;
	a = array_on(&k, &o);
	for (unsigned int step = 0; step < steps || waiting || k.n_pending; step++) {
		struct user *u = &users[chance(&seed) % USERS];
		struct linnos_read *due;

		if (step < steps && !u->waits && chance(&seed) % 3) {
			u->offset = chance(&seed) % (BYTES - READ_BYTES);
			u->waits = true;
			waiting++;
			assert(!prep_read(a, new_sqe(&k), u->buf, READ_BYTES, u->offset, u));
		}
		k.now_ns += chance(&seed) % (100 * US);
		while ((due = hedge_due(a))) {
			linnos_queue_prep_retry(due, new_sqe(&k));
			assert_cap(a, percent);
		}
		if (k.n_pending && chance(&seed) % 2) {
			unsigned int i = chance(&seed) % k.n_pending, how = chance(&seed) % 8;
			struct linnos_completion c;
			enum linnos_outcome outcome;

			if (how < 2)
				outcome = complete_as(a, &k, i, how ? -EIO : -EINTR, &c);
			else
				outcome = complete(
					a, &k, i,
					how == 2 ? chance(&seed) % READ_BYTES + 1 : READ_BYTES, &c);
			if (outcome == LINNOS_READ_DONE) {
				u = c.user;
				assert(u->waits);
				u->waits = false;
				waiting--;
				n_failed += c.result == -EIO;
				n_done += c.result == READ_BYTES;
				assert(c.result == -EIO ||
				       (c.result == READ_BYTES &&
					is_right(u->buf, READ_BYTES, u->offset)));
			}
		}
		assert_cap(a, percent);
		assert_list(a, waiting);
	}
	settle(a);
	hedges = stats_of(a).hedges;
	assert(stats_of(a).reads == n_done + n_failed && stats_of(a).failed == n_failed);
	assert(stats_of(a).in_flight == 0 && n_done > 10 * n_failed);
	free(users);
	put_away(a);
	return hedges;
}

TEST(extra_io_never_exceeds_its_cap_at_any_moment)
{
	static const double percents[] = {100, 33.3, 5, 1, 0.1};

	for (uint64_t seed = 0; seed < 15; seed++) {
		double percent = percents[seed % 5];

		assert(live(seed, 0, percent, 1 + seed * 7, 4000) > 0 || percent < 1);
		assert(live(seed, LINNOS_DUPLICATES, percent, 1 + seed * 7, 4000) > 0 ||
		       percent < 5);
	}
}

TEST(no_read_is_hedged_when_extra_io_is_zero)
{
	assert(live(1, 0, 0, 100, 2000) == 0);
	assert(live(1, LINNOS_DUPLICATES, 0, 100, 2000) == 0);
}

TEST(hedges_accumulate_at_most_to_the_burst)
{
	struct linnos_options o = hedged(500, 10);
	struct kernel k = {0};
	struct linnos_completion c;
	struct linnos_array *a;
	struct linnos_read *due;
	static char bufs[60][READ_BYTES];

	o.duplicates_burst = 4;
	a = array_on(&k, &o);
	calm(a, &k, 1000);
	for (int i = 0; i < 60; i++)
		assert(!prep_read(a, new_sqe(&k), bufs[i], READ_BYTES, 0, NULL));
	k.now_ns += 600 * US;
	while ((due = hedge_due(a)))
		linnos_queue_prep_retry(due, new_sqe(&k));
	assert(stats_of(a).hedges == 4 && stats_of(a).hedges_denied == 56);
	while (k.n_pending)
		complete(a, &k, 0, -1, &c);
	put_away(a);
}

/* --- Hedging by gain ------------------------------------------------------------------- */

static struct linnos_array *array_by_gain(struct kernel *k, double percent)
{
	struct linnos_options o = hedged(0, percent);

	o.flags = LINNOS_DUPLICATES;
	return array_on(k, &o);
}

/* Advance the time until the oldest read must be sent again; NULL if that never happens. */
static struct linnos_read *due_at_last(struct linnos_array *a, struct kernel *k)
{
	struct linnos_read *due = NULL;

	while (!due) {
		int64_t wait_ns = linnos_queue_next_timeout_ns(only_queue(a));

		if (wait_ns < 0)
			return NULL;
		k->now_ns += wait_ns;
		due = hedge_due(a);
	}
	return due;
}

TEST(hedging_by_gain_hedges_late_reads)
{
	struct linnos_completion c;
	struct linnos_read *due;
	char buf[READ_BYTES];
	struct kernel k = {0};
	uint64_t begun_ns;
	struct linnos_array *a = array_by_gain(&k, 5);

	/* Without a distribution there is no expected gain. */
	assert(!prep_read(a, new_sqe(&k), buf, READ_BYTES, 0, NULL));
	assert(linnos_queue_next_timeout_ns(only_queue(a)) == -1);
	k.now_ns += 50 * US;
	assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_DONE);
	calm(a, &k, 3000);
	assert(!stats_of(a).hedges);

	begun_ns = k.now_ns;
	assert(!prep_read(a, new_sqe(&k), buf, READ_BYTES, 8192, buf));
	due = due_at_last(a, &k);
	/* Later than any earlier read, but not much. */
	assert(due && k.now_ns - begun_ns > 50 * US && k.now_ns - begun_ns < 500 * US);
	assert(!linnos_queue_prep_retry(due, new_sqe(&k)));
	assert(k.n_pending == 2 && k.pending[0].fd != k.pending[1].fd);
	k.now_ns += 50 * US;
	assert(complete(a, &k, 1, -1, &c) == LINNOS_READ_DONE && c.user == buf);
	assert(is_right(buf, READ_BYTES, 8192));
	k.now_ns += 5 * MS;
	assert(complete(a, &k, 0, -1, &c) == LINNOS_READ_PENDING);
	assert(stats_of(a).hedges_won == 1 && stats_of(a).hedges_saved_us == 5000);
	put_away(a);
}

/* If reads are late repeatedly, hedges do not exceed the budget. */
TEST(hedging_by_gain_respects_the_cap)
{
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct kernel k = {0};
	struct linnos_array *a = array_by_gain(&k, 5);

	calm(a, &k, 1000);
	for (int i = 0; i < 4000; i++) {
		struct linnos_read *due = NULL;
		uint64_t end_ns = k.now_ns + (i % 4 ? 50 : 5000) * US;

		assert(!prep_read(a, new_sqe(&k), buf, READ_BYTES, 0, NULL));
		while (!due && linnos_queue_next_timeout_ns(only_queue(a)) >= 0 &&
		       k.now_ns + linnos_queue_next_timeout_ns(only_queue(a)) < end_ns) {
			k.now_ns += linnos_queue_next_timeout_ns(only_queue(a));
			due = hedge_due(a);
		}
		if (due) {
			assert(!linnos_queue_prep_retry(due, new_sqe(&k)));
			k.now_ns += 50 * US;
			assert(complete(a, &k, 1, -1, &c) == LINNOS_READ_DONE);
		}
		k.now_ns = k.now_ns > end_ns ? k.now_ns : end_ns;
		complete(a, &k, 0, -1, &c);
	}
	assert(stats_of(a).hedges >= 100 && stats_of(a).hedges <= 250);
	assert(stats_of(a).hedges_won >= stats_of(a).hedges * 9 / 10);
	put_away(a);
}

/* --- In a ring ------------------------------------------------------------------------ */

static struct io_uring_sqe *sqe_of(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	assert(sqe);
	return sqe;
}

/* The loop of linnos_queue_prep_read(3). The descriptor of one replica is invalid, so that io_uring
 * itself returns an error. */
TEST(reads_complete_in_a_callers_ring)
{
	enum { DEPTH = 16, READS = 4000 };
	struct linnos_options o = hedged(200, 20);
	static char bufs[DEPTH][READ_BYTES];
	uint64_t offsets[DEPTH], seed = 1;
	unsigned int begun = 0, done = 0;
	struct linnos_array *a;
	struct io_uring ring;

	assert(!io_uring_queue_init(4 * DEPTH, &ring, 0));
	a = made_up_array(N, BYTES, &o);
	close(fd_of(a, 1));
	while (done < READS || stats_of(a).in_flight) {
		struct io_uring_cqe *cqe;
		struct linnos_read *due;
		struct __kernel_timespec ts = {0};
		int64_t wait_ns;

		for (unsigned int i = begun; begun < DEPTH; i++, begun++) {
			offsets[i] = chance(&seed) % (BYTES - READ_BYTES);
			assert(!prep_read(a, sqe_of(&ring), bufs[i], READ_BYTES, offsets[i],
					  &offsets[i]));
		}
		wait_ns = linnos_queue_next_timeout_ns(only_queue(a));
		ts.tv_nsec = wait_ns;
		io_uring_submit_and_wait_timeout(&ring, &cqe, 1, wait_ns < 0 ? NULL : &ts, NULL);
		while (!io_uring_peek_cqe(&ring, &cqe)) {
			struct linnos_completion c;
			enum linnos_outcome outcome =
				linnos_queue_complete(cqe->user_data, cqe->res, &c);

			io_uring_cqe_seen(&ring, cqe);
			if (outcome == LINNOS_READ_RESUBMIT)
				linnos_queue_prep_retry(c.read, sqe_of(&ring));
			if (outcome == LINNOS_READ_DONE) {
				uint64_t *offset = c.user, i = offset - offsets;

				assert(c.result == READ_BYTES && c.replica != 1);
				assert(is_right(bufs[i], READ_BYTES, *offset));
				done++;
				if (done + DEPTH > READS)
					continue;
				*offset = chance(&seed) % (BYTES - READ_BYTES);
				assert(!prep_read(a, sqe_of(&ring), bufs[i], READ_BYTES, *offset,
						  offset));
			}
		}
		while ((due = hedge_due(a)))
			linnos_queue_prep_retry(due, sqe_of(&ring));
	}
	assert(done == READS && stats_of(a).reads == READS && !stats_of(a).failed);
	assert(replica_of(a, 1).errors >= 1 && stats_of(a).failovers >= 1);
	io_uring_queue_exit(&ring);
	put_away(a);
}

/* --- linnos_pread() in a ring of the array ------------------------------------------- */

/* Replica 0 answers when a byte is written to a pipe. */
struct held {
	int pipe[2];
	uint64_t now_ns;
};

static void hold(void *context, unsigned int replica, struct io_uring_sqe *sqe)
{
	struct held *h = context;
	uint64_t user_data = sqe->user_data;

	if (replica)
		return;
	io_uring_prep_read(sqe, h->pipe[0], (void *)(uintptr_t)sqe->addr, 1, 0);
	sqe->user_data = user_data;
}

static int as_whole(void *context, unsigned int replica, uint64_t offset, int result)
{
	(void)context;
	(void)offset;
	return replica || result < 0 ? result : READ_BYTES;
}

/* An array whose replica 0 is held, and whose attempts cannot be cancelled, as those that a drive
 * has begun. */
static struct linnos_array *array_held(struct held *h, const struct linnos_options *o)
{
	struct linnos_array *a = made_up_array(N, BYTES, o);

	assert(!pipe(h->pipe));
	a->set.hooks = (struct hooks){.answer = as_whole, .prepared = hold, .context = h};
	a->set.backend.cancel = NULL;
	return a;
}

static void let_go(const struct held *h)
{
	assert(write(h->pipe[1], "x", 1) == 1);
}

static void put_away_held(struct linnos_array *a, const struct held *h)
{
	put_away(a);
	close_fds(2, h->pipe);
}

TEST(pread_returns_with_the_hedge_and_counts_the_orphan_later)
{
	struct linnos_options o = hedged(1000, 100);
	struct linnos_array *a;
	struct held h;
	char buf[READ_BYTES];

	o.flags = LINNOS_UNGUARDED;
	o.home = 0;
	o.probe_after_ms = 0;
	a = array_held(&h, &o);
	assert(linnos_pread(only_queue(a), buf, sizeof(buf), 8192) == sizeof(buf));
	assert(is_right(buf, sizeof(buf), 8192));
	assert(stats_of(a).hedges == 1 && stats_of(a).hedges_won == 1);
	assert(stats_of(a).in_flight == 1 &&
	       linnos_oldest_ns(&a->predictor->drives[0].drive.places));
	/* The unanswered attempt is part of the history: the next reads do not wait for that
	 * replica. */
	usleep(20000);
	for (int i = 0; i < 100; i++)
		assert(linnos_pread(only_queue(a), buf, sizeof(buf), i) == sizeof(buf) &&
		       is_right(buf, 100, i));
	assert(replica_of(a, 0).served == 0 && stats_of(a).redirected == 100);
	let_go(&h);
	while (stats_of(a).in_flight)
		sched_yield();
	assert(stats_of(a).hedges_saved_us >= 20000);
	put_away_held(a, &h);
}

TEST(pread_through_ring_returns_the_data_without_hedges)
{
	struct linnos_options o = hedged(60000000, 100);
	uint64_t seed = 1;
	char buf[20000];
	struct linnos_array *a = made_up_array(N, BYTES, &o);

	for (int i = 0; i < 2000; i++) {
		size_t bytes = chance(&seed) % sizeof(buf);
		uint64_t offset = chance(&seed) % (BYTES - bytes);

		a->set.replicas[i % N].align_bytes = i & 8 ? 512 : 1;
		assert(linnos_pread(only_queue(a), buf, bytes, offset) == (ssize_t)bytes);
		assert(is_right(buf, bytes, offset));
	}
	assert(linnos_pread(only_queue(a), buf, 100, BYTES - 10) == 10);
	assert(linnos_pread(only_queue(a), buf, 100, BYTES) == 0);
	assert(stats_of(a).hedges == 0 && stats_of(a).errors == 0);
	put_away(a);
}

TEST(array_close_waits_for_orphans)
{
	struct linnos_options o = hedged(1000, 100);
	struct linnos_array *a;
	struct held h;
	char buf[READ_BYTES];

	o.home = 0;
	o.margin_percent = 100;
	a = array_held(&h, &o);
	assert(linnos_pread(only_queue(a), buf, sizeof(buf), 0) == sizeof(buf));
	/* Closing would wait forever. */
	assert(stats_of(a).in_flight == 1);
	let_go(&h);
	put_away_held(a, &h);
}

static bool is_held(struct linnos_array *a)
{
	struct linnos_load load;

	linnos_load_snapshot(&a->predictor->drives[0].drive, &load);

	return load.reads;
}

/* By the real clock, some reads are so slow on a busy machine that no hedge is beneficial. */
static uint64_t ticking(void *context)
{
	return __atomic_add_fetch(&((struct held *)context)->now_ns, 1000, __ATOMIC_RELAXED);
}

TEST(hedging_by_gain_hedges_pread)
{
	struct linnos_options o = hedged(0, 50);
	struct held h = {.now_ns = MS};
	struct linnos_array *a;
	char buf[READ_BYTES];

	assert(!pipe(h.pipe));
	o.flags = LINNOS_DUPLICATES | LINNOS_UNGUARDED;
	a = made_up_array(N, BYTES, &o);
	a->set.hooks = (struct hooks){.clock_ns = ticking, .context = &h};
	for (int i = 0; i < 1000; i++)
		assert(linnos_pread(only_queue(a), buf, sizeof(buf), i) == sizeof(buf));
	while (stats_of(a).in_flight)
		sched_yield();
	a->set.hooks.answer = as_whole;
	a->set.hooks.prepared = hold;
	/* As for a request that a drive has begun, which cannot be cancelled. */
	a->set.backend.cancel = NULL;
	/* The attempt that is held may also be the second one. */
	for (int i = 0; !stats_of(a).hedges_won; i++) {
		assert(linnos_pread(only_queue(a), buf, sizeof(buf), i) == sizeof(buf) &&
		       is_right(buf, sizeof(buf), i));
		if (is_held(a))
			let_go(&h);
		while (stats_of(a).in_flight)
			sched_yield();
	}
	put_away_held(a, &h);
}
