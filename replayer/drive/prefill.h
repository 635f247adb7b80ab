/* SPDX-License-Identifier: MIT */
/* The blocks that reads touch, written before the run, so that every read has content to check. */
#ifndef REPLAYER_PREFILL_H
#define REPLAYER_PREFILL_H

struct replay;

/* Reads the traces through once; dies when a drive refuses a write. */
void prefill(struct replay *r);

#endif
