// SPDX-License-Identifier: MIT
/* Read latency over the run: see series.h. */
#include "series.h"
#include "error.h"
#include "histogram.h"
#include "latency.h"

#include <math.h>
#include <stdlib.h>

#define HISTOGRAM_BITS 6 /* a percentile has an error of at most 1/64 */

struct values {
	uint64_t sum_ns, max_ns;
	struct histogram histogram;
};

struct series {
	uint64_t interval_ns;
	uint64_t interval, reads; /* the current interval */
	struct values service, response;
	struct series_row *rows;
	uint64_t n, allocated;
};

struct series *series_new(double interval_s)
{
	struct series *s = xcalloc(1, sizeof(*s));

	s->interval_ns = interval_s * 1e9;
	if (!histogram_init(&s->service.histogram, HISTOGRAM_BITS) ||
	    !histogram_init(&s->response.histogram, HISTOGRAM_BITS))
		die("out of memory");
	return s;
}

void series_free(struct series *s)
{
	if (!s)
		return;
	histogram_free(&s->service.histogram);
	histogram_free(&s->response.histogram);
	free(s->rows);
	free(s);
}

static double percentile_us(const struct values *v, uint64_t count, double fraction)
{
	uint64_t value;

	if (!latency_is_enough(count, fraction))
		return NAN;
	value = histogram_at_rank(&v->histogram, nearest_rank(count, fraction));
	return (double)(value > v->max_ns ? v->max_ns : value) / 1000;
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

static void clear(struct values *v)
{
	v->sum_ns = v->max_ns = 0;
	histogram_clear(&v->histogram);
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
	clear(&s->service);
	clear(&s->response);
}

static void add(struct values *v, uint64_t ns)
{
	histogram_add(&v->histogram, ns);
	v->sum_ns += ns;
	if (ns > v->max_ns)
		v->max_ns = ns;
}

void series_add(struct series *s, uint64_t at_ns, uint64_t service_ns, uint64_t response_ns)
{
	uint64_t interval = at_ns / s->interval_ns;

	/* Completions found at the same time share a timestamp, so that time never goes back. */
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
