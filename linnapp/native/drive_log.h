/* SPDX-License-Identifier: MIT */
/* A drive whose I/Os are known from a log: see drive_log.c. */
#ifndef LINNAPP_DRIVE_LOG_H
#define LINNAPP_DRIVE_LOG_H

#include <stdbool.h>
#include <stdint.h>

/*
 * I/Os in order of arrival, one array per column; consecutive calls continue the log. The flags are
 * those of enum lt_io_flag. Only completed I/Os that were not revoked load the drive; others only
 * see its state.
 */
struct ld_ios {
	int64_t n;
	const uint64_t *arrival_ns;
	const uint64_t *latency_ns;
	const uint64_t *sector;
	const uint32_t *bytes;
	const uint8_t *flags;
	const uint32_t *pending; /* to store in the history; NULL for computed values */
	uint8_t ties_in_order;	 /* an I/O sees earlier ones of the same instant */
};

/* The state that each I/O found, in rows; NULL if not requested. Reads only, except pending. */
struct ld_seen {
	uint32_t *pending;	   /* pages in flight, including its own */
	uint32_t *hist_pending;	   /* [n][LINNOS_HISTORY] of the last reads, oldest first */
	uint32_t *hist_latency_us; /* as hist_pending */
	uint32_t *hist_nr;	   /* as hist_pending: their sequence numbers; 0 for none */
	uint32_t *features;	   /* [n][LINNOS_N_FEATURES] of a latency model */
};

struct ld_drive;

/* Return a drive without any I/Os yet, or NULL if out of memory. */
struct ld_drive *ld_open(uint32_t overdue_us);
/* Add I/Os and fill @seen. Return false if the drive would have more in flight than its limits. */
bool ld_feed(struct ld_drive *d, const struct ld_ios *ios, const struct ld_seen *seen);
void ld_close(struct ld_drive *d);

#endif
