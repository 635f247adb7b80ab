// SPDX-License-Identifier: MIT
#include "allowed.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESS_BITS = 128, IPV4_BITS = 32 };

#define SECOND_NS UINT64_C(1000000000)
#define BURST_NS (SECOND_NS / 10)

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};

void rate_set(struct rate *rate, uint32_t per_second)
{
	rate->interval_ns = (SECOND_NS + per_second - 1) / per_second;
	rate->due_ns = 0;
}

/* A refused query does not use up the rate of later ones. */
bool rate_take(struct rate *rate, uint64_t now_ns)
{
	uint64_t due_ns = rate->due_ns > now_ns ? rate->due_ns : now_ns;

	if (due_ns - now_ns > BURST_NS)
		return false;
	rate->due_ns = due_ns + rate->interval_ns;
	return true;
}

static void from_ipv4(uint8_t address[16], const void *ipv4)
{
	memcpy(address, ipv4_prefix, sizeof(ipv4_prefix));
	memcpy(address + sizeof(ipv4_prefix), ipv4, 4);
}

static bool bit_of(const uint8_t *address, unsigned int k)
{
	return address[k / 8] >> (7 - k % 8) & 1;
}

static bool parse_prefix(const char *text, unsigned int most, unsigned int *bits)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	value = strtoul(text, &end, 10);
	*bits = value;
	return !*end && value <= most;
}

bool network_parse(struct network *network, const char *text)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	unsigned int most = ADDRESS_BITS;
	uint8_t ipv4[4];

	if (length >= sizeof(address))
		return false;
	memcpy(address, text, length);
	address[length] = 0;
	if (inet_pton(AF_INET, address, ipv4) == 1) {
		from_ipv4(network->address, ipv4);
		most = IPV4_BITS;
	} else if (inet_pton(AF_INET6, address, network->address) != 1) {
		return false;
	}
	network->prefix_bits = most;
	if (slash && !parse_prefix(slash + 1, most, &network->prefix_bits))
		return false;
	network->prefix_bits += ADDRESS_BITS - most;
	for (unsigned int k = network->prefix_bits; k < ADDRESS_BITS; k++)
		if (bit_of(network->address, k))
			return false;
	return true;
}

static bool has(const struct network *network, const uint8_t *address)
{
	unsigned int bytes = network->prefix_bits / 8, bits = network->prefix_bits % 8;

	if (memcmp(network->address, address, bytes))
		return false;
	return !bits || !((network->address[bytes] ^ address[bytes]) >> (8 - bits));
}

struct network *network_of(struct network *networks, unsigned int n, const struct sockaddr *from)
{
	uint8_t address[16];

	if (from->sa_family == AF_INET)
		from_ipv4(address, &((const struct sockaddr_in *)from)->sin_addr);
	else if (from->sa_family == AF_INET6)
		memcpy(address, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof(address));
	else
		return NULL;
	for (unsigned int k = 0; k < n; k++)
		if (has(&networks[k], address))
			return &networks[k];
	return NULL;
}

struct rate *source_rate(struct sources *sources, const void *address, size_t bytes,
			 const struct rate *limit)
{
	struct source *set, *idle;
	uint64_t id[2];

	crypto_shorthash_siphashx24((uint8_t *)id, address, bytes, sources->secret);
	id[0] |= 1;
	set = idle = sources->sets[id[1] % SOURCE_SETS];
	for (unsigned int k = 0; k < SOURCES_PER_SET; k++) {
		if (set[k].id[0] == id[0] && set[k].id[1] == id[1])
			return &set[k].rate;
		if (set[k].rate.due_ns < idle->rate.due_ns)
			idle = &set[k];
	}
	*idle = (struct source){.id = {id[0], id[1]}, .rate.interval_ns = limit->interval_ns};
	return &idle->rate;
}
