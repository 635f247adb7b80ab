// SPDX-License-Identifier: MIT
/* Latencies and their percentiles in bounded memory: see latency.h. */
#include "latency.h"
#include "error.h"

#include <stdlib.h>
#include <string.h>

#define HISTOGRAM_BITS 11   /* a percentile has an error of at most 1/2048 */
#define CHUNK_VALUES 65536u /* 256 KiB */

void latency_init(struct latency *l, uint32_t exact_max)
{
	memset(l, 0, sizeof(*l));
	l->min_ns = UINT64_MAX;
	l->exact_max = exact_max;
	l->exact = exact_max;
	if (!histogram_init(&l->histogram, HISTOGRAM_BITS))
		die("out of memory");
	l->chunks = xcalloc(exact_max / CHUNK_VALUES + 1, sizeof(*l->chunks));
}

void latency_free(struct latency *l)
{
	while (l->n_chunks)
		free(l->chunks[--l->n_chunks]);
	free(l->chunks);
	free(l->sorted);
	histogram_free(&l->histogram);
	memset(l, 0, sizeof(*l));
}

static void store_value(struct latency *l, uint32_t ns)
{
	if (l->count == (uint64_t)l->n_chunks * CHUNK_VALUES)
		l->chunks[l->n_chunks++] = xcalloc(CHUNK_VALUES, sizeof(**l->chunks));
	l->chunks[l->count / CHUNK_VALUES][l->count % CHUNK_VALUES] = ns;
}

void latency_add(struct latency *l, uint64_t ns)
{
	histogram_add(&l->histogram, ns);
	/* A value of 4.3 s or more does not fit a u32. */
	if (l->count >= l->exact_max || ns > UINT32_MAX)
		l->exact = false;
	if (l->exact)
		store_value(l, ns);
	else if (l->n_chunks)
		free(l->chunks[--l->n_chunks]);
	l->count++;
	l->sum_ns += ns;
	if (ns < l->min_ns)
		l->min_ns = ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

void latency_merge(struct latency *l, const struct latency *other)
{
	uint32_t last = histogram_bucket(&l->histogram, UINT64_MAX);

	if (other->exact) {
		for (uint64_t i = 0; i < other->count; i++)
			latency_add(l, other->chunks[i / CHUNK_VALUES][i % CHUNK_VALUES]);
		return;
	}
	for (uint32_t b = 0; b <= last; b++)
		l->histogram.counts[b] += other->histogram.counts[b];
	l->exact = false;
	l->count += other->count;
	l->sum_ns += other->sum_ns;
	if (other->min_ns < l->min_ns)
		l->min_ns = other->min_ns;
	if (other->max_ns > l->max_ns)
		l->max_ns = other->max_ns;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void sort(struct latency *l)
{
	if (l->n_sorted == l->count)
		return;
	free(l->sorted);
	l->sorted = xcalloc(l->count, sizeof(*l->sorted));
	for (uint64_t i = 0; i < l->count; i += CHUNK_VALUES)
		memcpy(l->sorted + i, l->chunks[i / CHUNK_VALUES],
		       (l->count - i < CHUNK_VALUES ? l->count - i : CHUNK_VALUES) *
			       sizeof(*l->sorted));
	qsort(l->sorted, l->count, sizeof(*l->sorted), by_value);
	l->n_sorted = l->count;
}

uint64_t latency_percentile(struct latency *l, double fraction)
{
	uint64_t rank, value;

	if (!l->count)
		return 0;
	rank = nearest_rank(l->count, fraction);
	if (l->exact) {
		sort(l);
		return l->sorted[rank - 1];
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
