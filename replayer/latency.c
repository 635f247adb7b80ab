// SPDX-License-Identifier: MIT
/* Latencies and their percentiles in bounded memory: see latency.h. */
#include "latency.h"
#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB_BITS 11
#define SUB_BUCKETS (1u << SUB_BITS)
#define N_BUCKETS ((64 - SUB_BITS + 1) * SUB_BUCKETS)

#define CHUNK_VALUES 65536u /* 256 KiB */

/* Values below 2048 ns have a bucket each; above, the top 12 bits choose it. */
static uint32_t bucket_of(uint64_t v)
{
	unsigned int shift;

	if (v < SUB_BUCKETS)
		return v;
	shift = 63 - __builtin_clzll(v) - SUB_BITS;
	return (shift + 1) * SUB_BUCKETS + ((v >> shift) - SUB_BUCKETS);
}

/* The middle of a bucket. */
static uint64_t bucket_value(uint32_t b)
{
	unsigned int shift;
	uint64_t low;

	if (b < SUB_BUCKETS)
		return b;
	shift = b / SUB_BUCKETS - 1;
	low = ((uint64_t)(b % SUB_BUCKETS) + SUB_BUCKETS) << shift;
	return low + ((1ull << shift) >> 1);
}

void latency_init(struct latency *l, uint32_t exact_max)
{
	memset(l, 0, sizeof(*l));
	l->min_ns = UINT64_MAX;
	l->exact_max = exact_max;
	l->exact = exact_max;
	l->buckets = xcalloc(N_BUCKETS, sizeof(*l->buckets));
	l->chunks = xcalloc(exact_max / CHUNK_VALUES + 1, sizeof(*l->chunks));
}

void latency_free(struct latency *l)
{
	while (l->n_chunks)
		free(l->chunks[--l->n_chunks]);
	free(l->chunks);
	free(l->sorted);
	free(l->buckets);
	memset(l, 0, sizeof(*l));
}

static void keep(struct latency *l, uint32_t ns)
{
	if (l->count == (uint64_t)l->n_chunks * CHUNK_VALUES)
		l->chunks[l->n_chunks++] = xmalloc(CHUNK_VALUES * sizeof(**l->chunks));
	l->chunks[l->count / CHUNK_VALUES][l->count % CHUNK_VALUES] = ns;
}

void latency_add(struct latency *l, uint64_t ns)
{
	l->buckets[bucket_of(ns)]++;
	/* A value of 4.3 s and more does not fit a u32. */
	if (l->count >= l->exact_max || ns > UINT32_MAX)
		l->exact = false;
	if (l->exact)
		keep(l, ns);
	else if (l->n_chunks)
		free(l->chunks[--l->n_chunks]);
	l->count++;
	l->sum_ns += ns;
	if (ns < l->min_ns)
		l->min_ns = ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

bool latency_is_exact(const struct latency *l)
{
	return l->exact;
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
	l->sorted = xmalloc(l->count * sizeof(*l->sorted));
	for (uint64_t i = 0; i < l->count; i += CHUNK_VALUES)
		memcpy(l->sorted + i, l->chunks[i / CHUNK_VALUES],
		       (l->count - i < CHUNK_VALUES ? l->count - i : CHUNK_VALUES) *
			       sizeof(*l->sorted));
	qsort(l->sorted, l->count, sizeof(*l->sorted), by_value);
	l->n_sorted = l->count;
}

uint64_t latency_percentile(struct latency *l, double fraction)
{
	uint64_t rank, seen = 0;

	if (!l->count)
		return 0;
	/* The small subtraction keeps 0.95 * 100 from becoming rank 96. */
	rank = (uint64_t)ceil(fraction * (double)l->count - 1e-9);
	if (rank < 1)
		rank = 1;
	if (rank > l->count)
		rank = l->count;
	if (l->exact) {
		sort(l);
		return l->sorted[rank - 1];
	}
	if (rank == l->count)
		return l->max_ns;
	for (uint32_t b = 0; b < N_BUCKETS; b++) {
		seen += l->buckets[b];
		if (seen >= rank) {
			uint64_t v = bucket_value(b);

			return v > l->max_ns ? l->max_ns : v < l->min_ns ? l->min_ns : v;
		}
	}
	return l->max_ns;
}

double latency_mean(const struct latency *l)
{
	return l->count ? (double)l->sum_ns / (double)l->count : 0;
}
