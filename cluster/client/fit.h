/* SPDX-License-Identifier: MIT */
/*
 * The mean latency of a node's reads, and how much it changes with the reports of the node's agent:
 * a least-squares line in doublings, in which older reads have less weight. A report therefore
 * counts as much as it proved accurate. An agent that always reports the same, or random values,
 * has no influence.
 *
 * All values are relative to the median, and come from reads while the node was not slow: see
 * node.h.
 */
#ifndef LINNOS_CLUSTER_FIT_H
#define LINNOS_CLUSTER_FIT_H

struct fit {
	float n;     /* number of all reads (decayed); n_told is that of the reads with a report */
	float ratio; /* their mean ratio */
	float n_told;
	float told, took; /* means in doublings; below them the sums about these means */
	float square, product;
};

/* Return the expected ratio; @told is 0 if there is no report. */
double fit_expect(const struct fit *f, double told);
/* Multiply the weight of all samples by @left. */
void fit_fade(struct fit *f, double left);
void fit_learn(struct fit *f, double told, double ratio);

#endif
