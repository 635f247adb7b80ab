/* SPDX-License-Identifier: MIT */
/*
 * The engine: one thread, one io_uring, one loop. It takes I/Os from the traces when they are due,
 * and fires the timers; users.h, storm.h and the policies send attempts, and take back what has
 * completed. replay.h shows the way of a read.
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
#ifndef REPLAYER_ENGINE_H
#define REPLAYER_ENGINE_H

#include "trace/sources.h"

struct replay;

/* Opens the ring; scans the traces (sources_scan()) and so learns which buffers the run wants;
 * replays: arms the injection, runs to the traces' end, drains, disarms; frees. */
void engine_setup(struct replay *r);
void engine_scan(struct replay *r, scan_visit *visit, void *context);
void engine_run(struct replay *r);
void engine_close(struct replay *r);
/* Async-signal-safe: the run stops issuing, drains and reports; a second time it does not drain. */
void engine_interrupt(void);

#endif
