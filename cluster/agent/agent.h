/* SPDX-License-Identifier: MIT */
/* Handle a datagram: answer or ignore it, and count it. */
#ifndef LINNOS_AGENT_AGENT_H
#define LINNOS_AGENT_AGENT_H

#include "allowed.h"
#include "datagram.h"

/* Two, so that a key can be replaced while clients still use the old one. */
#define KEYS_MAX 2

struct key {
	size_t bytes;
	char key[KEY_BYTES_MAX];
};

enum ignored {
	IGNORED_STRANGER,
	IGNORED_TOO_MANY,
	IGNORED_MALFORMED,
	IGNORED_NOT_SIGNED,
	IGNORED_NO_DRIVE,
	IGNORED_KINDS,
};

/**
 * struct agent - everything needed to answer queries
 * @query: function that fills @known, @state, @latency_us and @pending of an answer
 * @drives: passed to @query
 * @n_drives: the number of drives
 * @generation: identifies this start of the agent
 * @keys: queries that are signed with any of them are answered, signed with the same key
 * @n_keys: the number of keys; 0 if nothing is signed
 * @answered: the number of queries answered
 * @ignored: the number of datagrams ignored, by reason
 */
struct agent {
	void (*query)(void *drives, const struct query *query, uint64_t now_ns,
		      struct answer *answer);
	void *drives;
	unsigned int n_drives;
	uint64_t generation;
	const struct key *keys;
	unsigned int n_keys;
	uint64_t answered;
	uint64_t ignored[IGNORED_KINDS];
};

/*
 * Replace a query by its answer. @rate is the rate limit of the source, or NULL if the source is
 * not allowed. Return the length of the answer, which is @bytes, or 0 if none must be sent.
 */
size_t agent_answer(struct agent *agent, struct rate *rate, uint64_t now_ns,
		    uint8_t datagram[DATAGRAM_BYTES_MAX], size_t bytes);

#endif
