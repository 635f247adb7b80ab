// SPDX-License-Identifier: MIT
/*
 * The client of a cluster. It reads blocks, each when it is due, from the node that a rule or the
 * engine (engine.h) chooses:
 *
 *	reads write MB
 *	reads RULE SEED MS MEAN_US CLIENTS LOST LIE WRITES EVERY_S LOG
 *
 * Each block is on three nodes. Reads of 4 KiB, at random places that depend on SEED, arrive for MS
 * by a Poisson process with the mean distance MEAN_US. It starts at the next second that EVERY_S
 * divides, as does a replay with --start-every. CLIENTS programs do the same. If a rule uses
 * agents' reports, each read causes queries to the nodes of its block by UDP (linnos-agent(8)); the
 * answers serve later reads. liblinnos-cluster chooses the nodes of its queries itself. LOST % of
 * the queries are dropped at random. LIE is a false report of the first node's agent: "fast",
 * "slow", or "" for none. WRITES % of the I/Os are writes of the blocks' own content. C3 and
 * Elasticsearch need the queue length and the service time of the server with each answer. These
 * engines do not send them, so the agent of the node is queried.
 */
#include "engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "datagram.h"
#include "flashsim_ioctl.h"
#include "linnos_cluster.h"
#include "linux/blk-linnos.h"
#include "rules.h"

enum { HEDGE_SCAN = 64, AGENT_PORT = 7316 };

struct node {
	int agent; /* socket */
	/* for the oracle */
	int drive;
};

struct attempt {
	struct read *read;
	unsigned int replica, node;
	char *buffer;
	enum linnos_kind kind;
	struct linnos_attempt sending;
	struct rule_sending of_rule;
};

struct read {
	uint64_t due_ns, latency_ns, block;
	uint64_t hedge_at_ns;
	uint32_t nodes[REPLICAS]; /* that have it */
	unsigned int node;	  /* that answered first */
	unsigned int n_attempts;
	bool is_done;
	struct linnos_choice choice;
	/* with a copy and a hedge */
	struct attempt attempts[3];
};

struct write {
	uint64_t due_ns, block;
};

/* A read as it is logged. */
struct logged {
	uint64_t due_ns, latency_ns;
	uint32_t node, attempts;
};

static struct node nodes[NODES_MAX];
static unsigned int n_nodes, n_replicas, lost_percent;
static struct read *reads;
static struct write *writes;
static uint64_t n_reads, n_writes, n_blocks, in_flight, wrong, failed, n_queries, n_reports;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ended_fd, timer_fd;
static uint64_t draws, losses;
static struct rule_node node_states[NODES_MAX];
static struct rule_client client = {.nodes = node_states};
static struct rule_hedging hedging;
/* NULL unless the rule is the library's */
static struct linnos_cluster *cluster;

void die(const char *what)
{
	fprintf(stderr, "reads: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

/*
 * The time of the last wakeup. In the lab, reading the clock takes time that all nodes share, so it
 * is read once for all events of a wakeup.
 */
static uint64_t woken_ns;

/* splitmix64 */
static uint64_t draw_from(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t draw(void)
{
	return draw_from(&draws);
}

/* -ln of a number from 0 to 1, whose mean is 1; without libm, so that it is the same everywhere. */
static double draw_exponential(uint64_t *state)
{
	double u = ((draw_from(state) >> 11) + 1) * 0x1p-53, sum = 0, y;
	int halvings = 0;

	while (u < 0.5) {
		u *= 2;
		halvings++;
	}
	y = (1 - u) / (1 + u);
	for (int k = 1; k < 60; k += 2, y *= (1 - u) / (1 + u) * (1 - u) / (1 + u))
		sum += 2 * y / k;
	return sum + halvings * 0.69314718055994530942;
}

void fill(char *block, uint64_t number)
{
	for (size_t k = 0; k < BLOCK; k += sizeof(number))
		memcpy(block + k, &(uint64_t){number * BLOCK + k}, sizeof(number));
}

/* Nodes with the same blocks have consecutive numbers. A hash gives the set of a block, and its
 * primary. */
static void place(uint64_t block, uint32_t at[REPLICAS])
{
	uint64_t hash = draw_from(&(uint64_t){block});
	unsigned int n_sets = n_nodes / n_replicas, first = n_sets > 1 ? (hash >> 32) : 0;

	for (unsigned int k = 0; k < n_replicas; k++)
		at[k] = hash % n_sets * n_replicas + (first + k) % n_replicas;
}

/* ---- reports of agents ---- */

/* For the client, a lost query is the same as a lost answer. */
static void send_datagram(unsigned int k, const uint8_t *datagram, size_t bytes)
{
	bool is_lost = lost_percent && draw_from(&losses) % 100 < lost_percent;

	if (is_lost || send(nodes[k].agent, datagram, bytes, 0) == (ssize_t)bytes)
		n_queries++;
}

static void send_query(unsigned int k, bool query_only)
{
	/* the cookie is the number of reads sent before the query */
	struct query query = {
		.cookie = node_states[k].sent,
		.bytes = BLOCK,
		.flags = query_only ? QUERY_ONLY : 0,
	};
	uint8_t datagram[DATAGRAM_BYTES_MAX];

	send_datagram(k, datagram, query_write(&query, NULL, 0, datagram));
}

static const struct lie {
	const char *name;
	uint32_t us, pending;
} lies[] = {{"fast", 20, 0}, {"slow", 20000, 1000}}, *lie;

static void select_lie(const char *name)
{
	for (size_t k = 0; k < sizeof(lies) / sizeof(*lies); k++)
		if (!strcmp(name, lies[k].name))
			lie = &lies[k];
}

/* For the client, a report that was changed on the way is the same as a false one. */
static ssize_t falsify_report(uint8_t *datagram, ssize_t bytes)
{
	struct answer answer;

	if (answer_read(&answer, NULL, 0, datagram, bytes))
		return bytes;
	answer.latency_us = lie->us;
	answer.pending = lie->pending;
	answer.known = BLK_EXPECT_LATENCY;
	answer.state = STATE_PENDING_KNOWN;
	return answer_write(&answer, NULL, 0, datagram);
}

static void receive_reports(unsigned int k)
{
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct answer answer;
	ssize_t bytes;

	while ((bytes = recv(nodes[k].agent, datagram, sizeof(datagram), MSG_DONTWAIT)) >= 0) {
		if (lie && !k)
			bytes = falsify_report(datagram, bytes);
		if (cluster) {
			n_reports += !linnos_cluster_receive_report(cluster, k, datagram, bytes,
								    woken_ns);
			continue;
		}
		if (answer_read(&answer, NULL, 0, datagram, bytes) ||
		    answer.cookie > node_states[k].sent)
			continue;
		n_reports++;
		node_states[k].report = (struct rule_report){
			.at_ns = woken_ns,
			.us = answer.latency_us,
			.pending = answer.pending,
			.sent_at_query = answer.cookie,
			.needs_probe = answer.state & BLK_EXPECT_PROBE,
		};
	}
}

/* ---- rules ---- */

/* Choose by the latency that the emulator predicts. */
static unsigned int by_oracle(struct read *read)
{
	double score[REPLICAS];

	for (unsigned int k = 0; k < n_replicas; k++) {
		struct flashsim_oracle oracle = {
			.sector = engine_sector(read->nodes[k], read->block),
			.nr_sectors = BLOCK / 512,
			.op = FLASHSIM_ORACLE_READ,
		};

		if (ioctl(nodes[read->nodes[k]].drive, FLASHSIM_IOC_ORACLE, &oracle))
			die("oracle");
		score[k] = oracle.latency_ns;
	}
	return rule_lowest(&client, score, n_replicas, 1);
}

/* The default replica is the next node in turn. */
static unsigned int by_library(struct read *read)
{
	read->choice = (struct linnos_choice){.bytes = BLOCK, .home = LINNOS_DEFAULT_ROUND_ROBIN};
	linnos_cluster_choose(cluster, &read->choice, read->nodes, n_replicas, woken_ns);
	read->hedge_at_ns = read->choice.hedge_at_ns;
	return read->choice.replica;
}

/* The library's rules, and the oracle. */
static const struct own_rule {
	struct rule rule;
	unsigned int (*choose)(struct read *read);
	enum linnos_cluster_mode mode;
} own_rules[] = {
	{.rule.name = "library", .choose = by_library, .mode = LINNOS_CLUSTER_CHOOSE},
	{.rule.name = "library-hedge", .choose = by_library, .mode = LINNOS_CLUSTER_HEDGE},
	{.rule.name = "oracle", .choose = by_oracle},
};

/* The engine's own rule, if one was named. */
static struct rule engines_own;

static const struct rule *rule;
static const struct own_rule *own; /* or NULL */

static unsigned int choose(struct read *read)
{
	if (rule == &engines_own)
		return 0;
	return own ? own->choose(read)
		   : rule_choose(rule, &client, read->nodes, n_replicas, woken_ns);
}

/* The engine's names come first. */
static bool select_rule(const char *name)
{
	if (engine_has(name)) {
		engines_own.name = name;
		rule = &engines_own;
		return true;
	}
	rule = rule_named(name);
	for (size_t k = 0; !rule && k < sizeof(own_rules) / sizeof(*own_rules); k++)
		if (!strcmp(name, own_rules[k].rule.name)) {
			own = &own_rules[k];
			rule = &own->rule;
		}
	return rule;
}

/* ---- reads ---- */

void on_end(void *of, ssize_t bytes)
{
	struct attempt *attempt = of;
	struct read *read = attempt->read;
	struct rule_node *node = &node_states[attempt->node];
	struct rule_server server;
	uint64_t end_ns = now_ns(), expected[BLOCK / sizeof(uint64_t)];

	fill((char *)expected, read->block);
	if (cluster)
		linnos_cluster_on_complete(cluster, &attempt->sending,
					   bytes == BLOCK ? LINNOS_SUCCEEDED : LINNOS_FAILED,
					   end_ns);
	pthread_mutex_lock(&lock);
	if (rule->hedges > 0 && attempt->kind == LINNOS_PRIMARY_ATTEMPT)
		rule_hedging_learn(&hedging, end_ns - attempt->of_rule.sent_ns);
	server = (struct rule_server){node->report.pending, node->report.us, node->report.us};
	rule_ended(&client, node, &attempt->of_rule, &server, end_ns);
	in_flight--;
	if (bytes != BLOCK)
		failed++;
	else if (memcmp(attempt->buffer, expected, BLOCK))
		wrong++;
	/* a probe copy is no answer */
	if (!read->is_done && attempt->kind != LINNOS_PROBE_COPY) {
		if (cluster)
			linnos_cluster_on_answer(cluster, &read->choice, &attempt->sending, end_ns);
		read->is_done = true;
		read->latency_ns = end_ns - read->due_ns;
		read->node = attempt->node;
	}
	pthread_mutex_unlock(&lock);
	eventfd_write(ended_fd, 1);
}

void on_written(ssize_t bytes)
{
	pthread_mutex_lock(&lock);
	in_flight--;
	if (bytes != BLOCK)
		failed++;
	pthread_mutex_unlock(&lock);
	eventfd_write(ended_fd, 1);
}

static void begin_write(const struct write *write)
{
	/* the content never changes */
	char *buffer = aligned_alloc(BLOCK, BLOCK);
	uint32_t at[REPLICAS];

	fill(buffer, write->block);
	place(write->block, at);
	pthread_mutex_lock(&lock);
	in_flight++;
	pthread_mutex_unlock(&lock);
	engine_write_block(at[0], write->block, buffer);
}

static void send_to(struct read *read, unsigned int replica, enum linnos_kind kind)
{
	struct attempt *attempt = &read->attempts[read->n_attempts++];
	unsigned int node = read->nodes[replica];

	*attempt = (struct attempt){
		.read = read,
		.replica = replica,
		.node = node,
		.buffer = aligned_alloc(BLOCK, BLOCK),
		.kind = kind,
	};
	if (cluster)
		linnos_cluster_on_submit(cluster, &attempt->sending, &read->choice, replica, kind,
					 woken_ns);
	pthread_mutex_lock(&lock);
	rule_sent(&node_states[node], &attempt->of_rule, woken_ns);
	in_flight++;
	pthread_mutex_unlock(&lock);
	engine_read(node, read->block, attempt->buffer, attempt);
}

/* Send the library's next query, if any. */
static void send_library_query(void)
{
	uint8_t datagram[LINNOS_CLUSTER_DATAGRAM];
	int64_t node = linnos_cluster_next_query_node(cluster, woken_ns);

	if (node >= 0)
		send_datagram(
			node, datagram,
			linnos_cluster_build_query(cluster, node, 0, BLOCK, woken_ns, datagram));
}

static void begin(struct read *read)
{
	unsigned int replica;

	place(read->block, read->nodes);
	pthread_mutex_lock(&lock);
	replica = choose(read);
	if (rule->hedges > 0 && hedging.after_ns)
		read->hedge_at_ns = woken_ns + hedging.after_ns;
	pthread_mutex_unlock(&lock);
	/* before the read, so that the read counts as sent after the query */
	for (unsigned int k = 0; rule->queries == RULE_QUERIES_ALL && k < n_replicas; k++)
		send_query(read->nodes[k], !rule->probes_silent);
	if (rule->queries == RULE_QUERIES_CHOSEN)
		send_query(read->nodes[replica], true);
	if (cluster)
		send_library_query();
	send_to(read, replica, LINNOS_PRIMARY_ATTEMPT);
	if (rule->clones)
		send_to(read, (replica + 1) % n_replicas, LINNOS_HEDGE_ATTEMPT);
	if (cluster && read->choice.copy >= 0)
		send_to(read, read->choice.copy, LINNOS_PROBE_COPY);
}

/* Send hedges that are due; return the time of the next one. */
static uint64_t hedge_late(uint64_t begun)
{
	uint64_t next_ns = UINT64_MAX;

	for (uint64_t k = begun > HEDGE_SCAN ? begun - HEDGE_SCAN : 0; k < begun; k++) {
		struct read *read = &reads[k];
		bool is_done;
		int replica;

		pthread_mutex_lock(&lock);
		is_done = read->is_done;
		pthread_mutex_unlock(&lock);
		if (is_done)
			continue;
		if (read->hedge_at_ns > woken_ns) {
			next_ns = read->hedge_at_ns < next_ns ? read->hedge_at_ns : next_ns;
			continue;
		}
		read->hedge_at_ns = UINT64_MAX;
		replica =
			cluster ? linnos_cluster_choose_hedge(cluster, &read->choice, woken_ns)
				: rule_hedge(rule, &client, read->attempts[0].replica, n_replicas);
		if (replica >= 0)
			send_to(read, replica, LINNOS_HEDGE_ATTEMPT);
	}
	return next_ns;
}

static void wait_until(uint64_t at_ns)
{
	struct itimerspec timer = {.it_value = {at_ns / 1000000000, at_ns % 1000000000}};
	struct pollfd fds[NODES_MAX + 2] = {{ended_fd, POLLIN, 0}, {timer_fd, POLLIN, 0}};
	eventfd_t ended;

	for (unsigned int k = 0; k < n_nodes; k++)
		fds[k + 2] = (struct pollfd){nodes[k].agent, POLLIN, 0};
	if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &timer, NULL) ||
	    (poll(fds, n_nodes + 2, -1) < 0 && errno != EINTR))
		die("wait");
	woken_ns = now_ns();
	if (fds[0].revents)
		eventfd_read(ended_fd, &ended);
	pthread_mutex_lock(&lock);
	for (unsigned int k = 0; k < n_nodes; k++)
		if (fds[k + 2].revents)
			receive_reports(k);
	pthread_mutex_unlock(&lock);
}

/* The monotonic time of the next full second that @every_s divides. */
static uint64_t next_start_ns(uint64_t every_s)
{
	uint64_t every_ns = every_s * 1000000000, wall_ns;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	wall_ns = t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
	return now_ns() + every_ns - wall_ns % every_ns;
}

static void run(uint64_t every_s)
{
	uint64_t begun = 0, written = 0, start_ns = next_start_ns(every_s);

	woken_ns = start_ns;
	for (uint64_t k = 0; k < n_reads; k++)
		reads[k].due_ns += start_ns;
	while (begun < n_reads || written < n_writes || in_flight) {
		uint64_t until = begun < n_reads ? reads[begun].due_ns : woken_ns + 1000000;
		uint64_t hedge = hedge_late(begun);

		if (written < n_writes && start_ns + writes[written].due_ns < until)
			until = start_ns + writes[written].due_ns;
		wait_until(hedge < until ? hedge : until);
		while (written < n_writes && start_ns + writes[written].due_ns <= woken_ns)
			begin_write(&writes[written++]);
		while (begun < n_reads && reads[begun].due_ns <= woken_ns)
			begin(&reads[begun++]);
	}
	for (uint64_t k = 0; k < n_reads; k++)
		reads[k].due_ns -= start_ns;
}

static void open_node(unsigned int k, const char *address)
{
	struct sockaddr_in agent = {.sin_family = AF_INET, .sin_port = htons(AGENT_PORT)};
	char name[64];

	if (!inet_aton(address, &agent.sin_addr))
		die(address);
	nodes[k].agent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (connect(nodes[k].agent, (struct sockaddr *)&agent, sizeof(agent)))
		die(address);
	snprintf(name, sizeof(name), "/dev/flash%u", k);
	nodes[k].drive = open(name, O_RDONLY);
	if (nodes[k].drive < 0)
		die(name);
}

static void open_nodes(uint64_t seed)
{
	char *addresses = strdup(getenv("LINNOS_NODES")), *rest;

	for (char *address = strtok_r(addresses, ",", &rest); address && n_nodes < NODES_MAX;
	     address = strtok_r(NULL, ",", &rest))
		open_node(n_nodes++, address);
	n_replicas = n_nodes < REPLICAS ? n_nodes : REPLICAS;
	n_blocks = engine_open(n_nodes, rule == &engines_own ? rule->name : NULL, seed);
}

/* With the default options except for the mode. */
static void open_library(uint64_t seed)
{
	struct linnos_cluster_options options = LINNOS_CLUSTER_OPTIONS_INIT;

	options.mode = own->mode;
	options.seed = seed;
	if (linnos_cluster_create(&cluster, n_nodes, &options))
		die(linnos_cluster_error());
}

static uint64_t capacity_for(double lasts_ms, double mean_us)
{
	return 2 * lasts_ms * 1000 / mean_us + 1000;
}

static void draw_reads(uint64_t seed, double lasts_ms, double mean_us)
{
	uint64_t room = capacity_for(lasts_ms, mean_us);
	double due_ns = 0;

	draws = seed;
	reads = calloc(room, sizeof(*reads));
	while (n_reads < room &&
	       (due_ns += draw_exponential(&draws) * mean_us * 1000) < lasts_ms * 1e6)
		reads[n_reads++] = (struct read){
			.due_ns = due_ns,
			.hedge_at_ns = UINT64_MAX,
			.block = draw() % n_blocks,
		};
}

/* Writes have their own random sequence, so that the reads are the same without them. */
static void draw_writes(uint64_t seed, double lasts_ms, double mean_us)
{
	uint64_t room = capacity_for(lasts_ms, mean_us), sequence = seed * 3;
	double due_ns = 0;

	writes = calloc(room, sizeof(*writes));
	while (n_writes < room &&
	       (due_ns += draw_exponential(&sequence) * mean_us * 1000) < lasts_ms * 1e6)
		writes[n_writes++] = (struct write){due_ns, draw_from(&sequence) % n_blocks};
}

/* Count the reads of the engine's half of each drive so far. */
static void count_disk_reads(uint64_t counts[NODES_MAX])
{
	for (unsigned int k = 0; k < n_nodes; k++) {
		char name[64];
		FILE *file;

		snprintf(name, sizeof(name), "/sys/class/block/flash%up1/stat", k);
		file = fopen(name, "re");
		if (!file || fscanf(file, "%" SCNu64, &counts[k]) != 1)
			die(name);
		fclose(file);
	}
}

static void log_reads(const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file)
		die(path);
	for (uint64_t k = 0; k < n_reads; k++) {
		struct logged one = {reads[k].due_ns, reads[k].latency_ns, reads[k].node,
				     reads[k].n_attempts};

		fwrite(&one, sizeof(one), 1, file);
	}
	if (fclose(file))
		die(path);
}

/*
 * Replaces glibc's function, by which GlusterFS names its threads through /proc. When this program
 * ends, the parent would wait for the kernel to free the thread's file without sleeping, and so
 * forever in virtual time.
 */
int pthread_setname_np(pthread_t thread, const char *name)
{
	(void)thread;
	(void)name;
	return 0;
}

static unsigned int count_nodes(void)
{
	unsigned int n = 1;

	for (const char *at = getenv("LINNOS_NODES"); (at = strchr(at, ',')); at++)
		n++;
	return n;
}

int main(int argc, char **argv)
{
	uint64_t before[NODES_MAX], after[NODES_MAX], seed;
	double lasts_ms, mean_us, writes_percent;

	if (argc == 3 && !strcmp(argv[1], "write")) {
		engine_write(strtoull(argv[2], NULL, 10) << 20, count_nodes());
		fflush(stdout);
		_exit(0);
	}
	if (argc != 11 || !select_rule(argv[1])) {
		fputs("usage: reads write MB\n"
		      "       reads RULE SEED MS MEAN_US CLIENTS LOST LIE WRITES EVERY_S "
		      "LOG\nrules:",
		      stderr);
		for (size_t k = 0; k < n_rules; k++)
			fprintf(stderr, " %s", rules[k].name);
		for (size_t k = 0; k < sizeof(own_rules) / sizeof(*own_rules); k++)
			fprintf(stderr, " %s", own_rules[k].rule.name);
		fputc('\n', stderr);
		return 2;
	}
	seed = strtoull(argv[2], NULL, 10);
	lasts_ms = strtod(argv[3], NULL);
	mean_us = strtod(argv[4], NULL);
	lost_percent = strtoul(argv[6], NULL, 10);
	losses = ~seed;
	select_lie(argv[7]);
	writes_percent = strtod(argv[8], NULL);
	ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	open_nodes(seed);
	client.n_nodes = n_nodes;
	client.n_clients = strtoul(argv[5], NULL, 10);
	client.draw = draw;
	if (!rule_hedging_init(&hedging))
		die("memory");
	if (own && own->choose == by_library)
		open_library(seed);
	draw_reads(seed, lasts_ms, mean_us);
	if (writes_percent > 0)
		draw_writes(seed, lasts_ms, mean_us * (100 - writes_percent) / writes_percent);
	count_disk_reads(before);
	run(strtoull(argv[9], NULL, 10));
	count_disk_reads(after);
	log_reads(argv[10]);
	printf("{\"reads\": %llu, \"writes\": %llu, \"wrong\": %llu, \"failed\": "
	       "%llu, \"asked\": %llu, "
	       "\"told\": %llu, \"strayed\": %llu, \"disk_reads\": [",
	       (unsigned long long)n_reads, (unsigned long long)n_writes, (unsigned long long)wrong,
	       (unsigned long long)failed, (unsigned long long)(n_queries + engine_queries()),
	       (unsigned long long)n_reports, (unsigned long long)engine_redirects());
	for (unsigned int k = 0; k < n_nodes; k++)
		printf("%s%llu", k ? ", " : "", (unsigned long long)(after[k] - before[k]));
	puts("]}");
	fflush(stdout);
	/* closing the handles would take seconds */
	_exit(wrong || failed ? 1 : 0);
}
