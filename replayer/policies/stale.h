/* SPDX-License-Identifier: MIT */
/*
 * When a drive that a policy passes over is asked again.
 *
 * One that was slow would be passed over for ever by what it last took. So when it was not heard of
 * for as long as buffer flushes and garbage collection keep a drive slow, some milliseconds, the
 * next read goes there; the one read, and no other before it is answered.
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
