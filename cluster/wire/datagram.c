// SPDX-License-Identifier: MIT
/*
 * Query and answer have the same layout in the first 28 bytes, except that @n_drives, @known and
 * @state are zero in a query. Fields that must be zero are checked, so that a later version can use
 * them.
 */
#include "datagram.h"

#include <sodium.h>
#include <string.h>

enum {
	MAGIC = 0,
	VERSION = 4,
	KIND = 5,
	FLAGS = 6,
	COOKIE = 8,
	DRIVE = 16,
	N_DRIVES = 18,
	KNOWN = 20,
	STATE = 22,
	BYTES = 24,
	/* of a query */
	PAGE = 28,
	QUERY_REST = 32,
	/* of an answer */
	LATENCY_US = 28,
	PENDING = 32,
	ANSWER_ZERO = 36,
	CLOCK_NS = 40,
	GENERATION = 48,
	ANSWER_REST = 56,
};

enum { IS_QUERY = 1, IS_ANSWER = 2 };

static const char magic[4] = {'L', 'N', 'A', 'G'};

static void put(uint8_t *to, uint64_t value, unsigned int bytes)
{
	for (unsigned int k = 0; k < bytes; k++)
		to[k] = value >> 8 * k;
}

static uint64_t get(const uint8_t *from, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int k = 0; k < bytes; k++)
		value |= (uint64_t)from[k] << 8 * k;
	return value;
}

static void begin(uint8_t *datagram, unsigned int kind, unsigned int flags, uint64_t cookie,
		  unsigned int drive, uint32_t bytes)
{
	memset(datagram, 0, DATAGRAM_BYTES_MAX);
	memcpy(datagram + MAGIC, magic, sizeof(magic));
	datagram[VERSION] = DATAGRAM_VERSION;
	datagram[KIND] = kind;
	put(datagram + FLAGS, flags, 2);
	put(datagram + COOKIE, cookie, 8);
	put(datagram + DRIVE, drive, 2);
	put(datagram + BYTES, bytes, 4);
}

/* BLAKE2b takes a quarter of the time of HMAC-SHA-256 where SHA-256 has no instruction. */
static void compute_tag(const void *key, size_t key_bytes, const uint8_t *datagram,
			uint8_t tag[DATAGRAM_TAG_BYTES])
{
	/* This fails only if the key is longer than KEY_BYTES_MAX, which callers have checked. */
	crypto_generichash(tag, DATAGRAM_TAG_BYTES, datagram, DATAGRAM_BYTES, key, key_bytes);
}

static size_t sign(uint8_t *datagram, const void *key, size_t key_bytes)
{
	if (!key_bytes)
		return DATAGRAM_BYTES;
	compute_tag(key, key_bytes, datagram, datagram + DATAGRAM_BYTES);
	return DATAGRAM_BYTES_MAX;
}

/* The comparison takes the same time for a wrong tag as for a right one. */
static bool tag_is_right(const void *key, size_t key_bytes, const uint8_t *datagram)
{
	uint8_t tag[DATAGRAM_TAG_BYTES];

	compute_tag(key, key_bytes, datagram, tag);
	return !sodium_memcmp(tag, datagram + DATAGRAM_BYTES, sizeof(tag));
}

static enum datagram_fault check(const uint8_t *datagram, size_t bytes, unsigned int kind,
				 const void *key, size_t key_bytes)
{
	if (bytes != DATAGRAM_BYTES && bytes != DATAGRAM_BYTES_MAX)
		return DATAGRAM_MALFORMED;
	if (memcmp(datagram + MAGIC, magic, sizeof(magic)) ||
	    datagram[VERSION] != DATAGRAM_VERSION || datagram[KIND] != kind)
		return DATAGRAM_MALFORMED;
	if ((bytes == DATAGRAM_BYTES_MAX) != (key_bytes != 0))
		return DATAGRAM_NOT_SIGNED;
	if (key_bytes && !tag_is_right(key, key_bytes, datagram))
		return DATAGRAM_NOT_SIGNED;
	if (get(datagram + FLAGS, 2) & ~QUERY_FLAGS || !get(datagram + BYTES, 4))
		return DATAGRAM_MALFORMED;
	return DATAGRAM_GOOD;
}

size_t query_write(const struct query *query, const void *key, size_t key_bytes,
		   uint8_t datagram[DATAGRAM_BYTES_MAX])
{
	begin(datagram, IS_QUERY, query->flags, query->cookie, query->drive, query->bytes);
	put(datagram + PAGE, query->page, 4);
	return sign(datagram, key, key_bytes);
}

enum datagram_fault query_read(struct query *query, const void *key, size_t key_bytes,
			       const uint8_t *datagram, size_t bytes)
{
	enum datagram_fault fault = check(datagram, bytes, IS_QUERY, key, key_bytes);

	if (fault)
		return fault;
	if (!sodium_is_zero(datagram + N_DRIVES, BYTES - N_DRIVES) ||
	    !sodium_is_zero(datagram + QUERY_REST, DATAGRAM_BYTES - QUERY_REST))
		return DATAGRAM_MALFORMED;
	*query = (struct query){
		.cookie = get(datagram + COOKIE, 8),
		.bytes = get(datagram + BYTES, 4),
		.page = get(datagram + PAGE, 4),
		.drive = get(datagram + DRIVE, 2),
		.flags = get(datagram + FLAGS, 2),
	};
	return DATAGRAM_GOOD;
}

size_t answer_write(const struct answer *answer, const void *key, size_t key_bytes,
		    uint8_t datagram[DATAGRAM_BYTES_MAX])
{
	begin(datagram, IS_ANSWER, answer->flags, answer->cookie, answer->drive, answer->bytes);
	put(datagram + N_DRIVES, answer->n_drives, 2);
	put(datagram + KNOWN, answer->known, 2);
	put(datagram + STATE, answer->state, 2);
	put(datagram + LATENCY_US, answer->latency_us, 4);
	put(datagram + PENDING, answer->pending, 4);
	put(datagram + CLOCK_NS, answer->clock_ns, 8);
	put(datagram + GENERATION, answer->generation, 8);
	return sign(datagram, key, key_bytes);
}

enum datagram_fault answer_read(struct answer *answer, const void *key, size_t key_bytes,
				const uint8_t *datagram, size_t bytes)
{
	enum datagram_fault fault = check(datagram, bytes, IS_ANSWER, key, key_bytes);

	if (fault)
		return fault;
	if (!sodium_is_zero(datagram + ANSWER_ZERO, CLOCK_NS - ANSWER_ZERO) ||
	    !sodium_is_zero(datagram + ANSWER_REST, DATAGRAM_BYTES - ANSWER_REST))
		return DATAGRAM_MALFORMED;
	*answer = (struct answer){
		.cookie = get(datagram + COOKIE, 8),
		.clock_ns = get(datagram + CLOCK_NS, 8),
		.generation = get(datagram + GENERATION, 8),
		.bytes = get(datagram + BYTES, 4),
		.latency_us = get(datagram + LATENCY_US, 4),
		.pending = get(datagram + PENDING, 4),
		.drive = get(datagram + DRIVE, 2),
		.n_drives = get(datagram + N_DRIVES, 2),
		.flags = get(datagram + FLAGS, 2),
		.known = get(datagram + KNOWN, 2),
		.state = get(datagram + STATE, 2),
	};
	return DATAGRAM_GOOD;
}
