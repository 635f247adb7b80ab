// SPDX-License-Identifier: MIT
/* Tests of queries to agents, which reports are accepted, and how long they are used. */
#include "client.h"
#include "datagram.h"
#include "linux/blk-linnos.h"

#include <errno.h>
#include <stdbool.h>

static uint8_t datagram[LINNOS_CLUSTER_DATAGRAM];

/* Replace the query in the datagram by the answer of a correct agent; return its length. */
static size_t answered(uint32_t us, const char *key)
{
	size_t key_bytes = key ? strlen(key) : 0;
	size_t bytes = DATAGRAM_BYTES + (key ? DATAGRAM_TAG_BYTES : 0);
	struct query q;
	struct answer a;

	assert(!query_read(&q, key, key_bytes, datagram, bytes));
	assert(q.flags == QUERY_ONLY);
	a = (struct answer){
		.cookie = q.cookie,
		.bytes = q.bytes,
		.drive = q.drive,
		.flags = q.flags,
		.n_drives = 8,
		.latency_us = us,
		.known = us ? BLK_EXPECT_LATENCY : BLK_EXPECT_NO_MODEL,
	};
	return answer_write(&a, key, key_bytes, datagram);
}

static int query_and_report(uint32_t k, uint32_t us)
{
	assert(linnos_cluster_build_query(cluster, k, 7, PAGE, now_ns, datagram) == DATAGRAM_BYTES);
	return linnos_cluster_receive_report(cluster, k, datagram, answered(us, NULL), now_ns);
}

static void warm_up(void)
{
	for (int k = 0; k < 300; k++)
		read_once(k % N, PAGE);
}

TEST(read_leaves_default_node_reported_slow)
{
	open_client(NULL);
	warm_up();
	now_ns += 30 * MS;
	assert(!query_and_report(0, 5000));
	assert(node(0).state == LINNOS_SLOW && node(0).report_age_us < 50000);
	assert(chosen(0, PAGE).replica != 0);
	now_ns += 50 * MS;
	assert(node(0).report_age_us == UINT64_MAX && chosen(0, PAGE).replica == 0);
}

TEST(answer_without_prediction_is_no_report)
{
	open_client(NULL);
	warm_up();
	assert(!query_and_report(0, 0));
	assert(node(0).report_age_us == UINT64_MAX && node(0).state == LINNOS_HEALTHY);
}

TEST(only_the_answer_to_the_last_query_is_accepted)
{
	uint8_t old[LINNOS_CLUSTER_DATAGRAM];
	size_t bytes;

	open_client(NULL);
	warm_up();
	assert(linnos_cluster_build_query(cluster, N, 0, PAGE, now_ns, datagram) == 0);
	assert(linnos_cluster_build_query(cluster, 0, 0, 0, now_ns, datagram) == 0);
	linnos_cluster_build_query(cluster, 0, 0, PAGE, now_ns, datagram);
	bytes = answered(5000, NULL);
	memcpy(old, datagram, sizeof(old));
	assert(linnos_cluster_receive_report(cluster, 1, old, bytes, now_ns) == -ENOMSG);
	assert(linnos_cluster_receive_report(cluster, N, old, bytes, now_ns) == -EBADMSG);
	linnos_cluster_build_query(cluster, 0, 0, PAGE, now_ns, datagram);
	bytes = answered(5000, NULL);
	assert(linnos_cluster_receive_report(cluster, 0, old, bytes, now_ns) == -ENOMSG);
	assert(!linnos_cluster_receive_report(cluster, 0, datagram, bytes, now_ns));
	/* a repeated answer is refused */
	assert(linnos_cluster_receive_report(cluster, 0, datagram, bytes, now_ns) == -ENOMSG);
	for (size_t k = 0; k < 2 * LINNOS_CLUSTER_DATAGRAM; k++)
		assert(linnos_cluster_receive_report(cluster, 0, (const uint8_t[256]){0}, k,
						     now_ns) == -EBADMSG);
	assert(stats().answers == 1);
}

TEST(queries_and_answers_are_signed_with_a_key)
{
	static const char key[] = "sixteen bytes and more";
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;
	char copied[sizeof(key)];
	size_t bytes;

	memcpy(copied, key, sizeof(key));
	o.key = copied;
	o.key_bytes = strlen(key);
	open_client(&o);
	memset(copied, 0, sizeof(copied));
	warm_up();
	assert(linnos_cluster_build_query(cluster, 0, 0, PAGE, now_ns, datagram) ==
	       DATAGRAM_BYTES_MAX);
	bytes = answered(5000, key);
	assert(linnos_cluster_receive_report(cluster, 0, datagram, DATAGRAM_BYTES, now_ns) ==
	       -EBADMSG);
	datagram[DATAGRAM_BYTES_MAX - 1] ^= 1;
	assert(linnos_cluster_receive_report(cluster, 0, datagram, bytes, now_ns) == -EBADMSG);
	datagram[DATAGRAM_BYTES_MAX - 1] ^= 1;
	assert(!linnos_cluster_receive_report(cluster, 0, datagram, bytes, now_ns));
}

TEST(queries_are_at_most_as_many_as_reads)
{
	unsigned int n_queried[N] = {0}, n = 0;

	open_client(NULL);
	for (int k = 0; k < 3000; k++) {
		int64_t to;

		read_once(0, PAGE);
		now_ns += 5 * MS;
		for (to = linnos_cluster_next_query_node(cluster, now_ns); to >= 0;
		     to = linnos_cluster_next_query_node(cluster, now_ns)) {
			n_queried[to]++;
			n++;
			assert(!query_and_report(to, 100));
		}
		assert(n <= (unsigned int)k + 1);
	}
	assert(!n_queried[0] && n_queried[1] > 1000 && n_queried[2] > 1000);
	assert(stats().queries == n);
}

TEST(silent_agent_is_queried_once_a_second)
{
	unsigned int n = 0;
	uint64_t begin_ns;

	open_client(NULL);
	for (begin_ns = now_ns; now_ns < begin_ns + 10000 * MS; now_ns += 1 * MS) {
		int64_t to;

		chosen(0, PAGE);
		to = linnos_cluster_next_query_node(cluster, now_ns);
		n += to >= 0;
		if (to >= 0)
			linnos_cluster_build_query(cluster, to, 0, PAGE, now_ns, datagram);
	}
	assert(n >= 20 && n <= 30);
}

TEST(cookies_differ_between_clients_with_equal_seeds)
{
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;
	struct linnos_cluster *clients[3];
	uint64_t cookies[6];

	o.seed = 1;
	for (int i = 0; i < 3; i++)
		assert(!linnos_cluster_create(&clients[i], N, i ? &o : NULL));
	for (int i = 0; i < 6; i++) {
		struct query q;
		size_t bytes = linnos_cluster_build_query(clients[i / 2], 0, 7, PAGE, MS, datagram);

		assert(!query_read(&q, NULL, 0, datagram, bytes));
		cookies[i] = q.cookie;
		for (int k = 0; k < i; k++)
			assert(cookies[i] != cookies[k]);
	}
	for (int i = 0; i < 3; i++)
		linnos_cluster_free(clients[i]);
}
