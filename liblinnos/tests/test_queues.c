// SPDX-License-Identifier: MIT
/*
 * Queues with a backend in memory, whose clock the tests control: hedges, deadlines, cancellation,
 * replicas that fail, hang, are dropped and restored; and the additional features of queues for
 * files.
 */
#include "memory_backend.h"
#include "one_array.h"

#include <sys/resource.h>

#define NORMAL_NS 100000ull

static struct linnos_memory *memory;

static void free_memory(void)
{
	if (memory)
		linnos_memory_free(memory);
	memory = NULL;
}

static void simulate(const struct linnos_options *o, uint32_t align)
{
	close_array();
	memory = linnos_memory_create(BYTES, NORMAL_NS);
	after_array = free_memory;
	for (size_t i = 0; i < BYTES; i++)
		memory->content[i] = byte_at(i);
	array = linnos_memory_open_array(memory, align, o);
}

/* The default is replica 1, and there are no probes. */
#define AT_1(...) OPTIONS(.home = 1, .probe_after_ms = 0, __VA_ARGS__)

static void simulate_at_1(void)
{
	simulate(&AT_1(), 1);
}

/* The same, and all reads may be hedged after 500 us. */
static void simulate_hedged(void)
{
	simulate(&AT_1(.hedge_us = 500, .max_duplicates = 100), 1);
}

/* Submit a read of a block into this memory. */
static void submit_read(char *to, off_t offset, const struct linnos_read_options *o)
{
	struct iovec one = {.iov_base = to, .iov_len = READ_BYTES};

	assert(!linnos_queue_submit_read(queue(), &one, 1, offset, o, to));
}

/* Wait for one read. Return the number of reads that have completed, or a negative errno. */
static int wait_for_one(int64_t timeout)
{
	return linnos_queue_wait(queue(), &completion, 1, timeout);
}

static ssize_t read_within(void *to, size_t bytes, off_t offset,
			   const struct linnos_read_options *o)
{
	struct iovec one = {.iov_base = to, .iov_len = bytes};

	return linnos_preadv(queue(), &one, 1, offset, o);
}

TEST(preadv_fills_several_buffers)
{
	static char to[60000];
	uint64_t seed = 1;

	for (int direct = 0; direct < 2; direct++) {
		open_array(&OPTIONS(.probe_after_ms = 0));
		align_replicas(array, direct ? 512 : 1, direct ? 512 : 1);
		for (int i = 0; i < 500; i++) {
			uint64_t offset = 512 * (chance(&seed) % 1000);
			struct iovec iov[8];
			size_t at = 0, bytes;
			int n = 1 + chance(&seed) % 8;

			for (int k = 0; k < n; k++) {
				iov[k].iov_len = (i & 2 ? 512 : 100) * (chance(&seed) % 8);
				iov[k].iov_base = to + at;
				at += iov[k].iov_len + 512;
			}
			assert(linnos_preadv(queue(), iov, n, offset, NULL) >= 0);
			bytes = 0;
			for (int k = 0; k < n; k++) {
				assert(is_right(iov[k].iov_base, iov[k].iov_len, offset + bytes));
				bytes += iov[k].iov_len;
			}
		}
		assert(linnos_preadv(queue(), NULL, 0, 0, NULL) == -EINVAL &&
		       says("n_iov is 0; it must be between 1 and 1024"));
	}
}

TEST(read_ends_at_its_deadline_and_writes_nothing_later)
{
	const struct linnos_read_options in_time = READ_OPTIONS(.deadline_ns = 3 * MS);
	uint64_t start_ns;

	simulate_at_1();
	linnos_memory_set(memory, 1, UINT64_MAX, 0);
	memset(buf, 'x', sizeof(buf));
	start_ns = memory->now_ns;
	assert(read_within(buf, sizeof(buf), 0, &in_time) == -ETIME);
	assert(memory->now_ns == start_ns + 3 * MS);
	assert(says("read of 4096 bytes at 0: replica 1: no answer by its deadline"));
	assert(stats().late == 1 && stats().failed == 1);
	linnos_memory_set(memory, 1, NORMAL_NS, 0);
	memory->now_ns += 100 * MS;
	assert(read_within(buf + 1, 1, 1, &in_time) == 1);
	assert(buf[0] == 'x' && buf[2] == 'x' && is_right(buf + 1, 1, 1));
	assert(stats().late == 1);
	/* Waiting without a limit for requests that never complete returns an error. */
	for (unsigned int k = 0; k < N; k++)
		linnos_memory_set(memory, k, UINT64_MAX, 0);
	assert(linnos_pread(queue(), buf, 1, 0) == -EDEADLK);
}

TEST(abandoned_read_does_not_write_to_callers_memory)
{
	char left[READ_BYTES];

	simulate_at_1();
	/* This backend cannot cancel. */
	array->set.backend.cancel = NULL;
	linnos_memory_set(memory, 1, UINT64_MAX, 0);
	memset(left, 'x', sizeof(left));
	assert(linnos_pread(queue(), left, sizeof(left), 0) == -EDEADLK);
	linnos_memory_set(memory, 1, NORMAL_NS, 0);
	assert(reads_at(0));
	for (size_t i = 0; i < sizeof(left); i++)
		assert(left[i] == 'x');
}

TEST(submitted_read_uses_callers_memory)
{
	simulate_at_1();
	submit_read(buf, 0, NULL);
	assert(memory->last_buf == buf);
	assert(wait_for_one(-1) == 1 && is_right(buf, sizeof(buf), 0));
}

TEST(read_with_deadline_fails_over)
{
	simulate_at_1();
	linnos_memory_set(memory, 1, MS, -EIO);
	assert(read_within(buf, sizeof(buf), 8, &READ_OPTIONS(.deadline_ns = 3 * MS)) ==
	       READ_BYTES);
	assert(is_right(buf, sizeof(buf), 8) && stats().failovers == 1);
	assert(replica(1).state == LINNOS_FAILING);
}

TEST(orphan_is_cancelled_and_counts_as_late)
{
	simulate_hedged();
	for (int i = 0; i < 10; i++)
		assert(reads_at(0));
	assert(!stats().hedges);
	linnos_memory_set(memory, 1, UINT64_MAX, 0);
	assert(reads_at(4096));
	assert(stats().hedges_won == 1);
	/* The next call processes its completion. */
	assert(linnos_queue_wait(queue(), NULL, 0, 0) == 0);
	assert(stats().cancelled == 1 && stats().in_flight == 0);
	/* 600 us are not overdue if the limit is 10 ms. The next attempt is waited for until it is
	 * overdue. */
	assert(replica(1).answered == 10);
	array->predictor->drives[1].overdue_us = 300;
	assert(reads_at(4096));
	assert(linnos_queue_wait(queue(), NULL, 0, 0) == 0);
	assert(replica(1).answered == 11);
}

TEST(read_options_set_default_replica_and_disable_hedging)
{
	struct linnos_read_options mine = READ_OPTIONS(.flags = LINNOS_NEVER_HEDGE, .home = 2);

	simulate_hedged();
	linnos_memory_set(memory, 2, 2 * MS, 0);
	assert(read_within(buf, sizeof(buf), 0, &mine) == READ_BYTES);
	assert(replica(2).served == 1 && !stats().hedges);
	mine.flags = 0;
	assert(read_within(buf, sizeof(buf), 0, &mine) == READ_BYTES);
	assert(stats().hedges_won == 1);
}

TEST(invalid_read_options_are_named)
{
	static const char flags[] = "only IOSQE_ASYNC and IOSQE_IO_DRAIN are supported";
	const struct {
		struct linnos_read_options o;
		const char *text;
	} cases[] = {
		{{.size = 4}, "struct linnos_read_options: size is 4"},
		{READ_OPTIONS(.flags = 2), "flags is 0x2"},
		{READ_OPTIONS(.home = N), "home is 3"},
		{READ_OPTIONS(.sqe_flags = IOSQE_IO_LINK), flags},
		{READ_OPTIONS(.sqe_flags = IOSQE_CQE_SKIP_SUCCESS), flags},
		{READ_OPTIONS(.sqe_flags = IOSQE_BUFFER_SELECT), flags},
	};

	simulate_at_1();
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert(read_within(buf, 1, 0, &cases[i].o) == -EINVAL && says(cases[i].text));
	assert(stats().reads == 0);
}

TEST(queue_wait_returns_all_reads)
{
	enum { READS = 200 };
	static char bufs[READS][READ_BYTES];
	struct linnos_completion c[16];
	unsigned int n_done = 0;

	simulate(&OPTIONS(.hedge_us = 300, .max_duplicates = 50), 512);
	linnos_memory_set(memory, 0, 5 * MS, 0);
	linnos_memory_set(memory, 2, 150000, -EIO);
	for (unsigned int i = 0; i < READS; i++)
		submit_read(bufs[i], 1000 * i, NULL);
	assert(linnos_queue_close(queue()) == -EBUSY &&
	       says("linnos_queue_wait() until it has returned all"));
	while (n_done < READS) {
		int n = linnos_queue_wait(queue(), c, 16, n_done % 2 ? -1 : (int64_t)(20 * MS));

		assert(n > 0);
		for (int k = 0; k < n; k++) {
			unsigned int i = ((char *)c[k].user - bufs[0]) / READ_BYTES;

			assert(c[k].queue == queue() && c[k].result == READ_BYTES);
			assert(is_right(bufs[i], READ_BYTES, 1000 * i));
		}
		n_done += n;
	}
	assert(linnos_queue_wait(queue(), c, 16, -1) == 0);
	assert(stats().failovers > 0 && stats().hedges > 0);
}

/* A backend that sends submitted requests in its wait function, as a ring does. */
static int (*submit_to_memory)(void *queue, const struct linnos_request *request);
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
	const struct linnos_read_options at_2 = READ_OPTIONS(.home = 2);
	char bufs[2][READ_BYTES];

	simulate_hedged();
	submit_to_memory = array->set.backend.submit;
	wait_of_memory = array->set.backend.wait;
	array->set.backend.submit = submit_later;
	array->set.backend.wait = send_and_wait;
	/* At the same time one fails, and continues at another replica, and the other one is
	 * answered. */
	linnos_memory_set(memory, 1, NORMAL_NS, -EIO);
	submit_read(bufs[0], 0, NULL);
	submit_read(bufs[1], 0, &at_2);
	assert(wait_for_one(-1) == 1 && completion.user == bufs[1]);
	assert(stats().failovers == 1 && !n_unsent);
	assert(wait_for_one(-1) == 1 && completion.user == bufs[0]);
	/* A hedge that becomes due while the caller waits for nothing else. */
	linnos_memory_set(memory, 2, UINT64_MAX, 0);
	submit_read(bufs[0], 0, &at_2);
	assert(wait_for_one(0) == 0 && !n_unsent);
	memory->now_ns += MS;
	assert(wait_for_one(0) == 0);
	assert(stats().hedges == 1 && !n_unsent);
	assert(wait_for_one(-1) == 1 && is_right(bufs[0], READ_BYTES, 0));
}

TEST(queue_wait_returns_after_its_timeout)
{
	uint64_t start_ns;

	simulate_at_1();
	start_ns = memory->now_ns;
	submit_read(buf, 0, NULL);
	assert(wait_for_one(40000) == 0);
	assert(memory->now_ns == start_ns + 40000);
	assert(wait_for_one(0) == 0);
	assert(wait_for_one(MS) == 1 && completion.user == buf);
	assert(memory->now_ns == start_ns + NORMAL_NS);
}

TEST(queue_closes_after_a_failed_wait_when_reads_have_returned)
{
	simulate_at_1();
	linnos_memory_set(memory, 1, UINT64_MAX, 0);
	submit_read(buf, 0, NULL);
	assert(wait_for_one(-1) == -EDEADLK);
	assert(linnos_queue_close(queue()) == -EBUSY);
	/* Until now the replica could write to its memory. */
	linnos_memory_set(memory, 1, NORMAL_NS, 0);
	assert(wait_for_one(-1) == 1 && completion.result == READ_BYTES);
}

TEST(restored_replica_has_no_history)
{
	simulate(NULL, 1);
	linnos_memory_set(memory, 1, NORMAL_NS, -EIO);
	for (int i = 0; i < 30; i++)
		assert(reads_at(0));
	assert(replica(1).state == LINNOS_FAILING);
	assert(!linnos_array_drop_replica(array, 1) && replica(1).state == LINNOS_DROPPED);
	linnos_memory_set(memory, 1, NORMAL_NS, 0);
	for (int i = 0; i < 3000; i++)
		assert(reads_at(0));
	assert(replica(1).served == 0);
	assert(!linnos_array_restore_replica(array, 1) && replica(1).state == LINNOS_SILENT);
	for (int i = 0; i < 300; i++)
		assert(reads_at(0));
	assert(replica(1).served >= 90);
	assert(replica(1).state == LINNOS_HEALTHY);
	assert(linnos_array_restore_replica(array, N) == -EINVAL &&
	       says("replica is 3; it must be between 0 and 2"));
}

/* Read repeatedly, and check that each read takes the normal time. */
static void read_in_normal_time(unsigned int times)
{
	while (times--) {
		uint64_t start_ns = memory->now_ns;

		assert(reads_at(0) && memory->now_ns - start_ns == NORMAL_NS);
	}
}

/* Its history was reset, so its prediction is the lowest one. */
TEST(restored_replica_gets_reads_after_its_probe_copy_is_answered)
{
	simulate(&OPTIONS(.home = 1), 1);
	read_in_normal_time(300);
	assert(!linnos_array_drop_replica(array, 1));
	read_in_normal_time(300);
	linnos_memory_set(memory, 1, 900 * MS, 0);
	assert(!linnos_array_restore_replica(array, 1));
	read_in_normal_time(3000);
	assert(replica(1).state == LINNOS_SLOW);
	assert(replica(1).in_flight == 1 && replica(1).served == 300);
	linnos_memory_set(memory, 1, NORMAL_NS, 0);
	memory->now_ns += 1000 * MS;
	read_in_normal_time(3000);
	assert(replica(1).served > 2500);
}

TEST(restored_replica_gets_reads_at_once_without_probes)
{
	const struct linnos_options o[] = {AT_1(), OPTIONS(.home = 1, .max_duplicates = 0)};

	for (int i = 0; i < 2; i++) {
		simulate(&o[i], 1);
		assert(!linnos_array_drop_replica(array, 1));
		read_in_normal_time(1);
		assert(!linnos_array_restore_replica(array, 1));
		read_in_normal_time(1);
		assert(replica(1).served == 1);
	}
}

TEST(replica_stats_have_state_and_histogram)
{
	uint64_t counts[256] = {0}, n = 0;
	struct linnos_predictor *predictor;
	int n_buckets;

	simulate(&OPTIONS(.home = 1), 1);
	predictor = linnos_array_predictor(array);
	assert(replica(1).state == LINNOS_SILENT);
	for (int i = 0; i < 40; i++)
		assert(reads_at(0));
	assert(replica(1).state == LINNOS_HEALTHY);
	assert(replica(1).predicted_us > 3000 && replica(1).near >= 35);
	n_buckets = linnos_predictor_get_histogram(predictor, 1, counts, 256);
	assert(n_buckets > 200 && n_buckets <= 256 && linnos_bucket_ns(0) == 0);
	for (int i = 0; i < n_buckets; i++) {
		assert(i == n_buckets - 1 || linnos_bucket_ns(i) < linnos_bucket_ns(i + 1));
		assert(!counts[i] ||
		       (linnos_bucket_ns(i) <= NORMAL_NS && NORMAL_NS < linnos_bucket_ns(i + 1)));
		n += counts[i];
	}
	assert(n == 40 && linnos_predictor_get_histogram(predictor, N, NULL, 0) == -EINVAL);
	linnos_memory_set(memory, 1, 900 * MS, 0);
	assert(reads_at(0));
	assert(replica(1).state == LINNOS_SLOW);
}

static uint32_t write_pages_at_1(void)
{
	struct linnos_load load;

	linnos_load_snapshot(&array->predictor->drives[1].drive, &load);
	assert(!load.reads);
	return load.write_pages;
}

TEST(reported_writes_count_as_load)
{
	struct linnos_attempt writes[2];

	simulate_at_1();
	assert(!linnos_array_write_start(array, &writes[0], 1, 5000));
	assert(!linnos_array_write_start(array, &writes[1], 1, 1 << 20));
	assert(write_pages_at_1() == 2 + 256);
	linnos_array_write_complete(array, &writes[1]);
	assert(write_pages_at_1() == 2);
	linnos_array_write_complete(array, &writes[0]);
	assert(write_pages_at_1() == 0 && linnos_array_write_start(array, writes, N, 1) == -EINVAL);
}

TEST(invalid_backend_replicas_are_named)
{
	const struct {
		struct linnos_replica r;
		uint32_t flags;
		const char *text;
	} cases[] = {
		{{.size = sizeof(cases->r), .align_bytes = 3}, 0, "must be powers of two"},
		{{.size = sizeof(cases->r), .memory_align_bytes = 8192}, 0, "at most 4096"},
		{{.size = 8}, 0, "struct linnos_replica: size is 8"},
		{{.size = sizeof(cases->r)}, LINNOS_QUERY_KERNEL, "a backend does not support"},
	};

	memory = linnos_memory_create(4096, 0);
	after_array = free_memory;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert(linnos_array_open_backend(&array, 1, &cases[i].r, &memory->backend, NULL,
						 &OPTIONS(.flags = cases[i].flags)) == -EINVAL &&
		       says(cases[i].text) && !array);
}

/* --- Queues for files ---------------------------------------------------------------------- */

TEST(reads_use_registered_files_and_buffers)
{
	enum { READS = 32 };
	struct linnos_queue_options o = QUEUE_OPTIONS(.n_buffers = 2, .register_files = 1);
	struct linnos_completion c[READS];
	struct linnos_queue *second;
	struct iovec buffers[2];
	unsigned int n = 0;
	char *to;

	open_array(NULL);
	assert(!posix_memalign((void **)&to, 4096, (READS + 1) * READ_BYTES));
	buffers[0] = (struct iovec){.iov_base = to, .iov_len = 8 * READ_BYTES};
	buffers[1] = (struct iovec){.iov_base = to + 8 * READ_BYTES,
				    .iov_len = (READS - 9) * READ_BYTES};
	o.buffers = buffers;
	assert(!linnos_queue_create(&second, array, &o));
	/* Some buffers are within registered ones, some cross their borders, and some are
	 * outside. */
	for (unsigned int i = 0; i < READS; i++) {
		struct iovec one = {.iov_base = to + i * READ_BYTES + (i % 3 == 2 ? 100 : 0),
				    .iov_len = READ_BYTES - (i % 3 == 2 ? 100 : 0)};

		assert(!linnos_queue_submit_read(second, &one, 1, 4096 * i, NULL, one.iov_base));
	}
	while (n < READS) {
		int k = linnos_queue_wait(second, c, READS, -1);

		assert(k > 0);
		for (int i = 0; i < k; i++) {
			unsigned int r = ((char *)c[i].user - to) / READ_BYTES;

			assert(c[i].result >= READ_BYTES - 100);
			assert(is_right(c[i].user, c[i].result, 4096 * r));
		}
		n += k;
	}
	assert(!stats().failovers && !linnos_queue_close(second));
	o.buffers = NULL;
	assert(linnos_queue_create(&second, array, &o) == -EINVAL &&
	       says("n_buffers is 2, but buffers is NULL"));
	free(to);
}

TEST(failure_to_create_a_ring_is_named)
{
	struct rlimit few, before;
	struct linnos_queue *second;
	struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};

	open_array(NULL);
	assert(!getrlimit(RLIMIT_NOFILE, &before));
	few = before;
	few.rlim_cur = 3;
	assert(!setrlimit(RLIMIT_NOFILE, &few));
	assert(linnos_queue_submit_read(queue(), &one, 1, 0, NULL, NULL) == -EMFILE);
	assert(says("cannot create an io_uring: Too many open files"));
	/* Another message in between. */
	assert(linnos_array_drop_replica(array, N) == -EINVAL);
	assert(linnos_queue_create(&second, array, &QUEUE_OPTIONS(.register_files = 1)) ==
		       -EMFILE &&
	       !second);
	assert(says("cannot create an io_uring: Too many open files"));
	assert(!setrlimit(RLIMIT_NOFILE, &before));
}

TEST(failure_to_register_buffers_is_named)
{
	const struct linnos_queue_options o =
		QUEUE_OPTIONS(.n_buffers = 1, .buffers = &(struct iovec){buf, 0},
			      .first_buffer = 1);
	struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};
	struct linnos_queue *second;

	open_array(NULL);
	/* For the caller's ring, so the queue does not register it when it is created. */
	assert(!linnos_queue_create(&second, array, &o));
	assert(linnos_queue_submit_read(second, &one, 1, 0, NULL, NULL) < 0);
	assert(says("cannot register the 1 buffers of a queue"));
	assert(!linnos_queue_close(second));
}

TEST(callers_ring_uses_its_fixed_files_and_buffers)
{
	int indices[N] = {5, 6, 7};
	struct io_uring_sqe sqe;
	struct linnos_queue *second;
	char to[2 * READ_BYTES];
	struct iovec buffer = {.iov_base = to, .iov_len = READ_BYTES}, one = buffer;
	const struct linnos_queue_options o =
		QUEUE_OPTIONS(.fixed_files = indices, .buffers = &buffer, .n_buffers = 1,
			      .first_buffer = 9);

	open_array(NULL);
	assert(!linnos_queue_create(&second, array, &o));
	/* The queue has copied the indices. */
	memset(indices, 0, sizeof(indices));
	assert(!linnos_queue_prep_read(second, &sqe, &one, 1, 0, NULL, to));
	assert(sqe.opcode == IORING_OP_READ_FIXED && sqe.buf_index == 9);
	assert(sqe.flags == IOSQE_FIXED_FILE && sqe.fd >= 5 && sqe.fd < 8);
	assert(linnos_queue_complete(sqe.user_data, READ_BYTES, &completion) == LINNOS_READ_DONE &&
	       completion.user == to);
	one.iov_base = to + 1;
	assert(!linnos_queue_prep_read(second, &sqe, &one, 1, 0, NULL, to));
	assert(sqe.opcode == IORING_OP_READ);
	assert(linnos_queue_complete(sqe.user_data, READ_BYTES, &completion) == LINNOS_READ_DONE);
	assert(!linnos_queue_close(second));
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
	const uint32_t best_effort_5 = 2 << 13 | 5;
	uint32_t ioprio = 0;

	open_array(&AT_1());
	array->set.hooks = (struct hooks){.prepared = note_ioprio, .context = &ioprio};
	assert(read_within(buf, sizeof(buf), 8, &READ_OPTIONS(.ioprio = best_effort_5)) ==
	       READ_BYTES);
	assert(ioprio == best_effort_5 && is_right(buf, sizeof(buf), 8));
}

TEST(cancelled_attempt_ends_the_read_without_a_failure)
{
	struct io_uring_sqe sqe;

	open_array(&AT_1());
	assert(!prep_read(array, &sqe, buf, sizeof(buf), 0, buf));
	assert(linnos_queue_complete(sqe.user_data, -ECANCELED, &completion) == LINNOS_READ_DONE);
	assert(completion.result == -ECANCELED && says("was cancelled"));
	assert(!stats().errors && !stats().failovers && stats().failed == 1);
	assert(!array->predictor->drives[1].failing);
}

TEST(orphans_in_callers_ring_are_returned_once)
{
	struct io_uring_sqe sqe[2];
	struct iovec one = {.iov_base = buf, .iov_len = sizeof(buf)};

	open_array(&AT_1(.hedge_us = 1, .max_duplicates = 100));
	assert(!linnos_queue_prep_read(queue(), &sqe[0], &one, 1, 0,
				       &READ_OPTIONS(.deadline_ns = 20 * MS), buf));
	assert(linnos_queue_next_orphan(queue()) == 0);
	while (linnos_queue_next_expired(queue(), &completion) != LINNOS_READ_RESUBMIT)
		usleep(100);
	assert(!linnos_queue_prep_retry(completion.read, &sqe[1]));
	while (linnos_queue_next_timeout_ns(queue()) > 0)
		usleep(linnos_queue_next_timeout_ns(queue()) / 1000 + 1);
	assert(linnos_queue_next_expired(queue(), &completion) == LINNOS_READ_DONE &&
	       completion.result == -ETIME && completion.user == buf);
	/* Both are orphans and may be cancelled, each once. */
	assert(linnos_queue_next_orphan(queue()) + linnos_queue_next_orphan(queue()) ==
	       sqe[0].user_data + sqe[1].user_data);
	assert(linnos_queue_next_orphan(queue()) == 0 &&
	       linnos_queue_next_timeout_ns(queue()) == -1);
	for (int i = 0; i < 2; i++)
		assert(linnos_queue_complete(sqe[i].user_data, -ECANCELED, &completion) ==
		       LINNOS_READ_PENDING);
	assert(stats().cancelled == 2 && stats().in_flight == 0);
}
