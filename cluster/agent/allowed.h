/* SPDX-License-Identifier: MIT */
/* Access control: the networks that are answered, and the rate limit of each. */
#ifndef LINNOS_AGENT_ALLOWED_H
#define LINNOS_AGENT_ALLOWED_H

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/**
 * struct rate - rate limit, with a burst of a tenth of a second
 * @interval_ns: interval between two queries
 * @due_ns: time at which the next query would arrive if all queries had kept the interval
 */
struct rate {
	uint64_t interval_ns;
	uint64_t due_ns;
};

/**
 * struct network - addresses that are answered
 * @address: IPv6, or IPv4 as an IPv4-mapped IPv6 address (::ffff:a.b.c.d)
 * @prefix_bits: length of the prefix, 0 to 128
 * @rate: the rate limit of each address
 */
struct network {
	uint8_t address[16];
	unsigned int prefix_bits;
	struct rate rate;
};

void rate_set(struct rate *rate, uint32_t per_second);
/* Return true if a query is within the rate limit, and count it. */
bool rate_take(struct rate *rate, uint64_t now_ns);

/* Parse "10.0.0.0/24", "fd00::/8", or an address; the prefix must cover all bits that are set. */
bool network_parse(struct network *network, const char *text);
/* Return the first network that contains the address, or NULL. */
struct network *network_of(struct network *networks, unsigned int n, const struct sockaddr *from);

/*
 * A rate limit for each source of queries, so that a source that queries too often, or whose
 * address is forged, does not block others. The table has a fixed size. If it is full, the source
 * that could query again first is replaced. A flood from forged addresses therefore makes the table
 * forget sources, which may then query at their full rate, but does not block them.
 */
#define SOURCE_SETS 1024
#define SOURCES_PER_SET 4

struct source {
	uint64_t id[2]; /* hash of its address; both are 0 if the entry is free */
	struct rate rate;
};

struct sources {
	/* Prevents an attacker from choosing addresses that share a set or a hash. */
	uint8_t secret[crypto_shorthash_siphashx24_KEYBYTES];
	struct source sets[SOURCE_SETS][SOURCES_PER_SET];
};

/* Return the rate limit of an address. A new address gets the interval of @limit. */
struct rate *source_rate(struct sources *sources, const void *address, size_t bytes,
			 const struct rate *limit);

#endif
