/* SPDX-License-Identifier: MIT */
/* The drives and files of the mirror. */
#ifndef LINNOS_UBLK_REPLICAS_H
#define LINNOS_UBLK_REPLICAS_H

#include "options.h"

#include <sys/types.h>

struct replica {
	const char *path;
	int fd; /* for reading and writing; exclusive for a block device */
	bool is_block, can_zero;
	dev_t device; /* of a block device */
	uint64_t bytes;
	unsigned int logical_bytes, physical_bytes; /* of a block */
};

/* Properties of the mirror, limited to those that all replicas have. */
struct geometry {
	uint64_t bytes;
	unsigned int logical_bytes, physical_bytes;
	bool can_zero;
};

/* Number of waits of WAIT_MS until the kernel has released the resources of a killed server. */
#define END_WAITS 1000

/* Open the replicas in the bitmap @in. Dies if one of them is not suitable. With @is_ending, waits
 * for a killed server to release them. */
void replicas_open(struct replica *replicas, struct geometry *g, const struct options *o,
		   uint32_t in, bool is_ending);

#endif
