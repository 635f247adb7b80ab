/* SPDX-License-Identifier: MIT */
/* Results of a run: a JSON object and a readable summary. */
#ifndef REPLAYER_REPORT_H
#define REPLAYER_REPORT_H

#include <stdbool.h>

struct replay;

/* Before the run: exit if the results could not be written after it. */
void report_require_writable(const char *path);
/* Write to a temporary file and rename it; return false, with a warning, on failure. */
bool report_json(struct replay *r, const char *path);
void report_text(struct replay *r);

#endif
