// SPDX-License-Identifier: MIT
/* Tests of the client of eval's cluster with a fake engine and a fake clock. */
#define main client_main
#define clock_gettime clock_of_tests
#include "reads.c"
#undef main
#undef clock_gettime
#include "../../../liblinnos/tests/test.h"

/* The nodes' ends of the sockets, and the number of queries received before a read was sent. */
static int agent_sockets[NODES_MAX];
static unsigned int came_before_the_read;
static uint64_t cookie;
static struct read two[2];

/* The clock does not advance by itself, so that a busy machine does not change the results. */
static uint64_t clock_ns = 1000000000;

int clock_of_tests(clockid_t clock, struct timespec *t)
{
	*t = (struct timespec){clock_ns / 1000000000, clock_ns % 1000000000};
	return 0;
}

static void unexpected(void)
{
	assert(!"called");
}

/* Functions that no test calls. */
bool engine_has(const char *name)
{
	return false;
}
void engine_write(uint64_t bytes, unsigned int n)
{
	unexpected();
}
void engine_write_block(unsigned int node, uint64_t block, const char *buffer)
{
	unexpected();
}
uint64_t engine_open(unsigned int n, const char *name, uint64_t seed)
{
	unexpected();
	return 0;
}
uint64_t engine_sector(unsigned int node, uint64_t block)
{
	return block;
}
uint64_t engine_queries(void)
{
	return 0;
}
uint64_t engine_redirects(void)
{
	return 0;
}

/* A read is sent: count the queries that the nodes have received. */
void engine_read(unsigned int node, uint64_t block, char *data, void *of)
{
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct query query;
	ssize_t came;

	for (unsigned int k = 0; k < n_nodes; k++)
		while ((came = recv(agent_sockets[k], datagram, sizeof(datagram), MSG_DONTWAIT)) > 0) {
			assert(!query_read(&query, NULL, 0, datagram, came));
			came_before_the_read++;
			cookie = query.cookie;
		}
}

static void have_nodes(unsigned int n, const char *by)
{
	memset(nodes, 0, sizeof(nodes));
	memset(node_states, 0, sizeof(node_states));
	memset(two, 0, sizeof(two));
	reads = two;
	n_nodes = n_replicas = client.n_nodes = n;
	client.draw = draw;
	own = NULL;
	assert(select_rule(by));
	for (unsigned int k = 0; k < n; k++) {
		int ends[2];

		two[0].nodes[k] = two[1].nodes[k] = k;
		assert(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
		nodes[k].agent = ends[0];
		agent_sockets[k] = ends[1];
	}
}

TEST(nodes_are_queried_before_the_read_is_counted)
{
	have_nodes(3, "pending");
	came_before_the_read = 0;
	begin(&two[0]);
	/* Otherwise a read that its query has overtaken would be counted by neither
	 * side. */
	assert(came_before_the_read == 3 && cookie == 0);
	assert(node_states[two[0].attempts[0].node].sent == 1);
}

TEST(lost_queries_do_not_change_the_choices)
{
	unsigned int chosen[2] = {0};

	for (unsigned int k = 0; k < 2; k++) {
		have_nodes(3, "pending");
		draws = losses = 7;
		lost_percent = 50 * k;
		came_before_the_read = n_queries = 0;
		for (unsigned int n = 0; n < 100; n++) {
			memset(&two[0], 0, sizeof(two[0]));
			begin(&two[0]);
			free(two[0].attempts[0].buffer);
			chosen[k] = 3 * chosen[k] % 65521 + two[0].attempts[0].node;
		}
		assert(n_queries == 300);
		assert(k ? came_before_the_read > 120 && came_before_the_read < 180
			 : came_before_the_read == 300);
	}
	assert(chosen[0] == chosen[1]);
	lost_percent = 0;
	in_flight = 0;
}

TEST(late_read_is_hedged_once)
{
	have_nodes(3, "hedge");
	woken_ns = 1000000000;
	hedging.after_ns = 200000;
	begin(&two[0]);
	assert(hedge_late(1) == woken_ns + 200000 && two[0].n_attempts == 1);
	woken_ns += 200000;
	for (unsigned int k = 0; k < 2; k++)
		assert(hedge_late(1) == UINT64_MAX && two[0].n_attempts == 2);
	assert(two[0].attempts[1].node != two[0].attempts[0].node);
	/* without a percentile there are no hedges */
	hedging.after_ns = 0;
	two[1].hedge_at_ns = UINT64_MAX;
	begin(&two[1]);
	assert(hedge_late(2) == UINT64_MAX && two[1].n_attempts == 1);
	in_flight = 0;
}

TEST(library_chooses_queries_and_learns_of_every_completion)
{
	struct linnos_cluster_stats stats;
	struct linnos_cluster_node of_node;
	unsigned int n_sent = 0;
	uint64_t wrong_before = wrong;

	have_nodes(3, "library-hedge");
	open_library(7);
	ended_fd = eventfd(0, EFD_NONBLOCK);
	came_before_the_read = 0;
	woken_ns = now_ns();
	for (unsigned int k = 0; k < 60; k++) {
		struct read *read = &two[0];

		memset(read, 0, sizeof(*read));
		/* node 1 takes 20 ms, the others 0.1 ms */
		begin(read);
		n_sent += read->n_attempts;
		woken_ns += read->attempts[0].node == 1 ? 20000000 : 100000;
		for (unsigned int a = 0; a < read->n_attempts; a++) {
			uint64_t *content = (uint64_t *)read->attempts[a].buffer;

			fill((char *)content, read->block);
			clock_ns = woken_ns;
			on_end(&read->attempts[a], BLOCK);
			free(content);
		}
		assert(read->is_done && read->node == read->attempts[0].node);
	}
	linnos_cluster_get_stats(cluster, &stats, sizeof(stats));
	assert(stats.reads == 60 && stats.sent == n_sent && stats.ended == n_sent && !stats.errors);
	assert(stats.redirected > 5 && came_before_the_read && came_before_the_read <= 60);
	assert(!linnos_cluster_get_node(cluster, 1, woken_ns, &of_node, sizeof(of_node)));
	assert(of_node.state == LINNOS_SLOW && wrong == wrong_before && !failed);
	/* a late read is hedged once */
	n_reads = 1;
	memset(&two[0], 0, sizeof(two[0]));
	begin(&two[0]);
	assert(hedge_late(1) == two[0].choice.hedge_at_ns);
	woken_ns = two[0].choice.hedge_at_ns;
	assert(hedge_late(1) == UINT64_MAX && two[0].n_attempts == 2);
	assert(two[0].attempts[1].node != two[0].attempts[0].node);
	assert(hedge_late(1) == UINT64_MAX && two[0].n_attempts == 2);
	linnos_cluster_free(cluster);
	cluster = NULL;
	reads = NULL;
}
