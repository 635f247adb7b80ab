/* SPDX-License-Identifier: MIT */
/*
 * Functions for clients of WiredTiger: a table of known values, and reads of it that arrive at a rate
 * (Poisson), independent of earlier reads.
 */
#ifndef WIREDTIGER_VALUES_H
#define WIREDTIGER_VALUES_H

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <wiredtiger.h>

/* The maximum number of concurrent reads, each with its own session. */
#define THREADS 32
#define VALUE_WORDS 125
#define NSEC_PER_SEC 1000000000LL
#define YIELD_NS 10000

#define TABLE "table:kv"
#define LEAF_BYTES (32 << 10)

/*
 * WiredTiger's cache has room for the inner pages of the tree and a few leaves. Reads bypass the page
 * cache, which would soon contain the whole file, unlike data that do not fit into memory. A single
 * thread evicts pages: with helpers, it searches without a pause until they have evicted its pages,
 * and in the guest they cannot run meanwhile (see sched_yield()).
 */
#define READ_CONFIG \
	"cache_size=16MB,session_max=256,direct_io=[data],eviction=(threads_min=1,threads_max=1)"

/*
 * A thread of WiredTiger yields while another one reads the page that it needs. In the guest no time
 * passes while a thread runs, so threads that yield to each other would never let the read end.
 * Therefore this yield takes time.
 */
int sched_yield(void)
{
	struct timespec rest = {.tv_nsec = YIELD_NS};

	return nanosleep(&rest, NULL);
}

static inline int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static inline void sleep_until(int64_t ns)
{
	struct timespec due = {ns / NSEC_PER_SEC, ns % NSEC_PER_SEC};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

/* splitmix64 */
static inline uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Set the value of a key, which no other key has. */
static inline void value_of(int64_t key, uint64_t words[VALUE_WORDS])
{
	uint64_t state = key;

	state = draw(&state);
	for (int i = 0; i < VALUE_WORDS; i++)
		words[i] = draw(&state);
}

static inline void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "%s: %s\n", what, wiredtiger_strerror(error));
		exit(1);
	}
}

/* Return 1, with a message, if the value at a cursor is not that of the key. */
static inline int differs(WT_CURSOR *cursor, int64_t key)
{
	uint64_t expected[VALUE_WORDS];
	WT_ITEM item;

	must(cursor->get_value(cursor, &item), "value");
	value_of(key, expected);
	if (item.size == sizeof(expected) && !memcmp(item.data, expected, sizeof(expected)))
		return 0;
	fprintf(stderr, "value %lld is not what was written\n", (long long)key);
	return 1;
}

static inline WT_CURSOR *cursor_of(WT_CONNECTION *connection, const char *config)
{
	WT_SESSION *session;
	WT_CURSOR *cursor;

	must(connection->open_session(connection, NULL, NULL, &session), "session");
	must(session->open_cursor(session, TABLE, NULL, config, &cursor), TABLE);
	return cursor;
}

/* Sleep without the default slack of 50 us, also in threads that start later. */
static inline void sleep_exactly(void)
{
	if (prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0))
		must(errno, "prctl");
}

/* Reads by key: when each is due, in us from the start, and its latency, which counts from then. */
struct reads {
	long n;
	int64_t *due_us, *keys, start_ns;
	double *latency_us;
};

/* Draw reads from the arguments VALUES RATE SECONDS SEED. They start now. */
static inline void reads_draw(struct reads *reads, char **load)
{
	long values = atol(load[0]);
	double rate = atof(load[1]), seconds = atof(load[2]), time_s = 0;
	uint64_t seed = strtoull(load[3], NULL, 10);
	long room = 2 * (rate * seconds + 100);

	reads->due_us = calloc(room, sizeof(*reads->due_us));
	reads->keys = calloc(room, sizeof(*reads->keys));
	reads->latency_us = calloc(room, sizeof(*reads->latency_us));
	if (!reads->due_us || !reads->keys || !reads->latency_us)
		must(ENOMEM, "reads");
	for (;;) {
		/* a number of 53 bits above 0 */
		time_s -= log(((draw(&seed) >> 11) + 1) * 0x1p-53) / rate;
		if (time_s >= seconds || reads->n == room)
			break;
		reads->due_us[reads->n] = llround(time_s * 1e6);
		reads->keys[reads->n++] = draw(&seed) % values;
	}
	reads->start_ns = now_ns();
}

static inline int64_t due_ns(const struct reads *reads, long i)
{
	return reads->start_ns + reads->due_us[i] * 1000;
}

static inline void answered(struct reads *reads, long i, int64_t ns)
{
	reads->latency_us[i] = (ns - due_ns(reads, i)) / 1e3;
}

static inline void reads_report(const struct reads *reads, const char *report)
{
	FILE *lines = fopen(report, "w");

	if (!lines)
		must(errno, report);
	for (long i = 0; i < reads->n; i++)
		fprintf(lines, "%lld,%.3f\n", (long long)reads->due_us[i], reads->latency_us[i]);
	if (fclose(lines))
		must(errno, report);
}

#endif
