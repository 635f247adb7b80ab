/* SPDX-License-Identifier: MIT */
/* The users' I/Os: each goes where the policy says, fails over after an error, and gets one answer,
 * with which it is counted. */
#ifndef REPLAYER_USERS_H
#define REPLAYER_USERS_H

#include "attempts.h"

/* A new I/O of the trace is due: what it wants, where its home is and when it is due are set. */
void user_io_start(struct replay *r, struct io *io);
/* Sends a copy of a user's read to a drive to hear of it; the read does not wait for it. */
void user_read_copy(struct replay *r, struct io *io, unsigned int drive);

#endif
