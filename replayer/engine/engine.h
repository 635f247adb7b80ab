/* SPDX-License-Identifier: MIT */
/*
 * The engine: a run, by one submitter or with --threads by several, each with the loop of loop.h.
 *
 * Of N threads the k-th takes the I/Os k, k + N, ... of each trace, with rings, buffers, timers and
 * counts of its own, and a part of --depth, --losers and --hedge-burst; so the hedges of all are no
 * more than the budget's share of all reads. They share the drives and what was written to them,
 * the series and the log. Their results are added up when all have ended.
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

#endif
