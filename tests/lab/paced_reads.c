// SPDX-License-Identifier: MIT
/*
 * Runs in the guest: reads of a device, each compared with the data written.
 *
 *	paced_reads DEVICE --fill
 *	paced_reads DEVICE N EVERY_US [--buffered] [--writes]
 *	paced_reads DEVICE N --sequential
 *
 * --fill writes the whole device. Otherwise there are N reads of its lower half, and a JSON object
 * has their latencies and the number of wrong reads: random reads of 4 KiB, one every EVERY_US even
 * if earlier ones have not completed; or sequential buffered reads of 64 KiB, repeated from the
 * beginning with an empty cache. --writes adds a writer to the upper half, and a comparison of the
 * whole device when the reads are done.
 */
#define _GNU_SOURCE
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096u
#define CHUNK (1u << 20)
/* Blocks of a sequential read. */
#define SEQUENTIAL 16u
/* The maximum number of concurrent reads. */
#define THREADS 48

static int fd;
static uint32_t n_blocks, n_reads, blocks_per_read = 1, every_us;
static uint32_t *firsts;
static uint64_t start_ns;
static atomic_uint next_read;
static atomic_bool is_over;
/* The number of writes of each block. */
static uint32_t *versions;

static atomic_uint n_done, n_slow, n_wrong, n_errors;
static atomic_ullong sum_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Return the next random number below @n (SplitMix64). */
static uint32_t random_below(uint32_t n, uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (x ^ x >> 31) % n;
}

static void sleep_until(uint64_t ns)
{
	struct timespec until = {ns / 1000000000, ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void *memory(size_t bytes)
{
	void *at = aligned_alloc(BLOCK, bytes);

	assert(at);
	return memset(at, 0, bytes);
}

/* Each block has a unique content, which is not all zeros. */
static void fill_block(void *block, uint32_t number)
{
	uint64_t *words = block;

	for (unsigned int i = 0; i < BLOCK / 8; i++)
		words[i] = number * 0x9e3779b97f4a7c15 + versions[number] * 0xbf58476d1ce4e5b9 + 1;
}

static void fill_device(void)
{
	char *chunk = memory(CHUNK);

	for (uint32_t first = 0; first < n_blocks; first += CHUNK / BLOCK) {
		uint32_t n = CHUNK / BLOCK < n_blocks - first ? CHUNK / BLOCK : n_blocks - first;

		for (uint32_t i = 0; i < n; i++)
			fill_block(chunk + i * BLOCK, first + i);
		assert(pwrite(fd, chunk, n * BLOCK, first * (off_t)BLOCK) == n * (ssize_t)BLOCK);
	}
}

/* Read blocks, compare them, and print which are wrong. */
static void read_blocks(uint32_t first, uint32_t n, char *buf, char *expected)
{
	uint64_t began_ns = now_ns();
	ssize_t bytes = pread(fd, buf, n * BLOCK, first * (off_t)BLOCK);
	uint64_t took_ns = now_ns() - began_ns;

	if (bytes < 0) {
		fprintf(stderr, "block %u: %s\n", first, strerror(errno));
		n_errors++;
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		fill_block(expected + i * BLOCK, first + i);
	if (bytes != n * (ssize_t)BLOCK || memcmp(buf, expected, bytes)) {
		fprintf(stderr, "block %u: wrong data\n", first);
		n_wrong++;
	}
	n_done++;
	sum_ns += took_ns;
	n_slow += took_ns > 1000000;
}

/* Submit each read when it is due; every idle thread takes the next one. */
static void *make_reads(void *unused)
{
	char *buf = memory(blocks_per_read * BLOCK), *expected = memory(blocks_per_read * BLOCK);
	uint32_t k;

	while ((k = atomic_fetch_add(&next_read, 1)) < n_reads) {
		if (every_us)
			sleep_until(start_ns + k * (every_us * 1000ull));
		else if (!firsts[k])
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		read_blocks(firsts[k], blocks_per_read, buf, expected);
	}
	return unused;
}

/* Overwrite random blocks of the upper half. */
static void *write_blocks(void *unused)
{
	char *buf = memory(BLOCK);
	uint64_t seed = 2;

	while (!is_over) {
		uint32_t number = n_blocks / 2 + random_below(n_blocks - n_blocks / 2, &seed);

		versions[number]++;
		fill_block(buf, number);
		assert(pwrite(fd, buf, BLOCK, number * (off_t)BLOCK) == BLOCK);
		sleep_until(now_ns() + 1000000);
	}
	return unused;
}

/* Choose sequential blocks of the lower half. */
static void choose_in_order(uint32_t half)
{
	for (uint32_t i = 0; i < n_reads; i++)
		firsts[i] = i % (half / blocks_per_read) * blocks_per_read;
}

/* Repeat no block while there are enough blocks, because repeated blocks would be cached. */
static void choose_at_random(uint32_t half)
{
	uint32_t *order = calloc(half, sizeof(*order));
	uint64_t seed = 1;

	assert(order);
	for (uint32_t k = 0; k < half; k++)
		order[k] = k;
	for (uint32_t i = 0; i < n_reads; i++) {
		uint32_t k = i % half, other = k + random_below(half - k, &seed);

		firsts[i] = order[other];
		order[other] = order[k];
		order[k] = firsts[i];
	}
	free(order);
}

static void run_reads(bool in_order, bool writes)
{
	unsigned int n_threads = in_order ? 1 : THREADS;
	pthread_t readers[THREADS], writer;

	start_ns = now_ns();
	for (unsigned int i = 0; i < n_threads; i++)
		assert(!pthread_create(&readers[i], NULL, make_reads, NULL));
	if (writes)
		assert(!pthread_create(&writer, NULL, write_blocks, NULL));
	for (unsigned int i = 0; i < n_threads; i++)
		pthread_join(readers[i], NULL);
	is_over = true;
	if (writes)
		pthread_join(writer, NULL);
	printf("{\"reads\": %u, \"mean_us\": %f, \"slow\": %u, ", n_done, sum_ns / 1000.0 / n_done,
	       n_slow);
}

static void compare_device(void)
{
	char *buf = memory(BLOCK), *expected = memory(BLOCK);

	for (uint32_t number = 0; number < n_blocks; number++)
		read_blocks(number, 1, buf, expected);
}

static void print_faults(void)
{
	uint32_t n_written = 0;

	for (uint32_t i = 0; i < n_blocks; i++)
		n_written += versions[i] > 0;
	printf("\"written\": %u, \"wrong\": %u, \"errors\": %u}\n", n_written, n_wrong, n_errors);
}

int main(int argc, char **argv)
{
	bool fills = false, is_buffered = false, is_sequential = false, writes = false;

	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--fill"))
			fills = true;
		else if (!strcmp(argv[i], "--buffered"))
			is_buffered = true;
		else if (!strcmp(argv[i], "--sequential"))
			is_sequential = is_buffered = true;
		else if (!strcmp(argv[i], "--writes"))
			writes = true;
		else
			*(n_reads ? &every_us : &n_reads) = strtoul(argv[i], NULL, 10);
	}
	assert(argc > 2 && (fills || n_reads) && (every_us || fills || is_sequential));
	fd = open(argv[1], O_RDWR | (is_buffered ? 0 : O_DIRECT));
	assert(fd >= 0);
	n_blocks = lseek(fd, 0, SEEK_END) / BLOCK;
	versions = calloc(n_blocks, sizeof(*versions));
	firsts = calloc(n_reads, sizeof(*firsts));
	assert(versions && firsts);
	if (fills) {
		fill_device();
		return 0;
	}
	blocks_per_read = is_sequential ? SEQUENTIAL : 1;
	if (is_sequential)
		choose_in_order(n_blocks / 2);
	else
		choose_at_random(n_blocks / 2);
	if (is_buffered)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	run_reads(is_sequential, writes);
	if (writes)
		compare_device();
	print_faults();
	return 0;
}
