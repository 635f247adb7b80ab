/* SPDX-License-Identifier: MIT */
/* Formulas of published policies, which the replayer and the client of eval/experiments/cluster
 * share. */
#ifndef REPLAYER_RANKINGS_H
#define REPLAYER_RANKINGS_H

/* The score of C3 (NSDI 2015); the replica with the lowest one is read. */
static inline double c3_score(double response, double service, double queue)
{
	return response - service + queue * queue * queue * service;
}

/*
 * Prequal (NSDI 2024): a server is hot if its requests in flight exceed this quantile. The paper
 * uses 2^-0.25 in most measurements.
 */
#define PREQUAL_HOT_QUANTILE 0.84

#endif
