/* SPDX-License-Identifier: MIT */
/*
 * Grow the trees of a latency model: gradient boosting (Friedman, Annals of Statistics 29, 2001)
 * with gamma deviance, on histograms.
 *
 * Trees have the form that the kernel runs (core/linnos_trees.c): complete, with integer thresholds,
 * and with leaves that are rounded to fixed-point logarithms.
 *
 * The score of a row is the natural logarithm of its prediction. With r the ratio of target to
 * prediction, the gradient of half the deviance is 1 - r and its second derivative is r. A leaf
 * takes a Newton step times the learning rate. The caller has replaced the features by the numbers
 * of bins, and a split is between two bins (linnapp/learn/booster.py).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "boost.h"
#include "linnos_model.h"

#define LB_BINS 256
#define LB_FEATURES 32
/* Minimum second derivative of a side of a split. */
#define LB_LEAST_H 1e-3

#define N_INNER ((1 << LINNOS_TREE_DEPTH) - 1)
#define N_LEAVES (1 << LINNOS_TREE_DEPTH)
#define MOST_AT_A_LEVEL (N_LEAVES / 2)

struct sum {
	double g, h;
	int64_t n;
};

struct split {
	double gain;
	int feature, bin; /* higher bins go to the right; feature -1 if there is no split */
	bool left_is_smaller;
};

struct trainer {
	const struct lb_options *o;
	const double *targets, *weights; /* weights may be NULL */
	double *scores;
	float *g, *h;
	const uint8_t *bins; /* [n_rows][n_features] */
	uint8_t *node; /* of each row, at the current level */
	struct sum (*sums)[LB_FEATURES][LB_BINS];    /* by node of the current level */
	struct sum (*parents)[LB_FEATURES][LB_BINS]; /* by node of the level above */
};

static double weight_of(const struct trainer *t, int64_t row)
{
	return t->weights ? t->weights[row] : 1;
}

/*
 * Sum gradients by node, feature and bin. Only the smaller of two siblings is summed, and the other
 * is the difference from their parent.
 */
static void sum_level(struct trainer *t, int n_nodes, const struct split *above)
{
	int n_features = t->o->n_features;
	bool summed[N_LEAVES] = { true };

	for (int at = 0; n_nodes > 1 && at < n_nodes; at++)
		summed[at] = above[at / 2].left_is_smaller == !(at % 2);
	memset(t->sums, 0, n_nodes * sizeof(*t->sums));
	for (int64_t row = 0; row < t->o->n_rows; row++) {
		const uint8_t *bins = t->bins + row * n_features;
		struct sum(*of_feature)[LB_BINS] = t->sums[t->node[row]];
		double g = t->g[row], h = t->h[row];

		if (!summed[t->node[row]])
			continue;
		for (int f = 0; f < n_features; f++, of_feature++) {
			struct sum *sum = &(*of_feature)[bins[f]];

			sum->g += g;
			sum->h += h;
			sum->n++;
		}
	}
	for (int at = 0; at < n_nodes; at++)
		for (int f = 0; !summed[at] && f < n_features; f++)
			for (int b = 0; b < LB_BINS; b++) {
				const struct sum *whole = &t->parents[at / 2][f][b];
				const struct sum *sibling = &t->sums[at ^ 1][f][b];

				t->sums[at][f][b] = (struct sum){ whole->g - sibling->g,
								  whole->h - sibling->h,
								  whole->n - sibling->n };
			}
}

static struct split best_split(const struct trainer *t, int at)
{
	struct split best = { .feature = -1, .bin = LB_BINS - 1 };
	struct sum all = { 0 };

	for (int b = 0; b < LB_BINS; b++) {
		all.g += t->sums[at][0][b].g;
		all.h += t->sums[at][0][b].h;
		all.n += t->sums[at][0][b].n;
	}
	for (int f = 0; f < t->o->n_features; f++) {
		struct sum left = { 0 };

		for (int b = 0; b + 1 < LB_BINS; b++) {
			const struct sum *sum = &t->sums[at][f][b];
			double h, gain;

			left.g += sum->g;
			left.h += sum->h;
			left.n += sum->n;
			h = all.h - left.h;
			if (left.n < t->o->min_leaf || all.n - left.n < t->o->min_leaf ||
			    left.h < LB_LEAST_H || h < LB_LEAST_H)
				continue;
			gain = left.g * left.g / left.h +
			       (all.g - left.g) * (all.g - left.g) / h - all.g * all.g / all.h;
			if (gain > best.gain)
				best = (struct split){ gain, f, b, 2 * left.n <= all.n };
		}
	}
	return best;
}

/* Set the leaves by a Newton step from the sums of their rows, and add them to the scores. */
static void fill_leaves(struct trainer *t, int16_t *leaves)
{
	const double unit = M_LN2 / (1 << LINNOS_LOG_BITS);
	struct sum sums[N_LEAVES] = { 0 };
	double steps[N_LEAVES];

	for (int64_t row = 0; row < t->o->n_rows; row++) {
		struct sum *sum = &sums[t->node[row]];

		sum->g += t->g[row];
		sum->h += t->h[row];
		sum->n++;
	}
	for (int at = 0; at < N_LEAVES; at++) {
		double step = sums[at].h > 0 ? -t->o->learning_rate * sums[at].g / sums[at].h : 0;

		/* Below a node without a split, all rows go left; the other leaves repeat that one. */
		steps[at] = sums[at].n || !at ? fmax(step, -t->o->max_step) : steps[at - 1];
		leaves[at] = lrint(steps[at] / unit);
	}
	for (int64_t row = 0; row < t->o->n_rows; row++)
		t->scores[row] += steps[t->node[row]];
}

static void grow_tree(struct trainer *t, int32_t *splits, int16_t *leaves)
{
	struct split found[2][MOST_AT_A_LEVEL];
	int n_features = t->o->n_features;

	for (int64_t row = 0; row < t->o->n_rows; row++) {
		double ratio = t->targets[row] * exp(-t->scores[row]), weight = weight_of(t, row);

		t->g[row] = weight * (1 - ratio);
		t->h[row] = weight * ratio;
	}
	memset(t->node, 0, t->o->n_rows);
	for (int level = 0; level < LINNOS_TREE_DEPTH; level++) {
		struct split *here = found[level % 2];
		void *sums = t->parents;

		t->parents = t->sums;
		t->sums = sums;
		sum_level(t, 1 << level, found[1 - level % 2]);
		for (int at = 0; at < 1 << level; at++) {
			here[at] = best_split(t, at);
			*splits++ = here[at].feature * LB_BINS + here[at].bin;
		}
		for (int64_t row = 0; row < t->o->n_rows; row++) {
			const struct split *split = &here[t->node[row]];

			t->node[row] = 2 * t->node[row] +
				       (split->feature >= 0 &&
					t->bins[row * n_features + split->feature] > split->bin);
		}
	}
	fill_leaves(t, leaves);
}

/*
 * Replace features, [n_rows][row_length], by the numbers of their bins, [n_rows][n_features]: how
 * many of a feature's @cuts, [n_features][LB_BINS], are lower. At most LB_BINS - 1 of them are.
 */
void lb_bin(const uint32_t *features, int64_t n_rows, int32_t row_length, int32_t n_features,
	    const uint32_t *cuts, uint8_t *bins)
{
	for (; n_rows--; features += row_length, bins += n_features)
		for (int f = 0; f < n_features; f++) {
			const uint32_t *at = cuts + f * LB_BINS;

			/* without a branch, which would be mispredicted half the time */
#pragma GCC unroll 8
			for (unsigned int step = LB_BINS / 2; step; step /= 2)
				at += -(at[step - 1] < features[f]) & step;
			bins[f] = at - (cuts + f * LB_BINS);
		}
}

/*
 * Grow trees from @bins, [n_rows][n_features]. @scores holds the logarithm of the constant that the
 * trees correct, and receives the scores of all rows. @splits, [n_trees][15], receives feature *
 * LB_BINS + the highest bin that goes left, or -1 if all rows go left, and @leaves, [n_trees][16],
 * the leaves as in a model file. Return false if out of memory.
 */
bool lb_boost(const struct lb_options *o, const uint8_t *bins, const double *targets,
	      const double *weights, double *scores, int32_t *splits, int16_t *leaves)
{
	struct trainer t = {
		.o = o, .targets = targets, .weights = weights, .scores = scores, .bins = bins,
		.g = malloc(o->n_rows * sizeof(float)),
		.h = malloc(o->n_rows * sizeof(float)),
		.node = malloc(o->n_rows),
		.sums = malloc(MOST_AT_A_LEVEL * sizeof(*t.sums)),
		.parents = malloc(MOST_AT_A_LEVEL * sizeof(*t.parents)),
	};
	bool has_memory = t.g && t.h && t.node && t.sums && t.parents;

	for (int tree = 0; has_memory && tree < o->n_trees; tree++)
		grow_tree(&t, splits + tree * N_INNER, leaves + tree * N_LEAVES);
	free(t.g);
	free(t.h);
	free(t.node);
	free(t.sums);
	free(t.parents);
	return has_memory;
}
