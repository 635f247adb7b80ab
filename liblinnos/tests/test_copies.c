// SPDX-License-Identifier: MIT
/*
 * Copies of reads as probes of a replica: one replica fails late, hangs, or is slow, and a single
 * thread must keep its rate. The results advance the clock: it moves when a thread waits for a
 * replica, and not otherwise.
 */
#include "one_array.h"

#include <sys/resource.h>

#define NORMAL_US 1760
#define BAD 1

/* Replica BAD answers a reader after bad_us. A copy is answered when the test writes to a pipe. */
static struct stuck {
	_Atomic uint64_t now_ns;
	pthread_t reader;
	int pipe[2];
	uint64_t bad_us;
	_Atomic int error;     /* 0 to succeed */
	unsigned int n_waited; /* number of times that the reader had to wait for it */
	atomic_uint n_copies;  /* copies sent there */
} stuck;

static uint64_t clock_ns(void *context)
{
	(void)context;
	return stuck.now_ns;
}

static int answer(void *context, unsigned int number, uint64_t offset, int result)
{
	bool is_bad = number == BAD && stuck.bad_us;

	(void)context, (void)offset;
	if (!pthread_equal(pthread_self(), stuck.reader))
		return !is_bad ? result : stuck.error ? stuck.error : READ_BYTES;
	stuck.n_waited += is_bad;
	stuck.now_ns += (is_bad ? stuck.bad_us : NORMAL_US) * US;
	return is_bad && stuck.error ? stuck.error : result;
}

static void prepared(void *context, unsigned int number, struct io_uring_sqe *sqe)
{
	(void)context;
	if (number != BAD || !stuck.bad_us)
		return;
	stuck.n_copies++;
	hold_request(sqe, stuck.pipe[0]);
}

static void close_pipe(void)
{
	close_fds(2, stuck.pipe);
}

static void open_stuck(const struct linnos_options *o)
{
	open_array(o);
	stuck = (struct stuck){.now_ns = MS, .reader = pthread_self()};
	assert(!pipe(stuck.pipe));
	array->set.hooks =
		(struct hooks){.clock_ns = clock_ns, .answer = answer, .prepared = prepared};
	after_array = close_pipe;
}

/* Replica 0 is the default, and models do not redirect reads. */
static void open_at_0(uint32_t hedge_us)
{
	open_stuck(&OPTIONS(.home = 0, .hedge_us = hedge_us));
	array->predictor->common.chooses = 0;
}

/* Return the time when the oldest attempt in flight at a replica began, or 0. */
static uint64_t oldest_at(unsigned int number)
{
	return linnos_oldest_ns(&array->predictor->drives[number].drive.start_slots);
}

static void release_requests(void)
{
	assert(write(stuck.pipe[1], "x", 1) == 1);
	while (oldest_at(BAD))
		sched_yield();
}

/* Process completions: of healthy replicas at once, and of BAD when its latency has passed. */
static void process_completions(void)
{
	uint64_t since_ns;

	for (unsigned int k = 0; k < N; k++)
		while ((k != BAD || !stuck.bad_us) && oldest_at(k))
			sched_yield();
	since_ns = oldest_at(BAD);
	if (stuck.bad_us && since_ns && stuck.now_ns >= since_ns + stuck.bad_us * US)
		release_requests();
}

static unsigned int reads_in(uint64_t for_ns)
{
	const uint64_t until_ns = stuck.now_ns + for_ns;
	unsigned int done = 0;

	stuck.n_waited = 0;
	for (; stuck.now_ns < until_ns; done++) {
		uint64_t offset = done % 64 * READ_BYTES;

		assert(reads_at(offset));
		process_completions();
	}
	return done;
}

static void assert_rate(uint64_t bad_us, int error, bool chooses, uint64_t for_s)
{
	unsigned int healthy, reads;

	open_stuck(NULL);
	if (!chooses)
		array->predictor->common.chooses = 0;
	healthy = reads_in(1000 * MS);
	assert(stats().probes == 0 || chooses);
	stuck.bad_us = bad_us;
	stuck.error = error;
	reads = reads_in(for_s * 1000 * MS);
	assert(reads >= healthy * for_s * 9 / 10);
	/* The first read, when there was no history. */
	assert(stuck.n_waited == 1);
	assert(stats().probes * 100 <= stats().reads);
	assert(!error == !stats().failovers && !stats().failed);
	if (oldest_at(BAD))
		release_requests();
	assert(stuck.n_copies > 0);
	/* It is healthy again, and is used again. */
	stuck.bad_us = 0;
	stuck.now_ns += 60000 * MS;
	reads_in(100 * MS);
	reads_in(1000 * MS);
	assert(replica(BAD).served > healthy / 3);
	settle(array);
}

TEST(one_thread_keeps_its_rate_when_a_replica_fails_or_is_slow)
{
	static const struct {
		uint64_t bad_us, for_s;
		int error;
	} cases[] = {{500000, 60, -EIO}, {500000, 10, 0}, {100, 10, -EIO}};

	/* With and without models that redirect reads. */
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (int chooses = 0; chooses < 2; chooses++)
			assert_rate(cases[i].bad_us, cases[i].error, chooses, cases[i].for_s);
}

/* The first read hangs as well: without a hedge no thread could send another one. */
TEST(one_thread_keeps_its_rate_after_the_first_read_that_hangs)
{
	unsigned int healthy;
	uint64_t since_ns;

	open_stuck(NULL);
	healthy = reads_in(1000 * MS);
	stuck.bad_us = 30000000;
	stuck.error = -EIO;
	assert(reads_in(10000 * MS) < 10 && stuck.n_waited == 1);
	/* A minute later it is probed once, and no reader waits. */
	assert(reads_in(61000 * MS) >= healthy * 61 * 9 / 10);
	since_ns = oldest_at(BAD);
	assert(!stuck.n_waited && stuck.n_copies == 1 && since_ns);
	assert(reads_in(20000 * MS) >= healthy * 20 * 9 / 10);
	assert(!stuck.n_waited && stuck.n_copies == 1 && oldest_at(BAD) == since_ns);
	/* It may hang while the array is closed, which waits for it. */
	assert(write(stuck.pipe[1], "x", 1) == 1);
}

TEST(probe_copies_are_not_in_the_callers_ring)
{
	struct io_uring_sqe sqe;

	open_at_0(0);
	for (unsigned int i = 0; i < 1000; i++) {
		int result;

		assert(!prep_read(array, &sqe, buf, sizeof(buf), i, NULL));
		assert(sqe.fd == fd_of(array, 0));
		result = pread(sqe.fd, (void *)(uintptr_t)sqe.addr, sqe.len, sqe.off);
		assert(linnos_queue_complete(sqe.user_data, result, &completion) ==
			       LINNOS_READ_DONE &&
		       completion.result == READ_BYTES);
		stuck.now_ns += MS;
		/* No attempt is left in the program's ring. */
		assert(stats().in_flight == 0);
		settle(array);
	}
	assert(stats().probes == 9 + 1 && replica(0).served == 1000);
}

static int (*wait_in_ring)(void *queue, int64_t timeout_ns);
static pthread_t reader;
static atomic_uint n_readers_waits, n_others_waits;

static int note_and_wait(void *queue, int64_t timeout_ns)
{
	if (pthread_equal(pthread_self(), reader))
		n_readers_waits++;
	else
		n_others_waits++;
	return wait_in_ring(queue, timeout_ns);
}

/* The kernel reports a completion in the thread that submitted the request, which it cannot do
 * while that thread waits for a drive. The replica would seem to take as long as the reader's own
 * next read. */
TEST(probe_copy_is_submitted_by_the_reaper)
{
	open_at_0(0);
	reader = pthread_self();
	wait_in_ring = array->set.backend.wait;
	array->set.backend.wait = note_and_wait;
	reads_in(1000 * MS);
	settle(array);
	assert(stats().probes > 0);
	assert(n_readers_waits == 0 && n_others_waits > 0);
}

TEST(probe_copy_of_large_read_has_its_first_bytes)
{
	struct linnos_load load;
	static char large[2 << 20];

	open_stuck(&OPTIONS(.home = 0));
	stuck.bad_us = 1000;
	array->predictor->common.start_ns = 1;
	queue()->account.chooser->c.budget.tokens = 10;
	stuck.now_ns += 100 * MS;
	array->predictor->drives[2].last_completion_ns = stuck.now_ns;
	assert(linnos_pread(queue(), large, sizeof(large), 0) == BYTES);
	linnos_load_snapshot(&array->predictor->drives[BAD].drive, &load);
	assert(load.read_pages == (1 << 20) / 4096);
	release_requests();
}

/* Without io_uring a user's read probes a stale replica, and leaves a failed one alone. */
TEST(users_reads_probe_when_there_are_no_rings)
{
	unsigned int healthy, reads;

	open_stuck(NULL);
	array->predictor->common.users_probe = true;
	healthy = reads_in(1000 * MS);
	stuck.bad_us = 500000;
	for (int i = 0; i < 2; i++) {
		stuck.error = i ? 0 : -EIO;
		reads = reads_in(300000 * MS);
		assert(reads >= healthy * 300 * 9 / 10);
		assert(stuck.n_waited >= 4 && stuck.n_waited <= 8 && !stuck.n_copies &&
		       !array->reaper.is_running);
	}
}

/* --- Without a ring, of no bytes, aligned ---------------------------------------------- */

TEST(reads_without_ring_are_counted)
{
	const struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};
	struct linnos_queue *first, *second;
	struct rlimit few, before;

	open_at_0(60000000);
	first = queue();
	assert(linnos_pread(first, buf, sizeof(buf), 0) == sizeof(buf));
	assert(!linnos_queue_create(&second, array, NULL));
	assert(stats().without_ring == 0);
	assert(!getrlimit(RLIMIT_NOFILE, &before));
	few = before;
	few.rlim_cur = 3;
	assert(!setrlimit(RLIMIT_NOFILE, &few));
	/* The first queue has the only ring that can be created. Its reads continue to work, but a
	 * copy cannot be sent. */
	first->account.chooser->c.budget.tokens = first->account.chooser->hedges.tokens = 10;
	stuck.now_ns += 1000 * MS;
	assert(linnos_pread(first, buf, sizeof(buf), 0) == sizeof(buf));
	assert(stats().without_ring == 1 && stats().probes == 0);
	/* No descriptor is left for the ring of the second queue. */
	for (unsigned int i = 2; i <= 5; i++) {
		second->account.chooser->c.budget.tokens = 0;
		assert(linnos_pread(second, buf, sizeof(buf), 0) == sizeof(buf));
		assert(stats().without_ring == i);
	}
	/* A read with a deadline cannot be replaced by a read without a limit. */
	assert(linnos_preadv(second, &one, 1, 0, &READ_OPTIONS(.deadline_ns = MS)) == -EMFILE);
	assert(says("a deadline needs io_uring") && stats().in_flight == 0);
	assert(!setrlimit(RLIMIT_NOFILE, &before));
	assert(linnos_pread(second, buf, sizeof(buf), 0) == sizeof(buf));
	assert(stats().without_ring == 5);
	settle(array);
	assert(!linnos_queue_close(second));
}

TEST(empty_read_does_not_change_the_history)
{
	open_stuck(&OPTIONS(.home = 0, .probe_after_ms = 0));
	array->predictor->common.chooses = 0;
	for (int i = 0; i < 4; i++)
		assert(reads_at(0));
	for (int i = 0; i < 8; i++)
		assert(linnos_pread(queue(), buf, 0, i) == 0);
	assert(stats().reads == 12);
	assert(reads_at(0));
	assert(queue()->account.chooser->c.us[0] == NORMAL_US);
}
