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
#define ANSWER_WITHIN_NS (10 * NS_PER_MS)
/*
 * The minimum interval between queries to a node, as a divisor of the time for which reports are
 * used.
 */
#define ASK_EVERY 50
/* After this number of unanswered queries an agent is considered silent and is queried rarely. */
#define SILENT 3
#define SILENT_EVERY_NS (1000 * NS_PER_MS)

/*
 * Querying an agent before a read is sent must pay: reads without recent data must be slower than
 * the median by WORTH round trips of a query. This takes BLIND_ENOUGH samples, each later sample
 * has the weight BLIND_SHARE, and one in ONE_BLIND_IN of such reads is sent without a query, to
 * keep measuring its latency.
 */
#define WORTH 1.5
#define BLIND_ENOUGH 32
#define BLIND_SHARE (1.0 / 32)
#define ONE_BLIND_IN 16
#define WAY_SHARE (1.0 / 16)
/* The minimum fraction of answers that must contain usable information. */
#define TELLING_LEAST 0.5
/* An answer is waited for up to this number of mean round trips. */
#define PATIENCE 3

/*
 * For a node that only reports its number of pending reads: the relative increase in latency per
 * read.
 */
#define CROWDING 0.1
#define PENDING_STEP 0.1

_Static_assert(LINNOS_CLUSTER_DATAGRAM == DATAGRAM_BYTES_MAX, "as the header says");

static bool may_be_asked(const struct linnos_cluster *c, const struct node *n, uint64_t now_ns)
{
	uint64_t every_ns = c->knowing.news_for_ns / ASK_EVERY;

	if (!n->asked_ns)
		return true;
	if (n->cookie && every_ns < ANSWER_WITHIN_NS)
		every_ns = ANSWER_WITHIN_NS;
	if (n->unanswered >= SILENT)
		every_ns = SILENT_EVERY_NS;
	return now_ns >= n->asked_ns + every_ns;
}

/*
 * Queue the candidate that was not queried for longest; the chosen node is measured by the read
 * itself.
 */
void report_candidates_for_query(struct linnos_cluster *c, const uint32_t *candidates,
				 unsigned int n, unsigned int chosen, uint64_t now_ns)
{
	uint64_t longest_ns = UINT64_MAX;
	uint32_t which = 0;

	for (unsigned int k = 0; k < n; k++) {
		const struct node *node = &c->nodes[candidates[k]];

		if ((k != chosen || n == 1) && node->asked_ns < longest_ns &&
		    may_be_asked(c, node, now_ns)) {
			longest_ns = node->asked_ns;
			which = candidates[k];
		}
	}
	if (longest_ns == UINT64_MAX)
		return;
	/* The oldest entry is overwritten. */
	c->to_ask[c->next_to_ask++ % TO_ASK] = which;
	c->n_to_ask += c->n_to_ask < TO_ASK;
}

void report_unknown_read_cost(struct linnos_cluster *c, double us)
{
	double share = c->n_blind < BLIND_ENOUGH ? 1.0 / ++c->n_blind : BLIND_SHARE;

	c->blind_us += (us - c->blind_us) * fmax(share, BLIND_SHARE);
}

/* Return true if a query costs less than reads without recent data lose. */
static bool asking_first_is_worth_it(const struct linnos_cluster *c)
{
	return c->o.mode != LINNOS_CLUSTER_OBSERVE && c->n_blind >= BLIND_ENOUGH && c->way_us > 0 &&
	       c->blind_us > WORTH * c->way_us && c->telling >= TELLING_LEAST;
}

int64_t linnos_cluster_should_query_first(struct linnos_cluster *c, const uint32_t *candidates,
					  unsigned int n, int32_t home, uint64_t now_ns,
					  uint64_t *until_ns)
{
	int64_t found = -1;

	if (home < 0 || (unsigned int)home >= n || candidates[home] >= c->n_nodes)
		return -1;
	pthread_mutex_lock(&c->lock);
	c->asks_first = true;
	if (asking_first_is_worth_it(c) && c->o.report_ttl_ms && n > 1 &&
	    budget_allows(&c->questions)) {
		const struct node *node = &c->nodes[candidates[home]];

		if (!node_has_recent_data(&c->knowing, node, now_ns) && node_is_trusted(node) &&
		    may_be_asked(c, node, now_ns) && random_next(&c->random) % ONE_BLIND_IN)
			found = candidates[home];
	}
	if (found >= 0) {
		*until_ns = now_ns + (uint64_t)(PATIENCE * c->way_us * NS_PER_US);
		c->stats.asked_first++;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

int64_t linnos_cluster_next_query_node(struct linnos_cluster *c, uint64_t now_ns)
{
	int64_t found = -1;

	pthread_mutex_lock(&c->lock);
	/* Keep one query for a read that should query first. */
	if (asking_first_is_worth_it(c) && c->asks_first && c->questions.tokens < 2)
		c->n_to_ask = 0;
	while (found < 0 && c->n_to_ask && budget_allows(&c->questions)) {
		uint32_t node = c->to_ask[--c->next_to_ask % TO_ASK];

		c->n_to_ask--;
		if (may_be_asked(c, &c->nodes[node], now_ns))
			found = node;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

size_t linnos_cluster_build_query(struct linnos_cluster *c, uint32_t node, uint16_t drive,
				  uint32_t bytes, uint64_t now_ns,
				  uint8_t datagram[LINNOS_CLUSTER_DATAGRAM])
{
	struct question question = {.drive = drive, .bytes = bytes, .flags = QUESTION_LOOK};
	struct node *n;

	/*
	 * An answer is accepted only if it carries the cookie of the last question. The cookie must
	 * therefore be unpredictable and must not repeat, also not in another process or after a
	 * restart: it never depends on the seed.
	 */
	if (node >= c->n_nodes || !bytes || random_u64(&question.cookie))
		return 0;
	question.cookie |= 1; /* 0 means that no question is outstanding */
	n = &c->nodes[node];
	pthread_mutex_lock(&c->lock);
	if (n->cookie && n->unanswered < SILENT)
		n->unanswered++;
	n->cookie = question.cookie;
	n->asked_ns = now_ns;
	n->asked_bytes = bytes;
	n->sent_since_asked = 0;
	budget_spend(&c->questions);
	c->stats.questions++;
	pthread_mutex_unlock(&c->lock);
	return question_write(&question, c->o.key, c->o.key_bytes, datagram);
}

/* Return by how much the number of pending reads exceeds its median, which is updated. */
static double pending_beyond_usual(struct linnos_cluster *c, double pending)
{
	c->usual_pending += pending > c->usual_pending ? PENDING_STEP : -PENDING_STEP;
	c->usual_pending = fmax(c->usual_pending, 0);
	return fmax(pending - c->usual_pending, 0);
}

/*
 * Return the latency that an answer predicts as a ratio to the median; 0 if it predicts none. The
 * round trip time of the query is not included, because queries may be delayed where reads are not.
 */
static double ratio_of(struct linnos_cluster *c, const struct node *n, const struct answer *a)
{
	double ratio = 0, beyond = 0;
	double usual = usual_us(&c->knowing.usual, node_size_class(n->asked_bytes));

	if (a->known == BLK_EXPECT_GONE || a->state & STATE_READ_LATE)
		return FAILED;
	/* A low number of pending reads says nothing, because there may be no load. */
	if (a->state & STATE_PENDING_KNOWN)
		beyond = pending_beyond_usual(c, a->pending);
	if (beyond > 0)
		ratio = 1 + CROWDING * beyond;
	if (a->known == BLK_EXPECT_LATENCY && usual > 0)
		ratio = fmax(ratio, a->latency_us / usual + c->knowing.told_offset);
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
		if (n->cookie && answer.cookie == n->cookie && now_ns >= n->asked_ns) {
			error = 0;
			c->way_us += ((now_ns - n->asked_ns) / (double)NS_PER_US - c->way_us) *
				     (c->way_us > 0 ? WAY_SHARE : 1);
			n->cookie = 0;
			n->unanswered = 0;
			n->told = ratio_of(c, n, &answer);
			c->telling += ((n->told > 0) - c->telling) * WAY_SHARE;
			n->told_of_ns = n->asked_ns;
			n->told_uses = 0;
		}
	}
	if (error)
		c->stats.refused++;
	else
		c->stats.answers++;
	pthread_mutex_unlock(&c->lock);
	return error == -EBADMSG
		       ? error_say(error, "node %u: the datagram is not an answer of an agent",
				   node)
	       : error ? error_say(error, "node %u: the datagram does not answer the last query",
				   node)
		       : 0;
}
