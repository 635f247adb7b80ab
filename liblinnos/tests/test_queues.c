// SPDX-License-Identifier: MIT
/*
 * Queues with a backend in memory, whose clock the tests control: hedges, deadlines, cancellation,
 * replicas that fail, hang, are dropped and restored; and the additional features of queues for
 * files.
 */
#include "made_up.h"
#include "memory_backend.h"

#include "test.h"

#include <liburing.h>

#define N 3
#define BYTES (1u << 20)
#define READ_BYTES 4096
#define USUAL_NS 100000ull

struct simulated {
	struct linnos_memory *memory;
	struct linnos_array *array;
	struct linnos_queue *queue;
};

static struct simulated simulate(const struct linnos_options *o, uint32_t align)
{
	struct linnos_replica replicas[N];
	struct simulated s;

	s.memory = linnos_memory_create(BYTES, USUAL_NS);
	for (size_t i = 0; i < BYTES; i++)
		s.memory->content[i] = byte_at(i);
	for (unsigned int k = 0; k < N; k++)
		replicas[k] = (struct linnos_replica){.size = sizeof(*replicas),
						      .bytes = BYTES,
						      .align_bytes = align,
						      .memory_align_bytes = align};
	if (linnos_array_open_backend(&s.array, N, replicas, &s.memory->backend, NULL, o))
		fprintf(stderr, "%s\n", linnos_error());
	assert(s.array && !linnos_queue_create(&s.queue, s.array, NULL));
	return s;
}

static void put_back(struct simulated *s)
{
	assert(!linnos_queue_close(s->queue));
	assert(stats_of(s->array).in_flight == 0);
	assert(!linnos_array_close(s->array));
	linnos_memory_free(s->memory);
}

static struct linnos_options default_1(void)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;

	o.home = 1;
	o.probe_after_ms = 0;
	return o;
}

static struct simulated simulate_at_1(void)
{
	struct linnos_options o = default_1();

	return simulate(&o, 1);
}

static ssize_t read_within(struct simulated *s, void *buf, size_t bytes, off_t offset,
			   const struct linnos_read_options *o)
{
	struct iovec one = {.iov_base = buf, .iov_len = bytes};

	return linnos_preadv(s->queue, &one, 1, offset, o);
}

TEST(memory_backend_clock_advances_while_waiting)
{
	struct simulated s = simulate_at_1();
	uint64_t start_ns = s.memory->now_ns;
	char buf[READ_BYTES];

	for (int i = 0; i < 100; i++) {
		assert(linnos_pread(s.queue, buf, sizeof(buf), 77 * i) == READ_BYTES);
		assert(is_right(buf, sizeof(buf), 77 * i));
	}
	assert(s.memory->now_ns == start_ns + 100 * USUAL_NS);
	assert(replica_of(s.array, 1).served == 100 && replica_of(s.array, 1).took_us == 10000);
	s.memory->now_ns += 5;
	assert(s.memory->now_ns == start_ns + 100 * USUAL_NS + 5);
	put_back(&s);
}

TEST(backend_requests_are_aligned)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	uint64_t seed = 1;

	for (uint32_t align = 1; align <= 4096; align *= 64) {
		struct simulated s = simulate(&o, align);
		static char buf[BYTES];

		for (int i = 0; i < 300; i++) {
			size_t bytes = chance(&seed) % 20000;
			uint64_t offset = chance(&seed) % (BYTES - bytes);

			assert(linnos_pread(s.queue, buf + i, bytes, offset) == (ssize_t)bytes);
			assert(is_right(buf + i, bytes, offset));
		}
		assert(linnos_pread(s.queue, buf, 100, BYTES - 30) == 30);
		assert(linnos_pread(s.queue, buf, 100, BYTES) == 0);
		put_back(&s);
	}
}

TEST(preadv_fills_several_buffers)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	static char buf[60000];
	uint64_t seed = 1;

	o.probe_after_ms = 0;
	for (int direct = 0; direct < 2; direct++) {
		struct linnos_array *a = made_up_array(N, BYTES, &o);

		for (unsigned int k = 0; k < N; k++)
			a->set.replicas[k].align_bytes = a->set.replicas[k].memory_align_bytes =
				direct ? 512 : 1;
		for (int i = 0; i < 500; i++) {
			uint64_t offset = 512 * (chance(&seed) % 1000);
			struct iovec iov[8];
			size_t at = 0, bytes;
			int n = 1 + chance(&seed) % 8;

			for (int k = 0; k < n; k++) {
				iov[k].iov_len = (i & 2 ? 512 : 100) * (chance(&seed) % 8);
				iov[k].iov_base = buf + at;
				at += iov[k].iov_len + 512;
			}
			assert(linnos_preadv(only_queue(a), iov, n, offset, NULL) >= 0);
			bytes = 0;
			for (int k = 0; k < n; k++) {
				assert(is_right(iov[k].iov_base, iov[k].iov_len, offset + bytes));
				bytes += iov[k].iov_len;
			}
		}
		assert(linnos_preadv(only_queue(a), NULL, 0, 0, NULL) == -EINVAL &&
		       says("n_iov is 0; it must be between 1 and 1024"));
		put_away(a);
	}
}

static int in_parts(void *context, unsigned int replica, uint64_t offset, int result)
{
	int *at_most = context;

	(void)replica;
	(void)offset;
	return result > *at_most ? *at_most : result;
}

TEST(preadv_continues_partial_reads)
{
	struct linnos_options o = default_1();
	char buf[3][2000];
	struct iovec iov[3];
	int at_most = 2500;
	struct linnos_array *a = made_up_array(N, BYTES, &o);

	a->set.hooks = (struct hooks){.answer = in_parts, .context = &at_most};
	for (int k = 0; k < 3; k++)
		iov[k] = (struct iovec){.iov_base = buf[k], .iov_len = sizeof(buf[k])};
	assert(linnos_preadv(only_queue(a), iov, 3, 10, NULL) == 6000);
	for (int k = 0; k < 3; k++)
		assert(is_right(buf[k], 2000, 10 + 2000 * k));
	assert(stats_of(a).failovers == 0 && stats_of(a).errors == 0);
	put_away(a);
}

TEST(read_ends_at_its_deadline_and_writes_nothing_later)
{
	struct simulated s = simulate_at_1();
	struct linnos_read_options in_time = LINNOS_READ_OPTIONS_INIT;
	char buf[READ_BYTES];
	uint64_t start_ns;

	linnos_memory_set(s.memory, 1, UINT64_MAX, 0);
	in_time.deadline_ns = 3 * MS;
	memset(buf, 'x', sizeof(buf));
	start_ns = s.memory->now_ns;
	assert(read_within(&s, buf, sizeof(buf), 0, &in_time) == -ETIME);
	assert(s.memory->now_ns == start_ns + 3 * MS);
	assert(says("read of 4096 bytes at 0: replica 1: no answer by its deadline"));
	assert(stats_of(s.array).late == 1 && stats_of(s.array).failed == 1);
	linnos_memory_set(s.memory, 1, USUAL_NS, 0);
	s.memory->now_ns += 100 * MS;
	assert(read_within(&s, buf + 1, 1, 1, &in_time) == 1);
	assert(buf[0] == 'x' && buf[2] == 'x' && is_right(buf + 1, 1, 1));
	assert(stats_of(s.array).late == 1);
	/* Waiting without a limit for requests that never complete returns an error. */
	linnos_memory_set(s.memory, 0, UINT64_MAX, 0);
	linnos_memory_set(s.memory, 1, UINT64_MAX, 0);
	linnos_memory_set(s.memory, 2, UINT64_MAX, 0);
	assert(linnos_pread(s.queue, buf, 1, 0) == -EDEADLK);
	put_back(&s);
}

static int refuse(void *queue, const struct linnos_request *request)
{
	(void)queue;
	(void)request;
	return -ECONNREFUSED;
}

/* Otherwise the read would be accessed at its deadline, on a stack that is used for something else
 * by then. */
TEST(read_ends_at_once_when_all_submissions_fail)
{
	struct simulated s = simulate_at_1();
	struct linnos_read_options in_time = LINNOS_READ_OPTIONS_INIT;
	struct linnos_completion c;
	char buf[READ_BYTES];

	s.array->set.backend.submit = refuse;
	in_time.deadline_ns = MS;
	assert(read_within(&s, buf, sizeof(buf), 0, &in_time) == -ECONNREFUSED);
	assert(!s.queue->in_channel.timed.first);
	s.memory->now_ns += 2 * MS;
	assert(linnos_queue_wait(s.queue, &c, 1, 0) == 0);
	assert(!stats_of(s.array).late && stats_of(s.array).failed == 1);
	put_back(&s);
}

TEST(abandoned_read_does_not_write_to_callers_memory)
{
	struct simulated s = simulate_at_1();
	char left[READ_BYTES], buf[READ_BYTES];

	/* This backend cannot cancel. */
	s.array->set.backend.cancel = NULL;
	linnos_memory_set(s.memory, 1, UINT64_MAX, 0);
	memset(left, 'x', sizeof(left));
	assert(linnos_pread(s.queue, left, sizeof(left), 0) == -EDEADLK);
	linnos_memory_set(s.memory, 1, USUAL_NS, 0);
	assert(linnos_pread(s.queue, buf, sizeof(buf), 0) == READ_BYTES);
	assert(is_right(buf, sizeof(buf), 0));
	for (size_t i = 0; i < sizeof(left); i++)
		assert(left[i] == 'x');
	put_back(&s);
}

static int (*submit_to_memory)(void *queue, const struct linnos_request *request);
static const char *read_into;

static int note_and_submit(void *queue, const struct linnos_request *request)
{
	read_into = request->buf;
	return submit_to_memory(queue, request);
}

TEST(submitted_read_uses_callers_memory)
{
	struct simulated s = simulate_at_1();
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};

	submit_to_memory = s.array->set.backend.submit;
	s.array->set.backend.submit = note_and_submit;
	assert(!linnos_queue_submit_read(s.queue, &one, 1, 0, NULL, buf) && read_into == buf);
	assert(linnos_queue_wait(s.queue, &c, 1, -1) == 1 && is_right(buf, sizeof(buf), 0));
	put_back(&s);
}

TEST(read_with_deadline_fails_over)
{
	struct simulated s = simulate_at_1();
	struct linnos_read_options in_time = LINNOS_READ_OPTIONS_INIT;
	char buf[READ_BYTES];

	in_time.deadline_ns = 3 * MS;
	linnos_memory_set(s.memory, 1, MS, -EIO);
	assert(read_within(&s, buf, sizeof(buf), 8, &in_time) == READ_BYTES);
	assert(is_right(buf, sizeof(buf), 8) && stats_of(s.array).failovers == 1);
	assert(replica_of(s.array, 1).state == LINNOS_FAILING);
	put_back(&s);
}

TEST(orphan_is_cancelled_and_counts_as_late)
{
	struct linnos_options o = default_1();
	struct simulated s;
	char buf[READ_BYTES];

	o.hedge_us = 500;
	o.max_duplicates = 100;
	s = simulate(&o, 1);
	for (int i = 0; i < 10; i++)
		assert(linnos_pread(s.queue, buf, sizeof(buf), 0) == READ_BYTES);
	assert(!stats_of(s.array).hedges);
	linnos_memory_set(s.memory, 1, UINT64_MAX, 0);
	assert(linnos_pread(s.queue, buf, sizeof(buf), 4096) == READ_BYTES);
	assert(is_right(buf, sizeof(buf), 4096));
	assert(stats_of(s.array).hedges_won == 1);
	/* The next call processes its completion. */
	assert(linnos_queue_wait(s.queue, NULL, 0, 0) == 0);
	assert(stats_of(s.array).cancelled == 1 && stats_of(s.array).in_flight == 0);
	/* 600 us are not overdue if the limit is 10 ms. The next attempt is waited for until it is
	 * overdue. */
	assert(replica_of(s.array, 1).answered == 10);
	s.array->predictor->drives[1].overdue_us = 300;
	assert(linnos_pread(s.queue, buf, sizeof(buf), 4096) == READ_BYTES);
	assert(linnos_queue_wait(s.queue, NULL, 0, 0) == 0);
	assert(replica_of(s.array, 1).answered == 11);
	put_back(&s);
}

TEST(read_options_set_default_replica_and_disable_hedging)
{
	struct linnos_options o = default_1();
	struct linnos_read_options mine = LINNOS_READ_OPTIONS_INIT;
	struct simulated s;
	char buf[READ_BYTES];

	o.hedge_us = 500;
	o.max_duplicates = 100;
	s = simulate(&o, 1);
	linnos_memory_set(s.memory, 2, 2 * MS, 0);
	mine.flags = LINNOS_NEVER_HEDGE;
	mine.home = 2;
	assert(read_within(&s, buf, sizeof(buf), 0, &mine) == READ_BYTES);
	assert(replica_of(s.array, 2).served == 1 && !stats_of(s.array).hedges);
	mine.flags = 0;
	assert(read_within(&s, buf, sizeof(buf), 0, &mine) == READ_BYTES);
	assert(stats_of(s.array).hedges_won == 1);
	put_back(&s);
}

TEST(invalid_read_options_are_named)
{
	const struct linnos_read_options good = LINNOS_READ_OPTIONS_INIT;
	struct linnos_read_options o = good;
	struct linnos_options none = default_1();
	struct simulated s = simulate(&none, 1);
	const unsigned int refused[] = {IOSQE_IO_LINK, IOSQE_IO_HARDLINK, IOSQE_CQE_SKIP_SUCCESS,
					IOSQE_BUFFER_SELECT, IOSQE_FIXED_FILE};
	char buf[16];

	o.size = 4;
	assert(read_within(&s, buf, 1, 0, &o) == -EINVAL &&
	       says("struct linnos_read_options: size is 4"));
	o = good, o.flags = 2;
	assert(read_within(&s, buf, 1, 0, &o) == -EINVAL && says("flags is 0x2"));
	o = good, o.home = N;
	assert(read_within(&s, buf, 1, 0, &o) == -EINVAL && says("home is 3"));
	for (unsigned int i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		o = good, o.sqe_flags = refused[i];
		assert(read_within(&s, buf, 1, 0, &o) == -EINVAL);
		assert(says("only IOSQE_ASYNC and IOSQE_IO_DRAIN are supported"));
	}
	assert(stats_of(s.array).reads == 0);
	put_back(&s);
}

TEST(queue_wait_returns_all_reads)
{
	enum { READS = 200 };
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	static char bufs[READS][READ_BYTES];
	struct linnos_completion c[16];
	unsigned int n_done = 0;
	struct simulated s;

	o.hedge_us = 300;
	o.max_duplicates = 50;
	s = simulate(&o, 512);
	linnos_memory_set(s.memory, 0, 5 * MS, 0);
	linnos_memory_set(s.memory, 2, 150000, -EIO);
	for (unsigned int i = 0; i < READS; i++) {
		struct iovec one = {.iov_base = bufs[i], .iov_len = READ_BYTES};

		assert(!linnos_queue_submit_read(s.queue, &one, 1, 1000 * i, NULL, bufs[i]));
	}
	assert(linnos_queue_close(s.queue) == -EBUSY &&
	       says("linnos_queue_wait() until it has returned all"));
	while (n_done < READS) {
		int n = linnos_queue_wait(s.queue, c, 16, n_done % 2 ? -1 : (int64_t)(20 * MS));

		assert(n > 0);
		for (int k = 0; k < n; k++) {
			unsigned int i = ((char *)c[k].user - bufs[0]) / READ_BYTES;

			assert(c[k].queue == s.queue && c[k].result == READ_BYTES);
			assert(is_right(bufs[i], READ_BYTES, 1000 * i));
		}
		n_done += n;
	}
	assert(linnos_queue_wait(s.queue, c, 16, -1) == 0);
	assert(stats_of(s.array).failovers > 0 && stats_of(s.array).hedges > 0);
	put_back(&s);
}

/* A backend that sends submitted requests in its wait function, as a ring does. */
static int (*wait_of_memory)(void *queue, int64_t timeout_ns);
static struct linnos_request unsent[4];
static unsigned int n_unsent;

static int submit_later(void *queue, const struct linnos_request *request)
{
	(void)queue;
	assert(n_unsent < sizeof(unsent) / sizeof(*unsent));
	unsent[n_unsent++] = *request;
	return 0;
}

static int send_and_wait(void *queue, int64_t timeout_ns)
{
	while (n_unsent)
		assert(!submit_to_memory(queue, &unsent[--n_unsent]));
	return wait_of_memory(queue, timeout_ns);
}

TEST(queue_wait_submits_failovers_and_hedges_before_it_returns)
{
	struct linnos_options o = default_1();
	struct linnos_read_options at_2 = LINNOS_READ_OPTIONS_INIT;
	struct linnos_completion c;
	char buf[2][READ_BYTES];
	struct iovec iov[2];
	struct simulated s;

	o.hedge_us = 500;
	o.max_duplicates = 100;
	s = simulate(&o, 1);
	submit_to_memory = s.array->set.backend.submit;
	wait_of_memory = s.array->set.backend.wait;
	s.array->set.backend.submit = submit_later;
	s.array->set.backend.wait = send_and_wait;
	at_2.home = 2;
	for (int i = 0; i < 2; i++)
		iov[i] = (struct iovec){.iov_base = buf[i], .iov_len = READ_BYTES};
	/* At the same time one fails, and continues at another replica, and the other one is
	 * answered. */
	linnos_memory_set(s.memory, 1, USUAL_NS, -EIO);
	assert(!linnos_queue_submit_read(s.queue, &iov[0], 1, 0, NULL, buf[0]));
	assert(!linnos_queue_submit_read(s.queue, &iov[1], 1, 0, &at_2, buf[1]));
	assert(linnos_queue_wait(s.queue, &c, 1, -1) == 1 && c.user == buf[1]);
	assert(stats_of(s.array).failovers == 1 && !n_unsent);
	assert(linnos_queue_wait(s.queue, &c, 1, -1) == 1 && c.user == buf[0]);
	/* A hedge that becomes due while the caller waits for nothing else. */
	linnos_memory_set(s.memory, 2, UINT64_MAX, 0);
	assert(!linnos_queue_submit_read(s.queue, &iov[0], 1, 0, &at_2, buf[0]));
	assert(linnos_queue_wait(s.queue, &c, 1, 0) == 0 && !n_unsent);
	s.memory->now_ns += MS;
	assert(linnos_queue_wait(s.queue, &c, 1, 0) == 0);
	assert(stats_of(s.array).hedges == 1 && !n_unsent);
	assert(linnos_queue_wait(s.queue, &c, 1, -1) == 1 && is_right(buf[0], READ_BYTES, 0));
	put_back(&s);
}

TEST(queue_wait_returns_after_its_timeout)
{
	struct simulated s = simulate_at_1();
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct iovec one = {.iov_base = buf, .iov_len = READ_BYTES};
	uint64_t start_ns = s.memory->now_ns;

	assert(!linnos_queue_submit_read(s.queue, &one, 1, 0, NULL, buf));
	assert(linnos_queue_wait(s.queue, &c, 1, 40000) == 0);
	assert(s.memory->now_ns == start_ns + 40000);
	assert(linnos_queue_wait(s.queue, &c, 1, 0) == 0);
	assert(linnos_queue_wait(s.queue, &c, 1, MS) == 1 && c.user == buf);
	assert(s.memory->now_ns == start_ns + USUAL_NS);
	put_back(&s);
}

TEST(queue_closes_after_a_failed_wait_when_reads_have_returned)
{
	struct simulated s = simulate_at_1();
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct iovec one = {.iov_base = buf, .iov_len = READ_BYTES};

	linnos_memory_set(s.memory, 1, UINT64_MAX, 0);
	assert(!linnos_queue_submit_read(s.queue, &one, 1, 0, NULL, buf));
	assert(linnos_queue_wait(s.queue, &c, 1, -1) == -EDEADLK);
	assert(linnos_queue_close(s.queue) == -EBUSY);
	/* Until now the replica could write to its memory. */
	linnos_memory_set(s.memory, 1, USUAL_NS, 0);
	assert(linnos_queue_wait(s.queue, &c, 1, -1) == 1 && c.result == READ_BYTES);
	put_back(&s);
}

TEST(restored_replica_has_no_history)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct simulated s = simulate(&o, 1);
	char buf[READ_BYTES];

	linnos_memory_set(s.memory, 1, USUAL_NS, -EIO);
	for (int i = 0; i < 30; i++)
		assert(linnos_pread(s.queue, buf, sizeof(buf), 0) == READ_BYTES);
	assert(replica_of(s.array, 1).state == LINNOS_FAILING);
	assert(!linnos_array_drop_replica(s.array, 1) &&
	       replica_of(s.array, 1).state == LINNOS_DROPPED);
	linnos_memory_set(s.memory, 1, USUAL_NS, 0);
	for (int i = 0; i < 3000; i++)
		assert(linnos_pread(s.queue, buf, sizeof(buf), 0) == READ_BYTES);
	assert(replica_of(s.array, 1).served == 0);
	assert(!linnos_array_restore_replica(s.array, 1) &&
	       replica_of(s.array, 1).state == LINNOS_SILENT);
	for (int i = 0; i < 300; i++)
		assert(linnos_pread(s.queue, buf, sizeof(buf), 0) == READ_BYTES);
	assert(replica_of(s.array, 1).served >= 90);
	assert(replica_of(s.array, 1).state == LINNOS_HEALTHY);
	assert(linnos_array_restore_replica(s.array, N) == -EINVAL &&
	       says("replica is 3; it must be between 0 and 2"));
	put_back(&s);
}

static uint64_t time_of_a_read(struct simulated *s)
{
	uint64_t start_ns = s->memory->now_ns;
	char buf[READ_BYTES];

	assert(linnos_pread(s->queue, buf, sizeof(buf), 0) == READ_BYTES);
	return s->memory->now_ns - start_ns;
}

/* Its history was reset, so its prediction is the lowest one. */
TEST(restored_replica_gets_reads_after_its_probe_copy_is_answered)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct simulated s;

	o.home = 1;
	s = simulate(&o, 1);
	for (int i = 0; i < 300; i++)
		assert(time_of_a_read(&s) == USUAL_NS);
	assert(!linnos_array_drop_replica(s.array, 1));
	for (int i = 0; i < 300; i++)
		assert(time_of_a_read(&s) == USUAL_NS);
	linnos_memory_set(s.memory, 1, 900 * MS, 0);
	assert(!linnos_array_restore_replica(s.array, 1));
	for (int i = 0; i < 3000; i++)
		assert(time_of_a_read(&s) == USUAL_NS);
	assert(replica_of(s.array, 1).state == LINNOS_SLOW);
	assert(replica_of(s.array, 1).in_flight == 1 && replica_of(s.array, 1).served == 300);
	linnos_memory_set(s.memory, 1, USUAL_NS, 0);
	s.memory->now_ns += 1000 * MS;
	for (int i = 0; i < 3000; i++)
		assert(time_of_a_read(&s) == USUAL_NS);
	assert(replica_of(s.array, 1).served > 2500);
	put_back(&s);
}

TEST(restored_replica_gets_reads_at_once_without_probes)
{
	for (int never = 0; never < 2; never++) {
		struct linnos_options o = LINNOS_OPTIONS_INIT;
		struct simulated s;

		o.home = 1;
		if (never)
			o.probe_after_ms = 0;
		else
			o.max_duplicates = 0;
		s = simulate(&o, 1);
		assert(!linnos_array_drop_replica(s.array, 1) && time_of_a_read(&s) == USUAL_NS);
		assert(!linnos_array_restore_replica(s.array, 1) && time_of_a_read(&s) == USUAL_NS);
		assert(replica_of(s.array, 1).served == 1);
		put_back(&s);
	}
}

TEST(replica_stats_have_state_and_histogram)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct simulated s;
	uint64_t counts[256] = {0}, n = 0;
	struct linnos_predictor *known;
	char buf[READ_BYTES];
	int n_buckets;

	o.home = 1;
	s = simulate(&o, 1);
	known = linnos_array_predictor(s.array);
	assert(replica_of(s.array, 1).state == LINNOS_SILENT);
	for (int i = 0; i < 40; i++)
		assert(linnos_pread(s.queue, buf, sizeof(buf), 0) == READ_BYTES);
	assert(replica_of(s.array, 1).state == LINNOS_HEALTHY);
	assert(replica_of(s.array, 1).predicted_us > 3000 && replica_of(s.array, 1).near >= 35);
	n_buckets = linnos_predictor_get_histogram(known, 1, counts, 256);
	assert(n_buckets > 200 && n_buckets <= 256 && linnos_bucket_ns(0) == 0);
	for (int i = 0; i < n_buckets; i++) {
		assert(i == n_buckets - 1 || linnos_bucket_ns(i) < linnos_bucket_ns(i + 1));
		assert(!counts[i] ||
		       (linnos_bucket_ns(i) <= USUAL_NS && USUAL_NS < linnos_bucket_ns(i + 1)));
		n += counts[i];
	}
	assert(n == 40 && linnos_predictor_get_histogram(known, N, NULL, 0) == -EINVAL);
	linnos_memory_set(s.memory, 1, 900 * MS, 0);
	assert(linnos_pread(s.queue, buf, sizeof(buf), 0) == READ_BYTES);
	assert(replica_of(s.array, 1).state == LINNOS_SLOW);
	put_back(&s);
}

TEST(reported_writes_count_as_load)
{
	struct simulated s = simulate_at_1();
	struct linnos_attempt writes[2];
	struct linnos_load load;

	assert(!linnos_array_write_start(s.array, &writes[0], 1, 5000));
	assert(!linnos_array_write_start(s.array, &writes[1], 1, 1 << 20));
	linnos_load_snapshot(&s.array->predictor->drives[1].drive, &load);
	assert(load.write_pages == 2 + 256 && load.reads == 0);
	linnos_array_write_complete(s.array, &writes[1]);
	linnos_load_snapshot(&s.array->predictor->drives[1].drive, &load);
	assert(load.write_pages == 2);
	linnos_array_write_complete(s.array, &writes[0]);
	linnos_load_snapshot(&s.array->predictor->drives[1].drive, &load);
	assert(load.write_pages == 0 && linnos_array_write_start(s.array, writes, N, 1) == -EINVAL);
	put_back(&s);
}

TEST(invalid_backend_replicas_are_named)
{
	const struct linnos_replica good = {.size = sizeof(good), .bytes = 4096};
	struct linnos_replica r = good;
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct linnos_memory *m = linnos_memory_create(4096, 0);
	struct linnos_array *a;

	r.align_bytes = 3;
	assert(linnos_array_open_backend(&a, 1, &r, &m->backend, NULL, NULL) == -EINVAL);
	assert(says("must be powers of two") && !a);
	r = good, r.memory_align_bytes = 8192;
	assert(linnos_array_open_backend(&a, 1, &r, &m->backend, NULL, NULL) == -EINVAL);
	r = good, r.size = 8;
	assert(linnos_array_open_backend(&a, 1, &r, &m->backend, NULL, NULL) == -EINVAL);
	assert(says("struct linnos_replica: size is 8"));
	o.flags = LINNOS_QUERY_KERNEL;
	assert(linnos_array_open_backend(&a, 1, &good, &m->backend, NULL, &o) == -EINVAL);
	assert(says("a backend does not support"));
	linnos_memory_free(m);
}

/* --- Queues for files ---------------------------------------------------------------------- */

TEST(reads_use_registered_files_and_buffers)
{
	enum { READS = 32 };
	struct linnos_queue_options o = LINNOS_QUEUE_OPTIONS_INIT;
	struct linnos_completion c[READS];
	struct linnos_queue *queue;
	struct iovec buffers[2];
	unsigned int n = 0;
	char *memory;
	struct linnos_array *a = made_up_array(N, BYTES, NULL);

	assert(!posix_memalign((void **)&memory, 4096, (READS + 1) * READ_BYTES));
	buffers[0] = (struct iovec){.iov_base = memory, .iov_len = 8 * READ_BYTES};
	buffers[1] = (struct iovec){.iov_base = memory + 8 * READ_BYTES,
				    .iov_len = (READS - 9) * READ_BYTES};
	o.buffers = buffers;
	o.n_buffers = 2;
	o.register_files = 1;
	assert(!linnos_queue_create(&queue, a, &o));
	/* Some buffers are within registered ones, some cross their borders, and some are
	 * outside. */
	for (unsigned int i = 0; i < READS; i++) {
		struct iovec one = {.iov_base = memory + i * READ_BYTES + (i % 3 == 2 ? 100 : 0),
				    .iov_len = READ_BYTES - (i % 3 == 2 ? 100 : 0)};

		assert(!linnos_queue_submit_read(queue, &one, 1, 4096 * i, NULL, one.iov_base));
	}
	while (n < READS) {
		int k = linnos_queue_wait(queue, c, READS, -1);

		assert(k > 0);
		for (int i = 0; i < k; i++) {
			unsigned int r = ((char *)c[i].user - memory) / READ_BYTES;

			assert(c[i].result >= READ_BYTES - 100);
			assert(is_right(c[i].user, c[i].result, 4096 * r));
		}
		n += k;
	}
	assert(!stats_of(a).failovers && !linnos_queue_close(queue));
	o.buffers = NULL;
	assert(linnos_queue_create(&queue, a, &o) == -EINVAL &&
	       says("n_buffers is 2, but buffers is NULL"));
	free(memory);
	put_away(a);
}

TEST(callers_ring_uses_its_fixed_files_and_buffers)
{
	struct linnos_queue_options o = LINNOS_QUEUE_OPTIONS_INIT;
	int indices[N] = {5, 6, 7};
	struct io_uring_sqe sqe;
	struct linnos_completion c;
	struct linnos_queue *queue;
	char buf[2 * READ_BYTES];
	struct iovec buffer = {.iov_base = buf, .iov_len = READ_BYTES}, one = buffer;
	struct linnos_array *a = made_up_array(N, BYTES, NULL);

	o.fixed_files = indices;
	o.buffers = &buffer;
	o.n_buffers = 1;
	o.first_buffer = 9;
	assert(!linnos_queue_create(&queue, a, &o));
	/* The queue has copied the indices. */
	memset(indices, 0, sizeof(indices));
	assert(!linnos_queue_prep_read(queue, &sqe, &one, 1, 0, NULL, buf));
	assert(sqe.opcode == IORING_OP_READ_FIXED && sqe.buf_index == 9);
	assert(sqe.flags == IOSQE_FIXED_FILE && sqe.fd >= 5 && sqe.fd < 8);
	assert(linnos_queue_complete(sqe.user_data, READ_BYTES, &c) == LINNOS_READ_DONE &&
	       c.user == buf);
	one.iov_base = buf + 1;
	assert(!linnos_queue_prep_read(queue, &sqe, &one, 1, 0, NULL, buf));
	assert(sqe.opcode == IORING_OP_READ);
	assert(linnos_queue_complete(sqe.user_data, READ_BYTES, &c) == LINNOS_READ_DONE);
	assert(!linnos_queue_close(queue));
	put_away(a);
}

static void note_ioprio(void *context, unsigned int replica, struct io_uring_sqe *sqe)
{
	uint32_t *ioprio = context;

	(void)replica;
	*ioprio = sqe->ioprio;
}

/* pread(2) does not support priorities. */
TEST(read_with_priority_uses_the_ring)
{
	struct linnos_options o = default_1();
	struct linnos_read_options best_effort = LINNOS_READ_OPTIONS_INIT;
	const uint32_t best_effort_5 = 2 << 13 | 5;
	char buf[READ_BYTES];
	struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};
	uint32_t ioprio = 0;
	struct linnos_array *a = made_up_array(N, BYTES, &o);

	a->set.hooks = (struct hooks){.prepared = note_ioprio, .context = &ioprio};
	best_effort.ioprio = best_effort_5;
	assert(linnos_preadv(only_queue(a), &one, 1, 8, &best_effort) == READ_BYTES);
	assert(ioprio == best_effort_5 && is_right(buf, sizeof(buf), 8));
	put_away(a);
}

TEST(cancelled_attempt_ends_the_read_without_a_failure)
{
	struct linnos_options o = default_1();
	struct io_uring_sqe sqe;
	struct linnos_completion c;
	char buf[READ_BYTES];
	struct linnos_array *a = made_up_array(N, BYTES, &o);

	assert(!prep_read(a, &sqe, buf, sizeof(buf), 0, buf));
	assert(linnos_queue_complete(sqe.user_data, -ECANCELED, &c) == LINNOS_READ_DONE);
	assert(c.result == -ECANCELED && says("was cancelled"));
	assert(!stats_of(a).errors && !stats_of(a).failovers && stats_of(a).failed == 1);
	assert(!a->predictor->drives[1].failing);
	put_away(a);
}

TEST(orphans_in_callers_ring_are_returned_once)
{
	struct linnos_options o = default_1();
	struct linnos_read_options in_time = LINNOS_READ_OPTIONS_INIT;
	struct io_uring_sqe sqe[2];
	struct linnos_completion c;
	struct linnos_array *a;
	char buf[READ_BYTES];
	struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};

	o.hedge_us = 1;
	o.max_duplicates = 100;
	a = made_up_array(N, BYTES, &o);
	in_time.deadline_ns = 20 * MS;
	assert(!linnos_queue_prep_read(only_queue(a), &sqe[0], &one, 1, 0, &in_time, buf));
	assert(linnos_queue_next_orphan(only_queue(a)) == 0);
	while (linnos_queue_next_expired(only_queue(a), &c) != LINNOS_READ_RESUBMIT)
		usleep(100);
	assert(!linnos_queue_prep_retry(c.read, &sqe[1]));
	while (linnos_queue_next_timeout_ns(only_queue(a)) > 0)
		usleep(linnos_queue_next_timeout_ns(only_queue(a)) / 1000 + 1);
	assert(linnos_queue_next_expired(only_queue(a), &c) == LINNOS_READ_DONE &&
	       c.result == -ETIME && c.user == buf);
	/* Both are orphans and may be cancelled, each once. */
	assert(linnos_queue_next_orphan(only_queue(a)) + linnos_queue_next_orphan(only_queue(a)) ==
	       sqe[0].user_data + sqe[1].user_data);
	assert(linnos_queue_next_orphan(only_queue(a)) == 0 &&
	       linnos_queue_next_timeout_ns(only_queue(a)) == -1);
	for (int i = 0; i < 2; i++)
		assert(linnos_queue_complete(sqe[i].user_data, -ECANCELED, &c) ==
		       LINNOS_READ_PENDING);
	assert(stats_of(a).cancelled == 2 && stats_of(a).in_flight == 0);
	put_away(a);
}
