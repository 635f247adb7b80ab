// SPDX-License-Identifier: MIT
/* What a node's reads take in the mean: see fit.h. */
#include "fit.h"

#include <math.h>

/* The last hundred or so count. */
#define KEPT (1 - 1.0 / 128)
/* As many as take what is usual are taken to have been seen before. */
#define PRIOR 24
/* And as if in this sum of squares there had been no slope. */
#define PRIOR_SQUARE 2
/* Further, in doublings, nothing is told, and nothing took: a tail would draw the line. */
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
