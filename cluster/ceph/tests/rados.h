/* SPDX-License-Identifier: MIT */
/* A librados in which a test says what happens: three OSDs, and reads that end when they are told
 * to. */
#ifndef LINNOS_CEPH_TEST_RADOS_H
#define LINNOS_CEPH_TEST_RADOS_H

#include <stdbool.h>
#include <stdint.h>

/* What monitors say. */
struct monitors {
	uint32_t epoch, n_groups, primary;
	/* of each group; and what they say is wrong, or nothing */
	bool are_elsewhere, are_silent;
	uint64_t n_asked;
};

extern struct monitors monitors;

/* A read that was sent and has not ended: by the handle of which host, "" by none, and how. */
struct request {
	char host[32], object[64];
	int flags;
	uint64_t offset;
};

unsigned int requests(void);
struct request request(unsigned int k);

/* The clock stands still unless it is moved. */
void pass_us(uint64_t us);

/* End one: its bytes are filled with a letter; a negative errno instead. */
void end_request(unsigned int k, long bytes, char letter);

#endif
