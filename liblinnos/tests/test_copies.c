// SPDX-License-Identifier: MIT
/*
 * Copies of reads as probes of a replica: one replica fails late, hangs, or is slow, and a single
 * thread must keep its rate. The results advance the clock: it moves when a thread waits for a
 * replica, and not otherwise.
 */
#include "made_up.h"

#include "test.h"

#include <liburing.h>
#include <sys/resource.h>

#define N 3
#define BYTES (1u << 20)
#define READ_BYTES 4096
#define USUAL_US 1760
#define BAD 1

/* Replica BAD answers a reader after bad_us. A copy is answered when the test writes to a pipe. */
struct stuck {
	_Atomic uint64_t now_ns;
	pthread_t reader;
	int pipe[2];
	uint64_t bad_us;
	_Atomic int error;     /* 0 to succeed */
	unsigned int n_waited; /* number of times that the reader had to wait for it */
	atomic_uint n_copies;  /* copies sent there */
};

static uint64_t clock_ns(void *context)
{
	return ((struct stuck *)context)->now_ns;
}

static int answer(void *context, unsigned int replica, uint64_t offset, int result)
{
	struct stuck *s = context;
	bool is_bad = replica == BAD && s->bad_us;

	(void)offset;
	if (!pthread_equal(pthread_self(), s->reader))
		return !is_bad ? result : s->error ? s->error : READ_BYTES;
	s->n_waited += is_bad;
	s->now_ns += (is_bad ? s->bad_us : USUAL_US) * US;
	return is_bad && s->error ? s->error : result;
}

static void prepared(void *context, unsigned int replica, struct io_uring_sqe *sqe)
{
	struct stuck *s = context;
	uint64_t user_data = sqe->user_data;

	if (replica != BAD || !s->bad_us)
		return;
	s->n_copies++;
	io_uring_prep_read(sqe, s->pipe[0], (void *)(uintptr_t)sqe->addr, 1, 0);
	sqe->user_data = user_data;
}

static struct linnos_array *array_on(struct stuck *s, const struct linnos_options *o)
{
	struct linnos_array *a = made_up_array(N, BYTES, o);

	*s = (struct stuck){.now_ns = MS, .reader = pthread_self()};
	assert(!pipe(s->pipe));
	a->set.hooks = (struct hooks){
		.clock_ns = clock_ns, .answer = answer, .prepared = prepared, .context = s};
	return a;
}

static void close_pipe(const struct stuck *s)
{
	close(s->pipe[0]);
	close(s->pipe[1]);
}

static bool is_at(struct linnos_array *a, unsigned int replica, uint64_t *since_ns)
{
	uint64_t since;

	since = linnos_oldest_ns(&a->predictor->drives[replica].drive.places);

	if (since)
		*since_ns = since;
	return since;
}

static void let_go(struct linnos_array *a, struct stuck *s)
{
	uint64_t since_ns;

	assert(write(s->pipe[1], "x", 1) == 1);
	while (is_at(a, BAD, &since_ns))
		sched_yield();
}

/* Process completions: those of healthy replicas at once, those of BAD when its time has come. */
static void hear(struct linnos_array *a, struct stuck *s)
{
	uint64_t since_ns;

	for (unsigned int k = 0; k < N; k++)
		while ((k != BAD || !s->bad_us) && is_at(a, k, &since_ns))
			sched_yield();
	if (s->bad_us && is_at(a, BAD, &since_ns) && s->now_ns >= since_ns + s->bad_us * US)
		let_go(a, s);
}

static unsigned int reads_in(struct linnos_array *a, struct stuck *s, uint64_t for_ns)
{
	const uint64_t until_ns = s->now_ns + for_ns;
	unsigned int done = 0;
	char buf[READ_BYTES];

	s->n_waited = 0;
	for (; s->now_ns < until_ns; done++) {
		uint64_t offset = done % 64 * READ_BYTES;

		assert(linnos_pread(only_queue(a), buf, sizeof(buf), offset) == sizeof(buf));
		assert(is_right(buf, sizeof(buf), offset));
		hear(a, s);
	}
	return done;
}

static void keeps_its_rate(uint64_t bad_us, int error, bool chooses, uint64_t for_s)
{
	unsigned int healthy, reads;
	uint64_t since_ns;
	struct stuck s;
	struct linnos_array *a = array_on(&s, NULL);

	if (!chooses)
		a->predictor->common.chooses = 0;
	healthy = reads_in(a, &s, 1000 * MS);
	assert(stats_of(a).probes == 0 || chooses);
	s.bad_us = bad_us;
	s.error = error;
	reads = reads_in(a, &s, for_s * 1000 * MS);
	assert(reads >= healthy * for_s * 9 / 10);
	/* The first read, when there was no history. */
	assert(s.n_waited == 1);
	assert(stats_of(a).probes * 100 <= stats_of(a).reads);
	assert(!error == !stats_of(a).failovers && !stats_of(a).failed);
	if (is_at(a, BAD, &since_ns))
		let_go(a, &s);
	assert(s.n_copies > 0);
	/* It is healthy again, and is used again. */
	s.bad_us = 0;
	s.now_ns += 60000 * MS;
	reads_in(a, &s, 100 * MS);
	reads_in(a, &s, 1000 * MS);
	assert(replica_of(a, BAD).served > healthy / 3);
	settle(a);
	put_away(a);
	close_pipe(&s);
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
			keeps_its_rate(cases[i].bad_us, cases[i].error, chooses, cases[i].for_s);
}

/* The first read hangs as well: without a hedge no thread could send another one. */
TEST(one_thread_keeps_its_rate_after_the_first_read_that_hangs)
{
	uint64_t since_ns = 0, first_ns;
	unsigned int healthy;
	struct stuck s;
	struct linnos_array *a = array_on(&s, NULL);

	healthy = reads_in(a, &s, 1000 * MS);
	s.bad_us = 30000000;
	s.error = -EIO;
	assert(reads_in(a, &s, 10000 * MS) < 10 && s.n_waited == 1);
	/* A minute later it is probed once, and no reader waits. */
	assert(reads_in(a, &s, 61000 * MS) >= healthy * 61 * 9 / 10);
	assert(!s.n_waited && s.n_copies == 1 && is_at(a, BAD, &first_ns));
	assert(reads_in(a, &s, 20000 * MS) >= healthy * 20 * 9 / 10);
	assert(!s.n_waited && s.n_copies == 1 && is_at(a, BAD, &since_ns));
	assert(since_ns == first_ns);
	/* It may hang while the array is closed, which waits for it. */
	assert(write(s.pipe[1], "x", 1) == 1);
	put_away(a);
	close_pipe(&s);
}

TEST(probe_copies_are_not_in_the_callers_ring)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct linnos_array *a;
	struct io_uring_sqe sqe;
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct stuck s;

	o.home = 0;
	a = array_on(&s, &o);
	a->predictor->common.chooses = 0;
	for (unsigned int i = 0; i < 1000; i++) {
		struct io_uring_cqe cqe;
		int result;

		assert(!prep_read(a, &sqe, buf, sizeof(buf), i, NULL));
		cqe = (struct io_uring_cqe){.user_data = sqe.user_data};
		result = pread(sqe.fd, (void *)(uintptr_t)sqe.addr, sqe.len, sqe.off);
		assert(sqe.fd == fd_of(a, 0));
		cqe.res = result;
		assert(linnos_queue_complete(cqe.user_data, cqe.res, &c) == LINNOS_READ_DONE &&
		       c.result == READ_BYTES);
		s.now_ns += MS;
		/* No attempt is left in the program's ring. */
		assert(stats_of(a).in_flight == 0);
		settle(a);
	}
	assert(stats_of(a).probes == 9 + 1 && replica_of(a, 0).served == 1000);
	put_away(a);
	close_pipe(&s);
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
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct linnos_array *a;
	struct stuck s;

	o.home = 0;
	a = array_on(&s, &o);
	a->predictor->common.chooses = 0;
	reader = pthread_self();
	wait_in_ring = a->set.backend.wait;
	a->set.backend.wait = note_and_wait;
	reads_in(a, &s, 1000 * MS);
	settle(a);
	assert(stats_of(a).probes > 0);
	assert(n_readers_waits == 0 && n_others_waits > 0);
	put_away(a);
	close_pipe(&s);
}

TEST(probe_copy_of_large_read_has_its_first_bytes)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct linnos_array *a;
	struct linnos_load load;
	static char buf[2 << 20];
	struct stuck s;

	o.home = 0;
	a = array_on(&s, &o);
	s.bad_us = 1000;
	a->predictor->common.start_ns = 1;
	only_queue(a)->account.chooser->c.budget.tokens = 10;
	s.now_ns += 100 * MS;
	a->predictor->drives[2].last_completion_ns = s.now_ns;
	assert(linnos_pread(only_queue(a), buf, sizeof(buf), 0) == BYTES);

	linnos_load_snapshot(&a->predictor->drives[BAD].drive, &load);
	assert(load.read_pages == (1 << 20) / 4096);

	let_go(a, &s);
	put_away(a);
	close_pipe(&s);
}

/* Without io_uring a user's read probes a stale replica, and leaves a failed one alone. */
TEST(users_reads_probe_when_there_are_no_rings)
{
	unsigned int healthy, reads;
	struct stuck s;
	struct linnos_array *a = array_on(&s, NULL);

	a->predictor->common.users_probe = true;
	healthy = reads_in(a, &s, 1000 * MS);
	s.bad_us = 500000;
	for (int i = 0; i < 2; i++) {
		s.error = i ? 0 : -EIO;
		reads = reads_in(a, &s, 300000 * MS);
		assert(reads >= healthy * 300 * 9 / 10);
		assert(s.n_waited >= 4 && s.n_waited <= 8 && !s.n_copies && !a->reaper.is_running);
	}
	put_away(a);
	close_pipe(&s);
}

/* --- Without a ring, of no bytes, aligned ---------------------------------------------- */

TEST(reads_without_ring_are_counted)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct linnos_queue *first, *second;
	struct rlimit few, before;
	struct linnos_array *a;
	char buf[READ_BYTES];
	struct stuck s;

	o.home = 0;
	o.hedge_us = 60000000;
	a = array_on(&s, &o);
	a->predictor->common.chooses = 0;
	first = only_queue(a);
	assert(linnos_pread(first, buf, sizeof(buf), 0) == sizeof(buf));
	assert(!linnos_queue_create(&second, a, NULL));
	assert(stats_of(a).without_ring == 0);
	assert(!getrlimit(RLIMIT_NOFILE, &before));
	few = before;
	few.rlim_cur = 3;
	assert(!setrlimit(RLIMIT_NOFILE, &few));
	/* The first queue has the only ring that can be created. Its reads continue to work, but a
	 * copy cannot be sent. */
	first->account.chooser->c.budget.tokens = first->account.chooser->hedges.tokens = 10;
	s.now_ns += 1000 * MS;
	assert(linnos_pread(first, buf, sizeof(buf), 0) == sizeof(buf));
	assert(stats_of(a).without_ring == 1 && stats_of(a).probes == 0);
	/* No descriptor is left for the ring of the second queue. */
	for (unsigned int i = 2; i <= 5; i++) {
		second->account.chooser->c.budget.tokens = 0;
		assert(linnos_pread(second, buf, sizeof(buf), 0) == sizeof(buf));
		assert(stats_of(a).without_ring == i);
	}
	/* A read with a deadline cannot be replaced by a read without a limit. */
	{
		struct linnos_read_options in_time = LINNOS_READ_OPTIONS_INIT;
		struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};

		in_time.deadline_ns = MS;
		assert(linnos_preadv(second, &one, 1, 0, &in_time) == -EMFILE);
		assert(says("a deadline needs io_uring") && stats_of(a).in_flight == 0);
	}
	assert(!setrlimit(RLIMIT_NOFILE, &before));
	assert(linnos_pread(second, buf, sizeof(buf), 0) == sizeof(buf));
	assert(stats_of(a).without_ring == 5);
	settle(a);
	assert(!linnos_queue_close(second));
	put_away(a);
	close_pipe(&s);
}

TEST(empty_read_does_not_change_the_history)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct linnos_array *a;
	char buf[READ_BYTES];
	struct stuck s;

	o.home = 0;
	o.probe_after_ms = 0;
	a = array_on(&s, &o);
	a->predictor->common.chooses = 0;
	for (int i = 0; i < 4; i++)
		assert(linnos_pread(only_queue(a), buf, sizeof(buf), 0) == sizeof(buf));
	for (int i = 0; i < 8; i++)
		assert(linnos_pread(only_queue(a), buf, 0, i) == 0);
	assert(stats_of(a).reads == 12);
	assert(linnos_pread(only_queue(a), buf, sizeof(buf), 0) == sizeof(buf));
	assert(only_queue(a)->account.chooser->c.us[0] == USUAL_US);
	put_away(a);
	close_pipe(&s);
}
