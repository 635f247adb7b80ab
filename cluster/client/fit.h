/* SPDX-License-Identifier: MIT */
/*
 * What a node's reads take in the mean, and how much more or less when its agent tells more or less
 * than it usually does: a line by least squares, in doublings, for which older reads count less. So
 * what an agent tells counts by what it was worth, and one that always says the same, or anything,
 * moves nobody.
 *
 * All in proportion to what is usual, and of reads that are no slow node's: see node.h.
 */
#ifndef LINNOS_CLUSTER_FIT_H
#define LINNOS_CLUSTER_FIT_H

struct fit {
	float n;     /* of all reads, and of those of which something was told */
	float ratio; /* what they took: a mean */
	float n_told;
	float told, took; /* means of doublings; and sums about them */
	float square, product;
};

/* With @told 0 of nothing that was told. */
double fit_expect(const struct fit *f, double told);
/* Of what was seen so much still counts. */
void fit_fade(struct fit *f, double left);
void fit_learn(struct fit *f, double told, double ratio);

#endif
