/* SPDX-License-Identifier: MIT */
/*
 * The budget for hedges, a token bucket. It starts empty. Each read that is started earns a
 * fraction of a token (0.05), a hedge costs one token, and the bucket holds at most its burst
 * (100). Hedges therefore never exceed that fraction of the reads so far. However long no hedge was
 * needed before, at most 0.05 n + 100 of n consecutive reads are hedged.
 */
#ifndef LINNOS_BUDGET_H
#define LINNOS_BUDGET_H

#include <stdbool.h>

struct budget {
	double share; /* tokens earned by a read; infinite for no limit */
	double burst;
	double tokens;
};

/* Account for a read that is started. */
void budget_earn(struct budget *b);
/* Return the token of a hedge that was revoked before any drive received it. */
void budget_refund(struct budget *b);
bool budget_allows(const struct budget *b);
void budget_spend(struct budget *b);

#endif
