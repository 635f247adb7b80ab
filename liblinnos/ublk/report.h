/* SPDX-License-Identifier: MIT */
/* What the mirror has done, for people or as JSON, on stdout. */
#ifndef LINNOS_UBLK_REPORT_H
#define LINNOS_UBLK_REPORT_H

#include "mirror.h"

/* context: a bool, whether as JSON. */
void report(const struct mirror *m, const char *state, void *context);

#endif
