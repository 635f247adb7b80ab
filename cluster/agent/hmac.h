/* SPDX-License-Identifier: MIT */
/*
 * HMAC-SHA-256 (RFC 2104, FIPS 180-4), implemented here so that a daemon with few system calls
 * needs no library.
 */
#ifndef LINNOS_AGENT_HMAC_H
#define LINNOS_AGENT_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

void sha256(const void *data, size_t bytes, uint8_t digest[SHA256_BYTES]);
void hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
		 uint8_t tag[SHA256_BYTES]);

#endif
