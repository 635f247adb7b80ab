/* SPDX-License-Identifier: MIT */
/*
 * Progress on stderr, unless --quiet is given: a line that is rewritten on a terminal, otherwise a
 * line every few seconds.
 */
#ifndef REPLAYER_PROGRESS_H
#define REPLAYER_PROGRESS_H

#include <stdint.h>

struct replay;

/* During the prefill; `blocks` is the total number. */
void progress_show_prefill(struct replay *r, uint64_t blocks);
void progress_show_run(struct replay *r);
/* End the line, after the prefill and after the run. */
void progress_end(struct replay *r);

#endif
