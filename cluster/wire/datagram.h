/* SPDX-License-Identifier: MIT */
/*
 * The datagrams of linnos-agent, a query about a read and its answer, as documented in
 * linnos-agent(8). An answer is as long as its query, so that queries with forged source addresses
 * do not amplify traffic. The agent and its clients compile this file.
 */
#ifndef LINNOS_WIRE_DATAGRAM_H
#define LINNOS_WIRE_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATAGRAM_BYTES 64
#define DATAGRAM_TAG_BYTES 32
#define DATAGRAM_BYTES_MAX (DATAGRAM_BYTES + DATAGRAM_TAG_BYTES)
#define DATAGRAM_VERSION 1

/* The maximum length of the key that signs datagrams, which is that of BLAKE2b. */
#define KEY_BYTES_MAX 64

/*
 * For &query.flags; both have the values of the kernel's BLK_EXPECT_QUERY_ONLY and
 * BLK_EXPECT_HAS_PAGE.
 */
#define QUERY_ONLY 0x1u
#define QUERY_HAS_PAGE 0x2u
#define QUERY_FLAGS (QUERY_ONLY | QUERY_HAS_PAGE)

/*
 * For &answer.state. The lower bits are the kernel's BLK_EXPECT_SLOW, STALE and PROBE. The agent
 * sets STATE_PENDING_KNOWN if &answer.pending is known, and STATE_PENDING_PAGES if it is a number
 * of pages rather than of requests.
 */
#define STATE_PENDING_KNOWN 0x100u
#define STATE_PENDING_PAGES 0x200u

/*
 * A value of &answer.known that the kernel's enum blk_expect_known does not contain: the kernel
 * does not support queries.
 */
#define KNOWN_NO_KERNEL 0xffffu

/**
 * struct query - a query
 * @cookie: returned in the answer
 * @bytes: size of the read, not 0
 * @page: its offset on the drive in units of 4096 bytes, with %QUERY_HAS_PAGE
 * @drive: index of the drive in the agent's configuration, from 0
 * @flags: %QUERY_ONLY if no read will follow
 */
struct query {
	uint64_t cookie;
	uint32_t bytes;
	uint32_t page;
	uint16_t drive;
	uint16_t flags;
};

/**
 * struct answer - an answer
 * @cookie: copied from the query
 * @clock_ns: the node's CLOCK_MONOTONIC when the query arrived
 * @generation: changes when the agent restarts; earlier answers are then outdated
 * @bytes: copied from the query
 * @latency_us: predicted latency of the read, 0 if there is no prediction
 * @pending: number of pages or requests in flight
 * @drive: copied from the query
 * @n_drives: number of drives
 * @flags: copied from the query
 * @known: an enum blk_expect_known, or %KNOWN_NO_KERNEL
 * @state: %STATE_PENDING_KNOWN and the flags listed there
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

/* @key_bytes is 0 if there is no key. Both functions return the length of the datagram. */
size_t query_write(const struct query *query, const void *key, size_t key_bytes,
		   uint8_t datagram[DATAGRAM_BYTES_MAX]);
size_t answer_write(const struct answer *answer, const void *key, size_t key_bytes,
		    uint8_t datagram[DATAGRAM_BYTES_MAX]);

/* Result of parsing a datagram. */
enum datagram_fault { DATAGRAM_GOOD, DATAGRAM_MALFORMED, DATAGRAM_NOT_SIGNED };

enum datagram_fault query_read(struct query *query, const void *key, size_t key_bytes,
			       const uint8_t *datagram, size_t bytes);
enum datagram_fault answer_read(struct answer *answer, const void *key, size_t key_bytes,
				const uint8_t *datagram, size_t bytes);

#endif
