// SPDX-License-Identifier: MIT
#include "hmac.h"

#include <string.h>

enum { BLOCK_BYTES = 64, ROUNDS = 64 };

struct hash {
	uint32_t state[8];
	uint64_t bytes;
	uint8_t block[BLOCK_BYTES];
};

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotated(uint32_t word, unsigned int by)
{
	return word >> by | word << (32 - by);
}

static void put_big(uint8_t *to, uint64_t value, unsigned int bytes)
{
	while (bytes--) {
		to[bytes] = value;
		value >>= 8;
	}
}

static void compress(struct hash *hash)
{
	uint32_t words[ROUNDS], s[8];

	for (unsigned int k = 0; k < 16; k++) {
		const uint8_t *at = hash->block + 4 * k;

		words[k] = (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
	}
	for (unsigned int k = 16; k < ROUNDS; k++) {
		uint32_t early = words[k - 15], late = words[k - 2];

		words[k] = words[k - 16] + words[k - 7] +
			   (rotated(early, 7) ^ rotated(early, 18) ^ early >> 3) +
			   (rotated(late, 17) ^ rotated(late, 19) ^ late >> 10);
	}
	memcpy(s, hash->state, sizeof(s));
	for (unsigned int k = 0; k < ROUNDS; k++) {
		/* instead of moving the words, rotate their names */
		uint32_t a = s[-k & 7], b = s[(1 - k) & 7], c = s[(2 - k) & 7];
		uint32_t e = s[(4 - k) & 7], f = s[(5 - k) & 7], g = s[(6 - k) & 7];
		uint32_t *d = &s[(3 - k) & 7], *h = &s[(7 - k) & 7];
		uint32_t first = *h + ((e & f) ^ (~e & g)) + constants[k] + words[k] +
				 (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25));

		*d += first;
		*h = first + ((a & b) ^ (a & c) ^ (b & c)) +
		     (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22));
	}
	for (unsigned int k = 0; k < 8; k++)
		hash->state[k] += s[k];
}

static void hash_begin(struct hash *hash)
{
	static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	memcpy(hash->state, first, sizeof(first));
	hash->bytes = 0;
}

static void hash_add(struct hash *hash, const void *data, size_t bytes)
{
	const uint8_t *from = data;

	while (bytes--) {
		hash->block[hash->bytes++ % BLOCK_BYTES] = *from++;
		if (!(hash->bytes % BLOCK_BYTES))
			compress(hash);
	}
}

static void hash_end(struct hash *hash, uint8_t digest[SHA256_BYTES])
{
	static const uint8_t one = 0x80, zero;
	uint64_t bits = 8 * hash->bytes;
	uint8_t length[8];

	hash_add(hash, &one, 1);
	while (hash->bytes % BLOCK_BYTES != BLOCK_BYTES - sizeof(length))
		hash_add(hash, &zero, 1);
	put_big(length, bits, sizeof(length));
	hash_add(hash, length, sizeof(length));
	for (unsigned int k = 0; k < 8; k++)
		put_big(digest + 4 * k, hash->state[k], 4);
}

void sha256(const void *data, size_t bytes, uint8_t digest[SHA256_BYTES])
{
	struct hash hash;

	hash_begin(&hash);
	hash_add(&hash, data, bytes);
	hash_end(&hash, digest);
}

static void keyed(const uint8_t pad[BLOCK_BYTES], uint8_t with, const void *data, size_t bytes,
		  uint8_t digest[SHA256_BYTES])
{
	uint8_t block[BLOCK_BYTES];
	struct hash hash;

	for (unsigned int k = 0; k < BLOCK_BYTES; k++)
		block[k] = pad[k] ^ with;
	hash_begin(&hash);
	hash_add(&hash, block, sizeof(block));
	hash_add(&hash, data, bytes);
	hash_end(&hash, digest);
}

void hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
		 uint8_t tag[SHA256_BYTES])
{
	uint8_t pad[BLOCK_BYTES] = {0}, inner[SHA256_BYTES];

	if (key_bytes > BLOCK_BYTES)
		sha256(key, key_bytes, pad);
	else
		memcpy(pad, key, key_bytes);
	keyed(pad, 0x36, data, bytes, inner);
	keyed(pad, 0x5c, inner, sizeof(inner), tag);
}
