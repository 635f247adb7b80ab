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
struct mirror_state;
#define WHY_BYTES 128
/*
 * Make the regions equal that may differ: copy what a replica in current holds to the other opened
 * ones, where it differs. Return those that are equal now; of the others, why says why. Dies if no
 * replica in current can be read.
 */
uint32_t replicas_resync(const struct replica *replicas, const struct mirror_state *s,
			 uint64_t bytes, uint32_t opened, uint32_t current, char why[][WHY_BYTES]);
/* Flush the replicas in opened. Return those on which that succeeded. */
uint32_t replicas_flush(const struct replica *replicas, uint32_t opened, char why[][WHY_BYTES]);
void replicas_compare(const struct replica *replicas, unsigned int n, uint64_t bytes);

#endif
