/* SPDX-License-Identifier: MIT */
/* Gradient boosting of the trees of a latency model: see boost.c. */
#ifndef LINNAPP_BOOST_H
#define LINNAPP_BOOST_H

#include <stdbool.h>
#include <stdint.h>

struct lb_options {
	int64_t n_rows;
	int32_t n_features;
	int32_t n_trees;
	int32_t min_leaf; /* least number of rows in a leaf */
	double learning_rate;
	double max_step; /* a leaf reduces a score by at most this much */
};

void lb_bin(const uint32_t *features, int64_t n_rows, const uint32_t *cuts, uint8_t *bins);
bool lb_boost(const struct lb_options *o, const uint8_t *bins, const double *targets,
	      const double *weights, double *scores, int32_t *splits, int16_t *leaves);

#endif
