/* SPDX-License-Identifier: MIT */
/*
 * The budget for hedges, a token bucket. It starts empty. Each read that is started earns a
 * fraction of a token (0.05), a hedge costs one token, and the bucket holds at most its burst
 * (100). Hedges therefore never exceed that fraction of the reads so far. However long no hedge was
 * needed before, at most 0.05 n + 100 of n consecutive reads are hedged.
 */
#ifndef LINNOS_BUDGET_H
#define LINNOS_BUDGET_H

#include <math.h>
#include <stdbool.h>

struct budget {
	double share; /* tokens earned by a read; infinite for no limit */
	double burst;
	double tokens;
};

static inline void budget_add(struct budget *b, double tokens)
{
	tokens += b->tokens;
	b->tokens = tokens < b->burst ? tokens : b->burst;
}

/* Account for a read that is started. */
static inline void budget_earn(struct budget *b)
{
	budget_add(b, b->share);
}

/* Return the token of a hedge that was revoked before any drive received it. */
static inline void budget_refund(struct budget *b)
{
	budget_add(b, 1);
}

static inline bool budget_allows(const struct budget *b)
{
	/* Twenty times 0.05 may be slightly less than 1. */
	return !isfinite(b->share) || b->tokens >= 1 - 1e-6;
}

static inline void budget_spend(struct budget *b)
{
	b->tokens--;
}

#endif
