// SPDX-License-Identifier: MIT
/*
 * The functions for io_uring and hedging. This file takes the place of the kernel: it receives the
 * requests, and completes them when and how a test requires. Also linnos_pread() with hedging, in a
 * ring.
 */
#include "one_array.h"

#define PENDING_MAX 256

/* The requests that the kernel has received and not completed, and its clock. */
static struct io_uring_sqe pending[PENDING_MAX];
static unsigned int n_pending;
static uint64_t now_ns;

static uint64_t clock_ns(void *context)
{
	(void)context;
	return now_ns;
}

static void open_with_clock(const struct linnos_options *o)
{
	open_array(o);
	array->set.hooks = (struct hooks){.clock_ns = clock_ns};
	now_ns = MS;
	n_pending = 0;
}

static struct io_uring_sqe *new_sqe(void)
{
	assert(n_pending < PENDING_MAX);
	return &pending[n_pending++];
}

static void begin_read(void *to, uint64_t offset, void *user)
{
	assert(!prep_read(array, new_sqe(), to, READ_BYTES, offset, user));
}

/* Return the time until a read is to be hedged, or -1. */
static int64_t timeout_ns(void)
{
	return linnos_queue_next_timeout_ns(queue());
}

static void send_again(struct linnos_read *read)
{
	assert(!linnos_queue_prep_retry(read, new_sqe()));
}

/* Complete a request, and submit the attempt that follows. */
static enum linnos_outcome complete_as(unsigned int i, int result)
{
	uint64_t user_data = pending[i].user_data;
	enum linnos_outcome outcome;

	assert(user_data % 64 == 0);
	pending[i] = pending[--n_pending];
	/* The library ignores the tags that the caller has stored in the low bits. */
	outcome = linnos_queue_complete(user_data | i % 64, result, &completion);
	assert((outcome == LINNOS_READ_RESUBMIT) == (completion.read != NULL));
	assert(completion.queue == (user_data ? queue() : NULL));
	if (outcome == LINNOS_READ_RESUBMIT)
		send_again(completion.read);
	return outcome;
}

/* Serve a request with at most this number of bytes. */
static enum linnos_outcome serve(unsigned int i, size_t at_most)
{
	const struct io_uring_sqe *sqe = &pending[i];
	size_t bytes = sqe->len < at_most ? sqe->len : at_most;

	assert(sqe->opcode == IORING_OP_READ);
	return complete_as(i, pread(sqe->fd, (void *)(uintptr_t)sqe->addr, bytes, sqe->off));
}

/* Serve a request completely. */
static enum linnos_outcome complete(unsigned int i)
{
	return serve(i, SIZE_MAX);
}

static void complete_all(void)
{
	while (n_pending)
		complete(0);
}

/* Hedges after this many us, up to this percentage of the reads, without probes. */
#define HEDGED(us, percent, ...)                                                                   \
	OPTIONS(.hedge_us = (us), .max_duplicates = (percent), .probe_after_ms = 0, __VA_ARGS__)

/* Reads that are answered at once earn the hedges of later ones. */
static void earn_hedges(unsigned int reads)
{
	for (unsigned int i = 0; i < reads; i++) {
		begin_read(buf, 0, NULL);
		now_ns += 50 * US;
		assert(complete(n_pending - 1) == LINNOS_READ_DONE);
	}
}

/* An array with a read from offset 0 and its hedge, sent 600 us later, in flight. */
static void open_with_hedge(void)
{
	open_with_clock(&HEDGED(500, 100));
	earn_hedges(10);
	begin_read(buf, 0, buf);
	now_ns += 600 * US;
	send_again(hedge_due(array));
}

TEST(completion_has_the_user_pointer_of_its_read)
{
	char bufs[8][READ_BYTES];

	open_with_clock(NULL);
	for (int i = 0; i < 8; i++)
		begin_read(bufs[i], 1000 * i, bufs[i]);
	assert(stats().in_flight == 8 && linnos_queue_close(queue()) == -EBUSY);
	assert(says("8 attempts of linnos_queue_prep_read() are in flight"));
	while (n_pending) {
		assert(complete(n_pending / 2) == LINNOS_READ_DONE);
		assert(completion.result == READ_BYTES);
		assert(is_right(completion.user, READ_BYTES,
				1000 * (((char *)completion.user - bufs[0]) / READ_BYTES)));
	}
	assert(timeout_ns() == -1 && !hedge_due(array));
}

TEST(failed_attempt_changes_replica_and_short_one_does_not)
{
	int first;

	open_with_clock(NULL);
	begin_read(buf, 77, &n_pending);
	first = pending[0].fd;
	assert(serve(0, 1000) == LINNOS_READ_RESUBMIT && completion.user == &n_pending);
	assert(pending[0].fd == first && pending[0].off == 1077 && pending[0].len == 3096);
	assert(complete_as(0, -EIO) == LINNOS_READ_RESUBMIT);
	assert(pending[0].fd != first && pending[0].off == 77);
	assert(complete(0) == LINNOS_READ_DONE && completion.result == READ_BYTES);
	assert(is_right(buf, sizeof(buf), 77) && fd_of(array, completion.replica) != first);

	begin_read(buf, 0, &n_pending);
	assert(complete_as(0, -EIO) == LINNOS_READ_RESUBMIT);
	assert(complete_as(0, -EIO) == LINNOS_READ_RESUBMIT);
	assert(complete_as(0, -ENODATA) == LINNOS_READ_DONE);
	assert(completion.result == -ENODATA && completion.user == &n_pending &&
	       says("No data available"));
}

TEST(prep_read_prepares_nop_on_error)
{
	open_with_clock(NULL);
	assert(prep_read(array, new_sqe(), buf, sizeof(buf), -5, NULL) == -EINVAL);
	assert(pending[0].opcode == IORING_OP_NOP);
	assert(complete_as(0, 0) == LINNOS_READ_PENDING);
}

TEST(orphaned_attempt_does_not_write_to_callers_memory)
{
	struct linnos_read *due;
	char *freed = malloc(READ_BYTES);

	open_with_clock(&HEDGED(500, 100));
	earn_hedges(10);
	begin_read(freed, 4096, freed);
	assert(timeout_ns() == 500 * US && !hedge_due(array));
	now_ns += 499 * US;
	assert(timeout_ns() == 1 * US && !hedge_due(array));
	now_ns += 1 * US;
	due = hedge_due(array);
	assert(due && !hedge_due(array) && timeout_ns() == -1);
	send_again(due);
	assert(pending[0].fd != pending[1].fd && pending[0].addr != pending[1].addr);
	now_ns += 80 * US;
	assert(complete(1) == LINNOS_READ_DONE && completion.user == freed);
	assert(completion.result == READ_BYTES && is_right(freed, READ_BYTES, 4096));
	/* The caller no longer uses the memory, but the drive does. */
	free(freed);
	memset((void *)(uintptr_t)pending[0].addr, 0xff, READ_BYTES);
	now_ns += 3000 * US;
	assert(linnos_queue_close(queue()) == -EBUSY);
	assert(complete_as(0, READ_BYTES) == LINNOS_READ_PENDING && !completion.user);
	assert(stats().hedges == 1 && stats().hedges_won == 1);
	assert(stats().hedges_saved_us == 3000 && stats().in_flight == 0);
}

TEST(hedge_is_won_only_if_it_answers_first)
{
	open_with_hedge();
	assert(complete(0) == LINNOS_READ_DONE && is_right(buf, READ_BYTES, 0));
	assert(complete_as(0, -EIO) == LINNOS_READ_PENDING);
	assert(stats().hedges == 1 && !stats().hedges_won && !stats().hedges_saved_us);
	assert(stats().errors == 1 && !stats().failovers);
	/* A failed attempt waits for the other one. */
	open_with_hedge();
	assert(complete_as(0, -EIO) == LINNOS_READ_PENDING && !completion.user);
	assert(complete_as(0, -EIO) == LINNOS_READ_RESUBMIT);
	assert(complete(0) == LINNOS_READ_DONE && is_right(buf, READ_BYTES, 0));
	assert(completion.result == READ_BYTES && stats().failovers == 1 && !stats().hedges_won);
}

TEST(percentile_hedging_starts_after_enough_latencies)
{
	open_with_clock(&HEDGED(0, 50, .hedge_percentile = 90));
	for (unsigned int i = 0; i < 400; i++) {
		begin_read(buf, 0, NULL);
		/* p90 is 100 us: one of twenty reads takes ten times as long. */
		assert((timeout_ns() == -1) == (i < 128));
		if (i >= 128)
			assert(llabs(timeout_ns() - (int64_t)(100 * US)) < (int64_t)(2 * US));
		now_ns += i % 20 ? 100 * US : 1000 * US;
		assert(complete(0) == LINNOS_READ_DONE);
	}
}

TEST(large_reads_are_not_hedged)
{
	static char large[(1 << 20) + 1];

	open_with_clock(&HEDGED(1, 100));
	assert(!prep_read(array, new_sqe(), large, sizeof(large), 0, NULL));
	assert(pending[0].addr == (uintptr_t)large && timeout_ns() == -1);
	/* One byte more than there is: the end is found when no bytes follow. */
	assert(complete(0) == LINNOS_READ_RESUBMIT);
	assert(complete(0) == LINNOS_READ_DONE && completion.result == 1 << 20);
}

/* --- Random events --------------------------------------------------------------- */

struct user {
	char buf[READ_BYTES];
	uint64_t offset;
	bool waits;
};

static void assert_cap(double percent)
{
	struct linnos_stats s = stats();

	assert((double)(s.hedges + s.probes) * 100 <= percent * (double)s.reads);
	assert(s.hedges_won <= s.hedges);
}

/* Each read that waits for its hedge is in the list once, ordered by time. */
static void assert_list(unsigned int waiting)
{
	const struct linnos_read *last = NULL;
	unsigned int n = 0;

	for (const struct linnos_read *r = queue()->in_callers_ring.first_timed; r; r = r->later) {
		assert(++n <= waiting && r->earlier == last);
		assert(r->is_listed && !r->is_done && r->in_flight[0] && !r->in_flight[1]);
		assert(!last || read_due_ns(r) >= read_due_ns(last));
		last = r;
	}
	assert(queue()->in_callers_ring.last_timed == last);
}

/* Random events from a seed: reads begin, time passes, results arrive in any order, complete,
 * partial or empty. Return the number of hedges. Flags may select hedging by gain. */
static uint64_t run_random_events(uint64_t seed, uint32_t flags, double percent, uint32_t burst,
				  unsigned int steps)
{
	enum { USERS = 40 };
	uint32_t hedge_us = 1 + chance(&seed) % 300;
	struct user *users = calloc(USERS, sizeof(*users));
	unsigned int waiting = 0;
	uint64_t n_failed = 0, n_done = 0, hedges;

	open_with_clock(&OPTIONS(.flags = flags,
				 .hedge_us = flags & LINNOS_DUPLICATES ? 0 : hedge_us,
				 .max_duplicates = percent, .duplicates_burst = burst,
				 .probe_after_ms = 1));
	for (unsigned int step = 0; step < steps || waiting || n_pending; step++) {
		struct user *u = &users[chance(&seed) % USERS];
		struct linnos_read *due;

		if (step < steps && !u->waits && chance(&seed) % 3) {
			u->offset = chance(&seed) % (BYTES - READ_BYTES);
			u->waits = true;
			waiting++;
			begin_read(u->buf, u->offset, u);
		}
		now_ns += chance(&seed) % (100 * US);
		while ((due = hedge_due(array))) {
			send_again(due);
			assert_cap(percent);
		}
		if (n_pending && chance(&seed) % 2) {
			unsigned int i = chance(&seed) % n_pending, how = chance(&seed) % 8;
			enum linnos_outcome outcome;

			if (how < 2)
				outcome = complete_as(i, how ? -EIO : -EINTR);
			else
				outcome = serve(i, how == 2 ? chance(&seed) % READ_BYTES + 1
							    : READ_BYTES);
			if (outcome == LINNOS_READ_DONE) {
				u = completion.user;
				assert(u->waits);
				u->waits = false;
				waiting--;
				n_failed += completion.result == -EIO;
				n_done += completion.result == READ_BYTES;
				assert(completion.result == -EIO ||
				       (completion.result == READ_BYTES &&
					is_right(u->buf, READ_BYTES, u->offset)));
			}
		}
		assert_cap(percent);
		assert_list(waiting);
	}
	settle(array);
	hedges = stats().hedges;
	assert(stats().reads == n_done + n_failed && stats().failed == n_failed);
	assert(stats().in_flight == 0 && n_done > 10 * n_failed);
	free(users);
	return hedges;
}

TEST(extra_io_never_exceeds_its_cap_at_any_moment)
{
	static const double percents[] = {100, 33.3, 5, 1, 0.1, 0};

	for (uint64_t seed = 0; seed < 18; seed++) {
		double percent = percents[seed % 6];
		uint64_t n = run_random_events(seed, 0, percent, 1 + seed * 7, 4000);
		uint64_t n_by_gain =
			run_random_events(seed, LINNOS_DUPLICATES, percent, 1 + seed * 7, 4000);

		assert(n > 0 || percent < 1);
		assert(n_by_gain > 0 || percent < 5);
		assert(!(n + n_by_gain) || percent);
	}
}

TEST(hedges_accumulate_at_most_to_the_burst)
{
	struct linnos_read *due;
	static char bufs[60][READ_BYTES];

	open_with_clock(&HEDGED(500, 10, .duplicates_burst = 4));
	earn_hedges(1000);
	for (int i = 0; i < 60; i++)
		begin_read(bufs[i], 0, NULL);
	now_ns += 600 * US;
	while ((due = hedge_due(array)))
		send_again(due);
	assert(stats().hedges == 4 && stats().hedges_denied == 56);
	complete_all();
}

/* --- Hedging by gain ------------------------------------------------------------------- */

TEST(hedging_by_gain_hedges_late_reads)
{
	struct linnos_read *due;
	uint64_t begun_ns;

	open_with_clock(&HEDGED(0, 5, .flags = LINNOS_DUPLICATES));
	/* Without a distribution there is no expected gain. */
	begin_read(buf, 0, NULL);
	assert(timeout_ns() == -1);
	now_ns += 50 * US;
	assert(complete(0) == LINNOS_READ_DONE);
	earn_hedges(3000);
	assert(!stats().hedges);

	begun_ns = now_ns;
	begin_read(buf, 8192, buf);
	do {
		now_ns += timeout_ns();
		due = hedge_due(array);
	} while (!due);
	/* Later than any earlier read, but not much. */
	assert(due && now_ns - begun_ns > 50 * US && now_ns - begun_ns < 500 * US);
	send_again(due);
	assert(n_pending == 2 && pending[0].fd != pending[1].fd);
	now_ns += 50 * US;
	assert(complete(1) == LINNOS_READ_DONE && completion.user == buf);
	assert(is_right(buf, READ_BYTES, 8192));
	now_ns += 5 * MS;
	assert(complete(0) == LINNOS_READ_PENDING);
	assert(stats().hedges_won == 1 && stats().hedges_saved_us == 5000);
}

/* --- linnos_pread() in a ring of the array ------------------------------------------- */

/* Replica 0 answers when a byte is written to this pipe. */
static int held[2];

static void hold(void *context, unsigned int number, struct io_uring_sqe *sqe)
{
	(void)context;
	if (!number)
		hold_request(sqe, held[0]);
}

static int return_whole_block(void *context, unsigned int number, uint64_t offset, int result)
{
	(void)context;
	(void)offset;
	return number || result < 0 ? result : READ_BYTES;
}

static void close_held(void)
{
	if (held[0])
		close_fds(2, held);
	held[0] = 0;
}

/* Hold attempts at replica 0, which cannot be cancelled, as those that a drive has begun. */
static void hold_replica_0(void)
{
	assert(!pipe(held));
	after_array = close_held;
	array->set.hooks.answer = return_whole_block;
	array->set.hooks.prepared = hold;
	array->set.backend.cancel = NULL;
}

static void release_requests(void)
{
	assert(write(held[1], "x", 1) == 1);
}

TEST(pread_returns_with_the_hedge_and_counts_the_orphan_later)
{
	open_array(&HEDGED(1000, 100, .flags = LINNOS_UNGUARDED, .home = 0));
	hold_replica_0();
	assert(reads_at(8192));
	assert(stats().hedges == 1 && stats().hedges_won == 1);
	assert(stats().in_flight == 1 &&
	       linnos_oldest_ns(&array->predictor->drives[0].drive.start_slots));
	/* The unanswered attempt is part of the history: the next reads do not wait for that
	 * replica. */
	usleep(20000);
	for (int i = 0; i < 100; i++)
		assert(reads_at(i));
	assert(replica(0).served == 0 && stats().redirected == 100);
	release_requests();
	settle(array);
	assert(stats().hedges_saved_us >= 20000);
}

TEST(pread_through_ring_returns_the_data_without_hedges)
{
	uint64_t seed = 1;
	char large[20000];

	open_array(&HEDGED(60000000, 100));
	for (int i = 0; i < 2000; i++) {
		size_t bytes = chance(&seed) % sizeof(large);
		uint64_t offset = chance(&seed) % (BYTES - bytes);

		array->set.replicas[i % N].align_bytes = i & 8 ? 512 : 1;
		assert(linnos_pread(queue(), large, bytes, offset) == (ssize_t)bytes);
		assert(is_right(large, bytes, offset));
	}
	assert(linnos_pread(queue(), buf, 100, BYTES - 10) == 10);
	assert(linnos_pread(queue(), buf, 100, BYTES) == 0);
	assert(stats().hedges == 0 && stats().errors == 0);
}

TEST(array_close_waits_for_orphans)
{
	open_array(&HEDGED(1000, 100, .home = 0, .margin_percent = 100));
	hold_replica_0();
	assert(reads_at(0));
	/* Closing would wait forever. */
	assert(stats().in_flight == 1);
	release_requests();
}

/* By the real clock, some reads are so slow on a busy machine that no hedge is beneficial. */
static uint64_t ticking(void *context)
{
	return __atomic_add_fetch((uint64_t *)context, 1000, __ATOMIC_RELAXED);
}

TEST(hedging_by_gain_hedges_pread)
{
	now_ns = MS;
	open_array(&HEDGED(0, 50, .flags = LINNOS_DUPLICATES | LINNOS_UNGUARDED));
	array->set.hooks = (struct hooks){.clock_ns = ticking, .context = &now_ns};
	for (int i = 0; i < 1000; i++)
		assert(reads_at(i));
	settle(array);
	hold_replica_0();
	/* The attempt that is held may also be the second one. */
	for (int i = 0; !stats().hedges_won; i++) {
		assert(reads_at(i));
		if (reads_in_flight(array, 0))
			release_requests();
		settle(array);
	}
}
