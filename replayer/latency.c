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
	if (!exact_max)
		l->buckets = xcalloc(N_BUCKETS, sizeof(*l->buckets));
}

void latency_free(struct latency *l)
{
	free(l->values);
	free(l->buckets);
	memset(l, 0, sizeof(*l));
}

static void move_to_histogram(struct latency *l)
{
	l->buckets = xcalloc(N_BUCKETS, sizeof(*l->buckets));
	for (uint64_t i = 0; i < l->count; i++)
		l->buckets[bucket_of(l->values[i])]++;
	free(l->values);
	l->values = NULL;
}

void latency_add(struct latency *l, uint64_t ns)
{
	/* A value of 4.3 s and more does not fit a u32: it takes the histogram with it. */
	if (!l->buckets && (l->count == l->exact_max || ns > UINT32_MAX))
		move_to_histogram(l);
	if (l->buckets) {
		l->buckets[bucket_of(ns)]++;
	} else {
		if (l->count == l->allocated) {
			l->allocated = l->allocated ? l->allocated * 2 : 4096;
			l->values = realloc(l->values, l->allocated * sizeof(*l->values));
			if (!l->values)
				die("out of memory for %u latencies", l->allocated);
		}
		l->values[l->count] = ns;
		l->sorted = false;
	}
	l->count++;
	l->sum_ns += ns;
	if (ns < l->min_ns)
		l->min_ns = ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

bool latency_is_exact(const struct latency *l)
{
	return !l->buckets;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
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
	if (!l->buckets) {
		if (!l->sorted) {
			qsort(l->values, l->count, sizeof(*l->values), by_value);
			l->sorted = true;
		}
		return l->values[rank - 1];
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
