// SPDX-License-Identifier: MIT
/* An example with three nodes, the second of which becomes slow. latency_ns() simulates the
 * network. */
#include <linnos_choose.h>
#include <stdio.h>

static uint64_t latency_ns(unsigned int node, unsigned int i)
{
	return node == 1 && i > 500 ? 3000000 : 200000 + 100 * (i % 7);
}

int main(void)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct linnos_chooser *chooser;
	struct linnos_predictor *predictor;
	unsigned int n_slow = 0, n_hedged = 0;
	uint64_t now_ns = 1000000;

	o.hedge_us = 1000;
	if (linnos_predictor_create(&predictor, 3, NULL, &o) ||
	    linnos_chooser_create(&chooser, predictor)) {
		puts(linnos_error());
		return 1;
	}
	for (unsigned int i = 0; i < 1000; i++) {
		struct linnos_choice c = {.offset = 4096 * i, .bytes = 4096, .home = i % 3};
		struct linnos_attempt first, second;
		uint64_t end_ns, other_end_ns = UINT64_MAX;
		int other = -1;

		linnos_choose(chooser, &c, now_ns);
		linnos_chooser_on_submit(chooser, &first, &c, c.replica, LINNOS_PRIMARY_ATTEMPT,
					 now_ns);
		end_ns = now_ns + latency_ns(c.replica, i);
		if (end_ns > c.hedge_at_ns) {
			now_ns = c.hedge_at_ns;
			other = linnos_choose_hedge(chooser, &c, now_ns);
		}
		if (other >= 0) {
			linnos_chooser_on_submit(chooser, &second, &c, other, LINNOS_HEDGE_ATTEMPT,
						 now_ns);
			other_end_ns = now_ns + latency_ns(other, i);
			n_hedged++;
		}
		now_ns = end_ns < other_end_ns ? end_ns : other_end_ns;
		n_slow += now_ns == end_ns && latency_ns(c.replica, i) > 1000000;
		if (other_end_ns < end_ns) {
			linnos_chooser_on_complete(chooser, &second, LINNOS_SUCCEEDED, now_ns);
			linnos_chooser_on_answer(chooser, &c, &second, &first, now_ns);
			linnos_chooser_on_complete(chooser, &first, LINNOS_SUCCEEDED, end_ns);
		} else {
			linnos_chooser_on_complete(chooser, &first, LINNOS_SUCCEEDED, now_ns);
			linnos_chooser_on_answer(chooser, &c, &first, other < 0 ? NULL : &second,
						 now_ns);
			if (other >= 0)
				linnos_chooser_on_complete(chooser, &second, LINNOS_SUCCEEDED,
							   other_end_ns);
		}
	}
	printf("%u hedged, %u slow\n", n_hedged, n_slow);
	linnos_chooser_free(chooser);
	linnos_predictor_free(predictor);
	return 0;
}
