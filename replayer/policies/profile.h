/* SPDX-License-Identifier: MIT */
/* Statistics from the per-I/O log of an earlier run. */
#ifndef REPLAYER_PROFILE_H
#define REPLAYER_PROFILE_H

#include <stdint.h>

/*
 * Return the percentile (0 to 1) of the reads' latencies, in us. Exit if the file is not a log, is
 * truncated or has no reads.
 */
double profile_percentile_us(const char *path, double fraction);
/*
 * Return the percentile of the pending 4 KiB pages that a read met at its drive, including its own.
 * Attempts that are not in the log (orphaned and revoked ones) are missing, so the log should be of
 * a baseline run.
 */
uint32_t profile_pending_pages(const char *path, double fraction);

#endif
