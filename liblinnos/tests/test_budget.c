// SPDX-License-Identifier: MIT
/* The token bucket for hedges. */
#include "budget.h"

#include "test.h"

#include <math.h>

TEST(budget_never_exceeds_its_fraction_of_the_reads)
{
	struct budget b = {.share = 0.05, .burst = 100};
	unsigned int hedges = 0;

	for (unsigned int reads = 1; reads <= 100000; reads++) {
		budget_earn(&b);
		if (budget_allows(&b)) {
			budget_spend(&b);
			hedges++;
		}
		/* The first one is allowed by the twentieth read. */
		assert(hedges == reads / 20);
	}
}

TEST(budget_accumulates_at_most_its_burst)
{
	struct budget b = {.share = 0.05, .burst = 7};
	unsigned int hedges = 0;

	for (unsigned int reads = 0; reads < 10000; reads++)
		budget_earn(&b);
	for (; budget_allows(&b); hedges++)
		budget_spend(&b);
	assert(hedges == 7);
}

TEST(budget_refund_returns_one_token_up_to_the_burst)
{
	struct budget b = {.share = 0.05, .burst = 1};

	budget_refund(&b);
	budget_refund(&b);
	assert(budget_allows(&b));
	budget_spend(&b);
	assert(!budget_allows(&b));
}

TEST(budget_has_no_limit_when_its_share_is_infinite)
{
	struct budget b = {.share = INFINITY, .burst = 1};

	for (unsigned int i = 0; i < 10; i++) {
		assert(budget_allows(&b));
		budget_spend(&b);
	}
}
