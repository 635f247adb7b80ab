// SPDX-License-Identifier: MIT
/*
 * Queries to agents and their reports (linnos-agent(8), ../wire/datagram.h).
 *
 * At most one query per node is outstanding. A node that repeatedly did not answer in time is
 * queried only once a second, so a node without an agent costs almost nothing.
 */
#include "agent_reports.h"

#include "datagram.h"
#include "linux/blk-linnos.h"
#include "messages.h"
#include "random_bytes.h"

#include <errno.h>
#include <math.h>

/* The time that is allowed for an answer. */
#define ANSWER_TIMEOUT_NS (10 * NS_PER_MS)
/*
 * The minimum interval between queries to a node, as a divisor of the time for which reports are
 * used.
 */
#define QUERY_EVERY 50
/* After this number of unanswered queries an agent is considered silent and is queried rarely. */
#define UNANSWERED_MAX 3
#define SILENT_AGENT_QUERY_NS (1000 * NS_PER_MS)

/* For a node that reports only its number of pending reads: the relative increase in latency for
 * each of them. */
#define CROWDING 0.1
#define PENDING_STEP 0.1

_Static_assert(LINNOS_CLUSTER_DATAGRAM == DATAGRAM_BYTES_MAX,
	       "the public header must have the size of the longest datagram");

static bool can_be_queried(const struct linnos_cluster *c, const struct node *n, uint64_t now_ns)
{
	uint64_t every_ns = c->estimator.report_ttl_ns / QUERY_EVERY;

	if (!n->last_query_ns)
		return true;
	if (n->cookie && every_ns < ANSWER_TIMEOUT_NS)
		every_ns = ANSWER_TIMEOUT_NS;
	if (n->unanswered >= UNANSWERED_MAX)
		every_ns = SILENT_AGENT_QUERY_NS;
	return now_ns >= n->last_query_ns + every_ns;
}

/*
 * Queue the candidate whose last query was earliest. The chosen candidate needs no query, because
 * the read itself measures it.
 */
void queue_candidate_query(struct linnos_cluster *c, const uint32_t *candidates, unsigned int n,
			   unsigned int chosen, uint64_t now_ns)
{
	uint64_t longest_ns = UINT64_MAX;
	uint32_t which = 0;

	for (unsigned int k = 0; k < n; k++) {
		const struct node *node = &c->nodes[candidates[k]];

		if ((k != chosen || n == 1) && node->last_query_ns < longest_ns &&
		    can_be_queried(c, node, now_ns)) {
			longest_ns = node->last_query_ns;
			which = candidates[k];
		}
	}
	if (longest_ns == UINT64_MAX)
		return;
	/* The oldest entry is overwritten. */
	c->to_query[c->next_to_query++ % TO_QUERY_MAX] = which;
	c->n_to_query += c->n_to_query < TO_QUERY_MAX;
}

int64_t linnos_cluster_next_query_node(struct linnos_cluster *c, uint64_t now_ns)
{
	int64_t found = -1;

	pthread_mutex_lock(&c->lock);
	while (found < 0 && c->n_to_query && budget_allows(&c->queries)) {
		uint32_t node = c->to_query[--c->next_to_query % TO_QUERY_MAX];

		c->n_to_query--;
		if (can_be_queried(c, &c->nodes[node], now_ns))
			found = node;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

size_t linnos_cluster_build_query(struct linnos_cluster *c, uint32_t node, uint16_t drive,
				  uint32_t bytes, uint64_t now_ns,
				  uint8_t datagram[LINNOS_CLUSTER_DATAGRAM])
{
	struct query query = {.drive = drive, .bytes = bytes, .flags = QUERY_ONLY};
	struct node *n;

	/*
	 * An answer is accepted only if it carries the cookie of the last query. The cookie must
	 * therefore be unpredictable and must not repeat, also not in another process or after a
	 * restart: it never depends on the seed.
	 */
	if (node >= c->n_nodes || !bytes || random_u64(&query.cookie))
		return 0;
	query.cookie |= 1; /* 0 means that no query is outstanding */
	n = &c->nodes[node];
	pthread_mutex_lock(&c->lock);
	if (n->cookie && n->unanswered < UNANSWERED_MAX)
		n->unanswered++;
	n->cookie = query.cookie;
	n->last_query_ns = now_ns;
	n->query_bytes = bytes;
	n->sent_since_query = 0;
	budget_spend(&c->queries);
	c->stats.queries++;
	pthread_mutex_unlock(&c->lock);
	return query_write(&query, c->o.key, c->o.key_bytes, datagram);
}

/* Update the median of the number of pending reads, and return the excess over it. */
static double pending_beyond_median(struct linnos_cluster *c, double pending)
{
	c->median_pending += pending > c->median_pending ? PENDING_STEP : -PENDING_STEP;
	c->median_pending = fmax(c->median_pending, 0);
	return fmax(pending - c->median_pending, 0);
}

/*
 * Return the latency that an answer predicts as a ratio to the median; 0 if it predicts none. The
 * round trip time of the query is not included, because queries may be delayed where reads are not.
 */
static double reported_ratio(struct linnos_cluster *c, const struct node *n, const struct answer *a)
{
	double ratio = 0, beyond = 0;
	double median = median_us(&c->estimator.medians, node_size_class(n->query_bytes));

	if (a->known == BLK_EXPECT_GONE)
		return FAILED;
	/* A low number of pending reads says nothing, because there may be no load. */
	if (a->state & STATE_PENDING_KNOWN)
		beyond = pending_beyond_median(c, a->pending);
	if (beyond > 0)
		ratio = 1 + CROWDING * beyond;
	if (a->known == BLK_EXPECT_LATENCY && median > 0)
		ratio = fmax(ratio, a->latency_us / median + c->estimator.agent_offset);
	return fmin(ratio, FAILED);
}

int linnos_cluster_receive_report(struct linnos_cluster *c, uint32_t node, const uint8_t *datagram,
				  size_t bytes, uint64_t now_ns)
{
	struct answer answer;
	int error = -EBADMSG;

	pthread_mutex_lock(&c->lock);
	if (node < c->n_nodes && !answer_read(&answer, c->o.key, c->o.key_bytes, datagram, bytes)) {
		struct node *n = &c->nodes[node];

		error = -ENOMSG;
		if (n->cookie && answer.cookie == n->cookie && now_ns >= n->last_query_ns) {
			error = 0;
			n->cookie = 0;
			n->unanswered = 0;
			n->agent_ratio = reported_ratio(c, n, &answer);
			n->report_query_ns = n->last_query_ns;
			n->report_uses = 0;
		}
	}
	if (error)
		c->stats.refused++;
	else
		c->stats.answers++;
	pthread_mutex_unlock(&c->lock);
	return error == -EBADMSG
		       ? format_error(error, "node %u: the datagram is not an answer of an agent",
				      node)
	       : error ? format_error(error, "node %u: the datagram does not answer the last query",
				      node)
		       : 0;
}
