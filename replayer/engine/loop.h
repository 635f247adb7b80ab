/* SPDX-License-Identifier: MIT */
/*
 * The loop of a submitter: one thread with one io_uring. It takes I/Os from the traces when they
 * are due, and fires the timers. users.h and the policies send attempts and handle their
 * completions. replay.h shows the path of a read.
 *
 * Time: the loop sleeps in the kernel until the next completion, timer or due I/O, whichever comes
 * first, and reads the clock once per wake-up. It never spins. In the lab's virtual time a sleep is
 * exact and costs nothing, whereas a program that polls the clock would advance the time. Filling
 * and checking blocks takes time, too. After some microseconds of such work the clock is read
 * again, prepared I/Os are submitted, and completions are timestamped (ring_worked()). The service
 * time of an attempt starts with its submission to the ring.
 *
 * Every user I/O is answered exactly once and counted exactly once, and then no longer counts for
 * --depth. An attempt keeps its buffer until the kernel has completed it, even if another attempt
 * has answered the user. The number of such orphaned attempts per drive is limited separately, by
 * --max-orphans.
 */
#ifndef REPLAYER_LOOP_H
#define REPLAYER_LOOP_H

#include <stdbool.h>

struct progress;
struct replay;

/*
 * Open the submitter's ring, buffers and latencies, on the thread that runs the loop. @like is a
 * replay that has scanned all I/Os, or NULL.
 */
void loop_open(struct replay *r, const struct replay *like);
/* Open the traces, and map the buffers that the run needs. */
void loop_prepare(struct replay *r);
void loop_run(struct replay *r, struct progress *progress);
/* Close ring and traces. Return false, and do nothing, if an I/O is still at a drive. */
bool loop_close(struct replay *r);
/* Free the rest of a closed loop. */
void loop_free(struct replay *r);
/* Stop all loops; async-signal-safe. The first call lets them drain, the second does not. */
void loops_interrupt(void);

#endif
