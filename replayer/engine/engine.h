/* SPDX-License-Identifier: MIT */
/*
 * The engine: a run with one submitter, or several with --threads, each with its own loop (loop.h).
 *
 * With N threads, thread k takes the I/Os k, k + N, ... of each trace. It has its own rings,
 * buffers, timers and counters, and a share of --depth, --max-orphans and --hedge-burst, so that
 * all hedges together do not exceed the budget. The threads share the drives, their contents and
 * the log. Their results are added up when all have ended.
 */
#ifndef REPLAYER_ENGINE_H
#define REPLAYER_ENGINE_H

#include "trace/sources.h"

struct replay;

/*
 * engine_setup() opens the ring. engine_scan() scans the traces (sources_scan()), which determines
 * the buffers that the run needs. engine_run() starts the injection, replays the traces to their
 * end, waits for all I/Os, and stops the injection. engine_close() frees everything.
 */
void engine_setup(struct replay *r);
void engine_scan(struct replay *r, scan_visit *visit, void *context);
void engine_run(struct replay *r);
void engine_close(struct replay *r);

#endif
