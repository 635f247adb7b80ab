/* SPDX-License-Identifier: MIT */
/* The drives and files that the mirror is made of. */
#ifndef LINNOS_UBLK_REPLICAS_H
#define LINNOS_UBLK_REPLICAS_H

#include "options.h"

#include <sys/types.h>

struct replica {
	const char *path;
	int fd; /* for reading and writing; of a block device nobody else has it meanwhile */
	bool is_block, can_zero;
	dev_t device; /* of a block device */
	uint64_t bytes;
	unsigned int logical_bytes, physical_bytes; /* of a block */
};

/* What the mirror can offer: no more than each of the replicas. */
struct geometry {
	uint64_t bytes;
	unsigned int logical_bytes, physical_bytes;
	bool can_zero;
};

/* Until the kernel has cleared up behind a server that was killed, so many times a little. */
#define END_WAITS 1000
void wait_a_little(void);

/* Both die when a replica is not fit for it. in: by bit, those to be opened. is_ending: a killed
 * server is about to let go of them. */
void replicas_open(struct replica *replicas, struct geometry *g, const struct options *o,
		   uint32_t in, bool is_ending);
void replicas_compare(const struct replica *replicas, unsigned int n, uint64_t bytes);

#endif
