// SPDX-License-Identifier: MIT
/* Tests of which queries are answered, and that all others are ignored and counted. */
#include "../../../liblinnos/tests/test.h"
#include "agent.h"

#include <linux/blk-linnos.h>

static unsigned int asked;

static void ask(void *drives, const struct question *question, uint64_t now_ns,
		struct answer *answer)
{
	(void)drives;
	(void)now_ns;
	asked++;
	answer->known = BLK_EXPECT_LATENCY;
	answer->latency_us = 100 + question->drive;
}

static struct key keys[KEYS_MAX];

static struct agent agent_of(const char *key)
{
	keys[0].bytes = key ? strlen(key) : 0;
	memcpy(keys[0].key, key ? key : "", keys[0].bytes);
	asked = 0;
	return (struct agent){
		.ask = ask,
		.n_drives = 2,
		.generation = 7,
		.keys = keys,
		.n_keys = !!key,
	};
}

static struct rate plenty(void)
{
	struct rate rate;

	rate_set(&rate, 1000000);
	return rate;
}

TEST(a_question_is_answered_in_its_own_length)
{
	struct question question = {.cookie = 5, .bytes = 4096, .drive = 1};
	struct agent agent = agent_of(NULL);
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct rate rate = plenty();
	struct answer answer;
	size_t bytes = question_write(&question, NULL, 0, datagram);

	assert(agent_answer(&agent, &rate, true, 99, datagram, bytes) == bytes);
	assert(!answer_read(&answer, NULL, 0, datagram, bytes));
	assert(answer.cookie == 5 && answer.drive == 1 && answer.latency_us == 101);
	assert(answer.n_drives == 2 && answer.generation == 7 && answer.clock_ns == 99);
	assert(agent.answered == 1);
}

TEST(who_is_not_named_and_who_asks_too_often_is_ignored_and_asks_no_drive)
{
	struct question question = {.bytes = 4096};
	struct agent agent = agent_of(NULL);
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct rate rate;
	size_t bytes = question_write(&question, NULL, 0, datagram);

	assert(!agent_answer(&agent, NULL, true, 0, datagram, bytes));
	assert(agent.ignored[IGNORED_STRANGER] == 1);
	rate_set(&rate, 1);
	assert(agent_answer(&agent, &rate, true, 1, datagram, bytes) == bytes);
	question_write(&question, NULL, 0, datagram);
	assert(!agent_answer(&agent, &rate, true, 1, datagram, bytes));
	assert(agent.ignored[IGNORED_TOO_MANY] == 1 && asked == 1);
}

TEST(what_is_ignored_takes_nothing_from_who_asks_rightly)
{
	static const char key[] = "0123456789abcdef";
	struct question question = {.bytes = 4096};
	struct agent agent = agent_of(key);
	uint8_t datagram[DATAGRAM_BYTES_MAX] = {0};
	struct rate rate;
	size_t bytes;

	rate_set(&rate, 1);
	for (unsigned int k = 0; k < 10; k++) {
		assert(!agent_answer(&agent, &rate, true, 1, datagram, 1));
		bytes = question_write(&question, "another key, as long", 20, datagram);
		assert(!agent_answer(&agent, &rate, true, 1, datagram, bytes));
	}
	assert(agent.ignored[IGNORED_MALFORMED] == 10 && agent.ignored[IGNORED_NOT_SIGNED] == 10);
	bytes = question_write(&question, key, strlen(key), datagram);
	assert(agent_answer(&agent, &rate, true, 1, datagram, bytes) == bytes && asked == 1);
}

TEST(what_is_not_signed_is_ignored_where_there_is_a_key)
{
	static const char key[] = "0123456789abcdef";
	struct question question = {.bytes = 4096};
	struct agent agent = agent_of(key);
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct rate rate = plenty();
	struct answer answer;
	size_t bytes = question_write(&question, NULL, 0, datagram);

	assert(!agent_answer(&agent, &rate, true, 0, datagram, bytes));
	bytes = question_write(&question, "another key, as long", 20, datagram);
	assert(!agent_answer(&agent, &rate, true, 0, datagram, bytes));
	assert(agent.ignored[IGNORED_NOT_SIGNED] == 2 && !asked);
	bytes = question_write(&question, key, strlen(key), datagram);
	assert(agent_answer(&agent, &rate, true, 0, datagram, bytes) == DATAGRAM_BYTES_MAX);
	assert(!answer_read(&answer, key, strlen(key), datagram, bytes));
}

TEST(a_drive_that_is_none_and_what_is_no_question_are_ignored)
{
	struct question question = {.bytes = 4096, .drive = 2};
	struct agent agent = agent_of(NULL);
	uint8_t datagram[DATAGRAM_BYTES_MAX] = {0};
	struct rate rate = plenty();

	assert(!agent_answer(&agent, &rate, true, 0, datagram, 0));
	assert(!agent_answer(&agent, &rate, true, 0, datagram, DATAGRAM_BYTES));
	assert(!agent_answer(&agent, &rate, true, 0, datagram, 100000));
	assert(agent.ignored[IGNORED_MALFORMED] == 3);
	question_write(&question, NULL, 0, datagram);
	assert(!agent_answer(&agent, &rate, true, 0, datagram, DATAGRAM_BYTES));
	assert(agent.ignored[IGNORED_NO_DRIVE] == 1 && !asked && !agent.answered);
}

TEST(questions_signed_with_either_of_two_keys_are_answered_with_the_same)
{
	static const char *const signers[] = {"the old key, of sixteen", "the new key, of sixteen"};
	struct question question = {.bytes = 4096};
	struct agent agent = agent_of(signers[0]);
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct answer answer;
	struct rate rate;
	size_t bytes;

	keys[1].bytes = strlen(signers[1]);
	memcpy(keys[1].key, signers[1], keys[1].bytes);
	agent.n_keys = 2;
	rate_set(&rate, 1000);
	for (int k = 0; k < 2; k++) {
		bytes = question_write(&question, signers[k], strlen(signers[k]), datagram);
		assert(agent_answer(&agent, &rate, true, 1, datagram, bytes) == bytes);
		assert(!answer_read(&answer, signers[k], strlen(signers[k]), datagram, bytes));
	}
	bytes = question_write(&question, "a key that is none of them", 26, datagram);
	assert(!agent_answer(&agent, &rate, true, 1, datagram, bytes));
	assert(agent.ignored[IGNORED_NOT_SIGNED] == 1);
}
