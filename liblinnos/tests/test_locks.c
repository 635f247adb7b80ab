// SPDX-License-Identifier: MIT
/* Count the locks that hedged reads take: none for a read. A lock without a waiter needs no futex
 * call, but it moves a cache line between the processors of all threads. */
#include "memfd_array.h"

#include "test.h"

#include <pthread.h>

#define N 3
#define N_THREADS 8
#define N_READS 5000
#define READ_BYTES 4096
#define BYTES (1u << 20)

static atomic_ulong n_waited, n_tried;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	atomic_fetch_add(&n_waited, 1);
	return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	atomic_fetch_add(&n_tried, 1);
	return __real_pthread_mutex_trylock(mutex);
}

static void *read_many(void *context)
{
	struct linnos_queue *queue;
	char buf[READ_BYTES];

	assert(!linnos_queue_create(&queue, context, NULL));
	for (unsigned int i = 0; i < N_READS; i++)
		assert(linnos_pread(queue, buf, READ_BYTES, i * READ_BYTES % BYTES) == READ_BYTES);
	assert(!linnos_queue_close(queue));
	return NULL;
}

TEST(hedging_takes_no_lock_for_a_read)
{
	static const struct {
		double hedge_percentile;
		uint32_t flags;
	} ways[] = {{95, 0}, {0, LINNOS_DUPLICATES}};

	for (unsigned int way = 0; way < 2; way++) {
		/* Copies and slow attempts are handed over to another thread under a lock. */
		struct linnos_array *a =
			open_memfd_array(N, BYTES,
					 &OPTIONS(.hedge_percentile = ways[way].hedge_percentile,
						  .flags = ways[way].flags, .probe_after_ms = 0,
						  .max_duplicates = 0.001));
		pthread_t threads[N_THREADS];

		n_waited = n_tried = 0;
		for (unsigned int i = 0; i < N_THREADS; i++)
			assert(!pthread_create(&threads[i], NULL, read_many, a));
		for (unsigned int i = 0; i < N_THREADS; i++)
			pthread_join(threads[i], NULL);
		close_memfd_array(a);
		assert(n_tried > 0 && n_tried < N_THREADS * N_READS / 16);
		assert(n_waited < N_THREADS * N_READS / 100);
	}
}
