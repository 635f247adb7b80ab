// SPDX-License-Identifier: MIT
/* Latencies and their percentiles in bounded memory: see latency.h. */
#include "latency.h"
#include "error.h"

#include <stdlib.h>

#define HISTOGRAM_BITS 11 /* a percentile has an error of at most 1/2048 */

void latency_init(struct latency *l, uint32_t exact_max)
{
	*l = (struct latency){.min_ns = UINT64_MAX, .exact_max = exact_max, .exact = exact_max};
	if (!histogram_init(&l->histogram, HISTOGRAM_BITS))
		die("out of memory");
	if (exact_max)
		l->values = xcalloc(exact_max, sizeof(*l->values));
}

void latency_free(struct latency *l)
{
	free(l->values);
	histogram_free(&l->histogram);
}

/* From now on, percentiles are read from the histogram. */
static void drop_values(struct latency *l)
{
	free(l->values);
	l->values = NULL;
	l->exact = false;
}

void latency_add(struct latency *l, uint64_t ns)
{
	histogram_add(&l->histogram, ns);
	/* A value of 4.3 s or more does not fit a u32. */
	if (l->exact && (l->count >= l->exact_max || ns > UINT32_MAX))
		drop_values(l);
	if (l->exact)
		l->values[l->count] = ns;
	l->is_sorted = false;
	l->count++;
	l->sum_ns += ns;
	if (ns < l->min_ns)
		l->min_ns = ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t latency_percentile(struct latency *l, double fraction)
{
	uint64_t rank, value;

	if (!l->count)
		return 0;
	rank = nearest_rank(l->count, fraction);
	if (l->exact) {
		if (!l->is_sorted)
			qsort(l->values, l->count, sizeof(*l->values), by_value);
		l->is_sorted = true;
		return l->values[rank - 1];
	}
	if (rank == l->count)
		return l->max_ns;
	value = histogram_at_rank(&l->histogram, rank);
	return value > l->max_ns ? l->max_ns : value < l->min_ns ? l->min_ns : value;
}

double latency_mean(const struct latency *l)
{
	return l->count ? (double)l->sum_ns / (double)l->count : 0;
}
