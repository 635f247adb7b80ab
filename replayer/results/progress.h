/* SPDX-License-Identifier: MIT */
/* Progress of a run on stderr: a line that rewrites itself on a terminal, else a line every few
 * seconds. */
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
/* While the drives are prefilled, with so many blocks in all. */
void progress_show_prefill(struct progress *p, const struct replay *r, uint64_t blocks);
void progress_show(struct progress *p, const struct replay *r);
void progress_end(struct progress *p);

#endif
