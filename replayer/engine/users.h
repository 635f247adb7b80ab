/* SPDX-License-Identifier: MIT */
/*
 * Users' I/Os: the policy chooses the drive of each, it fails over after an error, and it gets
 * exactly one answer, with which it is counted.
 */
#ifndef REPLAYER_USERS_H
#define REPLAYER_USERS_H

#include "attempts.h"

/* Start a new I/O of the trace, whose request, default drive and due time are set. */
void user_io_start(struct replay *r, struct io *io);
/* Send a copy of a user's read to a drive as a probe; the read does not wait for it. */
void user_read_copy(struct replay *r, struct io *io, unsigned int drive);

#endif
