/* SPDX-License-Identifier: MIT */
/* Who is answered, and how often: networks that the configuration names, each with a rate. */
#ifndef LINNOS_AGENT_ALLOWED_H
#define LINNOS_AGENT_ALLOWED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/**
 * struct rate - at most so many a second, and a tenth of a second's worth at once
 * @interval_ns: between two; 0: none is let through
 * @due_ns: when the next one would be if all had kept their distance
 */
struct rate {
	uint64_t interval_ns;
	uint64_t due_ns;
};

/**
 * struct network - addresses that are answered
 * @address: IPv6, or IPv4 as IPv6 has it (::ffff:a.b.c.d)
 * @prefix_bits: how many of its bits count, 0 to 128
 * @rate: of each of them; see sources.h
 */
struct network {
	uint8_t address[16];
	unsigned int prefix_bits;
	struct rate rate;
};

void rate_set(struct rate *rate, uint32_t per_second);
bool rate_take(struct rate *rate, uint64_t now_ns);

/* "10.0.0.0/24", "fd00::/8", or an address; a prefix must cover all bits that are set. */
bool network_parse(struct network *network, const char *text);
/* The first that has the address, or NULL. */
struct network *network_of(struct network *networks, unsigned int n, const struct sockaddr *from);

#endif
