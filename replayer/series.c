// SPDX-License-Identifier: MIT
/* Read latency over the run: see series.h. */
#include "series.h"
#include "error.h"
#include "latency.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB_BITS 6
#define SUB_BUCKETS (1u << SUB_BITS)
#define N_BUCKETS ((64 - SUB_BITS + 1) * SUB_BUCKETS)

struct values {
	uint64_t sum_ns, max_ns;
	uint32_t buckets[N_BUCKETS];
};

struct series {
	uint64_t interval_ns;
	uint64_t interval, reads; /* the open one */
	struct values service, response;
	struct series_row *rows;
	uint64_t n, allocated;
};

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

	if (b < SUB_BUCKETS)
		return b;
	shift = b / SUB_BUCKETS - 1;
	return (((uint64_t)(b % SUB_BUCKETS) + SUB_BUCKETS) << shift) + ((1ull << shift) >> 1);
}

struct series *series_new(double interval_s)
{
	struct series *s = xcalloc(1, sizeof(*s));

	s->interval_ns = interval_s * 1e9;
	return s;
}

void series_free(struct series *s)
{
	if (s)
		free(s->rows);
	free(s);
}

static double percentile_us(const struct values *v, uint64_t count, double fraction)
{
	uint64_t rank = (uint64_t)ceil(fraction * (double)count - 1e-9), seen = 0;

	if (!latency_is_enough(count, fraction))
		return NAN;
	for (uint32_t b = 0; b < N_BUCKETS; b++) {
		seen += v->buckets[b];
		if (seen >= rank) {
			uint64_t value = bucket_value(b);

			return (double)(value > v->max_ns ? v->max_ns : value) / 1000;
		}
	}
	return (double)v->max_ns / 1000;
}

static struct series_column column(const struct values *v, uint64_t count)
{
	return (struct series_column){
		.mean_us = (double)v->sum_ns / (double)count / 1000,
		.p50_us = percentile_us(v, count, 0.5),
		.p99_us = percentile_us(v, count, 0.99),
		.max_us = (double)v->max_ns / 1000,
	};
}

static void close_interval(struct series *s)
{
	if (!s->reads)
		return;
	if (s->n == s->allocated) {
		s->allocated = s->allocated ? s->allocated * 2 : 64;
		s->rows = realloc(s->rows, s->allocated * sizeof(*s->rows));
		if (!s->rows)
			die("out of memory for %llu intervals; --interval makes them longer",
			    (unsigned long long)s->allocated);
	}
	s->rows[s->n++] = (struct series_row){
		.interval = s->interval,
		.reads = s->reads,
		.service = column(&s->service, s->reads),
		.response = column(&s->response, s->reads),
	};
	s->reads = 0;
	memset(&s->service, 0, sizeof(s->service));
	memset(&s->response, 0, sizeof(s->response));
}

static void add(struct values *v, uint64_t ns)
{
	v->buckets[bucket_of(ns)]++;
	v->sum_ns += ns;
	if (ns > v->max_ns)
		v->max_ns = ns;
}

void series_add(struct series *s, uint64_t at_ns, uint64_t service_ns, uint64_t response_ns)
{
	uint64_t interval = at_ns / s->interval_ns;

	/* Completions of one look at the ring share a time, so that none goes back. */
	if (interval > s->interval) {
		close_interval(s);
		s->interval = interval;
	}
	s->reads++;
	add(&s->service, service_ns);
	add(&s->response, response_ns);
}

uint64_t series_rows(struct series *s, const struct series_row **rows)
{
	close_interval(s);
	*rows = s->rows;
	return s->n;
}
