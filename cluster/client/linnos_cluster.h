/* SPDX-License-Identifier: MIT */
/**
 * DOC: linnos_cluster, which node answers first
 *
 * For a client whose data lies on several nodes, of any engine that lets it say who serves a read.
 * It has the manner and the types of linnos_choose.h: it chooses, is told what was sent and how it
 * ended, and says when to send a read a second time. It does no I/O, has no clock and starts no
 * thread. A chooser of linnos_choose.h knows 16 replicas by models of their drives; this one knows
 * any number of nodes by what its own reads took there, and by what their agents tell.
 *
 *	linnos_cluster_choose ──► send ──► linnos_cluster_on_submit ──► linnos_cluster_on_complete
 *	      │                                     ▲                     │        │ failed
 *	      │ hedge_at_ns                         │                     │        ▼
 *	      └───────► linnos_cluster_choose_hedge ───────┴────────────────
 *linnos_cluster_choose_next │ linnos_cluster_next_query_node ──► linnos_cluster_build_query ▼
 *	linnos_cluster_should_query_first      ──► send ──► _news        linnos_cluster_on_answer
 *
 * Any number of threads may use one; a call has a lock for less than a microsecond. Times are
 * absolute, in ns of one clock, not 0. Errors are negative errno values, and
 * linnos_cluster_error() has the text. docs/cluster.md says what it goes by, and has what it is
 *worth.
 *
 * ABI: structures that may grow carry their size, or come with it. New members are appended, and
 * zero in them is what was before. So a program that was built with an older header works. One with
 * a newer header works as long as the members that this library does not know are zero: else it is
 * refused with -%E2BIG. ..._SIZE_VER0 are the sizes of the first version.
 */
#ifndef LIBLINNOS_CLUSTER_H
#define LIBLINNOS_CLUSTER_H

#include <linnos_choose.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A question or an answer of linnos-agent has so many bytes at most. */
#define LINNOS_CLUSTER_DATAGRAM 96

/* Candidates of a read, at most. */
#define LINNOS_CLUSTER_CANDIDATES 16

/**
 * enum linnos_cluster_mode - what is done with what is known
 * @LINNOS_CLUSTER_OBSERVE: reads stay at home; what they would have gained elsewhere is counted
 * @LINNOS_CLUSTER_CHOOSE: they go where they are expected to be answered first
 * @LINNOS_CLUSTER_HEDGE: and to a second node, if that takes long
 */
enum linnos_cluster_mode {
	LINNOS_CLUSTER_OBSERVE,
	LINNOS_CLUSTER_CHOOSE,
	LINNOS_CLUSTER_HEDGE,
};

/* For &linnos_cluster_options.flags. */
#define LINNOS_CLUSTER_UNGUARDED (1u << 0)

/**
 * struct linnos_cluster_options - how a client reads
 * @size: sizeof(struct linnos_cluster_options) of the caller
 * @mode: an enum linnos_cluster_mode
 * @flags: %LINNOS_CLUSTER_UNGUARDED: what is expected is followed whatever comes of it, where
 *	otherwise of the reads that would leave home some stay, by lot, and more of them the less
 *	those gain that leave
 * @home_margin_percent: how much less than at home a read must be expected to take elsewhere to
 *	leave, in percent of what it is expected to take at home, 0 to 100
 * @report_ttl_ms: what an agent told counts for so long after it was asked; 0: it never does
 * @report_max_uses: and for so many reads
 * @explore_ms: a node that was slow is looked at again after so long, by one read at a time, and
 *	whenever that was slow again after twice as long, up to a quarter of a second; that is how
 *	it begins, and how long nodes stay slow is learnt; 1 to 250
 * @hedge_percent: a read is hedged when it has taken so many percent of what is usual for its size,
 *	or of what it was expected to take, if that is more; 100 or more
 * @probe_percent: of the reads so many at most have a copy asked for, that looks at such a node
 *	and that nobody waits for; where none may be, a user's read looks, some time later
 * @extra_io_percent: hedges and copies are at no moment more than so many percent of the reads
 * @query_percent: nor are questions to agents
 * @seed: of the random choices, for reproducible simulations: equal seeds and calls give equal
 *	choices; 0: drawn by getrandom(2), so that each client chooses differently. The cookies of
 *	questions do not depend on it
 * @key: that agents want questions to be signed with; it is copied; NULL: none
 * @key_bytes: its length, 0 to 256
 */
struct linnos_cluster_options {
	size_t size;
	uint32_t mode;
	uint32_t flags;
	uint32_t home_margin_percent;
	uint32_t report_ttl_ms;
	uint32_t report_max_uses;
	uint32_t explore_ms;
	uint32_t hedge_percent;
	double probe_percent;
	double extra_io_percent;
	double query_percent;
	uint64_t seed;
	const void *key;
	size_t key_bytes;
};

/* Its size in the first version, which never changes. */
#define LINNOS_CLUSTER_OPTIONS_SIZE_VER0 88

/* The defaults, which are also those of NULL. */
#define LINNOS_CLUSTER_OPTIONS_INIT                                                                \
	{                                                                                          \
		sizeof(struct linnos_cluster_options), LINNOS_CLUSTER_CHOOSE, 0, 5, 50, 8, 20,     \
			200, 1, 3, 100, 0, NULL, 0                                                 \
	}

struct linnos_cluster;

/**
 * linnos_cluster_error() - say what went wrong
 *
 * Return: of the call of this thread that failed last, the thing, what is wrong with it and what to
 * do; "" when none has.
 */
const char *linnos_cluster_error(void);

/**
 * linnos_cluster_create() - begin to know nodes
 * @cluster: set; NULL on failure
 * @n_nodes: they are numbered from 0
 * @options: NULL for the defaults
 *
 * Return: 0 or a negative errno.
 */
int linnos_cluster_create(struct linnos_cluster **cluster, uint32_t n_nodes,
			  const struct linnos_cluster_options *options);

/**
 * linnos_cluster_free() - forget them
 * @cluster: nothing is in flight; or NULL
 */
void linnos_cluster_free(struct linnos_cluster *cluster);

/**
 * linnos_cluster_choose() - where does a read go?
 * @cluster: what is known
 * @choice: its first four members are set: @offset is of no effect, @home is the candidate that the
 *	engine itself would read from, counted from 0, or %LINNOS_DEFAULT_ROUND_ROBIN; the others
 *are, then:
 *	@replica, @copy and @tried are candidates
 * @candidates: nodes that have the data, each once; they stay there until
 *	linnos_cluster_on_answer()
 * @n_candidates: 1 to %LINNOS_CLUSTER_CANDIDATES
 * @now_ns: the time
 *
 * Return: the node to send it to; -%EINVAL: no such nodes, or not so many.
 */
int64_t linnos_cluster_choose(struct linnos_cluster *cluster, struct linnos_choice *choice,
			      const uint32_t *candidates, unsigned int n_candidates,
			      uint64_t now_ns);

/**
 * linnos_cluster_choose_next() - where does it go when that has failed?
 * @cluster: what is known
 * @choice: of linnos_cluster_choose()
 * @now_ns: the time
 *
 * Return: the candidate, which @replica then is: the best that it was not sent to; -1: none is
 * left.
 */
int linnos_cluster_choose_next(struct linnos_cluster *cluster, struct linnos_choice *choice,
			       uint64_t now_ns);

/**
 * linnos_cluster_choose_hedge() - it has waited long enough
 * @cluster: what is known
 * @choice: of linnos_cluster_choose(), whose @hedge_at_ns has come
 * @now_ns: the time
 *
 * Return: the candidate to send it to as well, which counts against the cap; -1: none.
 */
int linnos_cluster_choose_hedge(struct linnos_cluster *cluster, struct linnos_choice *choice,
				uint64_t now_ns);

/**
 * linnos_cluster_on_submit() - a read is sent to a node
 * @cluster: what is known
 * @sending: filled; it stays where it is until linnos_cluster_on_complete()
 * @choice: the read it is of
 * @replica: the candidate
 * @kind: %LINNOS_PRIMARY_ATTEMPT, %LINNOS_HEDGE_ATTEMPT or %LINNOS_PROBE_COPY
 * @now_ns: the time
 */
void linnos_cluster_on_submit(struct linnos_cluster *cluster, struct linnos_attempt *sending,
			      const struct linnos_choice *choice, unsigned int replica,
			      enum linnos_kind kind, uint64_t now_ns);

/**
 * linnos_cluster_on_complete() - it has ended, each exactly once
 * @cluster: what is known
 * @sending: of linnos_cluster_on_submit()
 * @end: how
 * @now_ns: the time
 */
void linnos_cluster_on_complete(struct linnos_cluster *cluster, struct linnos_attempt *sending,
				enum linnos_end end, uint64_t now_ns);

/**
 * linnos_cluster_on_answer() - a read's user has the answer
 * @cluster: what is known
 * @choice: of linnos_cluster_choose(), which ends here
 * @winner: the attempt that has answered, which may have ended; NULL: nobody has
 * @now_ns: the time
 */
void linnos_cluster_on_answer(struct linnos_cluster *cluster, const struct linnos_choice *choice,
			      const struct linnos_attempt *winner, uint64_t now_ns);

/* --- What agents tell ---------------------------------------------------------------------- */

/**
 * linnos_cluster_should_query_first() - is a read worth to ask before it is sent?
 * @cluster: what is known
 * @candidates: of a read that linnos_cluster_choose() will be called for
 * @n_candidates: likewise
 * @home: likewise
 * @now_ns: the time
 * @until_ns: set: no use to wait for longer
 *
 * It is where nothing is known of its home, and reads of which that is so take longer than usual by
 * more than a question takes, as they do in a cluster with far more nodes than a client reads from.
 * Who would rather not wait need not call it.
 *
 * Return: the node to ask, whose answer is to be waited for, or until then; -1: send it at once.
 */
int64_t linnos_cluster_should_query_first(struct linnos_cluster *cluster,
					  const uint32_t *candidates, unsigned int n_candidates,
					  int32_t home, uint64_t now_ns, uint64_t *until_ns);

/**
 * linnos_cluster_next_query_node() - whose agent should be asked now?
 * @cluster: what is known
 * @now_ns: the time
 *
 * To be called after each read that was sent, or as often as the caller likes.
 *
 * Return: a node that reads had the choice of and of which least is known, or -1: nobody.
 */
int64_t linnos_cluster_next_query_node(struct linnos_cluster *cluster, uint64_t now_ns);

/**
 * linnos_cluster_build_query() - what to ask an agent
 * @cluster: what is known
 * @node: whose agent
 * @drive: which of that agent's drives
 * @bytes: of a read there, not 0
 * @now_ns: the time when it is sent
 * @datagram: filled
 *
 * What was asked there before and is not answered will not be listened to. Each question has a
 * cookie from getrandom(2), without which an answer is refused.
 *
 * Return: its length; 0: no such node, or no bytes, or getrandom(2) failed.
 */
size_t linnos_cluster_build_query(struct linnos_cluster *cluster, uint32_t node, uint16_t drive,
				  uint32_t bytes, uint64_t now_ns,
				  uint8_t datagram[LINNOS_CLUSTER_DATAGRAM]);

/**
 * linnos_cluster_receive_report() - an agent has told something
 * @cluster: what is known
 * @node: whose agent
 * @datagram: what came from there; anything
 * @bytes: its length
 * @now_ns: the time
 *
 * Return: 0; -%EBADMSG: it is no answer; -%ENOMSG: not to the last question.
 */
int linnos_cluster_receive_report(struct linnos_cluster *cluster, uint32_t node,
				  const uint8_t *datagram, size_t bytes, uint64_t now_ns);

/* --- What came of it ----------------------------------------------------------------------- */

/**
 * struct linnos_cluster_stats - what a client has done
 * @reads: that were chosen for
 * @would_move: those of them that were expected to be answered sooner by another than home
 * @moved: that were sent there
 * @stayed: that stayed by lot
 * @copies: copies asked for
 * @hedges: second attempts asked for
 * @hedges_won: those of them that were the first to answer
 * @hedges_denied: refused for the cap
 * @failovers: by linnos_cluster_choose_next()
 * @sent: attempts, copies and hedges among them
 * @ended: attempts
 * @errors: attempts that failed
 * @asked_first: reads that were worth to ask first
 * @questions: asked
 * @answers: listened to
 * @refused: datagrams that were not
 * @saved_us: over @moved, what they were expected to take at home less what they took
 * @would_save_us: over those of @would_move that were answered at home, what they took less what
 *	they were expected to take elsewhere, in so far as expectations have been right
 */
struct linnos_cluster_stats {
	uint64_t reads;
	uint64_t would_move;
	uint64_t moved;
	uint64_t stayed;
	uint64_t copies;
	uint64_t hedges;
	uint64_t hedges_won;
	uint64_t hedges_denied;
	uint64_t failovers;
	uint64_t sent;
	uint64_t ended;
	uint64_t errors;
	uint64_t asked_first;
	uint64_t questions;
	uint64_t answers;
	uint64_t refused;
	int64_t saved_us;
	int64_t would_save_us;
};

/**
 * linnos_cluster_get_stats() - count it
 * @cluster: what is known
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_cluster_stats) of the caller
 */
void linnos_cluster_get_stats(struct linnos_cluster *cluster, struct linnos_cluster_stats *stats,
			      size_t bytes);

/**
 * struct linnos_cluster_node - how a node is doing
 * @state: %LINNOS_HEALTHY; %LINNOS_SLOW: reads avoid it; %LINNOS_FAILING: its last one failed;
 *	%LINNOS_SILENT: none was answered yet
 * @expected_us: what a read of a page would take
 * @in_flight: own reads there
 * @answered: own reads that it answered, hedges and copies among them
 * @errors: that failed there
 * @report_age_us: of what its agent told last, UINT64_MAX: nothing that counts
 * @is_trusted: what its agent told was not far worse than own reads
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
 * linnos_cluster_get_node() - look at a node
 * @cluster: what is known
 * @node: from 0
 * @now_ns: the time
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_cluster_node) of the caller
 *
 * Return: 0; -%EINVAL: no such node.
 */
int linnos_cluster_get_node(struct linnos_cluster *cluster, uint32_t node, uint64_t now_ns,
			    struct linnos_cluster_node *stats, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_CLUSTER_H */
