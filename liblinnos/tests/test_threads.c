// SPDX-License-Identifier: MIT
/*
 * Many threads read one array whose replicas fail at random times: no read is lost, and none
 * returns wrong data. The number of reads in each test can be set:
 *
 *	LINNOS_READS=200000 build/liblinnos/tests/test_threads
 */
#include "memfd_array.h"

#include "test.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#define N 3
#define N_THREADS 4
#define BYTES (4u << 20)
#define READ_MAX 9000

/* The replicas that failed the current read of this thread. An orphaned attempt completes in a
 * thread of the array. */
static __thread unsigned int failed;

struct many {
	struct linnos_array *array;
	atomic_ulong answers, reads_failed, reads_done;
	unsigned int fail_of_256;
	bool loses_two; /* one replica after a third of the reads, another one after two thirds */
	unsigned long n_reads;
	uint64_t seed;
};

static int fail_at_random(void *context, unsigned int replica, uint64_t offset, int result)
{
	struct many *m = context;
	uint64_t state = atomic_fetch_add(&m->answers, 1) + m->seed;

	(void)offset;
	if (chance(&state) % 256 < m->fail_of_256)
		result = -EIO;
	if (result <= 0)
		failed |= 1u << replica;
	return result;
}

static void lose(const struct linnos_array *a, bool second)
{
	int none;

	if (!second) {
		assert(!ftruncate(a->set.replicas[1].fd, BYTES / 3));
		return;
	}
	none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert(dup2(none, a->set.replicas[2].fd) >= 0);
	close(none);
}

static void *read_many(void *context)
{
	struct many *m = context;
	uint64_t seed = atomic_fetch_add(&m->answers, 1) << 32;
	static const unsigned int all = (1u << N) - 1;
	struct linnos_queue *queue;
	char buf[READ_MAX];

	assert(!linnos_queue_create(&queue, m->array, NULL));

	for (unsigned long i = 0; i < m->n_reads / N_THREADS; i++) {
		size_t bytes = 1 + chance(&seed) % READ_MAX;
		uint64_t offset = chance(&seed) % (BYTES - bytes);
		ssize_t n;

		failed = 0;
		n = linnos_pread(queue, buf, bytes, offset);
		if (n == (ssize_t)bytes && is_right(buf, bytes, offset)) {
			unsigned long done = atomic_fetch_add(&m->reads_done, 1);

			if (m->loses_two && (done == m->n_reads / 3 || done == m->n_reads / 3 * 2))
				lose(m->array, done > m->n_reads / 2);
			continue;
		}
		/* Only if every one of them has failed it. */
		assert(n == -EIO && failed == all);
		atomic_fetch_add(&m->reads_failed, 1);
	}
	assert(!linnos_queue_close(queue));
	return NULL;
}

static unsigned long number_of_reads(void)
{
	const char *given = getenv("LINNOS_READS");

	return given ? strtoul(given, NULL, 10) / N_THREADS * N_THREADS : 60000;
}

/* Run a function in each of the threads. */
static void run_threads(void *(*function)(void *), void *context)
{
	pthread_t threads[N_THREADS];

	for (unsigned int i = 0; i < N_THREADS; i++)
		assert(!pthread_create(&threads[i], NULL, function, context));
	for (unsigned int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Open an array, read, and compare its statistics with the results of the readers. */
static void run(struct many *m, const struct linnos_options *o)
{
	struct linnos_stats s;
	uint64_t served = 0;

	m->n_reads = number_of_reads();
	m->array = open_memfd_array(N, BYTES, o);
	m->array->set.hooks = (struct hooks){.answer = fail_at_random, .context = m};
	run_threads(read_many, m);
	s = stats_of(m->array);
	for (unsigned int k = 0; k < N; k++)
		served += replica_of(m->array, k).served;
	assert(m->reads_done + m->reads_failed == m->n_reads && s.reads == m->n_reads);
	assert(s.failed == m->reads_failed && served == m->reads_done);
	assert((double)s.hedges * 100 <= m->array->predictor->o.max_duplicates * (double)s.reads);
}

TEST(no_read_is_lost_or_wrong_when_drives_fail_at_random_times)
{
	static const struct {
		uint32_t hedge_us, flags;
	} cases[] = {{0, 0}, {1, 0}, {0, LINNOS_DUPLICATES}};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct many m = {.fail_of_256 = 60, .seed = i + 1};

		run(&m, &OPTIONS(.hedge_us = cases[i].hedge_us, .flags = cases[i].flags,
				 .max_duplicates = 20));
		assert(m.reads_failed > 0 && m.reads_failed < m.n_reads / 20);
		assert(stats_of(m.array).failovers > m.n_reads / 10);
		assert(i || !stats_of(m.array).in_flight);
		close_memfd_array(m.array);
	}
}

TEST(reads_survive_truncated_and_vanished_replicas)
{
	struct many m = {.loses_two = true, .seed = 3};

	/* Reads use the replicas round robin until one fails. */
	run(&m, &OPTIONS(.margin_percent = 100));
	assert(!m.reads_failed && replica_of(m.array, 1).errors && replica_of(m.array, 2).errors);
	close_memfd_array(m.array);
}

/* --- Replicas that fail, hang and vanish --------------------------------------------------- */

#define DEADLINE_NS (40 * MS)
#define TROUBLE_US 3000

/* One replica after the other fails, hangs or vanishes for a while, and recovers. Another one is
 * dropped meanwhile, gets a new model, and is restored. One of the three is always healthy. */
struct trouble {
	struct linnos_array *array;
	atomic_uint fails, hangs; /* bitmaps of replicas */
	int pipe[2];		  /* reads that hang wait for it */
	int files[N];		  /* the original descriptors */
	atomic_bool over;
	atomic_ulong right, late;
	unsigned long n_reads;
};

static int fail_if_it_fails(void *context, unsigned int replica, uint64_t offset, int result)
{
	struct trouble *t = context;

	(void)offset;
	if (t->fails & 1u << replica)
		return -EIO;
	/* The byte of the pipe: no read is this short. */
	return result == 1 ? -EINTR : result;
}

static void hang_if_it_hangs(void *context, unsigned int replica, struct io_uring_sqe *sqe)
{
	struct trouble *t = context;

	if (t->hangs & 1u << replica)
		hold_request(sqe, t->pipe[0]);
}

static void release_requests(struct trouble *t)
{
	char bytes[1024] = {0};
	int left;

	t->hangs = 0;
	assert(write(t->pipe[1], bytes, sizeof(bytes)) > 0);
	usleep(TROUBLE_US);
	assert(!ioctl(t->pipe[0], FIONREAD, &left));
	assert(left <= (int)sizeof(bytes) && read(t->pipe[0], bytes, left) >= 0);
}

static void make_trouble(struct trouble *t, unsigned int replica, unsigned int kind)
{
	int none = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (kind == 0)
		t->fails = 1u << replica;
	if (kind == 1)
		t->hangs = 1u << replica;
	if (kind == 2)
		assert(dup2(none, t->array->set.replicas[replica].fd) >= 0);
	usleep(TROUBLE_US);
	t->fails = 0;
	if (kind == 1)
		release_requests(t);
	if (kind == 2)
		assert(dup2(t->files[replica], t->array->set.replicas[replica].fd) >= 0);
	close(none);
}

static void *make_trouble_until_over(void *context)
{
	struct trouble *t = context;
	uint64_t seed = 1;

	while (!t->over) {
		unsigned int replica = chance(&seed) % N, other = (replica + 1) % N;

		assert(!linnos_array_drop_replica(t->array, other));
		make_trouble(t, replica, chance(&seed) % 3);
		assert(!linnos_set_model(t->array, other, NULL));
		assert(!linnos_array_restore_replica(t->array, other));
		usleep(TROUBLE_US);
	}
	return NULL;
}

static void *read_until_deadlines(void *context)
{
	struct trouble *t = context;
	const struct linnos_read_options o = READ_OPTIONS(.deadline_ns = DEADLINE_NS);
	uint64_t seed = atomic_fetch_add(&t->right, 0) + (uintptr_t)&o;
	struct linnos_queue *queue;
	char buf[READ_MAX];

	assert(!linnos_queue_create(&queue, t->array, NULL));
	for (unsigned long i = 0; i < t->n_reads / N_THREADS; i++) {
		struct iovec one = {.iov_base = buf, .iov_len = 2 + chance(&seed) % (READ_MAX - 2)};
		uint64_t offset = chance(&seed) % (BYTES - one.iov_len);
		ssize_t n = linnos_preadv(queue, &one, 1, offset, &o);

		assert(n == -ETIME ||
		       (n == (ssize_t)one.iov_len && is_right(buf, one.iov_len, offset)));
		atomic_fetch_add(n == -ETIME ? &t->late : &t->right, 1);
	}
	assert(!linnos_queue_close(queue));
	return NULL;
}

TEST(reads_meet_deadlines_when_replicas_fail_hang_and_vanish)
{
	struct trouble t = {.n_reads = number_of_reads()};
	pthread_t troubler;

	assert(!pipe(t.pipe));
	t.array = open_memfd_array(N, BYTES, &OPTIONS(.hedge_us = 2000, .max_duplicates = 20));
	for (unsigned int k = 0; k < N; k++)
		t.files[k] = dup(fd_of(t.array, k));
	t.array->set.hooks = (struct hooks){
		.answer = fail_if_it_fails, .prepared = hang_if_it_hangs, .context = &t};
	assert(!pthread_create(&troubler, NULL, make_trouble_until_over, &t));
	run_threads(read_until_deadlines, &t);
	t.over = true;
	pthread_join(troubler, NULL);
	assert(t.right + t.late == t.n_reads && stats_of(t.array).reads == t.n_reads);
	assert(stats_of(t.array).late == t.late && t.late < t.n_reads / 100);
	settle(t.array);
	close_memfd_array(t.array);
	close_fds(N, t.files);
	close_fds(2, t.pipe);
}
