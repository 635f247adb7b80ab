/* SPDX-License-Identifier: MIT */
/*
 * Write storms: slow bursts for drives that have no injection of their own. In a slot, `depth`
 * large writes are kept in flight on one drive, from a random block on, in sequence; a real drive
 * answers with full buffers and garbage collection. The writes carry the replay's own pattern, so
 * that reads of the blocks they hit still check.
 */
#ifndef REPLAYER_STORM_H
#define REPLAYER_STORM_H

#include "drive/device.h"
#include "engine/timers.h"

#include <stdint.h>

struct replay;

struct storm {
	struct timer timer; /* to the next slot */
	unsigned int drive;
	uint32_t block_bytes, depth;
	uint64_t bytes_per_slot; /* 0: as much as fits into the slot */
	uint64_t start_ns;	 /* of the first slot, from the run's start */
	uint64_t slot_ns;	 /* 0: until the bytes are written */
	uint64_t every_ns;	 /* 0: once */
	unsigned int turns;	 /* the slots are dealt in so many */
	uint64_t turn_mask;	 /* which of them are this storm's, as bits; never none */

	unsigned int turn; /* of the slot to come */
	uint32_t in_flight;
	uint64_t slot_end_ns, left_bytes, offset_bytes;
	uint64_t slots, writes, bytes;
};

struct storms {
	unsigned int n;
	struct storm each[MAX_DRIVES];
};

void storms_start(struct replay *r);
/* How many of their writes are at the drives. */
uint32_t storms_in_flight(const struct storms *all);

#endif
