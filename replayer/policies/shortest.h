/* SPDX-License-Identifier: MIT */
/* The drive with the fewest pending pages. */
#ifndef REPLAYER_SHORTEST_H
#define REPLAYER_SHORTEST_H

#include <stdint.h>

struct io;
struct replay;

/* Of the drives whose bit is not in mask; of equal ones the first from the home drive on. -1 when
 * all are in mask. */
int shortest_queue(const struct replay *r, const struct io *io, uint32_t mask);

#endif
