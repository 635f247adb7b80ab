/* SPDX-License-Identifier: MIT */
/*
 * Progress of a run on stderr: a line that is rewritten on a terminal, otherwise a line every few
 * seconds.
 */
#ifndef REPLAYER_PROGRESS_H
#define REPLAYER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct replay;

struct progress {
	uint64_t next_ns, every_ns;
	bool tty, quiet, shown;
};

void progress_start(struct progress *p, const struct replay *r, uint64_t now_ns);
/* During the prefill; `blocks` is the total number. */
void progress_show_prefill(struct progress *p, const struct replay *r, uint64_t blocks);
void progress_show(struct progress *p, const struct replay *r);
void progress_end(struct progress *p);

#endif
