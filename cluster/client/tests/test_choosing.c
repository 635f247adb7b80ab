// SPDX-License-Identifier: MIT
/* Tests of which node a read is sent to. */
#include "client.h"

#include <errno.h>
#include <stddef.h>

static struct linnos_cluster_options options(enum linnos_cluster_mode mode)
{
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;

	o.mode = mode;
	return o;
}

#define OPTION(field, value)                                                                       \
	{                                                                                          \
		offsetof(struct linnos_cluster_options, field),                                    \
			sizeof(((struct linnos_cluster_options *)0)->field), value                 \
	}

TEST(invalid_options_are_refused)
{
	static const struct {
		size_t offset, bytes;
		uint64_t value;
	} cases[] = {
		OPTION(mode, 3),	   OPTION(probe_after_ms, 0),
		OPTION(hedge_percent, 99), OPTION(key_bytes, 65),
		OPTION(size, 0),	   OPTION(size, LINNOS_CLUSTER_OPTIONS_SIZE_VER0 - 1),
	};
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;

	for (unsigned int k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
		o = options(LINNOS_CLUSTER_CHOOSE);
		memcpy((char *)&o + cases[k].offset, &cases[k].value, cases[k].bytes);
		assert(linnos_cluster_create(&cluster, 3, &o) == -EINVAL && !cluster);
		assert(k || strstr(linnos_cluster_error(), "mode is 3; it must be between 0"));
	}
	o = options(LINNOS_CLUSTER_CHOOSE);
	o.probe_percent = 101;
	assert(linnos_cluster_create(&cluster, 3, &o) == -EINVAL);
	o.size = (size_t)-1;
	assert(linnos_cluster_create(&cluster, 3, &o) == -E2BIG);
	assert(linnos_cluster_create(&cluster, 0, NULL) == -EINVAL);
}

TEST(invalid_reads_are_refused)
{
	static const uint32_t unknown[] = {0, N};
	struct linnos_choice c = {.bytes = PAGE, .home = 3};

	open_client(NULL);
	assert(linnos_cluster_choose(cluster, &c, nodes, N, now_ns) == -EINVAL);
	c.home = 0;
	assert(linnos_cluster_choose(cluster, &c, nodes, 0, now_ns) == -EINVAL);
	assert(linnos_cluster_choose(cluster, &c, nodes, LINNOS_CLUSTER_CANDIDATES + 1, now_ns) ==
	       -EINVAL);
	assert(linnos_cluster_choose(cluster, &c, unknown, 2, now_ns) == -EINVAL);
	assert(strstr(linnos_cluster_error(), "candidate 1 is node 3; it must be between 0 and 2"));
}

TEST(reads_without_default_node_are_sent_round_robin)
{
	unsigned int n[N] = {0};

	open_client(NULL);
	for (int k = 0; k < 300; k++)
		n[chosen(LINNOS_DEFAULT_ROUND_ROBIN, PAGE).replica]++;
	assert(n[0] == 100 && n[1] == 100 && n[2] == 100);
}

TEST(reads_are_redirected_from_slow_default_node_to_all_others)
{
	unsigned int n[N] = {0};

	open_client(NULL);
	for (int k = 0; k < 300; k++)
		read_once(k % N, PAGE);
	takes_us[0] = 2000;
	for (int k = 0; k < 3000; k++)
		n[read_once(0, PAGE).replica]++;
	assert(n[0] < 60);
	assert(n[1] > 1200 && n[2] > 1200);
	assert(node(0).state == LINNOS_SLOW && node(1).state == LINNOS_HEALTHY);
	assert(stats().saved_us > 3000 * 1000);
	assert(stats().copies * 100 <= stats().reads);
	takes_us[0] = 100;
	now_ns += 500 * MS;
	for (int k = 0; k < 200; k++)
		read_once(0, PAGE);
	assert(node(0).state == LINNOS_HEALTHY);
	n[0] = 0;
	for (int k = 0; k < 100; k++)
		n[0] += read_once(0, PAGE).replica == 0;
	assert(n[0] == 100);
}

TEST(one_read_at_a_time_probes_a_slow_node)
{
	struct linnos_cluster_options o = options(LINNOS_CLUSTER_CHOOSE);
	struct linnos_attempt copy;
	struct linnos_choice c;

	o.probe_percent = o.max_duplicates = 100;
	o.flags = LINNOS_CLUSTER_UNGUARDED;
	open_client(&o);
	for (int k = 0; k < 30; k++)
		read_once(k % N, PAGE);
	takes_us[0] = 2000;
	read_once(0, PAGE);
	assert(chosen(0, PAGE).copy == -1);
	now_ns += 20 * MS;
	c = chosen(0, PAGE);
	assert(c.replica != 0 && c.copy == 0);
	linnos_cluster_on_submit(cluster, &copy, &c, 0, LINNOS_PROBE_COPY, now_ns);
	assert(chosen(0, PAGE).copy == -1);
	linnos_cluster_on_complete(cluster, &copy, LINNOS_SUCCEEDED, now_ns + 100 * US);
	now_ns += MS;
	assert(chosen(0, PAGE).replica == 0);
}

TEST(user_read_probes_later_if_copies_are_disabled)
{
	struct linnos_cluster_options o = options(LINNOS_CLUSTER_CHOOSE);
	int probed_after_ms = 0;

	o.probe_percent = 0;
	o.flags = LINNOS_CLUSTER_UNGUARDED;
	open_client(&o);
	for (int k = 0; k < 30; k++)
		read_once(k % N, PAGE);
	takes_us[0] = 2000;
	read_once(0, PAGE);
	for (; chosen(0, PAGE).replica != 0; probed_after_ms++)
		now_ns += MS;
	assert(probed_after_ms >= 90 && probed_after_ms <= 130);
	assert(!stats().copies);
}

TEST(some_reads_stay_at_random_as_control_group)
{
	open_client(NULL);
	for (int k = 0; k < 300; k++)
		read_once(k % N, PAGE);
	takes_us[0] = 160;
	for (int k = 0; k < 3000; k++)
		read_once(0, PAGE);
	assert(stats().control > 3 && stats().control < stats().would_redirect / 2);
}

TEST(failed_read_is_sent_to_each_other_node_once)
{
	struct linnos_attempt sending;
	struct linnos_choice c;
	int second, third;

	open_client(NULL);
	c = chosen(0, PAGE);
	linnos_cluster_on_submit(cluster, &sending, &c, 0, LINNOS_PRIMARY_ATTEMPT, now_ns);
	linnos_cluster_on_complete(cluster, &sending, LINNOS_FAILED, now_ns + 100 * US);
	assert(node(0).state == LINNOS_FAILING && node(0).errors == 1);
	second = linnos_cluster_choose_next(cluster, &c, now_ns);
	assert((second == 1 || second == 2) && c.replica == (unsigned int)second);
	third = linnos_cluster_choose_next(cluster, &c, now_ns);
	assert(third == 3 - second);
	assert(linnos_cluster_choose_next(cluster, &c, now_ns) == -1);
	linnos_cluster_on_answer(cluster, &c, NULL, now_ns);
	for (int k = 0; k < 100; k++)
		assert(chosen(0, PAGE).replica != 0);
}

TEST(late_read_is_hedged_at_healthy_node_within_limit)
{
	struct linnos_cluster_options o = options(LINNOS_CLUSTER_HEDGE);
	struct linnos_attempt first, second;
	struct linnos_choice c;
	int other;

	o.max_duplicates = 10;
	open_client(&o);
	for (int k = 0; k < 20; k++)
		read_once(k % N, PAGE);
	c = chosen(0, PAGE);
	assert(c.hedge_at_ns >= now_ns + 190 * US && c.hedge_at_ns <= now_ns + 210 * US);
	linnos_cluster_on_submit(cluster, &first, &c, 0, LINNOS_PRIMARY_ATTEMPT, now_ns);
	now_ns = c.hedge_at_ns;
	other = linnos_cluster_choose_hedge(cluster, &c, now_ns);
	assert(other == 1 || other == 2);
	linnos_cluster_on_submit(cluster, &second, &c, other, LINNOS_HEDGE_ATTEMPT, now_ns);
	linnos_cluster_on_complete(cluster, &second, LINNOS_SUCCEEDED, now_ns + 100 * US);
	linnos_cluster_on_answer(cluster, &c, &second, now_ns + 100 * US);
	linnos_cluster_on_complete(cluster, &first, LINNOS_CANCELLED, now_ns + 100 * US);
	assert(stats().hedges_won == 1 && node(0).state == LINNOS_SLOW);
	for (int k = 0; k < 100; k++) {
		c = chosen(1, PAGE);
		linnos_cluster_choose_hedge(cluster, &c, now_ns);
		assert(stats().hedges * 10 <= stats().reads);
	}
	assert(stats().hedges_denied > 0);
}

TEST(longest_hedge_delay_does_not_overflow)
{
	struct linnos_cluster_options o = options(LINNOS_CLUSTER_HEDGE);

	o.hedge_percent = UINT32_MAX;
	open_client(&o);
	for (unsigned int k = 0; k < N; k++)
		takes_us[k] = 10000000;
	for (int k = 0; k < 9; k++)
		read_once(k % N, PAGE);
	for (unsigned int k = 0; k < N; k++) {
		struct linnos_choice c = chosen(k, PAGE);
		struct linnos_attempt first;

		linnos_cluster_on_submit(cluster, &first, &c, c.replica, LINNOS_PRIMARY_ATTEMPT,
					 now_ns);
		linnos_cluster_on_complete(cluster, &first, LINNOS_FAILED, now_ns);
		linnos_cluster_on_answer(cluster, &c, NULL, now_ns);
	}
	/* in ns the value does not fit 64 bits */
	assert(chosen(0, PAGE).hedge_at_ns > now_ns + 3600000 * MS);
}

TEST(large_reads_are_neither_hedged_nor_copied)
{
	struct linnos_cluster_options o = options(LINNOS_CLUSTER_HEDGE);
	struct linnos_choice never = {.bytes = PAGE, .flags = LINNOS_NEVER_HEDGE};

	o.max_duplicates = o.probe_percent = 100;
	o.flags = LINNOS_CLUSTER_UNGUARDED;
	open_client(&o);
	for (int k = 0; k < 30; k++)
		read_once(k % N, PAGE);
	takes_us[1] = 2000;
	read_once(1, PAGE);
	now_ns += 30 * MS;
	assert(chosen(0, 257 * PAGE).hedge_at_ns == UINT64_MAX);
	assert(chosen(0, 257 * PAGE).copy == -1);
	assert(chosen(0, 256 * PAGE).hedge_at_ns < UINT64_MAX);
	assert(chosen(0, 256 * PAGE).copy == 1);
	assert(linnos_cluster_choose(cluster, &never, nodes, N, now_ns) == 0);
	assert(never.hedge_at_ns == UINT64_MAX);
}

TEST(nothing_is_hedged_if_all_nodes_are_slow)
{
	struct linnos_cluster_options o = options(LINNOS_CLUSTER_HEDGE);
	struct linnos_choice c;

	o.max_duplicates = 100;
	open_client(&o);
	for (int k = 0; k < 30; k++)
		read_once(k % N, PAGE);
	for (unsigned int k = 0; k < N; k++)
		takes_us[k] = 3000;
	for (unsigned int k = 0; k < N; k++)
		read_once(k, PAGE);
	c = chosen(0, PAGE);
	assert(linnos_cluster_choose_hedge(cluster, &c, now_ns + 10 * MS) == -1);
}

TEST(observe_mode_counts_the_expected_gain)
{
	struct linnos_cluster_options o = options(LINNOS_CLUSTER_OBSERVE);
	int64_t gained_us;

	open_client(&o);
	for (int k = 0; k < 300; k++)
		read_once(k % N, PAGE);
	takes_us[0] = 2000;
	for (int k = 0; k < 999; k++)
		assert(read_once(k % N, PAGE).replica == (unsigned int)k % N);
	assert(!stats().redirected && !stats().copies && stats().would_redirect > 300);
	gained_us = stats().would_save_us;
	assert(gained_us > 300 * 1500 && gained_us < 340 * 2000);
}

TEST(large_reads_do_not_make_a_node_slow)
{
	open_client(NULL);
	for (int k = 0; k < 100; k++)
		read_once(k % N, k % 2 ? PAGE : 256 * PAGE);
	for (int k = 0; k < 1000; k++)
		assert(read_once(k % N, k % 2 ? PAGE : 256 * PAGE).replica == (unsigned int)k % N);
}

TEST(equal_seeds_and_calls_give_equal_choices)
{
	uint64_t sums[2] = {0};

	for (unsigned int run = 0; run < 2; run++) {
		open_client(NULL);
		for (int k = 0; k < 2000; k++) {
			takes_us[0] = k / 100 % 2 ? 2000 : 100;
			sums[run] = sums[run] * 31 + read_once(k % N, PAGE).replica;
		}
		close_client();
	}
	assert(sums[0] == sums[1]);
}

/*
 * Return the percentage of clients at the most crowded node, with clients that read in lock-step
 * after one of three nodes has become slow.
 */
static unsigned int most_crowded_percent(const struct linnos_cluster_options *o)
{
	enum { CLIENTS = 100, CALM = 300, SLOW_ROUNDS = 20 };
	static struct linnos_cluster *clients[CLIENTS];
	uint64_t time_ns = MS;
	unsigned int crowded = 0;

	for (int i = 0; i < CLIENTS; i++)
		assert(!linnos_cluster_create(&clients[i], N, o));
	for (int round = 0; round < CALM + SLOW_ROUNDS; round++) {
		unsigned int reads[N] = {0}, most = 0;

		for (int i = 0; i < CLIENTS; i++) {
			struct linnos_choice c = {.bytes = PAGE, .home = 0};
			struct linnos_attempt sending;
			int64_t k = linnos_cluster_choose(clients[i], &c, nodes, N, time_ns);
			uint64_t end_ns = time_ns + (!k && round >= CALM ? 5 * MS : 100 * US);

			linnos_cluster_on_submit(clients[i], &sending, &c, c.replica,
						 LINNOS_PRIMARY_ATTEMPT, time_ns);
			linnos_cluster_on_complete(clients[i], &sending, LINNOS_SUCCEEDED, end_ns);
			linnos_cluster_on_answer(clients[i], &c, &sending, end_ns);
			reads[k]++;
		}
		for (int k = 0; k < N; k++)
			most = reads[k] > most ? reads[k] : most;
		/* In the first of these rounds no client knows that the node is slow. */
		crowded += round > CALM ? most : 0;
		time_ns += 6 * MS;
	}
	for (int i = 0; i < CLIENTS; i++)
		linnos_cluster_free(clients[i]);
	return crowded / (SLOW_ROUNDS - 1);
}

TEST(default_clients_spread_when_they_read_in_lock_step)
{
	struct linnos_cluster_options equal = LINNOS_CLUSTER_OPTIONS_INIT;

	equal.seed = 1;
	assert(most_crowded_percent(&equal) == 100);
	assert(most_crowded_percent(NULL) < 70);
}
