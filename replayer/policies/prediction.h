/* SPDX-License-Identifier: MIT */
/* The hooks of policies that read where the answer is predicted first (chooser.h), and hedge where
 * it is predicted next when the policy's setup has armed hedging. */
#ifndef REPLAYER_PREDICTION_H
#define REPLAYER_PREDICTION_H

struct attempt;
struct io;
struct replay;

/* Reads the models of --latency-model; dies when one is missing or is none. */
void prediction_setup(struct replay *r);
/* The same, and reads are hedged at p95 of the usual latency. */
void prediction_setup_h95(struct replay *r);
/* The same, and reads are sent twice, at once or later, where that gains most (race.h). */
void prediction_setup_two(struct replay *r);
/* After the first: reads are hedged by their predictions, as the files of --hedge-table say; dies
 * when one is missing or is none. */
void prediction_setup_hedging(struct replay *r);
void prediction_read(struct replay *r, struct io *io);
void prediction_answered(struct replay *r, struct io *io, struct attempt *a);
void prediction_timer(struct replay *r, struct io *io);

#endif
