/* SPDX-License-Identifier: MIT */
/*
 * Make a table of WiredTiger, and read and compare values of it by key. Runs in the guest.
 *
 *	wiredtiger_client make FOLDER VALUES
 *	wiredtiger_client read FOLDER VALUES RATE SECONDS SEED REPORT
 *	wiredtiger_client check FOLDER VALUES
 *
 * Reads arrive at a rate (Poisson), independent of earlier reads. REPORT gets a line for each read:
 * its due time in us from the start, and the time from then until its value was there.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "wiredtiger_values.h"

/*
 * Like a collection of MongoDB: keys are numbers, values bytes, leaves have at most 32 KiB (also
 * WiredTiger's default). MongoDB would compress them; these bytes cannot be compressed.
 */
#define TABLE_CONFIG "key_format=q,value_format=u,checksum=on,leaf_page_max=32KB"

#define MAKE_CONFIG "create,cache_size=256MB"

struct reader {
	WT_CONNECTION *connection;
	struct reads reads;
	atomic_long turn, wrong;
};

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
	/* in the order of the keys, so that leaves are full */
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

/* A thread that does the next read when it is due. */
static void *read_in_turn(void *of)
{
	struct reader *reader = of;
	WT_CURSOR *cursor = cursor_of(reader->connection, NULL);
	long i;

	while ((i = atomic_fetch_add(&reader->turn, 1)) < reader->reads.n) {
		int64_t key = reader->reads.keys[i];
		WT_ITEM item;

		sleep_until(due_ns(&reader->reads, i));
		cursor->set_key(cursor, key);
		must(cursor->search(cursor), "search");
		must(cursor->get_value(cursor, &item), "value");
		answered(&reader->reads, i, now_ns());
		reader->wrong += differs(cursor, key);
		/* release the leaf */
		must(cursor->reset(cursor), "reset");
	}
	return NULL;
}

static void read_values(const char *folder, char **load, const char *report)
{
	struct reader reader = {0};
	pthread_t threads[THREADS];

	must(wiredtiger_open(folder, NULL, READ_CONFIG, &reader.connection), folder);
	reads_draw(&reader.reads, load);
	for (int k = 0; k < THREADS; k++)
		must(pthread_create(&threads[k], NULL, read_in_turn, &reader), "thread");
	for (int k = 0; k < THREADS; k++)
		pthread_join(threads[k], NULL);
	must(reader.connection->close(reader.connection, NULL), folder);
	if (reader.wrong) {
		fprintf(stderr, "%s: %ld values are wrong\n", folder, (long)reader.wrong);
		exit(1);
	}
	reads_report(&reader.reads, report);
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

	sleep_exactly();
	if (argc == 4 && !strcmp(what, "make")) {
		make(argv[2], atol(argv[3]));
	} else if (argc == 8 && !strcmp(what, "read")) {
		read_values(argv[2], argv + 3, argv[7]);
	} else if (argc == 4 && !strcmp(what, "check")) {
		check(argv[2], atol(argv[3]));
	} else {
		fprintf(stderr, "wiredtiger_client make|read|check FOLDER VALUES ...\n");
		return 2;
	}
	return 0;
}
