/* SPDX-License-Identifier: MIT */
/*
 * Write storms: slow periods for drives without injection. During a slot, `depth` large sequential
 * writes are kept in flight on one drive, starting at a random block. On a real drive they cause
 * full buffers and garbage collection. The writes contain the replay's own pattern, so that reads
 * of these blocks can still be verified.
 */
#ifndef REPLAYER_STORM_H
#define REPLAYER_STORM_H

#include "drive/device.h"
#include "engine/timers.h"

#include <stdint.h>

struct replay;

struct storm {
	struct timer timer; /* time of the next slot */
	unsigned int drive;
	uint32_t block_bytes, depth;
	uint64_t bytes_per_slot; /* 0 for as much as fits into the slot */
	uint64_t start_ns;	 /* of the first slot, from the start of the run */
	uint64_t slot_ns;	 /* 0 to run until the bytes are written */
	uint64_t every_ns;	 /* 0 for a single slot */
	unsigned int turns;	 /* number of turns */
	uint64_t turn_mask;	 /* bitmap of this storm's turns; never 0 */

	unsigned int turn; /* of the next slot */
	uint32_t in_flight;
	uint64_t slot_end_ns, left_bytes, offset_bytes;
	uint64_t slots, writes, bytes;
};

struct storms {
	unsigned int n;
	struct storm each[MAX_DRIVES];
};

void storms_start(struct replay *r);
/* Return the number of their writes in flight. */
uint32_t storms_in_flight(const struct storms *all);

#endif
