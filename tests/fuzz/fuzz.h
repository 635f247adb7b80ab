/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share: bytes as a file, and reading a trace to its end.
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

#define FUZZ_ROWS 7	/* few, so that reading stops and goes on in all states */

struct fuzz_file {
	int fd;
	char path[40];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a file in memory, at its start. */
static inline void fuzz_file(struct fuzz_file *file, const uint8_t *data, size_t size)
{
	file->fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (file->fd < 0 || write(file->fd, data, size) != (ssize_t)size || lseek(file->fd, 0, 0))
		abort();
	snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
}

/* Every I/O that was queued must come out, once, and those that completed with their time. */
static inline void fuzz_read_all(struct lt_parser *parser, int history)
{
	uint64_t arrival_ns[FUZZ_ROWS], latency_ns[FUZZ_ROWS], sector[FUZZ_ROWS], ios = 0;
	uint32_t bytes[FUZZ_ROWS], pending[FUZZ_ROWS];
	uint32_t *past = calloc(2 * FUZZ_ROWS * history, sizeof(*past));
	uint8_t flags[FUZZ_ROWS];
	struct lt_columns columns = { arrival_ns, latency_ns, sector, bytes, pending, flags, past,
				      past + FUZZ_ROWS * history };
	struct lt_stats stats;
	int64_t n;

	while ((n = lt_read(parser, FUZZ_ROWS, &columns)) > 0) {
		for (int64_t row = 0; row < n; row++) {
			if (!bytes[row] || bytes[row] % 512 || !pending[row])
				abort();
			if (!(flags[row] & LT_COMPLETED) && latency_ns[row])
				abort();
		}
		ios += n;
	}
	lt_stats(parser, &stats);
	if ((n < 0) != (*lt_error(parser) != '\0'))
		abort();
	if (!n && ios != stats.reads + stats.writes)
		abort();
	free(past);
}

#endif
