/* SPDX-License-Identifier: MIT */
/* The queue length from which the heuristic policies take a drive to be slow. */
#ifndef REPLAYER_QUEUE_LIMIT_H
#define REPLAYER_QUEUE_LIMIT_H

#include <stdbool.h>

struct replay;
struct io;

void queue_limit_setup(struct replay *r);
/* With this read, would the drive have more pages pending than the limit? */
bool queue_is_long(const struct replay *r, const struct io *io, unsigned int drive);

#endif
