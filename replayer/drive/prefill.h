/* SPDX-License-Identifier: MIT */
/* Write the blocks that reads touch before the run, so that every read can be verified. */
#ifndef REPLAYER_PREFILL_H
#define REPLAYER_PREFILL_H

struct replay;

/* Read the traces once and write the blocks; exit if a drive fails a write. */
void prefill(struct replay *r);

#endif
