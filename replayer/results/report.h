/* SPDX-License-Identifier: MIT */
/* What a run reports: one JSON object and a summary to read. */
#ifndef REPLAYER_REPORT_H
#define REPLAYER_REPORT_H

#include <stdbool.h>

struct replay;

/* Before the run: dies when the summary could not be written after it. */
void report_require_writable(const char *path);
/* Written beside its final name, then renamed; false, with a warning, when it could not be. */
bool report_json(struct replay *r, const char *path);
void report_text(struct replay *r);

#endif
