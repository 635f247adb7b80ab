/* SPDX-License-Identifier: MIT */
/* What is done with a datagram: it is answered, or ignored, and counted. */
#ifndef LINNOS_AGENT_AGENT_H
#define LINNOS_AGENT_AGENT_H

#include "allowed.h"
#include "datagram.h"

/* Two, so that a key can be exchanged while clients still use the old one. */
#define KEYS_MAX 2

struct key {
	size_t bytes;
	char key[KEY_BYTES_MAX + 1];
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
 * struct agent - all that answering needs
 * @ask: fills an answer's @known, @state, @latency_us and @pending
 * @drives: @ask's
 * @n_drives: how many
 * @generation: of this start
 * @keys: questions that are signed with any of them are answered, signed with the same
 * @n_keys: how many; 0: nothing is signed
 * @answered: how many
 * @ignored: how many, by why
 */
struct agent {
	void (*ask)(void *drives, const struct question *question, uint64_t now_ns,
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
 * @rate: of who asks, NULL of somebody who is not answered. The answer takes the place of the
 * question. Returns its length, which is @bytes, or 0: send nothing.
 */
size_t agent_answer(struct agent *agent, struct rate *rate, uint64_t now_ns,
		    uint8_t datagram[DATAGRAM_BYTES_MAX], size_t bytes);

#endif
