/* SPDX-License-Identifier: MIT */
/* A gfapi in which a test says what happens: a volume of three replicas, and reads that end when
 * they are told to. */
#ifndef LINNOS_GLUSTER_TEST_GFAPI_H
#define LINNOS_GLUSTER_TEST_GFAPI_H

#include <stdbool.h>
#include <stdint.h>

enum { ORDINARY = -1 };

/* What handles say of themselves, and what of them is wrong. */
struct volume {
	const char *volfile, *private, *pathinfo;
	/* the last bytes of each file's number */
	uint8_t gfid[2];
	/* errno: handles that prefer a replica, and what they look at, do not come */
	int init_fails, look_fails;
	/* handles that were made, and prefer something, and pass caches through; looks by them */
	unsigned int n_handles, n_preferring, n_passing, n_looks;
	/* and are there, or open */
	unsigned int n_left;
};

extern struct volume volume;

/* A read that was sent and has not ended, by the handle of which replica, or the ordinary one. */
struct request {
	int replica;
	int64_t offset;
};

unsigned int requests(void);
struct request request(unsigned int k);

/* One in so many is not taken, for want of memory; 0: all are. */
void sends_fail_each(unsigned int n);

/* The clock stands still unless it is moved. */
void pass_us(uint64_t us);

/* End one: its bytes are filled with a letter; a negative errno instead. */
void end_request(unsigned int k, long bytes, char letter);

#endif
