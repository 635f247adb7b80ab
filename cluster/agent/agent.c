// SPDX-License-Identifier: MIT
/*
 * A sender that is not allowed is ignored before a hash is computed. Malformed and unsigned
 * datagrams do not count against the rate limit of a source, because anyone who can forge its
 * address could block it with them.
 */
#include "agent.h"

static size_t ignore(struct agent *agent, enum ignored why)
{
	agent->ignored[why]++;
	return 0;
}

/* Read and verify a query. If there are keys, set *key to the one that signed it. */
static enum datagram_fault read_query(const struct agent *agent, struct query *query,
				      const uint8_t *datagram, size_t bytes, const struct key **key)
{
	static const struct key none;
	enum datagram_fault fault = DATAGRAM_NOT_SIGNED;

	*key = &none;
	if (!agent->n_keys)
		return query_read(query, NULL, 0, datagram, bytes);
	for (unsigned int k = 0; k < agent->n_keys && fault == DATAGRAM_NOT_SIGNED; k++) {
		*key = &agent->keys[k];
		fault = query_read(query, (*key)->key, (*key)->bytes, datagram, bytes);
	}
	return fault;
}

size_t agent_answer(struct agent *agent, struct rate *rate, uint64_t now_ns,
		    uint8_t datagram[DATAGRAM_BYTES_MAX], size_t bytes)
{
	struct query query;
	const struct key *key;
	struct answer answer;

	if (!rate)
		return ignore(agent, IGNORED_STRANGER);
	switch (read_query(agent, &query, datagram, bytes, &key)) {
	case DATAGRAM_MALFORMED:
		return ignore(agent, IGNORED_MALFORMED);
	case DATAGRAM_NOT_SIGNED:
		return ignore(agent, IGNORED_NOT_SIGNED);
	case DATAGRAM_GOOD:
		break;
	}
	if (!rate_take(rate, now_ns))
		return ignore(agent, IGNORED_TOO_MANY);
	if (query.drive >= agent->n_drives)
		return ignore(agent, IGNORED_NO_DRIVE);
	answer = (struct answer){
		.cookie = query.cookie,
		.clock_ns = now_ns,
		.generation = agent->generation,
		.bytes = query.bytes,
		.drive = query.drive,
		.n_drives = agent->n_drives,
		.flags = query.flags,
	};
	agent->query(agent->drives, &query, now_ns, &answer);
	agent->answered++;
	return answer_write(&answer, key->key, key->bytes, datagram);
}
