/* SPDX-License-Identifier: MIT */
/*
 * The loop of a submitter: one thread, one io_uring. It takes I/Os from the traces when they are
 * due, and fires the timers; users.h, storm.h and the policies send attempts, and take back what
 * has completed. replay.h shows the way of a read.
 *
 * Time. The loop sleeps in the kernel until the next completion, timer or due I/O, whichever comes
 * first, and reads the clock once per wakeup. It never spins: in the lab's virtual time a sleep is
 * exact and free, while a program that looks at the clock in a loop would push time forward. To
 * fill and to check blocks takes time of its own: after some microseconds' worth the clock is read
 * again, what is ready is submitted, and completions are noted with the time (ring_worked()). An
 * attempt's time runs from its submission to the ring.
 *
 * Every user I/O is answered exactly once and counted exactly once, and gives its place under
 * --depth free when it is. An attempt keeps its buffer until the kernel has completed it, also
 * after its race is lost; how many lost ones a drive may hold is bounded apart, by --losers.
 */
#ifndef REPLAYER_LOOP_H
#define REPLAYER_LOOP_H

#include <stdbool.h>

struct progress;
struct replay;

/* Of the submitter's own: ring, buffers, latencies; by the thread that runs the loop. Its I/Os are
 * as another's, which has seen them all, or NULL. */
void loop_open(struct replay *r, const struct replay *like);
/* Opens the traces, and maps what buffers the run wants. */
void loop_prepare(struct replay *r);
void loop_run(struct replay *r, struct progress *progress);
/* Gives ring and traces back; false, and it does nothing, when something is still at a drive. */
bool loop_close(struct replay *r);
/* Of a loop that was closed: the rest. */
void loop_free(struct replay *r);
/* Async-signal-safe, for all loops: they stop issuing, and drain; a second time they do not
 * drain. */
void loops_interrupt(void);

#endif
