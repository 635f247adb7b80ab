/* SPDX-License-Identifier: MIT */
/*
 * Grow the trees of a latency model: gradient boosting (Friedman, Annals of Statistics 29, 2001)
 * with gamma deviance, on histograms.
 *
 * Trees have the form that the kernel runs (core/linnos_latency.c): complete, with integer
 * thresholds, and with leaves that are rounded to fixed-point logarithms.
 *
 * The score of a row is the natural logarithm of its prediction. With r the ratio of target to
 * prediction, the gradient of half the deviance is 1 - r and its second derivative is r. A leaf
 * takes a Newton step times the learning rate. The caller has replaced the features by the numbers
 * of bins, and a split is between two bins (linnapp/learn/trees.py).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "boost.h"
#include "linnos_model.h"

#define LB_BINS 256
/* Minimum second derivative of a side of a split. */
#define LB_LEAST_H 1e-3
/* Number of rows that are processed at a time, so that they stay in the cache. */
#define BLOCK_ROWS 512

#define N_INNER ((1 << LINNOS_TREE_DEPTH) - 1)
#define N_LEAVES (1 << LINNOS_TREE_DEPTH)
#define MOST_AT_A_LEVEL (N_LEAVES / 2)

/* A gradient and a second derivative, or their sums. One instruction adds both. */
typedef double pair __attribute__((vector_size(2 * sizeof(double))));

/*
 * Sums by feature and bin. The length of a row is not a power of two, because a processor delays
 * loads after stores whose addresses have the same low bits.
 */
struct sums {
	pair gh[LINNOS_N_FEATURES][LB_BINS + 4];
	int32_t n[LINNOS_N_FEATURES][LB_BINS + 4];
};

struct split {
	double gain;
	int feature, bin; /* higher bins go to the right; no bin is higher if there is no split */
	bool left_is_smaller;
};

struct trainer {
	const struct lb_options *o;
	const double *targets, *weights; /* weights may be NULL */
	double *scores;
	float *g, *h;
	const uint8_t (*bins)[LINNOS_N_FEATURES]; /* of each row */
	uint8_t *node; /* of each row, at the current level */
	struct sums *sums; /* by node of the current level */
	struct sums *parents; /* by node of the level above */
	struct sums *counts; /* only the numbers of all rows */
};

static double weight_of(const struct trainer *t, int64_t row)
{
	return t->weights ? t->weights[row] : 1;
}

/* Move rows to the children of their nodes. */
static void descend(struct trainer *t, const struct split *splits, int64_t row, int64_t end)
{
	for (; row < end; row++) {
		const struct split *split = &splits[t->node[row]];

		t->node[row] = 2 * t->node[row] + (t->bins[row][split->feature] > split->bin);
	}
}

/* Add a row to the sums of its node, and count it if @counts. */
static inline __attribute__((always_inline)) void add_row(struct sums *sums,
		const struct trainer *t, int64_t row, bool counts)
{
	pair gh = { t->g[row], t->h[row] };

#pragma GCC unroll 32
	for (int f = 0; f < LINNOS_N_FEATURES; f++) {
		unsigned int bin = t->bins[row][f];

		sums->gh[f][bin] += gh;
		if (counts)
			sums->n[f][bin]++;
	}
}

/* Sum gradients of all rows by feature and bin. */
static void sum_root(struct trainer *t)
{
	*t->sums = *t->counts;
	for (int64_t row = 0; row < t->o->n_rows; row++)
		add_row(t->sums, t, row, false);
}

/*
 * Move rows to the next level, and sum gradients by node, feature and bin. Only the smaller of two
 * siblings is summed, and the other is the difference from their parent.
 */
static void sum_level(struct trainer *t, int n_nodes, const struct split *above)
{
	bool summed[N_LEAVES];

	for (int at = 0; at < n_nodes; at++)
		summed[at] = above[at / 2].left_is_smaller == !(at % 2);
	memset(t->sums, 0, n_nodes * sizeof(*t->sums));
	for (int64_t start = 0; start < t->o->n_rows; start += BLOCK_ROWS) {
		int64_t end = MIN(start + BLOCK_ROWS, t->o->n_rows);
		int64_t rows[BLOCK_ROWS];
		int n = 0;

		descend(t, above, start, end);
		/* without a branch, which would often be mispredicted */
		for (int64_t row = start; row < end; row++) {
			rows[n] = row;
			n += summed[t->node[row]];
		}
		for (int i = 0; i < n; i++)
			add_row(&t->sums[t->node[rows[i]]], t, rows[i], true);
	}
	for (int at = 0; at < n_nodes; at++)
		for (int f = 0; !summed[at] && f < t->o->n_features; f++)
			for (int b = 0; b < LB_BINS; b++) {
				const struct sums *whole = &t->parents[at / 2];
				const struct sums *sibling = &t->sums[at ^ 1];

				t->sums[at].gh[f][b] = whole->gh[f][b] - sibling->gh[f][b];
				t->sums[at].n[f][b] = whole->n[f][b] - sibling->n[f][b];
			}
}

static struct split best_split(const struct trainer *t, const struct sums *sums)
{
	struct split best = { .feature = 0, .bin = LB_BINS - 1 };
	pair all = { 0 };
	int64_t n = 0;

	for (int b = 0; b < LB_BINS; b++) {
		all += sums->gh[0][b];
		n += sums->n[0][b];
	}
	for (int f = 0; f < t->o->n_features; f++) {
		pair left = { 0 };
		int64_t n_left = 0;

		for (int b = 0; b + 1 < LB_BINS; b++) {
			pair right;
			double gain;

			left += sums->gh[f][b];
			n_left += sums->n[f][b];
			right = all - left;
			if (n_left < t->o->min_leaf || n - n_left < t->o->min_leaf ||
			    left[1] < LB_LEAST_H || right[1] < LB_LEAST_H)
				continue;
			gain = left[0] * left[0] / left[1] + right[0] * right[0] / right[1] -
			       all[0] * all[0] / all[1];
			if (gain > best.gain)
				best = (struct split){ gain, f, b, 2 * n_left <= n };
		}
	}
	return best;
}

/* Set the leaves by a Newton step from the sums of their rows, and add them to the scores. */
static void fill_leaves(struct trainer *t, const struct split *above, int16_t *leaves)
{
	const double unit = M_LN2 / (1 << LINNOS_LOG_BITS);
	pair sums[N_LEAVES] = { 0 };
	int64_t n[N_LEAVES] = { 0 };
	double steps[N_LEAVES];

	descend(t, above, 0, t->o->n_rows);
	for (int64_t row = 0; row < t->o->n_rows; row++) {
		sums[t->node[row]] += (pair){ t->g[row], t->h[row] };
		n[t->node[row]]++;
	}
	for (int at = 0; at < N_LEAVES; at++) {
		double step = sums[at][1] > 0 ? -t->o->learning_rate * sums[at][0] / sums[at][1] : 0;

		/* Below a node without a split, all rows go left; the other leaves repeat that one. */
		steps[at] = n[at] || !at ? fmax(step, -t->o->max_step) : steps[at - 1];
		leaves[at] = lrint(steps[at] / unit);
	}
	for (int64_t row = 0; row < t->o->n_rows; row++)
		t->scores[row] += steps[t->node[row]];
}

static void grow_tree(struct trainer *t, int32_t *splits, int16_t *leaves)
{
	struct split found[2][MOST_AT_A_LEVEL];

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
		if (level)
			sum_level(t, 1 << level, found[1 - level % 2]);
		else
			sum_root(t);
		for (int at = 0; at < 1 << level; at++) {
			here[at] = best_split(t, &t->sums[at]);
			*splits++ = here[at].gain > 0 ? here[at].feature * LB_BINS + here[at].bin : -1;
		}
	}
	fill_leaves(t, found[1 - LINNOS_TREE_DEPTH % 2], leaves);
}

/*
 * Replace features, [n_rows][LINNOS_N_FEATURES], by the numbers of their bins: how many of a
 * feature's @cuts, [LINNOS_N_FEATURES][LB_BINS], are lower. At most LB_BINS - 1 of them are.
 */
void lb_bin(const uint32_t *features, int64_t n_rows, const uint32_t *cuts, uint8_t *bins)
{
	for (; n_rows--; features += LINNOS_N_FEATURES, bins += LINNOS_N_FEATURES) {
		unsigned int at[LINNOS_N_FEATURES] = { 0 };

		/*
		 * Binary searches, without a branch, which would be mispredicted half the time. A
		 * processor does those of all features at once.
		 */
		for (unsigned int step = LB_BINS / 2; step; step /= 2)
#pragma GCC unroll 32
			for (int f = 0; f < LINNOS_N_FEATURES; f++)
				at[f] += -(cuts[f * LB_BINS + at[f] + step - 1] < features[f]) & step;
		for (int f = 0; f < LINNOS_N_FEATURES; f++)
			bins[f] = at[f];
	}
}

/*
 * Grow trees from @bins, [n_rows][LINNOS_N_FEATURES]. @scores holds the logarithm of the constant
 * that the trees correct, and receives the scores of all rows. @splits, [n_trees][15], receives
 * feature * LB_BINS + the highest bin that goes left, or -1 if all rows go left, and @leaves,
 * [n_trees][16], the leaves as in a model file. Return false if out of memory.
 */
bool lb_boost(const struct lb_options *o, const uint8_t *bins, const double *targets,
	      const double *weights, double *scores, int32_t *splits, int16_t *leaves)
{
	struct trainer t = {
		.o = o, .targets = targets, .weights = weights, .scores = scores,
		.bins = (const uint8_t (*)[LINNOS_N_FEATURES])bins,
		.g = malloc(o->n_rows * sizeof(float)),
		.h = malloc(o->n_rows * sizeof(float)),
		.node = malloc(o->n_rows),
		.sums = malloc(MOST_AT_A_LEVEL * sizeof(*t.sums)),
		.parents = malloc(MOST_AT_A_LEVEL * sizeof(*t.parents)),
		.counts = calloc(1, sizeof(*t.counts)),
	};
	bool has_memory = t.g && t.h && t.node && t.sums && t.parents && t.counts;

	for (int64_t row = 0; has_memory && row < o->n_rows; row++)
		for (int f = 0; f < LINNOS_N_FEATURES; f++)
			t.counts->n[f][t.bins[row][f]]++;
	for (int tree = 0; has_memory && tree < o->n_trees; tree++)
		grow_tree(&t, splits + tree * N_INNER, leaves + tree * N_LEAVES);
	free(t.g);
	free(t.h);
	free(t.node);
	free(t.sums);
	free(t.parents);
	free(t.counts);
	return has_memory;
}
