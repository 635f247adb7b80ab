// SPDX-License-Identifier: MIT
/*
 * Who may not ask costs no hash. What is no question, or not signed, takes nothing of the rate of
 * those who ask rightly: else anybody who can send in their name would silence them.
 */
#include "agent.h"

static size_t ignore(struct agent *agent, enum ignored why)
{
	agent->ignored[why]++;
	return 0;
}

size_t agent_answer(struct agent *agent, struct rate *rate, uint64_t now_ns,
		    uint8_t datagram[DATAGRAM_BYTES_MAX], size_t bytes)
{
	struct question question;
	struct answer answer;

	if (!rate)
		return ignore(agent, IGNORED_STRANGER);
	switch (question_read(&question, agent->key, agent->key_bytes, datagram, bytes)) {
	case DATAGRAM_MALFORMED:
		return ignore(agent, IGNORED_MALFORMED);
	case DATAGRAM_NOT_SIGNED:
		return ignore(agent, IGNORED_NOT_SIGNED);
	case DATAGRAM_GOOD:
		break;
	}
	if (!rate_take(rate, now_ns))
		return ignore(agent, IGNORED_TOO_MANY);
	if (question.drive >= agent->n_drives)
		return ignore(agent, IGNORED_NO_DRIVE);
	answer = (struct answer){
		.cookie = question.cookie,
		.clock_ns = now_ns,
		.generation = agent->generation,
		.bytes = question.bytes,
		.drive = question.drive,
		.n_drives = agent->n_drives,
		.flags = question.flags,
	};
	agent->ask(agent->drives, &question, now_ns, &answer);
	agent->answered++;
	return answer_write(&answer, agent->key, agent->key_bytes, datagram);
}
