/* SPDX-License-Identifier: MIT */
/* A librados in which a test says what happens: three OSDs, and reads that end when they are told
 * to. */
#ifndef LINNOS_CEPH_TEST_RADOS_H
#define LINNOS_CEPH_TEST_RADOS_H

#include <stdbool.h>
#include <stdint.h>

enum { OSDS = 9 };

/* What monitors say; OSD k is on the host node<host[k]>, which is that of k % 3 to begin with. */
struct monitors {
	uint32_t epoch, n_groups;
	/* that hold each object, the primary first */
	uint32_t osds[3], host[OSDS];
	/* of each group; and what they say is wrong, or nothing; or nothing of where an OSD is */
	bool are_elsewhere, are_silent, find_nothing;
	/* the OSD is on no host */
	bool is_nowhere[OSDS];
	bool is_erasure_coded;
	uint64_t n_asked;
	/* commands, and what one takes */
	unsigned int n_commands, takes_us;
};

extern struct monitors monitors;

/* Change it while a pool is open. */
void tell_monitors(void (*change)(struct monitors *));

/* A read that was sent and has not ended: by the handle of which host, "" by none, and how. */
struct request {
	char host[32], namespace[32], object[64];
	int flags;
	uint64_t offset;
};

/* Handles that claim a place and would wait for monitors as long as librados does. */
unsigned int patient_handles(void);
/* Handles that claim none, and whose admin socket is another than their user wants. */
unsigned int moved_sockets(void);

/* One in so many is not taken, for want of memory; 0: all are. */
void sends_fail_each(unsigned int n);

unsigned int requests(void);
struct request request(unsigned int k);

/* The clock stands still unless it is moved. */
void pass_us(uint64_t us);

/* End one: its bytes are filled with a letter; a negative errno instead. */
void end_request(unsigned int k, long bytes, char letter);

#endif
