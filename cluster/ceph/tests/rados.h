/* SPDX-License-Identifier: MIT */
/* A mock of librados that the test controls: three OSDs, and reads that complete on request. */
#ifndef LINNOS_CEPH_TEST_RADOS_H
#define LINNOS_CEPH_TEST_RADOS_H

#include <stdbool.h>
#include <stdint.h>

enum { OSDS = 9 };

/* The answers of the monitors. Initially OSD k is on the host node<host[k]>, which is k % 3. */
struct monitors {
	uint32_t epoch, n_groups;
	/* osds hold each object, the primary first */
	uint32_t osds[3], host[OSDS];
	/* the answers have wrong groups; there are no answers; or none for `osd find` */
	bool are_elsewhere, are_silent, find_nothing;
	/* the OSD has no host */
	bool is_nowhere[OSDS];
	bool is_erasure_coded;
	uint64_t n_queries;
	/* number of commands, and the time that one takes */
	unsigned int n_commands, takes_us;
};

extern struct monitors monitors;

/* Change the answers while a pool is open. */
void change_monitors(void (*change)(struct monitors *));

/* A read in flight: the host of its handle, "" if none, and its flags. */
struct request {
	char host[32], namespace[32], object[64];
	int flags;
	uint64_t offset;
};

/*
 * Return the number of handles with a location that would wait for monitors as long as librados
 * does.
 */
unsigned int patient_handles(void);
/*
 * Return the number of handles without a location whose admin socket differs from the user's
 * setting.
 */
unsigned int moved_sockets(void);

/* Make one in @n submissions fail with ENOMEM; 0 for none. */
void sends_fail_each(unsigned int n);

unsigned int requests(void);
struct request request(unsigned int k);

/* Advance the clock, which otherwise stands still. */
void pass_us(uint64_t us);

/* Complete a request: fill its bytes with a letter, or fail with a negative errno. */
void end_request(unsigned int k, long bytes, char letter);

#endif
