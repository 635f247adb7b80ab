/* SPDX-License-Identifier: MIT */
/*
 * Rings for linnos_pread() where reads are hedged.
 *
 * A thread that reads takes a ring, waits in it with a timeout, and puts it back. When an attempt
 * that has lost its race is still in it, the ring goes to the waiter, a thread of the array, which
 * hears of its end when it comes: what the drive took is part of what predictions are made of.
 */
#ifndef LINNOS_LANES_H
#define LINNOS_LANES_H

#include "array.h"

/* Returns 0 or a negative errno, of which array_fail() has been told. */
int lanes_start(struct linnos_array *a);
/* Waits for all that have lost. */
void lanes_stop(struct linnos_array *a);
/* Serve a read that was begun: in a ring; and, without hedging, in the calling thread. */
ssize_t lanes_read(struct linnos_array *a, struct linnos_read *r);
ssize_t pread_plain(struct linnos_array *a, struct linnos_read *r);

#endif
