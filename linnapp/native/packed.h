/* SPDX-License-Identifier: MIT */
/*
 * Files packed with gzip, xz, zstd or bzip2, which are read as if they were not packed.
 *
 * linnapp and replayer both open traces with this, so they support the same packings.
 */
#ifndef LINNAPP_PACKED_H
#define LINNAPP_PACKED_H

#include <stddef.h>

/* Room for a message: two paths and the message of the unpacking program. */
#define LT_PACKED_WHY 9216

/**
 * lt_packed_open() - open a file for reading, unpacked
 * @path: its name
 * @why: receives the reason if it cannot be read, at most LT_PACKED_WHY bytes
 *
 * Return: a descriptor at the start of the contents, or -1 and @why.
 */
int lt_packed_open(const char *path, char *why);

/**
 * lt_packed_unpack() - unpack a file
 * @path: its name
 * @why: receives the reason if it cannot be read, at most LT_PACKED_WHY bytes
 *
 * Return: a descriptor of the contents, which stays open as long as the process and is the same for
 * all callers until the file changes: open it again through /proc/self/fd. -2 if the file is not
 * packed, -1 and @why if it cannot be read.
 */
int lt_packed_unpack(const char *path, char *why);

/* The suffixes of packed files' names, ".gz" first; NULL after the last one. */
extern const char *const lt_packed_suffixes[];

#endif
