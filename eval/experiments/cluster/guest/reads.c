// SPDX-License-Identifier: MIT
/*
 * The client of a cluster: reads blocks that all nodes have, each when it is due, from the node
 *that a rule chooses, over the network. What serves them is an engine (engine.h), and who chooses
 *may be it.
 *
 *	reads write MB
 *	reads RULE SEED MS MEAN_US PROBES EVERY_S LOG
 *
 * Reads are of 4 KiB, at places drawn from SEED, and come for MS by a Poisson process whose mean
 * distance is MEAN_US, which begins at the next second that EVERY_S divides, as a replay with
 * --start-every does that is beside. With rules that go by what nodes tell, PROBES of the nodes are
 * asked whenever a read comes, in turn, over UDP (linnos-agent(8)); nobody waits for the answer,
 *which is for the reads after it. liblinnos-cluster says itself whom to ask.
 */
#include "engine.h"

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
#include <arpa/inet.h>
#include <time.h>
#include <unistd.h>

#include "datagram.h"
#include "flashsim_ioctl.h"
#include "linnos_cluster.h"
#include "linux/blk-linnos.h"

enum { LOOKED_BACK = 64, AGENT_PORT = 7316 };

/*
 * What a node told longer ago counts no more: nothing is known of it, and it is as the others are.
 * No more does what a read there took: it is tried again.
 */
#define TOLD_FOR_NS UINT64_C(50000000)

/* A read in flight is taken to make the next one there longer by so much. */
#define QUEUED_NS 100000.0

/* As BLKEXPECT has it: those that the lowest does not undercut by more. */
#define NEARLY_BEST 1.25

/* A read that was sent since a node told is taken to make its prediction longer by so much. */
#define CROWDING 0.1

/* Hedges are sent after this percentile of what this run has measured so far. */
#define HEDGE_PERCENTILE 0.95

/* So many reads are measured before the first hedge, and between two looks at the percentile. */
enum { HEDGE_EVERY = 100 };

struct node {
	int agent; /* socket */
	/* for the oracle */
	int drive;
	unsigned int in_flight;
	uint64_t sent, served;
	/* what the last read that it answered took, and when that was */
	uint64_t own_ns, own_at_ns;
	/* what it told last */
	bool is_told;
	uint64_t told_ns, sent_when_asked;
	struct answer told;
};

struct attempt {
	struct read *read;
	unsigned int node;
	char *buffer;
	uint64_t answered_ns;
	enum linnos_kind kind;
	struct linnos_sending sending;
};

struct read {
	uint64_t due_ns, sent_ns, latency_ns, block;
	unsigned int node; /* that answered first */
	unsigned int n_attempts;
	bool is_done;
	struct linnos_choice choice;
	/* with a copy and a hedge */
	struct attempt attempts[3];
};

/* A read as it is logged. */
struct logged {
	uint64_t due_ns, latency_ns;
	uint32_t node, attempts;
};

static struct node nodes[NODES_MAX];
static unsigned int n_nodes, n_probes;
static struct read *reads;
static uint64_t n_reads, n_blocks, in_flight, wrong, failed, asked, told;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ended_fd, timer_fd;
static uint64_t draws;
static uint64_t hedge_ns;
/* with the rules that are the library's */
static struct linnos_cluster *cluster;
static uint32_t numbers[NODES_MAX];

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
 * When something last woke us. In the lab to look at the clock is what takes time, and time that
 * all nodes have in common, so it is done once for all that has come.
 */
static uint64_t woken_ns;

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t z = draws += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t draw_below(uint64_t n)
{
	return draw() % n;
}

/* -ln of a number from 0 to 1, whose mean is 1; without libm, so that it is the same everywhere. */
static double draw_exponential(void)
{
	double u = ((draw() >> 11) + 1) * 0x1p-53, sum = 0, y;
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

/* ---- what nodes tell ---- */

static void ask(struct node *node, bool look)
{
	struct question question = {
		.cookie = node->sent,
		.bytes = BLOCK,
		.flags = look ? QUESTION_LOOK : 0,
	};
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	size_t bytes = question_write(&question, NULL, 0, datagram);

	if (send(node->agent, datagram, bytes, 0) == (ssize_t)bytes)
		asked++;
}

static void hear(struct node *node)
{
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct answer answer;
	ssize_t bytes;

	while ((bytes = recv(node->agent, datagram, sizeof(datagram), MSG_DONTWAIT)) >= 0) {
		if (cluster) {
			told += !linnos_cluster_news(cluster, node - nodes, datagram, bytes,
						     woken_ns);
			continue;
		}
		if (answer_read(&answer, NULL, 0, datagram, bytes) || answer.cookie > node->sent)
			continue;
		told++;
		node->is_told = true;
		node->told = answer;
		node->told_ns = woken_ns;
		/* the cookie is how many reads had been sent when it was asked */
		node->sent_when_asked = answer.cookie;
	}
}

static double sent_since(const struct node *node)
{
	uint64_t since = node->sent - node->sent_when_asked;

	return since < node->in_flight ? since : node->in_flight;
}

static bool is_fresh(const struct node *node)
{
	return node->is_told && woken_ns - node->told_ns < TOLD_FOR_NS;
}

static double pending_of(const struct node *node)
{
	return node->told.pending + sent_since(node);
}

static double predicted_of(const struct node *node)
{
	double us = node->told.latency_us;

	if (node->told.state & BLK_EXPECT_STALLED)
		us = 1e9;
	return us * (1 + CROWDING * sent_since(node));
}

/* ---- rules ---- */

static unsigned int any_of(const bool *candidates)
{
	unsigned int n = 0, chosen;

	for (unsigned int k = 0; k < n_nodes; k++)
		n += candidates[k];
	chosen = draw_below(n);
	for (unsigned int k = 0;; k++)
		if (candidates[k] && !chosen--)
			return k;
}

/* Any of those within a factor of the lowest; who is not known is as the mean of the others. */
static unsigned int lowest(const double *score, const bool *is_known, double factor)
{
	double best = 1e300, sum = 0, own[NODES_MAX];
	bool candidates[NODES_MAX] = {false};
	unsigned int known = 0;

	for (unsigned int k = 0; k < n_nodes; k++) {
		known += is_known[k];
		sum += is_known[k] ? score[k] : 0;
	}
	for (unsigned int k = 0; k < n_nodes; k++) {
		own[k] = is_known[k] ? score[k] : known ? sum / known : 0;
		best = own[k] < best ? own[k] : best;
	}
	for (unsigned int k = 0; k < n_nodes; k++)
		candidates[k] = own[k] <= best * factor;
	return any_of(candidates);
}

static unsigned int by_told(double (*score_of)(const struct node *node), double factor)
{
	double score[NODES_MAX];
	bool known[NODES_MAX];

	for (unsigned int k = 0; k < n_nodes; k++) {
		known[k] = is_fresh(&nodes[k]);
		score[k] = score_of(&nodes[k]);
	}
	return lowest(score, known, factor);
}

static unsigned int by_pending(const struct read *read)
{
	(void)read;
	return by_told(pending_of, 1);
}

/* Who has been silent is looked at once for each time that it is told. */
static unsigned int by_prediction(const struct read *read)
{
	(void)read;
	for (unsigned int k = 0; k < n_nodes; k++) {
		struct node *node = &nodes[k];

		if (is_fresh(node) && node->told.state & BLK_EXPECT_PROBE &&
		    node->sent == node->sent_when_asked) {
			node->told.state &= ~BLK_EXPECT_PROBE;
			return k;
		}
	}
	return by_told(predicted_of, NEARLY_BEST);
}

static unsigned int by_own_queue(const struct read *read)
{
	bool known[NODES_MAX];
	double score[NODES_MAX];

	(void)read;
	for (unsigned int k = 0; k < n_nodes; k++) {
		known[k] = true;
		score[k] = nodes[k].in_flight;
	}
	return lowest(score, known, 1);
}

/*
 * What the client's own last read there took, or one that is there has waited already: what a
 * client that asks nobody may know of a drive.
 */
static unsigned int by_own_latency(const struct read *read)
{
	const struct read *first = read - reads > LOOKED_BACK ? read - LOOKED_BACK : reads;
	double score[NODES_MAX];
	bool known[NODES_MAX];

	for (unsigned int k = 0; k < n_nodes; k++) {
		const struct node *node = &nodes[k];
		uint64_t ns = node->own_at_ns + TOLD_FOR_NS > woken_ns ? node->own_ns : 0;

		for (const struct read *r = first; r < read; r++)
			if (!r->is_done && r->attempts[0].node == k && woken_ns - r->sent_ns > ns)
				ns = woken_ns - r->sent_ns;
		known[k] = true;
		score[k] = ns + QUEUED_NS * node->in_flight;
	}
	return lowest(score, known, NEARLY_BEST);
}

static unsigned int another_than(unsigned int node)
{
	return (node + 1 + draw_below(n_nodes - 1)) % n_nodes;
}

static unsigned int by_two_choices(const struct read *read)
{
	unsigned int one = draw_below(n_nodes), other = another_than(one);

	(void)read;
	return nodes[other].in_flight < nodes[one].in_flight ? other : one;
}

static unsigned int in_turn(const struct read *read)
{
	return (read - reads) % n_nodes;
}

static unsigned int at_random(const struct read *read)
{
	(void)read;
	return draw_below(n_nodes);
}

/* What the drives would take now, which nobody else can know. */
static unsigned int by_oracle(const struct read *read)
{
	bool known[NODES_MAX];
	double score[NODES_MAX];

	for (unsigned int k = 0; k < n_nodes; k++) {
		struct flashsim_oracle oracle = {
			.sector = engine_sector(k, read->block),
			.nr_sectors = BLOCK / 512,
			.op = FLASHSIM_ORACLE_READ,
		};

		if (ioctl(nodes[k].drive, FLASHSIM_IOC_ORACLE, &oracle))
			die("oracle");
		known[k] = true;
		score[k] = oracle.latency_ns;
	}
	return lowest(score, known, 1);
}

/* Home is the node whose turn it is. */
static unsigned int by_library(const struct read *read)
{
	struct linnos_choice *choice = (struct linnos_choice *)&read->choice;

	*choice = (struct linnos_choice){.bytes = BLOCK, .home = LINNOS_HOME_TURNS};
	return linnos_cluster_choose(cluster, choice, numbers, n_nodes, woken_ns);
}

static const struct rule {
	const char *name;
	unsigned int (*choose)(const struct read *read); /* NULL: the engine does */
	bool asks, looks, clones, hedges;
	enum linnos_cluster_mode mode;
} rules[] = {
	{.name = "round-robin", .choose = in_turn},
	{.name = "random", .choose = at_random},
	{.name = "own-queue", .choose = by_own_queue},
	{.name = "own-latency", .choose = by_own_latency},
	{.name = "two-choices", .choose = by_two_choices},
	{.name = "pending", .choose = by_pending, .asks = true, .looks = true},
	{.name = "prediction", .choose = by_prediction, .asks = true},
	{.name = "library", .choose = by_library, .mode = LINNOS_CLUSTER_CHOOSE},
	{.name = "library-hedge", .choose = by_library, .mode = LINNOS_CLUSTER_HEDGE},
	{.name = "oracle", .choose = by_oracle},
	{.name = "hedge", .choose = in_turn, .hedges = true},
	{.name = "clone", .choose = at_random, .clones = true},
};

/* That of the engine's own which was asked for. */
static struct rule engines_own;

static const struct rule *rule;

/* ---- reads ---- */

void on_end(void *of, ssize_t bytes)
{
	struct attempt *attempt = of;
	struct read *read = attempt->read;
	uint64_t end_ns = now_ns(), expected[BLOCK / sizeof(uint64_t)];

	fill((char *)expected, read->block);
	if (cluster)
		linnos_cluster_ended(cluster, &attempt->sending,
				     bytes == BLOCK ? LINNOS_ANSWERED : LINNOS_FAILED, end_ns);
	pthread_mutex_lock(&lock);
	attempt->answered_ns = end_ns;
	nodes[attempt->node].in_flight--;
	nodes[attempt->node].own_ns = end_ns - read->sent_ns;
	nodes[attempt->node].own_at_ns = end_ns;
	in_flight--;
	if (bytes != BLOCK)
		failed++;
	else if (memcmp(attempt->buffer, expected, BLOCK))
		wrong++;
	/* nobody waits for a copy */
	if (!read->is_done && attempt->kind != LINNOS_COPY) {
		if (cluster)
			linnos_cluster_answered(cluster, &read->choice, &attempt->sending, end_ns);
		read->is_done = true;
		read->latency_ns = end_ns - read->due_ns;
		read->node = attempt->node;
		nodes[attempt->node].served++;
	}
	pthread_mutex_unlock(&lock);
	eventfd_write(ended_fd, 1);
}

static void send_to(struct read *read, unsigned int node, enum linnos_kind kind)
{
	struct attempt *attempt = &read->attempts[read->n_attempts++];

	*attempt = (struct attempt){
		.read = read,
		.node = node,
		.buffer = aligned_alloc(BLOCK, BLOCK),
		.kind = kind,
	};
	/* candidates are all nodes, in their order */
	if (cluster)
		linnos_cluster_sent(cluster, &attempt->sending, &read->choice, node, kind,
				    woken_ns);
	pthread_mutex_lock(&lock);
	nodes[node].in_flight++;
	nodes[node].sent++;
	in_flight++;
	pthread_mutex_unlock(&lock);
	engine_read(rule->choose ? (int)node : ENGINE_CHOOSES, read->block, attempt->buffer,
		    attempt);
}

/* Whom the library would like to hear of. */
static void ask_for_library(void)
{
	uint8_t datagram[LINNOS_CLUSTER_DATAGRAM];
	int64_t node = linnos_cluster_next_probe(cluster, woken_ns);
	size_t bytes;

	if (node < 0)
		return;
	bytes = linnos_cluster_question(cluster, node, 0, BLOCK, woken_ns, datagram);
	if (send(nodes[node].agent, datagram, bytes, 0) == (ssize_t)bytes)
		asked++;
}

static void begin(struct read *read)
{
	static unsigned int next;
	unsigned int node;

	pthread_mutex_lock(&lock);
	node = rule->choose ? rule->choose(read) : 0;
	pthread_mutex_unlock(&lock);
	read->sent_ns = woken_ns;
	/* before the read, which is then none of those that the node has seen, but one sent since
	 */
	for (unsigned int k = 0; rule->asks && k < n_probes; k++)
		ask(&nodes[next++ % n_nodes], rule->looks);
	if (cluster)
		ask_for_library();
	send_to(read, node, LINNOS_FIRST);
	if (rule->clones)
		send_to(read, another_than(node), LINNOS_HEDGE);
	if (cluster && read->choice.copy >= 0)
		send_to(read, read->choice.copy, LINNOS_COPY);
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

/* The percentile of all that has been answered. */
static void learn_when_to_hedge(uint64_t begun)
{
	uint64_t *taken = malloc(begun * sizeof(*taken)), n = 0;

	pthread_mutex_lock(&lock);
	for (uint64_t k = 0; k < begun; k++)
		if (reads[k].is_done)
			taken[n++] = reads[k].latency_ns;
	pthread_mutex_unlock(&lock);
	qsort(taken, n, sizeof(*taken), compare);
	if (n >= HEDGE_EVERY)
		hedge_ns = taken[(uint64_t)(n * HEDGE_PERCENTILE)];
	free(taken);
}

/* Returns when the next one is to be hedged, from *oldest on; reads are hedged in their order. */
static uint64_t hedge_late(uint64_t *oldest, uint64_t begun)
{
	while (hedge_ns && *oldest < begun) {
		struct read *read = &reads[*oldest];
		bool is_done;

		pthread_mutex_lock(&lock);
		is_done = read->is_done;
		pthread_mutex_unlock(&lock);
		if (!is_done && read->sent_ns + hedge_ns > woken_ns)
			return read->sent_ns + hedge_ns;
		if (!is_done)
			send_to(read, another_than(read->attempts[0].node), LINNOS_HEDGE);
		++*oldest;
	}
	return UINT64_MAX;
}

/* The library's hedges that are due, and when the next one will be. */
static uint64_t hedge_as_told(uint64_t begun)
{
	uint64_t next_ns = UINT64_MAX;

	for (uint64_t k = begun > LOOKED_BACK ? begun - LOOKED_BACK : 0; k < begun; k++) {
		struct linnos_choice *choice = &reads[k].choice;
		bool is_done;
		int node = -1;

		pthread_mutex_lock(&lock);
		is_done = reads[k].is_done;
		pthread_mutex_unlock(&lock);
		if (is_done)
			continue;
		if (choice->hedge_at_ns <= woken_ns)
			node = linnos_cluster_hedge(cluster, choice, woken_ns);
		if (node >= 0)
			send_to(&reads[k], node, LINNOS_HEDGE);
		else if (choice->hedge_at_ns < next_ns)
			next_ns = choice->hedge_at_ns;
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
			hear(&nodes[k]);
	pthread_mutex_unlock(&lock);
}

/* On the monotonic clock, when the other one shows a second that is divided. */
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
	uint64_t begun = 0, oldest = 0, start_ns = next_start_ns(every_s);

	woken_ns = start_ns;
	for (uint64_t k = 0; k < n_reads; k++)
		reads[k].due_ns += start_ns;
	while (begun < n_reads || in_flight) {
		uint64_t until = begun < n_reads ? reads[begun].due_ns : woken_ns + 1000000;
		uint64_t hedge = rule->hedges ? hedge_late(&oldest, begun)
				 : cluster    ? hedge_as_told(begun)
					      : UINT64_MAX;

		wait_until(hedge < until ? hedge : until);
		while (begun < n_reads && reads[begun].due_ns <= woken_ns) {
			begin(&reads[begun++]);
			if (rule->hedges && begun % HEDGE_EVERY == 0)
				learn_when_to_hedge(begun);
		}
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
	n_blocks = engine_open(n_nodes, rule->choose ? NULL : rule->name, seed);
}

/* As it is by default, but for the mode. */
static void open_library(uint64_t seed)
{
	struct linnos_cluster_options options = LINNOS_CLUSTER_OPTIONS_INIT;

	options.mode = rule->mode;
	options.seed = seed;
	for (unsigned int k = 0; k < n_nodes; k++)
		numbers[k] = k;
	if (linnos_cluster_create(&cluster, n_nodes, &options))
		die(linnos_cluster_error());
}

static void draw_reads(uint64_t seed, double lasts_ms, double mean_us)
{
	uint64_t room = 2 * lasts_ms * 1000 / mean_us + 1000;
	double due_ns = 0;

	draws = seed;
	reads = calloc(room, sizeof(*reads));
	while (n_reads < room && (due_ns += draw_exponential() * mean_us * 1000) < lasts_ms * 1e6)
		reads[n_reads++] = (struct read){
			.due_ns = due_ns,
			.block = draw_below(n_blocks),
		};
}

/* Reads of the engine's half of each drive until now. */
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
 * Stands before glibc's, which GlusterFS names its threads with. That one writes to a file of theirs in
 * /proc, and when we end, the last thread gives what the kernel keeps of its file back while our parent
 * wants it gone and does not sleep: in virtual time the parent waits for ever.
 */
int pthread_setname_np(pthread_t thread, const char *name)
{
	(void)thread;
	(void)name;
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t before[NODES_MAX], after[NODES_MAX];

	if (argc == 3 && !strcmp(argv[1], "write")) {
		engine_write(strtoull(argv[2], NULL, 10) << 20);
		fflush(stdout);
		_exit(0);
	}
	for (size_t k = 0; argc == 8 && k < sizeof(rules) / sizeof(*rules); k++)
		if (!strcmp(argv[1], rules[k].name))
			rule = &rules[k];
	if (argc == 8 && !rule && engine_has(argv[1])) {
		engines_own.name = argv[1];
		rule = &engines_own;
	}
	if (!rule) {
		fputs("usage: reads write MB\n"
		      "       reads RULE SEED MS MEAN_US PROBES EVERY_S LOG\nrules:",
		      stderr);
		for (size_t k = 0; k < sizeof(rules) / sizeof(*rules); k++)
			fprintf(stderr, " %s", rules[k].name);
		fputc('\n', stderr);
		return 2;
	}
	n_probes = strtoul(argv[5], NULL, 10);
	ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	open_nodes(strtoull(argv[2], NULL, 10));
	if (rule->choose == by_library)
		open_library(strtoull(argv[2], NULL, 10));
	draw_reads(strtoull(argv[2], NULL, 10), strtod(argv[3], NULL), strtod(argv[4], NULL));
	count_disk_reads(before);
	run(strtoull(argv[6], NULL, 10));
	count_disk_reads(after);
	log_reads(argv[7]);
	printf("{\"reads\": %llu, \"wrong\": %llu, \"failed\": %llu, \"asked\": %llu, "
	       "\"told\": %llu, \"strayed\": %llu, \"disk_reads\": [",
	       (unsigned long long)n_reads, (unsigned long long)wrong, (unsigned long long)failed,
	       (unsigned long long)(asked + engine_asked()), (unsigned long long)told,
	       (unsigned long long)engine_strayed());
	for (unsigned int k = 0; k < n_nodes; k++)
		printf("%s%llu", k ? ", " : "", (unsigned long long)(after[k] - before[k]));
	puts("]}");
	fflush(stdout);
	/* handles are not given back: that takes seconds, and nobody waits for them */
	_exit(wrong || failed ? 1 : 0);
}
