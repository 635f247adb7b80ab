/* SPDX-License-Identifier: MIT */
/*
 * Read latency over the run, interval by interval, in the order of completion.
 *
 * Only intervals in which a read was answered are kept, 80 bytes each. Within one, values go to a
 * histogram of 64 buckets per power of two, so that closing it takes a few microseconds, and a
 * percentile is off by at most 1/64 of itself; mean and maximum are exact.
 */
#ifndef REPLAYER_SERIES_H
#define REPLAYER_SERIES_H

#include <stdint.h>

struct series_column { /* NaN: unknown, of too few reads */
	double mean_us, p50_us, p99_us, max_us;
};

struct series_row {
	uint64_t interval; /* from the run's start on */
	uint64_t reads;
	struct series_column service, response;
};

struct series;

struct series *series_new(double interval_s);
void series_free(struct series *s);
/* A read was answered so long after the run's start. */
void series_add(struct series *s, uint64_t at_ns, uint64_t service_ns, uint64_t response_ns);
/* All rows, the last interval's included; how many. */
uint64_t series_rows(struct series *s, const struct series_row **rows);

#endif
