// SPDX-License-Identifier: MIT
/*
 * A discrete-event simulation of clients that read from replicas on nodes.
 *
 *	linnos-simulation --NAME=VALUE...
 *
 * Reads of 4 KiB arrive as a Poisson process, each at a random client, for an object whose three
 * replicas are placed by a hash. A policy chooses the node. The read then takes the network latency
 * to the node, the service time of the drive, and the network latency back. Queries to agents use
 * the same network. The library under test is the real one, with the real datagrams, and uses the
 * simulated clock. Equal arguments give equal results, and all policies get the same reads. The
 * program prints one JSON object.
 */
#include "datagram.h"
#include "drive.h"
#include "linnos_cluster.h"
#include "linux/blk-linnos.h"
#include "program/program.h"
#include "rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_REPLICAS 3

/* The warm-up of the drives before reads count. */
#define WARM_UP_NS (50 * NS_PER_MS)
#define AGENT_NS 5000
/* Older latencies say nothing about the present state of a drive. */
#define RECENT_NS (50 * NS_PER_MS)
#define BIN_NS (100 * NS_PER_MS)
#define BINS_MAX 1024
#define LIE_US_FAST 20
#define LIE_US_SLOW 20000
/* Weight of the last read in the moving average that a server reports, as in Elasticsearch. */
#define AVERAGE_NEW 0.3f

struct read;

struct attempt {
	struct read *read;
	struct rule_server told; /* statistics returned with the answer */
	struct rule_sending of_rule;
	uint8_t replica;
	bool is_first;
	struct linnos_attempt sending;
};

struct read {
	uint64_t number, place, due_ns;
	uint32_t client, nodes[N_REPLICAS];
	uint8_t n_attempts, n_holders;
	bool is_begun, is_answered;
	struct linnos_choice choice;
	struct attempt attempts[N_REPLICAS];
};

/* The client's library, or the state of another policy. */
struct client {
	struct linnos_cluster *cluster;
	struct rule_client of_rule;
};

struct scenario {
	const struct profile *profile;
	uint32_t n_nodes, n_clients;
	uint32_t in_sets; /* if 1, disjoint sets of three consecutive nodes hold the same objects,
			     as in GlusterFS */
	double reads_per_s, seconds;
	uint64_t seed, one_way_ns, report_delay_ns;
	double written_mb_per_s;
	struct injected injected;
	const char *agents; /* "on", "dead"; with "fast" and "slow" node 0 lies */
	const char *log;
	uint32_t queries_first;
	struct linnos_cluster_options options;
};

struct sent_query {
	struct read *read;
	uint32_t client, node, sent_at_query;
	uint32_t us, pending;
	uint8_t bytes;
	uint8_t datagram[DATAGRAM_BYTES_MAX];
};

struct event {
	uint64_t at_ns, number;
	void (*handle)(void *subject);
	void *subject;
};

struct logged {
	uint64_t due_ns, latency_ns;
};

/* Policies that are not among the alternatives of rules.c. */
static const struct own_rule {
	struct rule rule;
	bool is_library, deaf; /* it does not query agents */
	enum linnos_cluster_mode mode;
} own_rules[] = {
	{.rule.name = "observe", .is_library = true, .mode = LINNOS_CLUSTER_OBSERVE},
	{.rule.name = "library", .is_library = true, .mode = LINNOS_CLUSTER_CHOOSE},
	{.rule.name = "library-deaf",
	 .is_library = true,
	 .deaf = true,
	 .mode = LINNOS_CLUSTER_CHOOSE},
	{.rule.name = "library-hedge", .is_library = true, .mode = LINNOS_CLUSTER_HEDGE},
	{.rule.name = "oracle"},
};

static struct scenario scenario;
static struct drive *drives;
static uint64_t now_ns = NS_PER_MS;

static struct client *clients;
static const struct rule *rule;
static const struct own_rule *own; /* NULL for one of the alternatives */
static struct event *heap;
static uint64_t n_events, heap_room, n_numbered;
static uint64_t arrivals, draws;
static struct logged *log_of;
static uint64_t n_reads, log_room, n_attempts, n_queries, n_answered, begin_ns, end_ns;
static struct rule_hedging hedging; /* shared by all clients */
static uint64_t to_slow[BINS_MAX], in_bin[BINS_MAX], *in_second, most_in_second, second_total,
	second;
static double worst_share;

static void *allocate(size_t n, size_t bytes)
{
	void *room = calloc(n, bytes);

	if (!room)
		die("out of memory");
	return room;
}

static void *reallocate(void *old, size_t bytes)
{
	void *room = realloc(old, bytes);

	if (!room)
		die("out of memory");
	return room;
}

static double exponential(uint64_t *state)
{
	*state = mixed(*state);
	return -log(((*state >> 11) + 0.5) * 0x1p-53);
}

static uint64_t draw(void)
{
	return draws = mixed(draws);
}

/* --- Events -------------------------------------------------------------------------------- */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void schedule(uint64_t at_ns, void (*handle)(void *subject), void *subject)
{
	struct event e = {at_ns, n_numbered++, handle, subject};
	uint64_t k = n_events++;

	if (n_events > heap_room) {
		heap_room = 2 * heap_room + 1024;
		heap = reallocate(heap, heap_room * sizeof(*heap));
	}
	for (; k && is_before(&e, &heap[(k - 1) / 2]); k = (k - 1) / 2)
		heap[k] = heap[(k - 1) / 2];
	heap[k] = e;
}

static struct event next_event(void)
{
	struct event first = heap[0], last = heap[--n_events];
	uint64_t k = 0;

	for (;;) {
		uint64_t child = 2 * k + 1;

		if (child + 1 < n_events && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (child >= n_events || !is_before(&heap[child], &last))
			break;
		heap[k] = heap[child];
		k = child;
	}
	heap[k] = last;
	return first;
}

/* Release a reference held by an attempt, a query or a later event. */
static void let_go(struct read *read)
{
	if (!--read->n_holders)
		free(read);
}

static void begin_once(struct read *read);

/* --- Agents -------------------------------------------------------------------------------- */

/*
 * Return the mean latency of the drive's recent reads by all clients, a prediction that needs no
 * model.
 */
static uint32_t predicted_us(const struct drive *d)
{
	uint64_t sum_ns = 0, n = 0;

	for (unsigned int k = 0; k < RECENT && k < d->n_recent; k++)
		if (d->recent[k].end_ns + RECENT_NS > now_ns) {
			sum_ns += d->recent[k].took_ns;
			n++;
		}
	return n ? sum_ns / n / NS_PER_US : 0;
}

/* Send a query to an agent; @read, if not NULL, waits for the answer. */

static void report_arrives(void *subject)
{
	struct sent_query *q = subject;
	struct client *c = &clients[q->client];

	if (c->cluster)
		linnos_cluster_receive_report(c->cluster, q->node, q->datagram, q->bytes, now_ns);
	else
		c->of_rule.nodes[q->node].report = (struct rule_report){
			.at_ns = now_ns,
			.us = q->us,
			.pending = q->pending,
			.sent_at_query = q->sent_at_query,
		};
	if (q->read) {
		begin_once(q->read);
		let_go(q->read);
	}
	free(q);
}

static void arrive_at_agent(void *subject)
{
	struct sent_query *q = subject;
	const struct drive *d = &drives[q->node];
	struct query query;

	if (!strcmp(scenario.agents, "dead")) {
		if (q->read)
			let_go(q->read);
		free(q);
		return;
	}
	q->us = predicted_us(d);
	q->pending = d->pending;
	if (!q->node && !strcmp(scenario.agents, "fast"))
		q->us = LIE_US_FAST, q->pending = 0;
	else if (!q->node && !strcmp(scenario.agents, "slow"))
		q->us = LIE_US_SLOW, q->pending = 1000;
	if (clients[q->client].cluster && !query_read(&query, NULL, 0, q->datagram, q->bytes)) {
		struct answer answer = {
			.cookie = query.cookie,
			.clock_ns = now_ns,
			.generation = 1,
			.bytes = query.bytes,
			.latency_us = q->us,
			.pending = q->pending,
			.n_drives = 1,
			.flags = query.flags,
			.known = q->us ? BLK_EXPECT_LATENCY : BLK_EXPECT_NO_MODEL,
			.state = STATE_PENDING_KNOWN,
		};

		q->bytes = answer_write(&answer, NULL, 0, q->datagram);
	}
	schedule(now_ns + AGENT_NS + scenario.one_way_ns + scenario.report_delay_ns, report_arrives,
		 q);
}

static void send_query(uint32_t client, uint32_t node, struct read *read)
{
	struct sent_query *q = allocate(1, sizeof(*q));
	struct client *c = &clients[client];

	*q = (struct sent_query){.client = client, .node = node, .read = read};
	if (read)
		read->n_holders++;
	if (c->cluster)
		q->bytes =
			linnos_cluster_build_query(c->cluster, node, 0, 4096, now_ns, q->datagram);
	else
		q->sent_at_query = c->of_rule.nodes[node].sent;
	n_queries++;
	schedule(now_ns + scenario.one_way_ns, arrive_at_agent, q);
}

/* --- Reads --------------------------------------------------------------------------------- */

static void end_second(void)
{
	if (second_total > 1000)
		worst_share = fmax(worst_share, (double)most_in_second / second_total);
}

static void count_sent(uint32_t node, bool is_copy)
{
	uint64_t since = now_ns - begin_ns;
	uint64_t bin = since / BIN_NS;

	n_attempts++;
	/* no client waits for a copy */
	if (bin < BINS_MAX && !is_copy) {
		in_bin[bin]++;
		to_slow[bin] += node == scenario.injected.slow_drive;
	}
	if (since / NS_PER_S != second) {
		end_second();
		memset(in_second, 0, scenario.n_nodes * sizeof(*in_second));
		most_in_second = second_total = 0;
		second = since / NS_PER_S;
	}
	second_total++;
	if (++in_second[node] > most_in_second)
		most_in_second = in_second[node];
}

static void answer_arrives(void *subject)
{
	struct attempt *a = subject;
	struct read *read = a->read;
	struct client *c = &clients[read->client];

	if (c->cluster)
		linnos_cluster_on_complete(c->cluster, &a->sending, LINNOS_SUCCEEDED, now_ns);
	else
		rule_ended(&c->of_rule, &c->of_rule.nodes[read->nodes[a->replica]], &a->of_rule,
			   &a->told, now_ns);
	if (a->is_first && rule->hedges > 0)
		rule_hedging_learn(&hedging, now_ns - a->of_rule.sent_ns);
	/* a copy never answers the read */
	if (!read->is_answered &&
	    !(c->cluster && a != &read->attempts[0] && (int)a->replica == read->choice.copy)) {
		read->is_answered = true;
		log_of[read->number] = (struct logged){read->due_ns, now_ns - read->due_ns};
		n_answered++;
		if (c->cluster)
			linnos_cluster_on_answer(c->cluster, &read->choice, &a->sending, now_ns);
	}
	let_go(read);
}

static void complete_at_drive(void *subject)
{
	struct attempt *a = subject;
	struct drive *d = &drives[a->read->nodes[a->replica]];
	unsigned int k = d->n_recent++ % RECENT;

	d->pending--;
	d->average_us += (d->n_recent > 1 ? AVERAGE_NEW : 1) * (a->told.service_us - d->average_us);
	a->told.queue = d->pending;
	a->told.average_service_us = d->average_us;
	d->recent[k].took_ns = (uint64_t)a->told.service_us * NS_PER_US;
	d->recent[k].end_ns = now_ns;
	schedule(now_ns + scenario.one_way_ns, answer_arrives, a);
}

static void arrive_at_drive(void *subject)
{
	struct attempt *a = subject;
	struct drive *d = &drives[a->read->nodes[a->replica]];
	uint64_t end = drive_read(d, a->read->place, now_ns, true);

	a->told.service_us = (end - now_ns) / NS_PER_US;
	d->pending++;
	schedule(end, complete_at_drive, a);
}

static void send_read(struct read *read, unsigned int replica, enum linnos_kind kind)
{
	struct client *c = &clients[read->client];
	uint32_t node = read->nodes[replica];
	struct attempt *a = &read->attempts[read->n_attempts++];

	*a = (struct attempt){
		.read = read,
		.replica = replica,
		.is_first = kind == LINNOS_PRIMARY_ATTEMPT,
	};
	if (c->cluster)
		linnos_cluster_on_submit(c->cluster, &a->sending, &read->choice, replica, kind,
					 now_ns);
	else
		rule_sent(&c->of_rule.nodes[node], &a->of_rule, now_ns);
	count_sent(node, kind == LINNOS_PROBE_COPY);
	read->n_holders++;
	schedule(now_ns + scenario.one_way_ns, arrive_at_drive, a);
}

static void hedge_due(void *subject)
{
	struct read *read = subject;
	struct client *c = &clients[read->client];
	int replica = -1;

	if (!read->is_answered && c->cluster)
		replica = linnos_cluster_choose_hedge(c->cluster, &read->choice, now_ns);
	else if (!read->is_answered)
		replica = rule_hedge(rule, &c->of_rule, read->attempts[0].replica, N_REPLICAS);
	if (replica >= 0)
		send_read(read, replica, LINNOS_HEDGE_ATTEMPT);
	let_go(read);
}

static void hedge_later(struct read *read, uint64_t at_ns)
{
	read->n_holders++;
	schedule(at_ns, hedge_due, read);
}

static void place(struct read *read)
{
	uint64_t hash = mixed(read->place * 31);

	for (unsigned int k = 0; scenario.in_sets && k < N_REPLICAS; k++)
		read->nodes[k] = hash % (scenario.n_nodes / N_REPLICAS) * N_REPLICAS +
				 ((hash >> 32) + k) % N_REPLICAS;
	if (scenario.in_sets)
		return;
	for (unsigned int k = 0, try = 0; k < N_REPLICAS; try++) {
		uint32_t node = mixed(read->place * 31 + try) % scenario.n_nodes;
		bool again = false;

		for (unsigned int other = 0; other < k; other++)
			again |= read->nodes[other] == node;
		if (!again)
			read->nodes[k++] = node;
	}
}

static unsigned int oracle(const struct read *read)
{
	double ends_ns[N_REPLICAS];

	for (unsigned int k = 0; k < N_REPLICAS; k++)
		ends_ns[k] = drive_read(&drives[read->nodes[k]], read->place,
					now_ns + scenario.one_way_ns, false);
	return rule_lowest(&clients[read->client].of_rule, ends_ns, N_REPLICAS, 1);
}

static void begin(struct read *read)
{
	struct client *c = &clients[read->client];
	unsigned int replica;

	if (c->cluster) {
		int64_t probe;

		read->choice = (struct linnos_choice){.bytes = 4096};
		linnos_cluster_choose(c->cluster, &read->choice, read->nodes, N_REPLICAS, now_ns);
		probe = linnos_cluster_next_query_node(c->cluster, now_ns);
		if (probe >= 0)
			send_query(read->client, probe, NULL);
		send_read(read, read->choice.replica, LINNOS_PRIMARY_ATTEMPT);
		if (read->choice.copy >= 0)
			send_read(read, read->choice.copy, LINNOS_PROBE_COPY);
		if (read->choice.hedge_at_ns != UINT64_MAX)
			hedge_later(read, read->choice.hedge_at_ns);
		return;
	}
	replica = own ? oracle(read)
		      : rule_choose(rule, &c->of_rule, read->nodes, N_REPLICAS, now_ns);
	/* with these policies, all servers report their state */
	for (unsigned int k = 0; rule->queries == RULE_QUERIES_ALL && k < N_REPLICAS; k++)
		send_query(read->client, read->nodes[k], NULL);
	send_read(read, replica, LINNOS_PRIMARY_ATTEMPT);
	if (rule->clones)
		send_read(read, (replica + 1) % N_REPLICAS, LINNOS_HEDGE_ATTEMPT);
	if (rule->hedges > 0 && hedging.after_ns)
		hedge_later(read, now_ns + hedging.after_ns);
}

static void begin_once(struct read *read)
{
	if (!read->is_begun)
		begin(read);
	read->is_begun = true;
}

static void stop_waiting(void *subject)
{
	begin_once(subject);
	let_go(subject);
}

static void query_first_or_begin(struct read *read)
{
	struct client *c = &clients[read->client];
	uint64_t until_ns;
	int64_t node = -1;

	if (c->cluster && scenario.queries_first)
		node = linnos_cluster_should_query_first(c->cluster, read->nodes, N_REPLICAS, 0,
							 now_ns, &until_ns);
	if (node < 0) {
		begin_once(read);
		return;
	}
	read->n_holders++;
	schedule(until_ns, stop_waiting, read);
	send_query(read->client, node, read);
}

static void read_arrives(void *subject)
{
	struct read *read = subject;
	if (now_ns >= end_ns) {
		free(read);
		return;
	}
	*read = (struct read){.number = n_reads++, .due_ns = now_ns};
	arrivals = mixed(arrivals);
	read->client = arrivals % scenario.n_clients;
	arrivals = mixed(arrivals);
	read->place = arrivals;
	place(read);
	if (n_reads > log_room) {
		log_room = 2 * log_room + 4096;
		log_of = reallocate(log_of, log_room * sizeof(*log_of));
	}
	schedule(now_ns + (uint64_t)(exponential(&arrivals) * NS_PER_S / scenario.reads_per_s),
		 read_arrives, allocate(1, sizeof(struct read)));
	query_first_or_begin(read);
}

static void flush(void *subject)
{
	struct drive *d = subject;
	uint64_t every_ns = d->p->flush_interval_us * NS_PER_US;

	drive_flush(d, now_ns, scenario.written_mb_per_s * 1e6 * every_ns / NS_PER_S);
	if (now_ns < end_ns)
		schedule(now_ns + every_ns, flush, d);
}

/* --- A run --------------------------------------------------------------------------------- */

static void set_up_client(uint32_t k)
{
	struct linnos_cluster_options *o = &scenario.options;

	if (own && own->is_library) {
		o->mode = own->mode;
		o->seed = mixed(scenario.seed + 3) + k;
		if (own->deaf)
			o->query_percent = 0;
		if (linnos_cluster_create(&clients[k].cluster, scenario.n_nodes, o))
			die_of_usage("%s", linnos_cluster_error());
		return;
	}
	clients[k].of_rule = (struct rule_client){
		.nodes = allocate(scenario.n_nodes, sizeof(struct rule_node)),
		.n_nodes = scenario.n_nodes,
		.n_clients = scenario.n_clients,
		.turn = k,
		.draw = draw,
	};
}

static void set_up(void)
{
	struct injected *i = &scenario.injected;

	drives = allocate(scenario.n_nodes, sizeof(*drives));
	clients = allocate(scenario.n_clients, sizeof(*clients));
	in_second = allocate(scenario.n_nodes, sizeof(*in_second));
	begin_ns = now_ns + WARM_UP_NS;
	end_ns = begin_ns + (uint64_t)(scenario.seconds * NS_PER_S);
	i->n_drives = scenario.n_nodes;
	i->seed = mixed(scenario.seed);
	if (i->slow_ns)
		i->slow_drive = 0;
	i->slow_from_ns += begin_ns;
	i->slow_to_ns += begin_ns;
	arrivals = mixed(scenario.seed + 1);
	draws = mixed(scenario.seed + 2);
	for (uint32_t k = 0; k < scenario.n_nodes; k++) {
		drive_init(&drives[k], scenario.profile, i, k);
		if (scenario.written_mb_per_s > 0)
			schedule(now_ns +
					 draw() % (scenario.profile->flush_interval_us * NS_PER_US),
				 flush, &drives[k]);
	}
	for (uint32_t k = 0; k < scenario.n_clients; k++)
		set_up_client(k);
	if (!rule_hedging_init(&hedging))
		die("out of memory");
	schedule(begin_ns, read_arrives, allocate(1, sizeof(struct read)));
}

static void run(void)
{
	while (n_events) {
		struct event e = next_event();

		now_ns = e.at_ns;
		e.handle(e.subject);
	}
}

static int by_latency(const void *a, const void *b)
{
	uint64_t x = ((const struct logged *)a)->latency_ns,
		 y = ((const struct logged *)b)->latency_ns;

	return x < y ? -1 : x > y;
}

static void print_bins(const char *name, const uint64_t *bins)
{
	printf(", \"%s\": [", name);
	for (uint64_t k = 0; k < BINS_MAX && k * BIN_NS < end_ns - begin_ns; k++)
		printf("%s%llu", k ? ", " : "", (unsigned long long)bins[k]);
	printf("]");
}

static void print_library(void)
{
	struct linnos_cluster_stats sum = {0};

	for (uint32_t k = 0; k < scenario.n_clients; k++) {
		struct linnos_cluster_stats s;

		linnos_cluster_get_stats(clients[k].cluster, &s, sizeof(s));
		for (size_t i = 0; i < sizeof(s) / sizeof(uint64_t); i++)
			((uint64_t *)&sum)[i] += ((uint64_t *)&s)[i];
	}
#define PRINTED(name) printf(", \"" #name "\": %lld", (long long)sum.name)
	PRINTED(would_redirect);
	PRINTED(redirected);
	PRINTED(control);
	PRINTED(copies);
	PRINTED(hedges);
	PRINTED(hedges_won);
	PRINTED(hedges_denied);
	PRINTED(sent);
	PRINTED(ended);
	PRINTED(asked_first);
	PRINTED(answers);
	PRINTED(refused);
	PRINTED(saved_us);
	PRINTED(would_save_us);
}

static void print(void)
{
	const char *path = scenario.log;
	FILE *file = path ? fopen(path, "we") : NULL;
	double sum_us = 0;

	if (path &&
	    (!file || fwrite(log_of, sizeof(*log_of), n_reads, file) != n_reads || fclose(file)))
		die("%s cannot be written", path);
	count_sent(0, true);
	end_second();
	for (uint64_t k = 0; k < n_reads; k++)
		sum_us += log_of[k].latency_ns / 1e3;
	qsort(log_of, n_reads, sizeof(*log_of), by_latency);
	printf("{\"rule\": \"%s\", \"reads\": %llu, \"answered\": %llu", rule->name,
	       (unsigned long long)n_reads, (unsigned long long)n_answered);
	if (n_reads)
		printf(", \"mean_us\": %.3f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
		       "\"p999_us\": %.1f, \"extra_io_ratio\": %.5f, \"asked\": %.4f, "
		       "\"worst_share\": %.4f",
		       sum_us / n_reads, log_of[n_reads / 2].latency_ns / 1e3,
		       log_of[n_reads * 99 / 100].latency_ns / 1e3,
		       log_of[n_reads * 999 / 1000].latency_ns / 1e3,
		       (double)(n_attempts - 1) / n_reads - 1, (double)n_queries / n_reads,
		       worst_share);
	print_bins("to_slow", to_slow);
	print_bins("in_bin", in_bin);
	if (clients[0].cluster)
		print_library();
	printf("}\n");
}

static void parse_profile(void *settings, const char *text)
{
	(void)settings;
	scenario.profile = profile_named(text);
	if (!scenario.profile)
		die_of_usage("--profile %s: it must be consumer or enterprise", text);
}

static void parse_rule(void *settings, const char *text)
{
	(void)settings;
	rule = rule_named(text);
	own = NULL;
	for (size_t k = 0; !rule && k < N_ELEMENTS(own_rules); k++)
		if (!strcmp(own_rules[k].rule.name, text)) {
			own = &own_rules[k];
			rule = &own->rule;
		}
	if (!rule)
		die_of_usage("--rule %s: there is no such policy; rules.c and main.c have them",
			     text);
}

static void parse_agents(void *settings, const char *text)
{
	(void)settings;
	scenario.agents = text;
	if (strcmp(text, "on") && strcmp(text, "dead") && strcmp(text, "fast") &&
	    strcmp(text, "slow"))
		die_of_usage("--agents %s: it must be on, dead, fast or slow", text);
}

#define PARSED(name, function)                                                                     \
	{                                                                                          \
		name, "VALUE", "", OPTION_PARSED, .parse = function                                \
	}
#define OPTION(name, kind, member, ...)                                                            \
	{                                                                                          \
		name, "VALUE", "", OPTION_##kind, .offset = offsetof(struct scenario, member),     \
						  __VA_ARGS__                                      \
	}

static const struct option_row table[] = {
	PARSED("profile", parse_profile),
	PARSED("rule", parse_rule),
	PARSED("agents", parse_agents),
	OPTION("nodes", U32, n_nodes, .min = N_REPLICAS),
	OPTION("clients", U32, n_clients, .min = 1),
	OPTION("reads_per_s", DOUBLE, reads_per_s, .min = 1e-9),
	OPTION("seconds", DOUBLE, seconds, .min = 1e-9),
	OPTION("seed", SCALED, seed, .scale = 1),
	OPTION("in_sets", U32, in_sets, .max = 1),
	OPTION("one_way_us", SCALED, one_way_ns, .scale = NS_PER_US),
	OPTION("news_delay_us", SCALED, report_delay_ns, .scale = NS_PER_US),
	OPTION("written_mb_per_s", DOUBLE, written_mb_per_s, .min = 0),
	OPTION("burst_us", SCALED, injected.burst_ns, .scale = NS_PER_US),
	OPTION("turn_ms", SCALED, injected.turn_ns, .scale = NS_PER_MS),
	OPTION("burst_one_in", U32, injected.one_in, .min = 1),
	OPTION("slow_us", SCALED, injected.slow_ns, .scale = NS_PER_US),
	OPTION("slow_from_ms", SCALED, injected.slow_from_ns, .scale = NS_PER_MS),
	OPTION("slow_to_ms", SCALED, injected.slow_to_ns, .scale = NS_PER_MS),
	OPTION("log", TEXT, log, .min = 0),
	/* options of the library */
	OPTION("margin", U32, options.margin_percent, .min = 0),
	OPTION("report_ttl_ms", U32, options.report_ttl_ms, .min = 0),
	OPTION("report_max_uses", U32, options.report_max_uses, .min = 0),
	OPTION("probe_after_ms", U32, options.probe_after_ms, .min = 0),
	OPTION("copies", DOUBLE, options.probe_percent, .min = 0),
	OPTION("hedge", U32, options.hedge_percent, .min = 0),
	OPTION("extra", DOUBLE, options.max_duplicates, .min = 0),
	OPTION("questions", DOUBLE, options.query_percent, .min = 0),
	OPTION("first", U32, queries_first, .max = 1),
	OPTION("unguarded", U32, options.flags, .max = 1),
};
_Static_assert(LINNOS_CLUSTER_UNGUARDED == 1, "the value of --unguarded");

int main(int argc, char **argv)
{
	struct linnos_cluster_options options = LINNOS_CLUSTER_OPTIONS_INIT;
	int first;

	scenario = (struct scenario){
		.profile = profile_named("enterprise"),
		.n_nodes = 3,
		.n_clients = 1,
		.reads_per_s = 2000,
		.seconds = 1.5,
		.seed = 1,
		.one_way_ns = 20 * NS_PER_US,
		.injected = {.turn_ns = 100 * NS_PER_MS, .one_in = 3, .slow_drive = UINT32_MAX},
		.agents = "on",
		.queries_first = true,
		.options = options,
	};
	rule = &rules[0];
	first = options_parse_table(table, N_ELEMENTS(table),
				    "usage: linnos-simulation --NAME=VALUE...\n", &scenario, argc,
				    argv);
	if (first < argc)
		die_of_usage("%s: options begin with --", argv[first]);
	set_up();
	run();
	print();
	return n_answered == n_reads ? 0 : 1;
}
