/* SPDX-License-Identifier: MIT */
/*
 * The hedges' budget, a token bucket. It starts empty; each read that is started earns a share of a
 * token (0.05), a hedge costs one, and the bucket holds no more than its burst (100). So hedges are
 * never more than that share of the reads so far, and however long the drives were calm, of n reads
 * in a row at most 0.05 n + 100 are hedged.
 */
#ifndef LINNOS_BUDGET_H
#define LINNOS_BUDGET_H

#include <stdbool.h>

struct budget {
	double share; /* of a token that a read earns; infinite: there is no limit */
	double burst;
	double tokens;
};

/* A read is started. */
void budget_earn(struct budget *b);
/* A hedge was revoked: no drive has had it. */
void budget_refund(struct budget *b);
bool budget_allows(const struct budget *b);
void budget_spend(struct budget *b);

#endif
