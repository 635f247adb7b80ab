// SPDX-License-Identifier: MIT
/*
 * Many threads read one array whose replicas fail at random moments: no read is lost, none is
 * wrong. So many reads a test, and what became of them:
 *
 *	LINNOS_READS=200000 build/liblinnos/tests/test_threads
 */
#include "made_up.h"

#include "test.h"

#include <fcntl.h>

#define N 3
#define N_THREADS 4
#define BYTES (4u << 20)
#define READ_MAX 9000

/* Which replicas failed the read that this thread is in; an attempt that has lost its race ends in
 * a thread of the array's. */
static __thread unsigned int failed;

struct many {
	struct linnos_array *array;
	atomic_ulong answers, reads_failed, reads_done;
	unsigned int fail_of_256;
	bool loses_two; /* a replica after a third of the reads, another after two thirds */
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
		assert(!ftruncate(a->replicas[1].fd, BYTES / 3));
		return;
	}
	none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert(dup2(none, a->replicas[2].fd) >= 0);
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
		/* Only where every one of them has failed it. */
		assert(n == -EIO && failed == all);
		atomic_fetch_add(&m->reads_failed, 1);
	}
	assert(!linnos_queue_close(queue));
	return NULL;
}

static unsigned long reads_asked_for(void)
{
	const char *given = getenv("LINNOS_READS");

	return given ? strtoul(given, NULL, 10) / N_THREADS * N_THREADS : 200000;
}

static void run(struct many *m)
{
	pthread_t threads[N_THREADS];

	m->array->hooks = (struct hooks){.answer = fail_at_random, .context = m};
	for (unsigned int i = 0; i < N_THREADS; i++)
		assert(!pthread_create(&threads[i], NULL, read_many, m));
	for (unsigned int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void check(struct many *m)
{
	struct linnos_stats s = stats_of(m->array);

	assert(m->reads_done + m->reads_failed == m->n_reads && s.reads == m->n_reads);
	assert(s.failed == m->reads_failed);
	assert(replica_of(m->array, 0).served + replica_of(m->array, 1).served +
		       replica_of(m->array, 2).served ==
	       m->reads_done);
	assert((double)s.hedges * 100 <= m->array->known->o.extra_io_percent * (double)s.reads);
	if (getenv("LINNOS_READS"))
		fprintf(stderr,
			"%lu reads: %lu right, %lu failed by all %d; attempts: %llu failed, %llu "
			"hedges\n",
			m->n_reads, (unsigned long)m->reads_done, (unsigned long)m->reads_failed, N,
			(unsigned long long)s.errors, (unsigned long long)s.hedges);
}

TEST(drives_fail_at_random_moments_and_no_read_is_lost_or_wrong)
{
	struct many m = {.fail_of_256 = 60, .seed = 1, .n_reads = reads_asked_for()};
	int fds[N];

	m.array = made_up_array(N, BYTES, fds, NULL);
	run(&m);
	check(&m);
	assert(m.reads_failed > 0 && m.reads_failed < m.n_reads / 20);
	assert(stats_of(m.array).failovers > m.n_reads / 10 && !stats_of(m.array).in_flight);
	put_away(m.array, N, fds);
}

TEST(hedges_are_in_flight_beside_it_all)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct many m = {.fail_of_256 = 60, .seed = 2, .n_reads = reads_asked_for()};
	int fds[N];

	o.hedge_us = 1;
	o.extra_io_percent = 20;
	m.array = made_up_array(N, BYTES, fds, &o);
	run(&m);
	check(&m);
	put_away(m.array, N, fds);
}

TEST(hedges_by_gain_likewise)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct many m = {.fail_of_256 = 60, .seed = 4, .n_reads = reads_asked_for()};
	int fds[N];

	o.flags = LINNOS_HEDGE_BY_GAIN;
	o.extra_io_percent = 20;
	m.array = made_up_array(N, BYTES, fds, &o);
	run(&m);
	check(&m);
	put_away(m.array, N, fds);
}

TEST(a_replica_is_cut_short_and_another_one_goes_away_while_reads_are_under_way)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct many m = {.loses_two = true, .seed = 3, .n_reads = reads_asked_for()};
	int fds[N];

	/* Each has its turn until it fails. */
	o.home_margin_percent = 100;
	m.array = made_up_array(N, BYTES, fds, &o);
	run(&m);
	check(&m);
	assert(!m.reads_failed && replica_of(m.array, 1).errors && replica_of(m.array, 2).errors);
	put_away(m.array, N, fds);
}
