// SPDX-License-Identifier: MIT
/* Mean latency of a node's reads: see fit.h. */
#include "fit.h"

#include <math.h>

/* The weight of old reads after each read; about the last hundred reads count. */
#define KEPT (1 - 1.0 / 128)
/* The prior: this number of reads at the median. */
#define PRIOR 24
/* The prior of the slope is 0, with this sum of squares. */
#define PRIOR_SQUARE 2
/* Limits of reports and latencies, in doublings: an outlier would dominate the regression. */
#define TOLD_LEAST (-2.0)
#define TOLD_MOST 3.0
#define TOOK_MOST 2.0

static double within(double value, double most)
{
	return fmin(fmax(value, TOLD_LEAST), most);
}

double fit_expect(const struct fit *f, double told)
{
	double mean = 1 + (f->ratio - 1) * f->n / (f->n + PRIOR);
	double slope = fmin(fmax(f->product / (f->square + PRIOR_SQUARE), 0), 1);

	if (told <= 0)
		return mean;
	return mean * exp2(slope * (within(log2(told), TOLD_MOST) - f->told));
}

void fit_fade(struct fit *f, double left)
{
	f->n *= left;
	f->n_told *= left;
	f->square *= left;
	f->product *= left;
}

void fit_learn(struct fit *f, double told, double ratio)
{
	double by, took = within(log2(ratio), TOOK_MOST);

	fit_fade(f, KEPT);
	f->n++;
	f->ratio += (ratio - f->ratio) / f->n;
	if (told <= 0)
		return;
	told = within(log2(told), TOLD_MOST);
	f->n_told++;
	by = told - f->told;
	f->told += by / f->n_told;
	f->took += (took - f->took) / f->n_told;
	f->square += by * (told - f->told);
	f->product += by * (took - f->took);
}
