/* SPDX-License-Identifier: MIT */
/* User I/Os and the attempts that serve them, for the engine; policies use engine.h. */
#ifndef REPLAYER_ATTEMPTS_H
#define REPLAYER_ATTEMPTS_H

#include <stdbool.h>

struct replay;
struct user_io;

/* A zeroed one; freed when it is answered and its last attempt has come back. */
struct user_io *user_io_new(struct replay *r);
void write_send(struct replay *r, struct user_io *io, unsigned int drive);
/* The ring gets them now: the time of those that lie in it begins. */
void attempts_submitted(struct replay *r);
/* Whether a drive has kept an I/O for longer than --timeout; tells which, and counts them. */
bool attempts_timed_out(struct replay *r);
/* Handles all completions that are there. */
void attempts_reap(struct replay *r);

#endif
