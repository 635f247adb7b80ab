// SPDX-License-Identifier: MIT
/* Statistics from the per-I/O log of an earlier run: see profile.h. */
#include "profile.h"
#include "error.h"
#include "results/io_log.h"
#include "results/latency.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The maximum number of I/Os held in memory for the queue lengths; the rest of a longer log is
 * ignored.
 */
#define QUEUE_IOS_MAX (4u << 20)

static FILE *open_log(const char *path)
{
	struct log_header h;
	FILE *f = fopen(path, "rbe");

	if (!f)
		die("profile %s: %s", path, strerror(errno));
	if (fread(&h, sizeof(h), 1, f) != 1 || memcmp(h.magic, LOG_MAGIC, 8) ||
	    h.version != LOG_VERSION || h.record_bytes != sizeof(struct log_record))
		die("profile %s: not a per-I/O log of version %d; `replayer --policy baseline "
		    "--log L` writes one",
		    path, LOG_VERSION);
	return f;
}

static bool next_record(FILE *f, const char *path, struct log_record *record)
{
	size_t n = fread(record, 1, sizeof(*record), f);

	if (n && n != sizeof(*record))
		die("profile %s: truncated: ends inside a record", path);
	return n;
}

double profile_percentile_us(const char *path, double fraction)
{
	struct log_record record;
	struct latency reads;
	FILE *f = open_log(path);
	double us;

	latency_init(&reads, LATENCY_EXACT_MAX);
	while (next_record(f, path, &record))
		if (!record.op && record.served_by != SERVED_BY_NONE)
			latency_add(&reads, record.latency_ns);
	fclose(f);
	if (!reads.count)
		die("profile %s: holds no reads", path);
	us = (double)latency_percentile(&reads, fraction) / 1000;
	latency_free(&reads);
	return us;
}

struct event { /* an I/O arrives at a drive or leaves it */
	uint64_t at_ns;
	int32_t pages; /* negative if it leaves */
	uint8_t drive;
	bool read;
};

/* At the same time, departures come first. */
static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return (x->pages > 0) - (y->pages > 0);
}

uint32_t profile_pending_pages(const char *path, double fraction)
{
	struct event *events = xcalloc(2ul * QUEUE_IOS_MAX, sizeof(*events));
	struct log_record record;
	struct latency found;
	int64_t pending[256] = {0};
	FILE *f = open_log(path);
	uint32_t n = 0, pages, instant = 0; /* index of the first I/O with the same arrival time */

	while (n < 2 * QUEUE_IOS_MAX && next_record(f, path, &record)) {
		uint64_t at = record.due_ns + record.lag_ns;

		pages = (record.size_bytes + 4095) / 4096;
		events[n++] = (struct event){at, pages, record.home, !record.op};
		events[n++] =
			(struct event){at + record.latency_ns, -(int32_t)pages, record.home, false};
	}
	fclose(f);
	qsort(events, n, sizeof(*events), by_time);
	latency_init(&found, LATENCY_EXACT_MAX);
	/*
	 * I/Os that arrive together do not count each other, because a log is in the order of
	 * completion.
	 */
	for (uint32_t i = 0; i < n; i++) {
		if (events[i].read)
			latency_add(&found, pending[events[i].drive] + events[i].pages);
		if (i + 1 < n && !by_time(&events[i], &events[i + 1]))
			continue;
		for (; instant <= i; instant++)
			pending[events[instant].drive] += events[instant].pages;
	}
	free(events);
	if (!found.count)
		die("profile %s: holds no reads", path);
	pages = latency_percentile(&found, fraction);
	latency_free(&found);
	return pages;
}
