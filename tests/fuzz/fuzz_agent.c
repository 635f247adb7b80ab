/* SPDX-License-Identifier: MIT */
/*
 * Send any datagram to linnos-agent. It must either be answered by a datagram of the same length or
 * be ignored and counted once, and no drive beyond the last may be queried. Bits of the first byte
 * select whether the agent has a key, whether the datagram is signed with it and whether its sender
 * is allowed. With the highest bit, the other bytes are read as a configuration.
 */
#include "agent.h"
#include "configuration.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { KEYED = 1, SIGNED = 2, STRANGER = 4, CONFIGURATION = 0x80 };
enum { DRIVES = 3 };

static const char key[] = "sixteen bytes, and a few more";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(void *drives, const struct query *query, uint64_t now_ns,
		struct answer *answer)
{
	(void)drives;
	(void)now_ns;
	if (query->drive >= DRIVES || !query->bytes)
		abort();
	answer->latency_us = query->page;
}

static void read_configuration(const uint8_t *data, size_t size)
{
	static struct configuration c;
	FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;

	if (!file)
		return;
	if (!configuration_read(&c, file, "fuzz") &&
	    (!c.n_drives || c.n_drives > DRIVES_MAX || c.n_networks > NETWORKS_MAX ||
	     c.n_listeners > LISTENERS_MAX))
		abort();
	fclose(file);
}

/* Fill @datagram as a socket would, truncated to its size. Return the length before truncation. */
static size_t receive(uint8_t datagram[DATAGRAM_BYTES_MAX], const uint8_t *data, size_t size,
		      unsigned int how)
{
	size_t bytes = size < DATAGRAM_BYTES_MAX ? size : DATAGRAM_BYTES_MAX;

	memset(datagram, 0xa5, DATAGRAM_BYTES_MAX);
	memcpy(datagram, data, bytes);
	if (how & SIGNED && size >= DATAGRAM_BYTES) {
		crypto_generichash(datagram + DATAGRAM_BYTES, DATAGRAM_TAG_BYTES, datagram,
				   DATAGRAM_BYTES, (const uint8_t *)key, sizeof(key));
		return DATAGRAM_BYTES_MAX;
	}
	return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct key signing = { .bytes = sizeof(key) };
	struct agent agent = { .query = ask, .n_drives = DRIVES, .keys = &signing };
	size_t key_bytes = data && size && data[0] & KEYED ? sizeof(key) : 0;
	uint8_t datagram[DATAGRAM_BYTES_MAX], before[DATAGRAM_BYTES_MAX];
	uint64_t ignored = 0;
	struct answer answer;
	struct rate rate;
	size_t bytes, sent;

	if (!size)
		return 0;
	if (data[0] & CONFIGURATION) {
		read_configuration(data + 1, size - 1);
		return 0;
	}
	memcpy(signing.key, key, sizeof(key));
	agent.n_keys = !!key_bytes;
	bytes = receive(datagram, data + 1, size - 1, data[0]);
	memcpy(before, datagram, sizeof(before));
	rate_set(&rate, 1000);
	sent = agent_answer(&agent, data[0] & STRANGER ? NULL : &rate, 1, datagram, bytes);
	for (unsigned int why = 0; why < IGNORED_KINDS; why++)
		ignored += agent.ignored[why];
	if (agent.answered + ignored != 1 || !sent != !agent.answered)
		abort();
	if (!sent)
		return 0;
	if (sent != bytes || data[0] & STRANGER || memcmp(before + 8, datagram + 8, 8))
		abort();
	if (data[0] & KEYED && !(data[0] & SIGNED))
		abort();
	if (answer_read(&answer, key, key_bytes, datagram, sent) || answer.drive >= DRIVES)
		abort();
	return 0;
}
