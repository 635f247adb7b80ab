// SPDX-License-Identifier: MIT
/* Tests of the addresses of a network, and of the rate limit. */
#include "../../../liblinnos/tests/test.h"
#include "allowed.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static bool has(const char *text, const char *address)
{
	struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
	struct sockaddr_in ipv4 = {.sin_family = AF_INET};
	struct network network;

	assert(network_parse(&network, text));
	if (inet_pton(AF_INET, address, &ipv4.sin_addr) == 1)
		return network_of(&network, 1, (struct sockaddr *)&ipv4);
	assert(inet_pton(AF_INET6, address, &ipv6.sin6_addr) == 1);
	return network_of(&network, 1, (struct sockaddr *)&ipv6);
}

TEST(network_contains_its_addresses_only)
{
	assert(has("10.0.1.0/24", "10.0.1.0") && has("10.0.1.0/24", "10.0.1.255"));
	assert(!has("10.0.1.0/24", "10.0.2.0") && !has("10.0.1.0/24", "10.0.0.255"));
	assert(has("10.0.1.128/25", "10.0.1.128") && !has("10.0.1.128/25", "10.0.1.127"));
	assert(has("10.0.1.7", "10.0.1.7") && !has("10.0.1.7", "10.0.1.6"));
	assert(has("0.0.0.0/0", "192.0.2.1") && !has("0.0.0.0/0", "::1"));
	assert(has("fd00::/8", "fdff::1") && !has("fd00::/8", "fe00::1"));
	assert(has("::/0", "fd00::1") && has("::/0", "10.0.0.1"));
	/* a dual-stack socket reports IPv4 addresses in this form */
	assert(has("10.0.1.0/24", "::ffff:10.0.1.9"));
}

TEST(invalid_networks_are_refused)
{
	static const char *const wrong[] = {
		"",	      "10.0.0",	     "10.0.0.0/33",
		"10.0.0.0/",  "10.0.0.0/x",  "10.0.0.1/24",
		"fd00::/129", "10.0.0.0/-1", "10.0.0.0/8 ",
		"node3",      "fd00::1/64",
	};
	struct network network;

	for (unsigned int k = 0; k < sizeof(wrong) / sizeof(*wrong); k++)
		assert(!network_parse(&network, wrong[k]));
}

TEST(first_matching_network_is_used)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	struct sockaddr local = {.sa_family = AF_UNIX};
	struct network networks[2];

	assert(network_parse(&networks[0], "10.0.0.0/8"));
	assert(network_parse(&networks[1], "0.0.0.0/0"));
	inet_pton(AF_INET, "10.1.1.1", &from.sin_addr);
	assert(network_of(networks, 2, (struct sockaddr *)&from) == &networks[0]);
	inet_pton(AF_INET, "11.1.1.1", &from.sin_addr);
	assert(network_of(networks, 2, (struct sockaddr *)&from) == &networks[1]);
	assert(!network_of(networks, 1, (struct sockaddr *)&from));
	assert(!network_of(networks, 2, &local));
}

TEST(rate_allows_a_burst_of_a_tenth_of_a_second)
{
	uint64_t now_ns = 5000000000;
	unsigned int at_once = 0, later = 0;
	struct rate rate;

	rate_set(&rate, 1000);
	while (rate_take(&rate, now_ns))
		at_once++;
	assert(at_once == 101);
	/* query ten times as often as allowed, for a second */
	for (unsigned int k = 0; k < 10000; k++)
		later += rate_take(&rate, now_ns += 100000);
	assert(later == 1000);
}

/* --- Rate limits of sources, in a table of a fixed size --- */

#define NOW_NS UINT64_C(5000000000)
#define MANY 100000u

static struct sources sources;
static struct rate limit;

static unsigned int taken(uint32_t address, unsigned int n)
{
	unsigned int n_taken = 0;

	for (unsigned int k = 0; k < n; k++)
		n_taken +=
			rate_take(source_rate(&sources, &address, sizeof(address), &limit), NOW_NS);
	return n_taken;
}

static void begin_sources(void)
{
	memset(&sources, 0, sizeof(sources));
	rate_set(&limit, 100); /* a burst of 11 */
}

TEST(forged_sources_do_not_block_others)
{
	begin_sources();
	for (uint32_t round = 0; round < 10; round++) {
		assert(taken(1, 1) == 1);
		for (uint32_t k = 0; k < MANY; k++)
			taken(1000 + round * MANY + k, 1);
	}
}

TEST(source_over_its_rate_stays_known_among_others)
{
	begin_sources();
	assert(taken(1, 1000) == 11);
	/* Half as many sources as the table holds. */
	for (uint32_t k = 0; k < SOURCE_SETS * SOURCES_PER_SET / 2; k++)
		taken(1000 + k, 1);
	assert(taken(1, 10) == 0);
}
