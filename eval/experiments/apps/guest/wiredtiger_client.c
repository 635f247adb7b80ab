/* SPDX-License-Identifier: MIT */
/*
 * Runs in the guest: makes a table of WiredTiger, and reads values of it by key, each compared.
 *
 *	wiredtiger_client make FOLDER VALUES
 *	wiredtiger_client read FOLDER VALUES RATE SECONDS SEED REPORT
 *	wiredtiger_client check FOLDER VALUES
 *
 * Reads arrive at a rate (Poisson), whether those before have come back or not. REPORT gets a line
 * a read: when it was due, in us from the start, and how long after that its value was there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <wiredtiger.h>

/* As many reads as may be waiting at once, each on a session of its own. */
#define THREADS 32
#define VALUE_WORDS 125
#define NSEC_PER_SEC 1000000000LL
#define YIELD_NS 10000

#define TABLE "table:kv"

/*
 * As MongoDB makes a collection: keys are numbers, values bytes, leaves of 32 KiB at most (which is
 * WiredTiger's own choice, too). It would compress them; these bytes do not get any smaller.
 */
#define TABLE_CONFIG "key_format=q,value_format=u,checksum=on,leaf_page_max=32KB"

/*
 * WiredTiger's own cache: room for the inner pages of the tree, and for few leaves. The page cache
 * would soon have all of a file of this size, as it never has of data that do not fit into memory.
 * One thread evicts: where others help, it goes on looking for pages without a rest until they have
 * evicted what it found, and in the guest they do not get to run meanwhile (see below).
 */
#define READ_CONFIG \
	"cache_size=16MB,session_max=64,direct_io=[data],eviction=(threads_min=1,threads_max=1)"
#define MAKE_CONFIG "create,cache_size=256MB"

struct reader {
	WT_CONNECTION *connection;
	long n;
	const int64_t *due_us, *keys;
	double *latency_us;
	int64_t start_ns;
	atomic_long turn, wrong;
};

/*
 * WiredTiger yields while another thread reads the page that it wants. In the guest no time passes
 * while somebody runs, so that threads which yield to each other would do so for ever, and the read
 * would never end. So the library is given a yield that takes time.
 */
int sched_yield(void)
{
	struct timespec rest = {.tv_nsec = YIELD_NS};

	return nanosleep(&rest, NULL);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* No value like another. */
static void value_of(int64_t key, uint64_t words[VALUE_WORDS])
{
	uint64_t state = key;

	state = draw(&state);
	for (int i = 0; i < VALUE_WORDS; i++)
		words[i] = draw(&state);
}

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "%s: %s\n", what, wiredtiger_strerror(error));
		exit(1);
	}
}

/* Compares the value that a cursor is at; 1 if it is another, which is said. */
static int differs(WT_CURSOR *cursor, int64_t key)
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

static WT_CURSOR *cursor_of(WT_CONNECTION *connection, const char *config)
{
	WT_SESSION *session;
	WT_CURSOR *cursor;

	must(connection->open_session(connection, NULL, NULL, &session), "session");
	must(session->open_cursor(session, TABLE, NULL, config, &cursor), TABLE);
	return cursor;
}

static void make(const char *folder, long values)
{
	uint64_t words[VALUE_WORDS];
	WT_CONNECTION *connection;
	WT_SESSION *session;
	WT_CURSOR *cursor;

	if (mkdir(folder, 0755))
		must(errno, folder);
	must(wiredtiger_open(folder, NULL, MAKE_CONFIG, &connection), folder);
	must(connection->open_session(connection, NULL, NULL, &session), "session");
	must(session->create(session, TABLE, TABLE_CONFIG), TABLE);
	/* In the order of their keys, so that leaves are full. */
	cursor = cursor_of(connection, "bulk");
	for (int64_t key = 0; key < values; key++) {
		WT_ITEM item = {.data = words, .size = sizeof(words)};

		value_of(key, words);
		cursor->set_key(cursor, key);
		cursor->set_value(cursor, &item);
		must(cursor->insert(cursor), "insert");
	}
	must(cursor->close(cursor), TABLE);
	must(connection->close(connection, NULL), folder);
}

/* Reads, each when it is due, by whichever thread is free. */
static void *read_in_turn(void *of)
{
	struct reader *reader = of;
	WT_CURSOR *cursor = cursor_of(reader->connection, NULL);
	long i;

	while ((i = atomic_fetch_add(&reader->turn, 1)) < reader->n) {
		int64_t due_ns = reader->start_ns + reader->due_us[i] * 1000;
		struct timespec due = {due_ns / NSEC_PER_SEC, due_ns % NSEC_PER_SEC};
		WT_ITEM item;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		cursor->set_key(cursor, reader->keys[i]);
		must(cursor->search(cursor), "search");
		must(cursor->get_value(cursor, &item), "value");
		reader->latency_us[i] = (now_ns() - due_ns) / 1e3;
		reader->wrong += differs(cursor, reader->keys[i]);
		/* Holds on to its leaf no longer. */
		must(cursor->reset(cursor), "reset");
	}
	return NULL;
}

static void read_values(const char *folder, long values, double rate, double seconds, uint64_t seed,
			const char *report)
{
	long room = 2 * (rate * seconds + 100);
	int64_t *due_us = calloc(room, sizeof(*due_us)), *keys = calloc(room, sizeof(*keys));
	struct reader reader = {.due_us = due_us, .keys = keys};
	pthread_t threads[THREADS];
	double time_s = 0;
	FILE *lines;

	reader.latency_us = calloc(room, sizeof(*reader.latency_us));
	if (!due_us || !keys || !reader.latency_us)
		must(ENOMEM, "reads");
	for (;;) {
		/* Of 53 bits, never 0. */
		time_s -= log(((draw(&seed) >> 11) + 1) * 0x1p-53) / rate;
		if (time_s >= seconds || reader.n == room)
			break;
		due_us[reader.n] = llround(time_s * 1e6);
		keys[reader.n++] = draw(&seed) % values;
	}
	must(wiredtiger_open(folder, NULL, READ_CONFIG, &reader.connection), folder);
	reader.start_ns = now_ns();
	for (int k = 0; k < THREADS; k++)
		must(pthread_create(&threads[k], NULL, read_in_turn, &reader), "thread");
	for (int k = 0; k < THREADS; k++)
		pthread_join(threads[k], NULL);
	must(reader.connection->close(reader.connection, NULL), folder);
	if (reader.wrong) {
		fprintf(stderr, "%s: %ld values are wrong\n", folder, (long)reader.wrong);
		exit(1);
	}
	lines = fopen(report, "w");
	if (!lines)
		must(errno, report);
	for (long i = 0; i < reader.n; i++)
		fprintf(lines, "%lld,%.3f\n", (long long)due_us[i], reader.latency_us[i]);
	if (fclose(lines))
		must(errno, report);
}

static void check(const char *folder, long values)
{
	WT_CONNECTION *connection;
	WT_SESSION *session;
	WT_CURSOR *cursor;
	int64_t key, next = 0;
	long wrong = 0;
	int error;

	must(wiredtiger_open(folder, NULL, READ_CONFIG, &connection), folder);
	must(connection->open_session(connection, NULL, NULL, &session), "session");
	must(session->verify(session, TABLE, NULL), "verify");
	cursor = cursor_of(connection, NULL);
	while (!(error = cursor->next(cursor))) {
		must(cursor->get_key(cursor, &key), "key");
		if (key != next++)
			break;
		wrong += differs(cursor, key);
	}
	if (error != WT_NOTFOUND || next != values || wrong) {
		fprintf(stderr,
			"%s: %ld values are wrong, and keys are whole up to %lld of %ld: %s\n",
			folder, wrong, (long long)next, values, wiredtiger_strerror(error));
		exit(1);
	}
	must(connection->close(connection, NULL), folder);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	/* Sleep is over when it is, not some 50 us later, in the threads, too. */
	if (prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0))
		must(errno, "prctl");
	if (argc == 4 && !strcmp(what, "make")) {
		make(argv[2], atol(argv[3]));
	} else if (argc == 8 && !strcmp(what, "read")) {
		read_values(argv[2], atol(argv[3]), atof(argv[4]), atof(argv[5]),
			    strtoull(argv[6], NULL, 10), argv[7]);
	} else if (argc == 4 && !strcmp(what, "check")) {
		check(argv[2], atol(argv[3]));
	} else {
		fprintf(stderr, "wiredtiger_client make|read|check FOLDER VALUES ...\n");
		return 2;
	}
	return 0;
}
