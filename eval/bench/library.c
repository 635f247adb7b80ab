// SPDX-License-Identifier: MIT
/*
 * Measure the cost of a read of 4 KiB from the page cache, by pread(2) or linnos_pread():
 *
 *	library THREADS READS HOW FILE FILE FILE [MODEL MODEL MODEL]
 *
 * HOW is pread, library, or how reads are hedged: fixed, percentile or gain. Prints ns of processor
 * time a read, and thousands of reads a second of all threads.
 *
 * Compiled with COUNTED_CLOCK, the clock counts its calls: each takes 50 us, and one in a hundred
 * takes 1 ms. The instructions of a read then do not depend on the load of the machine.
 */
#include <liblinnos.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N 3
#define THREADS_MAX 64
#define BLOCK_BYTES 4096
#define BLOCKS 4096

static struct linnos_array *array; /* NULL: pread() */
static int fds[N];
static unsigned long n_reads;

#ifdef COUNTED_CLOCK
int clock_gettime(clockid_t clock, struct timespec *t)
{
	static _Thread_local uint64_t n, now_ns = 1000000000;

	(void)clock;
	now_ns += ++n % 100 ? 50000 : 1000000;
	t->tv_sec = (time_t)(now_ns / 1000000000);
	t->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}
#endif

struct reader {
	pthread_t thread;
	unsigned int seed;
	double cpu_ns;
};

static double now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *read_many(void *context)
{
	struct reader *r = context;
	struct linnos_queue *queue = NULL;
	double start_ns;
	void *buf;

	if (posix_memalign(&buf, BLOCK_BYTES, BLOCK_BYTES) ||
	    (array && linnos_queue_create(&queue, array, NULL)))
		exit(1);
	start_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned long i = 0; i < n_reads; i++) {
		off_t offset;
		ssize_t n;

		r->seed = r->seed * 1103515245 + 12345;
		offset = (off_t)(r->seed >> 8) % BLOCKS * BLOCK_BYTES;
		n = array ? linnos_pread(queue, buf, BLOCK_BYTES, offset)
			  : pread(fds[i % N], buf, BLOCK_BYTES, offset);
		if (n != BLOCK_BYTES)
			exit(1);
	}
	r->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
	linnos_queue_close(queue);
	free(buf);
	return NULL;
}

int main(int argc, char **argv)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct reader readers[THREADS_MAX];
	double start_ns, cpu_ns = 0;
	int threads = argc > 6 ? atoi(argv[1]) : 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	n_reads = strtoul(argv[2], NULL, 10);
	for (unsigned int k = 0; k < N; k++)
		fds[k] = open(argv[4 + k], O_RDONLY);
	if (!strcmp(argv[3], "fixed"))
		o.hedge_us = 1000000;
	if (!strcmp(argv[3], "percentile"))
		o.hedge_percentile = 95;
	if (!strcmp(argv[3], "gain"))
		o.flags = LINNOS_DUPLICATES;
	if (strcmp(argv[3], "pread") &&
	    linnos_array_open_fds(&array, N, fds, argc > 9 ? (const char **)argv + 7 : NULL, &o)) {
		fprintf(stderr, "library: %s\n", linnos_error());
		return 1;
	}
	start_ns = now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < threads; i++) {
		readers[i].seed = 7919 * i + 1;
		if (pthread_create(&readers[i].thread, NULL, read_many, &readers[i]))
			return 1;
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(readers[i].thread, NULL);
		cpu_ns += readers[i].cpu_ns;
	}
	printf("%.1f %.1f\n", cpu_ns / threads / (double)n_reads,
	       threads * (double)n_reads / (now_ns(CLOCK_MONOTONIC) - start_ns) * 1e6);
	linnos_array_close(array);
	return 0;
}
