/* SPDX-License-Identifier: MIT */
/* The hooks that the linnos policies share: hinted reads, failover on revocation, hedging when it
 * was set up. */
#ifndef REPLAYER_REVOCATION_H
#define REPLAYER_REVOCATION_H

struct replay;
struct io;
struct attempt;

void revocation_read(struct replay *r, struct io *io);
void revocation_revoked(struct replay *r, struct io *io, struct attempt *a);
void revocation_timer(struct replay *r, struct io *io);

#endif
