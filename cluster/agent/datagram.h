/* SPDX-License-Identifier: MIT */
/*
 * The one datagram of linnos-agent: a question about a read, and its answer, as linnos-agent(8) has
 * them. An answer is as long as its question, so that nobody is sent more than he sent himself,
 * under whoever's address. Clients build this file, too.
 */
#ifndef LINNOS_AGENT_DATAGRAM_H
#define LINNOS_AGENT_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATAGRAM_BYTES 64
#define DATAGRAM_TAG_BYTES 32
#define DATAGRAM_BYTES_MAX (DATAGRAM_BYTES + DATAGRAM_TAG_BYTES)
#define DATAGRAM_VERSION 1

/* Of what datagrams are signed with. */
#define KEY_BYTES_MAX 256

/* For &question.flags; the first two are the kernel's BLK_EXPECT_QUERY_ONLY and
 * BLK_EXPECT_HAS_PAGE. */
#define QUESTION_LOOK 0x1u
#define QUESTION_AT 0x2u
#define QUESTION_FLAGS (QUESTION_LOOK | QUESTION_AT)

/*
 * For &answer.state: the lower bits are the kernel's BLK_EXPECT_SLOW, STALLED, STALE, PROBE and
 * NO_CHOICE; of the number of I/Os in flight, whether it is known, and whether it is of pages.
 */
#define STATE_PENDING_KNOWN 0x100u
#define STATE_PENDING_PAGES 0x200u

/*
 * For &answer.known, beside the kernel's enum blk_expect_known: it has no such question, and the
 * agent watches nothing.
 */
#define KNOWN_NO_KERNEL 0xffffu

/**
 * struct question - what is asked
 * @cookie: comes back
 * @bytes: of the read, not 0
 * @page: where on the drive it begins, by 4096, with %QUESTION_AT
 * @drive: its number in the agent's configuration, from 0
 * @flags: %QUESTION_LOOK: no read will follow
 */
struct question {
	uint64_t cookie;
	uint32_t bytes;
	uint32_t page;
	uint16_t drive;
	uint16_t flags;
};

/**
 * struct answer - what is told
 * @cookie: the question's
 * @clock_ns: the node's CLOCK_MONOTONIC when the question came
 * @generation: another one after a restart of the agent: what was told before counts no more
 * @bytes: the question's
 * @latency_us: how long the read would take, 0 if nothing is predicted
 * @pending: what is in flight, pages or requests
 * @drive: the question's
 * @n_drives: how many there are
 * @flags: the question's
 * @known: an enum blk_expect_known, or %KNOWN_NO_KERNEL
 * @state: %STATE_PENDING_KNOWN and its like
 */
struct answer {
	uint64_t cookie;
	uint64_t clock_ns;
	uint64_t generation;
	uint32_t bytes;
	uint32_t latency_us;
	uint32_t pending;
	uint16_t drive;
	uint16_t n_drives;
	uint16_t flags;
	uint16_t known;
	uint16_t state;
};

/* A key of 0 bytes is none. Each returns the datagram's length. */
size_t question_write(const struct question *question, const void *key, size_t key_bytes,
		      uint8_t datagram[DATAGRAM_BYTES_MAX]);
size_t answer_write(const struct answer *answer, const void *key, size_t key_bytes,
		    uint8_t datagram[DATAGRAM_BYTES_MAX]);

/* Why a datagram is not one. */
enum datagram_fault { DATAGRAM_GOOD, DATAGRAM_MALFORMED, DATAGRAM_NOT_SIGNED };

enum datagram_fault question_read(struct question *question, const void *key, size_t key_bytes,
				  const uint8_t *datagram, size_t bytes);
enum datagram_fault answer_read(struct answer *answer, const void *key, size_t key_bytes,
				const uint8_t *datagram, size_t bytes);

#endif
