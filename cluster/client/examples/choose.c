// SPDX-License-Identifier: MIT
/* An example with three nodes, the second of which becomes slow. latency_ns() simulates the
 * network. */
#include <linnos_cluster.h>
#include <stdio.h>

static uint64_t latency_ns(int64_t node, unsigned int i)
{
	return node == 1 && i > 500 ? 3000000 : 200000 + 100 * (i % 7);
}

int main(void)
{
	const uint32_t nodes[] = {0, 1, 2};
	struct linnos_cluster_options options = LINNOS_CLUSTER_OPTIONS_INIT;
	struct linnos_cluster_stats stats;
	struct linnos_cluster *cluster;
	unsigned int n_slow = 0;
	uint64_t now_ns = 1000000;

	options.seed = 1; /* for reproducible output; a client leaves it 0 */
	if (linnos_cluster_create(&cluster, 3, &options)) {
		puts(linnos_cluster_error());
		return 1;
	}
	for (unsigned int i = 0; i < 1000; i++) {
		struct linnos_choice c = {.bytes = 4096, .home = i % 3};
		struct linnos_attempt first, copy;
		int64_t node = linnos_cluster_choose(cluster, &c, nodes, 3, now_ns);
		uint64_t sent_ns = now_ns;

		linnos_cluster_on_submit(cluster, &first, &c, c.replica, LINNOS_PRIMARY_ATTEMPT,
					 now_ns);
		if (c.copy >= 0)
			linnos_cluster_on_submit(cluster, &copy, &c, c.copy, LINNOS_PROBE_COPY,
						 now_ns);
		now_ns += latency_ns(node, i);
		n_slow += now_ns - sent_ns > 1000000;
		linnos_cluster_on_complete(cluster, &first, LINNOS_SUCCEEDED, now_ns);
		linnos_cluster_on_answer(cluster, &c, &first, now_ns);
		if (c.copy >= 0)
			linnos_cluster_on_complete(cluster, &copy, LINNOS_SUCCEEDED,
						   sent_ns + latency_ns(nodes[c.copy], i));
	}
	linnos_cluster_get_stats(cluster, &stats, sizeof(stats));
	printf("%u slow, %llu redirected, %llu copies\n", n_slow,
	       (unsigned long long)stats.redirected, (unsigned long long)stats.copies);
	linnos_cluster_free(cluster);
	return 0;
}
