/* SPDX-License-Identifier: MIT */
/*
 * Policies that read the drive with the lowest score (policy.h); of several, the first one from the
 * default drive on.
 */
#ifndef REPLAYER_SCORE_H
#define REPLAYER_SCORE_H

#include "replay.h"

/* Return the drive with the lowest score that is not in @mask; -1 if there is none. */
int score_lowest(const struct replay *r, const struct io *io, uint32_t mask);
/* Send a read to the drive with the lowest score. */
void score_read(struct replay *r, struct io *io);

/*
 * A drive that was slow would be avoided forever because of its last latency. If no read has
 * completed there for as long as buffer flushes and garbage collection keep a drive slow, some
 * milliseconds, the next read goes there. No other read follows before it has completed.
 */
#define STALE_NS 10000000ull

static inline bool is_stale(const struct replay *r, unsigned int drive, uint64_t last_completion_ns)
{
	return !r->in_flight[drive] && r->ring.now_ns - last_completion_ns > STALE_NS;
}

#endif
