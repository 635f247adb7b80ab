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

/* How often to wait until the kernel has released the resources of a killed server. */
#define END_WAITS 1000
void wait_a_little(void);

/* Open the replicas in the bitmap @in. Dies if one of them is not suitable. With is_ending a killed
 * server is about to release them. */
void replicas_open(struct replica *replicas, struct geometry *g, const struct options *o,
		   uint32_t in, bool is_ending);
struct mirror_state;
#define WHY_BYTES 128
/*
 * Make the regions equal that may differ: copy the data of a replica in @current to the other
 * opened replicas where it differs. Return the replicas that are equal now. For the others, why[]
 * has the reason. Dies if no replica in @current can be read.
 */
uint32_t replicas_resync(const struct replica *replicas, const struct mirror_state *s,
			 uint64_t bytes, uint32_t opened, uint32_t current, char why[][WHY_BYTES]);
/* Flush the replicas in @opened. Return those for which this succeeded. */
uint32_t replicas_flush(const struct replica *replicas, uint32_t opened, char why[][WHY_BYTES]);
void replicas_compare(const struct replica *replicas, unsigned int n, uint64_t bytes);

#endif
