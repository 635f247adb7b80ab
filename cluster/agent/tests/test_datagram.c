// SPDX-License-Identifier: MIT
/* Tests of the datagram of linnos-agent(8), byte by byte, and of malformed datagrams. */
#include "../../../liblinnos/tests/test.h"
#include "datagram.h"

static const struct query query = {
	.cookie = 0x1122334455667788,
	.bytes = 4096,
	.page = 0x01020304,
	.drive = 0x0506,
	.flags = QUERY_ONLY | QUERY_HAS_PAGE,
};

static const struct answer answer = {
	.cookie = 0x1122334455667788,
	.clock_ns = 0x2122232425262728,
	.generation = 0x3132333435363738,
	.bytes = 4096,
	.latency_us = 0x41424344,
	.pending = 0x51525354,
	.drive = 0x0506,
	.n_drives = 0x0708,
	.flags = QUERY_HAS_PAGE,
	.known = 6,
	.state = 0x0301,
};

TEST(query_has_the_documented_bytes)
{
	static const uint8_t expected[DATAGRAM_BYTES] = {
		'L',  'N',  'A', 'G', 1, 1, 3, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		0x06, 0x05, 0,	 0,   0, 0, 0, 0, 0,	0x10, 0,    0,	  0x04, 0x03, 0x02, 0x01,
	};
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct query again;

	assert(query_write(&query, NULL, 0, datagram) == DATAGRAM_BYTES);
	assert(!memcmp(datagram, expected, sizeof(expected)));
	assert(query_read(&again, NULL, 0, datagram, DATAGRAM_BYTES) == DATAGRAM_GOOD);
	assert(!memcmp(&again, &query, sizeof(query)));
}

TEST(answer_has_the_documented_bytes)
{
	static const uint8_t expected[DATAGRAM_BYTES] = {
		'L',  'N',  'A',  'G',	1,    2,    2,	  0,	0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11, 0x06, 0x05, 0x08, 0x07, 6,	  0,	0x01, 0x03, 0,	  0x10, 0,    0,
		0x44, 0x43, 0x42, 0x41, 0x54, 0x53, 0x52, 0x51, 0,    0,    0,	  0,	0x28, 0x27,
		0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,
	};
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct answer again = {0};

	assert(answer_write(&answer, NULL, 0, datagram) == DATAGRAM_BYTES);
	assert(!memcmp(datagram, expected, sizeof(expected)));
	assert(answer_read(&again, NULL, 0, datagram, DATAGRAM_BYTES) == DATAGRAM_GOOD);
	assert(again.cookie == answer.cookie && again.clock_ns == answer.clock_ns);
	assert(again.generation == answer.generation && again.bytes == answer.bytes);
	assert(again.latency_us == answer.latency_us && again.pending == answer.pending);
	assert(again.drive == answer.drive && again.n_drives == answer.n_drives);
	assert(again.flags == answer.flags && again.known == answer.known);
	assert(again.state == answer.state);
}

TEST(every_fixed_byte_of_a_query_is_checked)
{
	static const unsigned int free_bytes[] = {8,  9,  10, 11, 12, 13, 14, 15, 16,
						  17, 24, 25, 26, 27, 28, 29, 30, 31};
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct query again;

	query_write(&query, NULL, 0, datagram);
	for (unsigned int k = 0; k < DATAGRAM_BYTES; k++) {
		bool is_free = false;

		for (unsigned int f = 0; f < sizeof(free_bytes) / sizeof(*free_bytes); f++)
			is_free |= free_bytes[f] == k;
		datagram[k] ^= 0x80;
		assert((query_read(&again, NULL, 0, datagram, DATAGRAM_BYTES) == DATAGRAM_GOOD) ==
		       is_free);
		datagram[k] ^= 0x80;
	}
}

TEST(datagram_of_another_length_is_malformed)
{
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct query again, without_bytes = query;

	query_write(&query, NULL, 0, datagram);
	for (size_t bytes = 0; bytes < 2 * DATAGRAM_BYTES_MAX; bytes++)
		assert(!query_read(&again, NULL, 0, datagram, bytes) == (bytes == DATAGRAM_BYTES));
	without_bytes.bytes = 0;
	query_write(&without_bytes, NULL, 0, datagram);
	assert(query_read(&again, NULL, 0, datagram, DATAGRAM_BYTES) == DATAGRAM_MALFORMED);
}

TEST(tag_covers_every_byte_and_is_required_with_a_key)
{
	static const char key[] = "sixteen bytes and more", other[] = "Sixteen bytes and more";
	uint8_t datagram[DATAGRAM_BYTES_MAX];
	struct answer again;

	assert(answer_write(&answer, key, sizeof(key), datagram) == DATAGRAM_BYTES_MAX);
	assert(!answer_read(&again, key, sizeof(key), datagram, DATAGRAM_BYTES_MAX));
	assert(answer_read(&again, other, sizeof(other), datagram, DATAGRAM_BYTES_MAX) ==
	       DATAGRAM_NOT_SIGNED);
	assert(answer_read(&again, NULL, 0, datagram, DATAGRAM_BYTES_MAX) == DATAGRAM_NOT_SIGNED);
	assert(answer_read(&again, key, sizeof(key), datagram, DATAGRAM_BYTES) ==
	       DATAGRAM_NOT_SIGNED);
	for (unsigned int k = 0; k < DATAGRAM_BYTES_MAX; k++) {
		datagram[k] ^= 1;
		assert(answer_read(&again, key, sizeof(key), datagram, DATAGRAM_BYTES_MAX));
		datagram[k] ^= 1;
	}
}

/* The tags were computed with blake2b() of Python's hashlib. */
TEST(signed_query_has_the_keyed_blake2b_hash_of_rfc_7693)
{
	static const struct {
		size_t key_bytes;
		const char *tag;
	} cases[] = {
		{16, "fb90cac9b9abc2da478d3177048f5a2f6584deb278dd834fb90fe3dca99bd0a0"},
		{KEY_BYTES_MAX, "337d2067d835628f891a91691e7af72abfd0fc4c8882db20fb4fe5f218c95a88"},
	};
	uint8_t datagram[DATAGRAM_BYTES_MAX], key[KEY_BYTES_MAX];
	char text[2 * DATAGRAM_TAG_BYTES + 1];

	memset(key, 0x0b, sizeof(key));
	for (unsigned int k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
		assert(query_write(&query, key, cases[k].key_bytes, datagram) ==
		       DATAGRAM_BYTES_MAX);
		for (unsigned int i = 0; i < DATAGRAM_TAG_BYTES; i++)
			sprintf(text + 2 * i, "%02x", datagram[DATAGRAM_BYTES + i]);
		assert(!strcmp(text, cases[k].tag));
	}
}
