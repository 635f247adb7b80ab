/* SPDX-License-Identifier: MIT */
/*
 * Common functions of the fuzz targets: provide bytes as a file, and read a trace to its end.
 */
#ifndef LINNAPP_FUZZ_H
#define LINNAPP_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../linnapp/native/blktrace_parser.h"

#define FUZZ_ROWS 7	/* small, so that reading is interrupted and resumed in all states */

struct fuzz_file {
	int fd;
	char path[40];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Provide the bytes as a file in memory, positioned at its start. */
static inline void fuzz_file(struct fuzz_file *file, const uint8_t *data, size_t size)
{
	file->fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (file->fd < 0 || write(file->fd, data, size) != (ssize_t)size || lseek(file->fd, 0, 0))
		abort();
	snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
}

/* Read all I/Os. Each queued I/O must be returned once, and completed I/Os with their latency. */
static inline void fuzz_read_all(struct lt_parser *parser)
{
	struct lt_row rows[FUZZ_ROWS];
	struct lt_stats stats;
	uint64_t ios = 0;
	int64_t n;

	while ((n = lt_read(parser, FUZZ_ROWS, rows)) > 0) {
		for (const struct lt_row *row = rows; row < rows + n; row++) {
			if (!row->size_bytes || row->size_bytes % 512 || !row->pending)
				abort();
			if (!(row->flags & LT_COMPLETED) && row->latency_ns)
				abort();
		}
		ios += n;
	}
	lt_stats(parser, &stats);
	if ((n < 0) != (*lt_error(parser) != '\0'))
		abort();
	if (!n && ios != stats.reads + stats.writes)
		abort();
}

#endif
