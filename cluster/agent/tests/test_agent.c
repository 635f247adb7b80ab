// SPDX-License-Identifier: MIT
/* Tests of which queries are answered, and that all others are ignored and counted. */
#include "../../../liblinnos/tests/test.h"
#include "agent.h"

#include <linux/blk-linnos.h>

static unsigned int n_queries;

static void query_drive(void *drives, const struct query *query, uint64_t now_ns,
			struct answer *answer)
{
	n_queries++;
	answer->known = BLK_EXPECT_LATENCY;
	answer->latency_us = 100 + query->drive;
}

static struct key keys[KEYS_MAX];

static struct agent agent_of(const char *key)
{
	keys[0].bytes = key ? strlen(key) : 0;
	memcpy(keys[0].key, key ? key : "", keys[0].bytes);
	n_queries = 0;
	return (struct agent){
		.query = query_drive,
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

TEST(answer_is_as_long_as_the_query)
{
	struct query query = {.cookie = 5, .bytes = 4096, .drive = 1};
	struct agent agent = agent_of(NULL);
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct rate rate = plenty();
	struct answer answer;
	size_t bytes = query_write(&query, NULL, 0, datagram);

	assert(agent_answer(&agent, &rate, 99, datagram, bytes) == bytes);
	assert(!answer_read(&answer, NULL, 0, datagram, bytes));
	assert(answer.cookie == 5 && answer.drive == 1 && answer.latency_us == 101);
	assert(answer.n_drives == 2 && answer.generation == 7 && answer.clock_ns == 99);
	assert(agent.answered == 1);
}

enum fault { NONE, TRUNCATED, EMPTY, UNSIGNED, OTHER_KEY, UNKNOWN_DRIVE, NOT_ALLOWED };

static const char first_key[] = "the first key, of 16 and more";
static const char second_key[] = "the second key, of 16 and more";

/* Send a query with a fault ten times; the allowed rate is one query, which faults do not use up.
 */
static void check_fault(const char *key, enum fault fault, enum ignored reason)
{
	static const char other[] = "another key, of 16 and more";
	const char *signer = fault == UNSIGNED ? NULL : fault == OTHER_KEY ? other : key;
	struct query query = {.bytes = 4096, .drive = fault == UNKNOWN_DRIVE ? 2 : 0};
	struct agent agent = agent_of(key);
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct rate rate = plenty();

	for (unsigned int k = 0; k < 10; k++) {
		size_t bytes = query_write(&query, signer, signer ? strlen(signer) : 0, datagram);

		if (fault == TRUNCATED)
			bytes--;
		if (fault == EMPTY)
			bytes = 0;
		assert(!agent_answer(&agent, fault == NOT_ALLOWED ? NULL : &rate, 1, datagram,
				     bytes));
	}
	assert(agent.ignored[reason] == 10 && !n_queries && !agent.answered);
	assert(fault == UNKNOWN_DRIVE || !rate.due_ns);
}

TEST(agent_ignores_and_counts_queries_with_a_fault)
{
	check_fault(NULL, NOT_ALLOWED, IGNORED_STRANGER);
	check_fault(NULL, TRUNCATED, IGNORED_MALFORMED);
	check_fault(NULL, EMPTY, IGNORED_MALFORMED);
	check_fault(NULL, UNKNOWN_DRIVE, IGNORED_NO_DRIVE);
	check_fault(first_key, UNSIGNED, IGNORED_NOT_SIGNED);
	check_fault(first_key, OTHER_KEY, IGNORED_NOT_SIGNED);
}

TEST(answer_is_signed_with_the_key_of_the_query)
{
	static const char *const signers[] = {first_key, second_key};
	struct query query = {.bytes = 4096};
	struct agent agent = agent_of(first_key);
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct rate rate = plenty();
	struct answer answer;
	size_t bytes;

	keys[1].bytes = strlen(second_key);
	memcpy(keys[1].key, second_key, keys[1].bytes);
	agent.n_keys = 2;
	for (int k = 0; k < 2; k++) {
		bytes = query_write(&query, signers[k], strlen(signers[k]), datagram);
		assert(agent_answer(&agent, &rate, 1, datagram, bytes) == bytes);
		assert(!answer_read(&answer, signers[k], strlen(signers[k]), datagram, bytes));
	}
}
