// SPDX-License-Identifier: MIT
/* What queues and the reaper have in common: see account.h. */
#include "account.h"

int account_init(struct account *account, const struct replica_set *set,
		 struct linnos_predictor *predictor)
{
	account->set = set;
	return linnos_chooser_create(&account->chooser, predictor);
}

void account_destroy(struct account *account)
{
	bounces_free(&account->bounces);
	linnos_chooser_free(account->chooser);
}
