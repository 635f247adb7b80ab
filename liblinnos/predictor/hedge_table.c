// SPDX-License-Identifier: MIT
/* Delays after which reads are hedged, by prediction: see hedge_table.h. */
#include "hedge_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "linnos hedge table 1\n"
#define LINE_BYTES 128
#define REMEDY "`linnapp train --kind latency` makes one"

/* Parse digits followed by `end`. Return false for anything else and for a number of more than 32
 * bits. */
static bool take_number(const char **at, char end, uint32_t *value)
{
	uint64_t number = 0;
	const char *p = *at;

	for (; *p >= '0' && *p <= '9' && number <= UINT32_MAX; p++)
		number = number * 10 + (*p - '0');
	if (p == *at || *p != end || number > UINT32_MAX)
		return false;
	*at = p + 1;
	*value = number;
	return true;
}

/* Parse a line. Return the error in it, or NULL. */
static const char *take_row(struct hedge_table *table, const char *line)
{
	unsigned int n = table->n_rows;
	uint32_t from_us, after_us;

	if (!take_number(&line, ' ', &from_us) || !take_number(&line, '\n', &after_us))
		return "a row must have two integers, the prediction and the delay in us";
	if (!after_us)
		return "the delay is 0 us; it must be at least 1 us";
	if (!n && from_us)
		return "the first row must begin at a prediction of 0 us";
	if (n && from_us <= table->rows[n - 1].from_us)
		return "the prediction must be larger than in the previous row";
	if (n && after_us < table->rows[n - 1].after_us)
		return "the delay must not be smaller than in the previous row";
	if (n == HEDGE_TABLE_ROWS_MAX)
		return "too many rows; the maximum is 64";
	table->rows[n].from_us = from_us;
	table->rows[n].after_us = after_us;
	table->n_rows++;
	return NULL;
}

static int parse(struct hedge_table *table, FILE *file, const char *path,
		 char why[HEDGE_TABLE_WHY_BYTES])
{
	char line[LINE_BYTES];
	const char *wrong = NULL;
	unsigned int n = 0;

	while (!wrong && fgets(line, sizeof(line), file)) {
		n++;
		if (n == 1 && strcmp(line, FIRST_LINE))
			wrong = "not a hedge table of version 1";
		else if (n > 1 && *line != '#')
			wrong = take_row(table, line);
	}
	if (ferror(file)) {
		snprintf(why, HEDGE_TABLE_WHY_BYTES, "%s: %s; " REMEDY, path, strerror(errno));
		return errno ? -errno : -EIO;
	}
	if (!wrong && !table->n_rows)
		wrong = "no rows";
	if (!wrong)
		return 0;
	snprintf(why, HEDGE_TABLE_WHY_BYTES, "%s: line %u: %s; " REMEDY, path, n, wrong);
	return -EINVAL;
}

int hedge_table_read(struct hedge_table *table, const char *path, char why[HEDGE_TABLE_WHY_BYTES])
{
	FILE *file = fopen(path, "re");
	int error;

	memset(table, 0, sizeof(*table));
	if (!file) {
		error = -errno;
		snprintf(why, HEDGE_TABLE_WHY_BYTES, "%s: %s; " REMEDY, path, strerror(-error));
		return error;
	}
	error = parse(table, file, path, why);
	fclose(file);
	return error;
}

uint32_t hedge_table_after_us(const struct hedge_table *table, uint32_t predicted_us)
{
	unsigned int row = table->n_rows - 1;

	while (row && table->rows[row].from_us > predicted_us)
		row--;
	return table->rows[row].after_us;
}
