/* SPDX-License-Identifier: MIT */
/*
 * Delays after which reads are hedged, by prediction: a file that `linnapp train --kind latency`
 * writes next to a drive's model (docs/formats.md).
 *
 * A read with a long prediction is not yet late when a read with a short one would be. Each row is
 * a high percentile of the latencies of the reads that had about the same prediction.
 */
#ifndef LINNOS_HEDGE_TABLE_H
#define LINNOS_HEDGE_TABLE_H

#include <stdint.h>

/* Two for each doubling, and no prediction has more than 24 bits. */
#define HEDGE_TABLE_ROWS_MAX 64
#define HEDGE_TABLE_WHY_BYTES 512

struct hedge_table {
	unsigned int n_rows;
	struct {
		uint32_t from_us; /* lowest prediction of the row; 0 in the first row, ascending */
		uint32_t after_us;
	} rows[HEDGE_TABLE_ROWS_MAX];
};

/* Return 0, or a negative errno and a message in why[]: which file, what is wrong with it, what to
 * do. */
int hedge_table_read(struct hedge_table *table, const char *path, char why[HEDGE_TABLE_WHY_BYTES]);
/* Return the time in us after which a read with this prediction is hedged. */
uint32_t hedge_table_after_us(const struct hedge_table *table, uint32_t predicted_us);

#endif
