/* SPDX-License-Identifier: MIT */
/*
 * Read latency over the run, by interval, in the order of completion.
 *
 * Only intervals in which a read was answered are stored, with 80 bytes each. Within an interval,
 * values are counted in a histogram with 64 buckets per power of two. Closing an interval therefore
 * takes a few microseconds, and a percentile has a relative error of at most 1/64; mean and maximum
 * are exact.
 */
#ifndef REPLAYER_SERIES_H
#define REPLAYER_SERIES_H

#include <stdint.h>

struct series_column { /* NaN if there are too few reads */
	double mean_us, p50_us, p99_us, max_us;
};

struct series_row {
	uint64_t interval; /* number from the start of the run */
	uint64_t reads;
	struct series_column service, response;
};

struct series;

struct series *series_new(double interval_s);
void series_free(struct series *s);
/* Add a read that was answered at at_ns from the start of the run. */
void series_add(struct series *s, uint64_t at_ns, uint64_t service_ns, uint64_t response_ns);
/* Return the number of rows, including the last interval, and set *rows. */
uint64_t series_rows(struct series *s, const struct series_row **rows);

#endif
