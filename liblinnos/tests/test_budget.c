// SPDX-License-Identifier: MIT
/* The token bucket for hedges. */
#include "budget.h"

#include "test.h"

#include <math.h>

TEST(it_starts_empty_and_twenty_reads_earn_a_hedge)
{
	struct budget b = {.share = 0.05, .burst = 100};

	for (unsigned int reads = 0; reads < 20; reads++) {
		assert(!budget_allows(&b));
		budget_earn(&b);
	}
	assert(budget_allows(&b));
	budget_spend(&b);
	assert(!budget_allows(&b));
}

TEST(hedges_never_exceed_their_share_of_the_reads)
{
	struct budget b = {.share = 0.05, .burst = 100};
	unsigned int hedges = 0;

	for (unsigned int reads = 1; reads <= 100000; reads++) {
		budget_earn(&b);
		if (budget_allows(&b)) {
			budget_spend(&b);
			hedges++;
		}
		assert(hedges <= reads / 20);
	}
	assert(hedges == 5000);
}

TEST(calm_reads_save_up_no_more_than_the_burst)
{
	struct budget b = {.share = 0.05, .burst = 7};
	unsigned int hedges = 0;

	for (unsigned int reads = 0; reads < 10000; reads++)
		budget_earn(&b);
	for (; budget_allows(&b); hedges++)
		budget_spend(&b);
	assert(hedges == 7);
}

TEST(a_refund_is_one_hedge_more_up_to_the_burst)
{
	struct budget b = {.share = 0.05, .burst = 1};

	budget_refund(&b);
	budget_refund(&b);
	assert(budget_allows(&b));
	budget_spend(&b);
	assert(!budget_allows(&b));
}

TEST(without_a_share_there_is_no_limit)
{
	struct budget b = {.share = INFINITY, .burst = 1};

	for (unsigned int i = 0; i < 10; i++) {
		assert(budget_allows(&b));
		budget_spend(&b);
	}
}
