// SPDX-License-Identifier: MIT
/*
 * A million reads by several threads through one client while nodes fail, hang and recover, and
 * their agents send arbitrary reports. Each attempt must complete, each read must have one answer
 * if any node could give one, and no read may be in flight at the end. LINNOS_READS sets the number
 * of reads.
 */
#include "../../../liblinnos/tests/test.h"
#include "linnos_cluster.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define THREADS 4
#define NODES 12
#define REPLICAS 3
#define MS 1000000ull
#define US 1000ull
/* Reads that one thread keeps in flight. */
#define DEPTH 8

struct in_flight {
	struct linnos_choice choice;
	struct linnos_attempt sendings[2 * REPLICAS];
	unsigned int replicas[2 * REPLICAS], n, n_ended;
	uint32_t nodes[REPLICAS];
	bool is_answered, is_used;
};

static struct linnos_cluster *cluster;
static atomic_ullong now_ns, n_answered, n_unanswered;
static uint64_t n_reads;

/* Each node fails for a tenth of the time, with its own period. */
static bool fails(uint32_t node, uint64_t at_ns)
{
	return (at_ns / (10 * MS) + 3 * node) % 10 == 0;
}

static void send(struct in_flight *r, unsigned int replica, enum linnos_kind kind, uint64_t at_ns)
{
	r->replicas[r->n] = replica;
	linnos_cluster_on_submit(cluster, &r->sendings[r->n++], &r->choice, replica, kind, at_ns);
}

static void begin(struct in_flight *r, uint64_t *state, uint64_t at_ns)
{
	uint32_t first = chance(state) % NODES;

	*r = (struct in_flight){.is_used = true};
	for (unsigned int k = 0; k < REPLICAS; k++)
		r->nodes[k] = (first + k * 5) % NODES;
	r->choice.bytes = 4096 << chance(state) % 6;
	r->choice.home = chance(state) % 2 ? LINNOS_DEFAULT_ROUND_ROBIN : 0;
	assert(linnos_cluster_choose(cluster, &r->choice, r->nodes, REPLICAS, at_ns) >= 0);
	send(r, r->choice.replica, LINNOS_PRIMARY_ATTEMPT, at_ns);
	if (r->choice.copy >= 0)
		send(r, r->choice.copy, LINNOS_PROBE_COPY, at_ns);
}

/* Complete the oldest attempt with a random result. */
static void end_one(struct in_flight *r, uint64_t *state, uint64_t at_ns)
{
	unsigned int k = r->n_ended++;
	bool is_copy = (int)r->replicas[k] == r->choice.copy && k == 1;
	enum linnos_end end = fails(r->nodes[r->replicas[k]], at_ns) ? LINNOS_FAILED
			      : chance(state) % 50		     ? LINNOS_SUCCEEDED
			      : chance(state) % 2		     ? LINNOS_RESULT_IGNORED
								     : LINNOS_CANCELLED;

	linnos_cluster_on_complete(cluster, &r->sendings[k], end, at_ns);
	if (is_copy || r->is_answered)
		return;
	if (end == LINNOS_SUCCEEDED) {
		r->is_answered = true;
		linnos_cluster_on_answer(cluster, &r->choice, &r->sendings[k], at_ns);
		atomic_fetch_add(&n_answered, 1);
	} else if (linnos_cluster_choose_next(cluster, &r->choice, at_ns) >= 0) {
		send(r, r->choice.replica, LINNOS_PRIMARY_ATTEMPT, at_ns);
	} else if (r->n_ended == r->n) {
		r->is_answered = true;
		linnos_cluster_on_answer(cluster, &r->choice, NULL, at_ns);
		atomic_fetch_add(&n_unanswered, 1);
	}
}

static void advance_read(struct in_flight *r, uint64_t *state, uint64_t at_ns)
{
	if (!r->is_answered && at_ns >= r->choice.hedge_at_ns) {
		int k = linnos_cluster_choose_hedge(cluster, &r->choice, at_ns);

		if (k >= 0)
			send(r, k, LINNOS_HEDGE_ATTEMPT, at_ns);
	}
	end_one(r, state, at_ns);
	if (r->n_ended == r->n)
		r->is_used = false;
}

static void send_arbitrary_report(uint64_t *state, uint64_t at_ns)
{
	uint8_t datagram[LINNOS_CLUSTER_DATAGRAM];
	int64_t node = linnos_cluster_next_query_node(cluster, at_ns);
	size_t bytes;

	if (node < 0)
		return;
	bytes = linnos_cluster_build_query(cluster, node, 0, 4096, at_ns, datagram);
	datagram[5] = 2;
	datagram[20] = chance(state) % 8;
	datagram[22] = chance(state);
	datagram[28] = chance(state);
	datagram[29] = chance(state);
	linnos_cluster_receive_report(cluster, node, datagram, bytes, at_ns + 50 * US);
}

static void *reader(void *data)
{
	uint64_t state = (uintptr_t)data, begun = 0, open = 0;
	struct in_flight reads[DEPTH] = {0};

	while (begun < n_reads / THREADS || open) {
		uint64_t at_ns = atomic_fetch_add(&now_ns, 5 * US);
		struct in_flight *r = &reads[chance(&state) % DEPTH];

		if (r->is_used) {
			advance_read(r, &state, at_ns);
			open -= !r->is_used;
		} else if (begun < n_reads / THREADS) {
			begin(r, &state, at_ns);
			begun++;
			open++;
		}
		if (chance(&state) % 4 == 0)
			send_arbitrary_report(&state, at_ns);
	}
	return NULL;
}

TEST(no_read_is_lost_while_nodes_fail)
{
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;
	const char *wanted = getenv("LINNOS_READS");
	struct linnos_cluster_stats s;
	pthread_t threads[THREADS];

	n_reads = wanted ? strtoull(wanted, NULL, 10) : 1000000;
	o.mode = LINNOS_CLUSTER_HEDGE;
	atomic_store(&now_ns, MS);
	assert(!linnos_cluster_create(&cluster, NODES, &o));
	for (uintptr_t k = 0; k < THREADS; k++)
		assert(!pthread_create(&threads[k], NULL, reader, (void *)(k + 1)));
	for (unsigned int k = 0; k < THREADS; k++)
		assert(!pthread_join(threads[k], NULL));
	linnos_cluster_get_stats(cluster, &s, sizeof(s));
	fprintf(stderr,
		"%llu reads: %llu sent, %llu ended, %llu failovers, %llu copies, %llu hedges, "
		"%llu without an answer\n",
		(unsigned long long)s.reads, (unsigned long long)s.sent,
		(unsigned long long)s.ended, (unsigned long long)s.failovers,
		(unsigned long long)s.copies, (unsigned long long)s.hedges,
		(unsigned long long)atomic_load(&n_unanswered));
	assert(s.reads == n_reads / THREADS * THREADS && s.sent == s.ended);
	assert(atomic_load(&n_answered) + atomic_load(&n_unanswered) == s.reads);
	assert(s.errors && s.failovers && s.hedges);
	assert((s.copies + s.hedges) * 100 <= s.reads * 3);
	for (uint32_t k = 0; k < NODES; k++) {
		struct linnos_cluster_node n;

		assert(!linnos_cluster_get_node(cluster, k, atomic_load(&now_ns), &n, sizeof(n)));
		assert(!n.in_flight && n.answered && n.errors);
	}
	linnos_cluster_free(cluster);
}
