// SPDX-License-Identifier: MIT
/* Tests with the example hashes and tags of FIPS 180-4 and RFC 4231. */
#include "../../../liblinnos/tests/test.h"
#include "hmac.h"

static void is(const uint8_t *digest, const char *hex)
{
	char text[2 * SHA256_BYTES + 1];

	for (unsigned int k = 0; k < SHA256_BYTES; k++)
		sprintf(text + 2 * k, "%02x", digest[k]);
	assert(!strcmp(text, hex));
}

TEST(hashes_are_those_of_the_standard)
{
	static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	uint8_t digest[SHA256_BYTES];

	sha256("", 0, digest);
	is(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sha256("abc", 3, digest);
	is(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256(two_blocks, sizeof(two_blocks) - 1, digest);
	is(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(tags_are_those_of_rfc_4231)
{
	static const char data[] = "what do ya want for nothing?";
	static const char large[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	uint8_t tag[SHA256_BYTES], key[131];

	memset(key, 0x0b, 20);
	hmac_sha256(key, 20, "Hi There", 8, tag);
	is(tag, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	hmac_sha256("Jefe", 4, data, sizeof(data) - 1, tag);
	is(tag, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	hmac_sha256(key, sizeof(key), large, sizeof(large) - 1, tag);
	is(tag, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
