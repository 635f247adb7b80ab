// SPDX-License-Identifier: MIT
/* The budget for hedges: see budget.h. */
#include "budget.h"

#include <math.h>

/* Twenty times 0.05 may be slightly less than 1. */
#define ROUNDING 1e-6

static void add(struct budget *b, double tokens)
{
	b->tokens = fmin(b->tokens + tokens, b->burst);
}

void budget_earn(struct budget *b)
{
	add(b, b->share);
}

void budget_refund(struct budget *b)
{
	add(b, 1);
}

bool budget_allows(const struct budget *b)
{
	return !isfinite(b->share) || b->tokens >= 1 - ROUNDING;
}

void budget_spend(struct budget *b)
{
	b->tokens--;
}
