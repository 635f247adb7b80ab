/* SPDX-License-Identifier: MIT */
/*
 * Rings for linnos_pread() where reads are hedged, and for copies that are sent to hear of a
 * replica.
 *
 * A thread that reads takes a ring, waits in it with a timeout, and puts it back. When an attempt
 * that has lost its race is still in it, the ring goes to the waiter, a thread of the array, which
 * hears of its end when it comes: what the drive took is part of what predictions are made of. A
 * copy is in a ring that goes to the waiter at once.
 */
#ifndef LINNOS_LANES_H
#define LINNOS_LANES_H

#include "array.h"

/* Returns 0 or a negative errno; *why is what failed. Under the lock, or before there is anybody.
 */
int lanes_start(struct linnos_array *a, const char **why);
/* Sends a copy, or takes it back when there is no ring for it. Nobody waits. */
void lanes_send_copy(struct linnos_array *a, struct attempt *copy);
/* Waits for all that have lost, and for copies. */
void lanes_stop(struct linnos_array *a);
/* Serve a read that was begun: in a ring; and, without hedging, in the calling thread. */
ssize_t lanes_read(struct linnos_array *a, struct linnos_read *r);
ssize_t pread_plain(struct linnos_array *a, struct linnos_read *r);

#endif
