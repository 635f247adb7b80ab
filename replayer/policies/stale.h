/* SPDX-License-Identifier: MIT */
/*
 * When a drive that a policy avoids is tried again.
 *
 * A drive that was slow would be avoided forever because of its last latency. If no read has
 * completed there for as long as buffer flushes and garbage collection keep a drive slow, some
 * milliseconds, the next read goes there. No other read follows before it has completed.
 */
#ifndef REPLAYER_STALE_H
#define REPLAYER_STALE_H

#include "replay.h"

#define STALE_NS 10000000ull

static inline bool is_stale(const struct replay *r, unsigned int drive, uint64_t heard_ns)
{
	return !r->in_flight[drive] && r->ring.now_ns - heard_ns > STALE_NS;
}

#endif
