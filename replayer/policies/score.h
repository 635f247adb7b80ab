/* SPDX-License-Identifier: MIT */
/*
 * Policies that read the drive with the lowest score (policy.h); of several, the first one from the
 * default drive on.
 */
#ifndef REPLAYER_SCORE_H
#define REPLAYER_SCORE_H

#include <stdint.h>

struct replay;
struct io;

/* Return the drive with the lowest score that is not in @mask; -1 if there is none. */
int score_lowest(const struct replay *r, const struct io *io, uint32_t mask);
/* Send a read to the drive with the lowest score. */
void score_read(struct replay *r, struct io *io);

#endif
