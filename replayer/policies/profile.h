/* SPDX-License-Identifier: MIT */
/* What a policy learns from the per-I/O log of an earlier run. */
#ifndef REPLAYER_PROFILE_H
#define REPLAYER_PROFILE_H

#include <stdint.h>

/* The percentile (0 to 1) of the reads' latencies, in us. Dies when the log is none, truncated or
 * without reads. */
double profile_percentile_us(const char *path, double fraction);
/* The percentile of the pending 4 KiB pages that a read found on its drive, its own included.
 * Attempts that the log does not tell of (losers of a race, revoked ones) are missing, so the log
 * should be of a baseline run. */
uint32_t profile_pending_pages(const char *path, double fraction);

#endif
