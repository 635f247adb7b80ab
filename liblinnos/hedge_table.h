/* SPDX-License-Identifier: MIT */
/*
 * When to hedge a read, by how long it was predicted to take: a file that `linnapp train --kind
 * latency` writes beside a drive's model (docs/formats.md).
 *
 * A read that is predicted to take long is not late when a short one would be. Each row is what a
 * high percentile of the reads took that were predicted to take about so long.
 */
#ifndef LINNOS_HEDGE_TABLE_H
#define LINNOS_HEDGE_TABLE_H

#include <stdint.h>

/* Two a doubling, and no prediction has more than 24 bits. */
#define HEDGE_TABLE_ROWS_MAX 64
#define HEDGE_TABLE_WHY_BYTES 512

struct hedge_table {
	unsigned int n_rows;
	struct {
		uint32_t from_us; /* predicted; the first row's is 0, they rise */
		uint32_t after_us;
	} rows[HEDGE_TABLE_ROWS_MAX];
};

/* 0, or a negative errno: why[] then says which file, what is wrong with it and what to do. */
int hedge_table_read(struct hedge_table *table, const char *path, char why[HEDGE_TABLE_WHY_BYTES]);
/* After how many us a read is hedged that was predicted to take so many. */
uint32_t hedge_table_after_us(const struct hedge_table *table, uint32_t predicted_us);

#endif
