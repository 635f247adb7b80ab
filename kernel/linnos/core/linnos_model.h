/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * LinnOS models: what a network (linnos_network.h), which says whether a read would be
 * slow, and a model of latencies (linnos_latency.h) have in common. All of core/
 * compiles unchanged into the kernel and into programs.
 */
#ifndef _LINNOS_MODEL_H
#define _LINNOS_MODEL_H

#include "linnos_shim.h"

/* So many completed reads are looked at. */
#define LINNOS_HISTORY 4

/*
 * Orders of size of a read: up to 64 KiB, up to 1 MiB, and more. How long 1 MiB took
 * tells nothing of 4 KiB, but small reads tell of all.
 */
#define LINNOS_SIZES 3
#define LINNOS_SMALL_PAGES 16
#define LINNOS_MEDIUM_PAGES 256

static inline u32 linnos_size_order(u32 pages)
{
	return (pages > LINNOS_SMALL_PAGES) + (pages > LINNOS_MEDIUM_PAGES);
}

/* Model files begin alike (see Documentation/ABI); the version says which kind it is. */
#define LINNOS_FILE_VERSION 8
#define LINNOS_FILE_TOTAL_BYTES 12
#define LINNOS_FILE_CRC32 16
#define LINNOS_FILE_THRESHOLD_US 36
#define LINNOS_FILE_HEADER 64

/* Which check a model file failed; linnos_model_error_string() says it. */
enum linnos_model_error {
	LINNOS_MODEL_OK = 0,
	LINNOS_MODEL_TRUNCATED,
	LINNOS_MODEL_MAGIC,
	LINNOS_MODEL_UNKNOWN_VERSION,
	LINNOS_MODEL_SIZE,
	LINNOS_MODEL_SHAPE,
	LINNOS_MODEL_RESERVED,
	LINNOS_MODEL_RANGE,
	LINNOS_MODEL_CRC,
	LINNOS_MODEL_NOT_NARROW,
	LINNOS_MODEL_SPLIT,
	LINNOS_MODEL_ORDER,
};

const char *linnos_model_error_string(enum linnos_model_error error);

/* For those who read and write files: linnos_network.c and linnos_latency.c. */
enum linnos_model_error linnos_file_check_start(const u8 *file, size_t bytes,
						u32 version);
enum linnos_model_error linnos_file_check_whole(const u8 *file, size_t bytes);

#endif /* _LINNOS_MODEL_H */
