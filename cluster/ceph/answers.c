// SPDX-License-Identifier: MIT
/* Answers of the monitors: see answers.h. */
#include "answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bob Jenkins' mix function of 1996, which is in the public domain. */
static void mix(uint32_t *a, uint32_t *b, uint32_t *c)
{
	static const uint8_t shifts[3][3] = {{13, 8, 13}, {12, 16, 5}, {3, 10, 15}};

	for (unsigned int k = 0; k < 3; k++) {
		*a = (*a - *b - *c) ^ (*c >> shifts[k][0]);
		*b = (*b - *c - *a) ^ (*a << shifts[k][1]);
		*c = (*c - *a - *b) ^ (*b >> shifts[k][2]);
	}
}

static uint32_t little_endian(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/* Ceph's `rjenkins`, the hash that all pools use unless they are older than 2009. */
uint32_t object_hash(const char *name)
{
	uint32_t a = 0x9e3779b9, b = a, c = 0;
	size_t bytes = strlen(name), left = bytes;
	const uint8_t *k = (const uint8_t *)name;
	uint8_t last[12] = {0};

	for (; left >= 12; left -= 12, k += 12) {
		a += little_endian(k);
		b += little_endian(k + 4);
		c += little_endian(k + 8);
		mix(&a, &b, &c);
	}
	memcpy(last, k, left);
	a += little_endian(last);
	b += little_endian(last + 4);
	/* the lowest byte is reserved for the length */
	c += bytes + (little_endian(last + 8) << 8);
	mix(&a, &b, &c);
	return c;
}

uint32_t group_of(uint32_t hash, uint32_t n_groups)
{
	uint32_t mask = 1;

	while (mask < n_groups)
		mask <<= 1;
	mask--;
	return (hash & mask) < n_groups ? hash & mask : hash & mask >> 1;
}

/*
 * Return the text after the last occurrence of @words. Names come earlier and may contain the same
 * words.
 */
static const char *after_last(const char *answer, const char *words)
{
	const char *last = NULL;

	for (const char *at = answer; (at = strstr(at, words)); at++)
		last = at + strlen(words);
	return last;
}

bool read_number(const char *answer, const char *words, uint64_t *number)
{
	const char *at = after_last(answer, words);

	return at && sscanf(at, "%" SCNu64, number) == 1;
}

/*
 * Example: osdmap e15 pool 'data' (1) object 'o5' -> pg 1.232019de (1.6) -> up ([2,1,0], p2) acting
 * ([2,1,0], p2)
 */
bool read_mapped(const char *answer, struct mapped *mapped)
{
	const char *pg = after_last(answer, " -> pg "), *acting;
	unsigned int primary, n = 1;

	if (!pg || sscanf(answer, "osdmap e%" SCNu32, &mapped->epoch) != 1 ||
	    sscanf(pg, "%*u.%" SCNx32 " (%*u.%" SCNx32 ")", &mapped->hash, &mapped->group) != 2)
		return false;
	acting = strstr(pg, " acting ([");
	if (!acting || sscanf(acting, " acting ([%*[0-9,]], p%u", &primary) != 1)
		return false;
	mapped->osds[0] = primary;
	acting += strlen(" acting ([");
	for (char *end; n < REPLICAS_MAX; acting = end + 1) {
		unsigned long osd = strtoul(acting, &end, 10);

		if (end == acting)
			return false;
		if (osd != primary)
			mapped->osds[n++] = osd;
		if (*end != ',')
			break;
	}
	mapped->n_osds = n;
	return true;
}

/* Read the text of the first occurrence of a JSON member. */
static bool read_text(const char *json, const char *member, char *text, size_t room)
{
	const char *at = strstr(json, member), *end;

	at = at ? strchr(at + strlen(member), ':') : NULL;
	at = at ? strchr(at, '"') : NULL;
	end = at ? strchr(at + 1, '"') : NULL;
	if (!end || (size_t)(end - at) > room)
		return false;
	memcpy(text, at + 1, end - at - 1);
	text[end - at - 1] = 0;
	return true;
}

bool read_found(const char *answer, struct found *found)
{
	const char *place = strstr(answer, "\"crush_location\"");
	char address[sizeof(found->address)], *port;

	if (!place || !read_text(place, "\"host\"", found->host, sizeof(found->host)) ||
	    !read_text(answer, "\"addr\"", address, sizeof(address)))
		return false;
	port = strrchr(address, ':');
	if (!port)
		return false;
	*port = 0;
	/* an IPv6 address is in brackets */
	strcpy(found->address, address[0] == '[' ? address + 1 : address);
	found->address[strcspn(found->address, "]")] = 0;
	return true;
}

bool quoted(const char *text, char *quoted, size_t room)
{
	size_t n = 0;

	for (; *text; text++) {
		unsigned char c = *text;

		if (room - n < 8)
			return false;
		n += c < ' '		 ? sprintf(quoted + n, "\\u%04x", c)
		     : strchr("\"\\", c) ? sprintf(quoted + n, "\\%c", c)
					 : sprintf(quoted + n, "%c", c);
	}
	if (n == room)
		return false;
	quoted[n] = 0;
	return true;
}
