/* SPDX-License-Identifier: MIT */
/* Statistics of the mirror on stdout, as text or as JSON. */
#ifndef LINNOS_UBLK_REPORT_H
#define LINNOS_UBLK_REPORT_H

#include "worker.h"

void report(const struct mirror *m, const char *state);

#endif
