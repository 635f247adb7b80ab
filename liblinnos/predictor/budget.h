/* SPDX-License-Identifier: MIT */
/*
 * A token bucket that limits hedges, probe copies or queries to a fraction of the reads. It starts
 * empty. Each read that is started earns a fraction of a token, each hedge costs one token, and the
 * bucket holds at most its burst. Hedges therefore never exceed that fraction of the reads so far.
 * With a fraction of 0.05 and a burst of 100, at most 0.05 n + 100 of n consecutive reads are
 * hedged, even if no hedge was needed for a long time before.
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

/* Restore the token of a hedge that was revoked before any drive received it. */
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
