/* SPDX-License-Identifier: MIT */
/* What a run reports: one JSON object and a summary to read. */
#ifndef REPLAYER_REPORT_H
#define REPLAYER_REPORT_H

struct replay;

/* Written beside its final name, then renamed. */
void report_json(struct replay *r, const char *path);
void report_text(struct replay *r);

#endif
