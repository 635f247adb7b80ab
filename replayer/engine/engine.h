/* SPDX-License-Identifier: MIT */
/*
 * The engine: one thread with one io_uring takes I/Os from the traces when they are due, and fires
 * the timers. users.h and the policies send attempts and handle their completions. replay.h shows
 * the path of a read.
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
#ifndef REPLAYER_ENGINE_H
#define REPLAYER_ENGINE_H

struct replay;

/* Open the ring and everything else that a run needs. */
void engine_setup(struct replay *r);
/*
 * Start the injection, replay the traces to their end, wait for all I/Os, and stop the injection.
 */
void engine_run(struct replay *r);
/* Close the ring, unless a drive still has an I/O, whose buffer the kernel uses. */
void engine_close(struct replay *r);
/* Stop the run; async-signal-safe. The first call lets it drain, the second does not. */
void engine_interrupt(void);

#endif
