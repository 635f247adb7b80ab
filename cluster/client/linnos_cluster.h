/* SPDX-License-Identifier: MIT */
/**
 * DOC: linnos_cluster, choose the node that is expected to answer a read first
 *
 * This library is for a client of replicated data on several nodes, with any storage engine that
 * lets the client select the node that serves a read. Its interface and types follow
 * linnos_choose.h: the library chooses a node, the caller reports when a read was sent and how it
 * completed, and the library returns the time at which a hedge should be sent. It does no I/O, has
 * no clock and starts no thread. A chooser of linnos_choose.h handles up to 16 replicas with a
 * model of each drive. This library handles any number of nodes, and uses the latencies of the
 * client's own reads and the reports of the nodes' agents.
 *
 *	linnos_cluster_choose ─► send ─► linnos_cluster_on_submit ─► linnos_cluster_on_complete
 *	      │                             ▲       ▲                 │           │ failed
 *	      │ hedge_at_ns                 │       │                 │           ▼
 *	      └─► linnos_cluster_choose_hedge       └─────────────────┼─ linnos_cluster_choose_next
 *	                                                              ▼
 *	                                                  linnos_cluster_on_answer
 *
 *	linnos_cluster_next_query_node
 *	      └─► linnos_cluster_build_query ─► send ─► linnos_cluster_receive_report
 *
 * Any number of threads may use one client. A call holds a lock for less than a microsecond. Times
 * are absolute, in ns of one clock, and not 0. Errors are negative errno values, and
 * linnos_cluster_error() returns the text. docs/cluster.md describes the algorithm and its measured
 * benefit.
 *
 * ABI: structures that may grow contain their size or are passed with it. New members are appended,
 * and zero in them means the previous behaviour, so a program that was built with an older header
 * works. A program that was built with a newer header works unless it sets a member that this
 * library does not have; such a call fails with -%E2BIG. The ..._SIZE_VER0 constants are the sizes
 * of the first version.
 */
#ifndef LIBLINNOS_CLUSTER_H
#define LIBLINNOS_CLUSTER_H

#include <linnos_choose.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The maximum length of a query to or an answer from linnos-agent, in bytes. */
#define LINNOS_CLUSTER_DATAGRAM 96

/* The maximum number of candidates of a read. */
#define LINNOS_CLUSTER_CANDIDATES 16

/**
 * enum linnos_cluster_mode - what the predictions are used for
 * @LINNOS_CLUSTER_OBSERVE: reads stay at their default node; only the expected gain elsewhere is
 *	counted
 * @LINNOS_CLUSTER_CHOOSE: each read goes to the node that is expected to answer first
 * @LINNOS_CLUSTER_HEDGE: in addition, a read that takes long is sent to a second node
 */
enum linnos_cluster_mode {
	LINNOS_CLUSTER_OBSERVE,
	LINNOS_CLUSTER_CHOOSE,
	LINNOS_CLUSTER_HEDGE,
};

/* For &linnos_cluster_options.flags. */
#define LINNOS_CLUSTER_UNGUARDED (1u << 0)

/**
 * struct linnos_cluster_options - configuration of a client
 * @size: sizeof(struct linnos_cluster_options) of the caller
 * @mode: an enum linnos_cluster_mode
 * @flags: %LINNOS_CLUSTER_UNGUARDED: always follow the predictions. Otherwise a random part of the
 *	reads that would be redirected stays at its default node as a control group, which grows if
 *	redirected reads turn out to gain little
 * @margin_percent: a read is redirected only to a node whose expected latency is lower by more than
 *	this percentage of the latency expected at the default node, 0 to 100
 * @report_ttl_ms: how long the report of an agent is used, counted from the query; 0 to never use
 *	reports
 * @report_max_uses: the maximum number of reads that one report is used for
 * @probe_after_ms: the initial time after which a slow node is probed again, by one read at a time.
 *	It doubles after each probe that was slow again, up to 250 ms, and adapts to how long nodes
 *	stay slow; 1 to 250
 * @hedge_percent: a read is hedged after this percentage of the median latency of its size class,
 *	or of its expected latency if that is higher; 100 or more
 * @probe_percent: the maximum percentage of reads that are accompanied by a probe copy, a duplicate
 *	read of a slow node for which no caller waits. If no copy is allowed, a user's read probes
 *	the node some time later
 * @max_duplicates: the maximum number of hedges and probe copies together, in percent of the reads
 *	so far, which is never exceeded
 * @query_percent: the maximum number of queries to agents, in percent of the reads so far
 * @seed: seed of the random choices, for reproducible simulations: equal seeds and calls give equal
 *	choices. 0 draws it with getrandom(2), so that each client chooses differently. The cookies
 *	of queries do not depend on it
 * @key: the key that agents require queries to be signed with; it is copied; NULL if there is none
 * @key_bytes: length of @key, 0 to 64
 */
struct linnos_cluster_options {
	size_t size;
	uint32_t mode;
	uint32_t flags;
	uint32_t margin_percent;
	uint32_t report_ttl_ms;
	uint32_t report_max_uses;
	uint32_t probe_after_ms;
	uint32_t hedge_percent;
	double probe_percent;
	double max_duplicates;
	double query_percent;
	uint64_t seed;
	const void *key;
	size_t key_bytes;
};

/* The size of the first version, which never changes. */
#define LINNOS_CLUSTER_OPTIONS_SIZE_VER0 88

/* The defaults, which are also used if the options are NULL. */
#define LINNOS_CLUSTER_OPTIONS_INIT                                                                \
	{                                                                                          \
		sizeof(struct linnos_cluster_options), LINNOS_CLUSTER_CHOOSE, 0, 5, 50, 8, 20,     \
			200, 1, 3, 100, 0, NULL, 0                                                 \
	}

struct linnos_cluster;

/**
 * linnos_cluster_error() - get the text of the last error
 *
 * Return: a description of the last call of this thread that failed: the object, what is wrong with
 * it and what to do; "" if none failed.
 */
const char *linnos_cluster_error(void);

/**
 * linnos_cluster_create() - create a client of a number of nodes
 * @cluster: set to the new client; NULL on failure
 * @n_nodes: the number of nodes, which have the numbers from 0 on
 * @options: NULL for the defaults
 *
 * Return: 0 or a negative errno.
 */
int linnos_cluster_create(struct linnos_cluster **cluster, uint32_t n_nodes,
			  const struct linnos_cluster_options *options);

/**
 * linnos_cluster_free() - free a client
 * @cluster: a client with no read in flight, or NULL
 */
void linnos_cluster_free(struct linnos_cluster *cluster);

/**
 * linnos_cluster_choose() - choose the node for a read
 * @cluster: the client
 * @choice: the caller sets its first four members. @offset has no effect. @home is the candidate
 *	that the engine itself would read from, counted from 0, or %LINNOS_DEFAULT_ROUND_ROBIN. This
 *	function sets the other members; @replica, @copy and @tried refer to candidates
 * @candidates: nodes that hold the data, each once; the array must stay valid until
 *	linnos_cluster_on_answer()
 * @n_candidates: 1 to %LINNOS_CLUSTER_CANDIDATES
 * @now_ns: the current time
 *
 * Return: the node to send the read to; -%EINVAL if a candidate, @home or @n_candidates is out of
 * range.
 */
int64_t linnos_cluster_choose(struct linnos_cluster *cluster, struct linnos_choice *choice,
			      const uint32_t *candidates, unsigned int n_candidates,
			      uint64_t now_ns);

/**
 * linnos_cluster_choose_next() - choose another node after the read has failed
 * @cluster: the client
 * @choice: the choice from linnos_cluster_choose()
 * @now_ns: the current time
 *
 * Return: the best candidate that the read was not sent to, which is also stored in @replica; -1 if
 * none is left.
 */
int linnos_cluster_choose_next(struct linnos_cluster *cluster, struct linnos_choice *choice,
			       uint64_t now_ns);

/**
 * linnos_cluster_choose_hedge() - choose a second node for a read that takes long
 * @cluster: the client
 * @choice: the choice from linnos_cluster_choose() whose @hedge_at_ns has passed
 * @now_ns: the current time
 *
 * Return: the candidate to send the hedge to, which then counts against @max_duplicates; -1 if no
 * hedge should be sent.
 */
int linnos_cluster_choose_hedge(struct linnos_cluster *cluster, struct linnos_choice *choice,
				uint64_t now_ns);

/**
 * linnos_cluster_on_submit() - record that a read is sent to a node
 * @cluster: the client
 * @sending: filled; it must not move until linnos_cluster_on_complete()
 * @choice: the choice that the attempt belongs to
 * @replica: the candidate it is sent to
 * @kind: %LINNOS_PRIMARY_ATTEMPT, %LINNOS_HEDGE_ATTEMPT or %LINNOS_PROBE_COPY
 * @now_ns: the current time
 */
void linnos_cluster_on_submit(struct linnos_cluster *cluster, struct linnos_attempt *sending,
			      const struct linnos_choice *choice, unsigned int replica,
			      enum linnos_kind kind, uint64_t now_ns);

/**
 * linnos_cluster_on_complete() - record that an attempt has completed; call it exactly once for
 * each
 * @cluster: the client
 * @sending: the attempt from linnos_cluster_on_submit()
 * @end: how the attempt ended
 * @now_ns: the current time
 */
void linnos_cluster_on_complete(struct linnos_cluster *cluster, struct linnos_attempt *sending,
				enum linnos_end end, uint64_t now_ns);

/**
 * linnos_cluster_on_answer() - record that a read is complete for its user
 * @cluster: the client
 * @choice: the choice from linnos_cluster_choose(), which is no longer used afterwards
 * @winner: the attempt that answered, which may have completed already; NULL if none answered
 * @now_ns: the current time
 */
void linnos_cluster_on_answer(struct linnos_cluster *cluster, const struct linnos_choice *choice,
			      const struct linnos_attempt *winner, uint64_t now_ns);

/* --- Agent reports ------------------------------------------------------------------------- */

/**
 * linnos_cluster_next_query_node() - choose the node whose agent should be queried next
 * @cluster: the client
 * @now_ns: the current time
 *
 * Call it after each read that was sent, or as often as the caller likes.
 *
 * Return: a node that was a candidate of a recent read; of the candidates of one read, the node
 * whose last query was earliest; -1 if no agent should be queried now.
 */
int64_t linnos_cluster_next_query_node(struct linnos_cluster *cluster, uint64_t now_ns);

/**
 * linnos_cluster_build_query() - build a query to an agent
 * @cluster: the client
 * @node: the node of the agent
 * @drive: the index of the drive on that agent
 * @bytes: the size of a read there, not 0
 * @now_ns: the time at which the query is sent
 * @datagram: filled with the query
 *
 * An earlier query to this node that is still unanswered becomes invalid: its answer will be
 * refused. Each query contains a cookie from getrandom(2), and an answer without this cookie is
 * refused.
 *
 * Return: the length of the query; 0 if there is no such node, @bytes is 0, or getrandom(2) failed.
 */
size_t linnos_cluster_build_query(struct linnos_cluster *cluster, uint32_t node, uint16_t drive,
				  uint32_t bytes, uint64_t now_ns,
				  uint8_t datagram[LINNOS_CLUSTER_DATAGRAM]);

/**
 * linnos_cluster_receive_report() - process a datagram from an agent
 * @cluster: the client
 * @node: the node of the agent
 * @datagram: the received datagram, with arbitrary contents
 * @bytes: the length of @datagram
 * @now_ns: the current time
 *
 * Return: 0; -%EBADMSG if it is not a valid answer; -%ENOMSG if it does not answer the last query.
 */
int linnos_cluster_receive_report(struct linnos_cluster *cluster, uint32_t node,
				  const uint8_t *datagram, size_t bytes, uint64_t now_ns);

/* --- Statistics ---------------------------------------------------------------------------- */

/**
 * struct linnos_cluster_stats - statistics of a client
 * @reads: reads for which a node was chosen
 * @would_redirect: reads that another node was expected to answer earlier than the default node
 * @redirected: reads that were redirected to another node
 * @control: reads that stayed at the default node as the control group, chosen at random
 * @copies: probe copies requested
 * @hedges: hedges requested
 * @hedges_won: hedges that were the first to answer
 * @hedges_denied: hedges not sent because of @max_duplicates
 * @failovers: times that linnos_cluster_choose_next() has found another node for a read
 * @sent: attempts sent, including hedges and probe copies
 * @ended: attempts completed
 * @errors: attempts that failed
 * @queries: queries built
 * @answers: answers accepted
 * @refused: received datagrams that were refused
 * @saved_us: sum over the reads in @redirected of the latency expected at the default node minus
 *	the actual latency
 * @would_save_us: an estimate of the latency that redirecting would have saved: for each read in
 *	@would_redirect that the default node answered, the actual latency minus the latency
 *	expected at the best node. To correct a bias of the expectations, they are multiplied by the
 *	ratio of actual to expected latencies of recent reads.
 */
struct linnos_cluster_stats {
	uint64_t reads;
	uint64_t would_redirect;
	uint64_t redirected;
	uint64_t control;
	uint64_t copies;
	uint64_t hedges;
	uint64_t hedges_won;
	uint64_t hedges_denied;
	uint64_t failovers;
	uint64_t sent;
	uint64_t ended;
	uint64_t errors;
	uint64_t queries;
	uint64_t answers;
	uint64_t refused;
	int64_t saved_us;
	int64_t would_save_us;
};

/**
 * linnos_cluster_get_stats() - get the statistics of a client
 * @cluster: the client
 * @stats: filled with the members that this library knows; the rest is zeroed
 * @bytes: sizeof(struct linnos_cluster_stats) of the caller
 */
void linnos_cluster_get_stats(struct linnos_cluster *cluster, struct linnos_cluster_stats *stats,
			      size_t bytes);

/**
 * struct linnos_cluster_node - the state of a node
 * @state: %LINNOS_FAILING if the last read there failed; otherwise %LINNOS_SLOW if a read is
 *	expected to take at least 2.5 times the median; otherwise %LINNOS_SILENT if the node has
 *	answered no read yet; otherwise %LINNOS_HEALTHY
 * @expected_us: the expected latency of a read of one page
 * @in_flight: this client's attempts in flight there
 * @answered: this client's attempts that the node answered, including hedges and probe copies
 * @errors: this client's attempts that failed there
 * @report_age_us: age of the last usable report of its agent; UINT64_MAX if there is none
 * @is_trusted: 0 if the reports of its agent are ignored, because they are far less accurate than
 *	the client's own latencies; otherwise 1
 * @reserved: zero
 */
struct linnos_cluster_node {
	uint32_t state;
	uint32_t expected_us;
	uint64_t in_flight;
	uint64_t answered;
	uint64_t errors;
	uint64_t report_age_us;
	uint32_t is_trusted;
	uint32_t reserved;
};

/**
 * linnos_cluster_get_node() - get the state of a node
 * @cluster: the client
 * @node: the index of the node, from 0
 * @now_ns: the current time
 * @stats: filled with the members that this library knows; the rest is zeroed
 * @bytes: sizeof(struct linnos_cluster_node) of the caller
 *
 * Return: 0; -%EINVAL if there is no such node.
 */
int linnos_cluster_get_node(struct linnos_cluster *cluster, uint32_t node, uint64_t now_ns,
			    struct linnos_cluster_node *stats, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_CLUSTER_H */
