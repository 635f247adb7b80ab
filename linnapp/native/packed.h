/* SPDX-License-Identifier: MIT */
/*
 * Files packed with gzip, xz, zstd or bzip2, which are read as if they were not.
 *
 * linnapp and replayer both open traces here, so that they accept the same packings.
 */
#ifndef LINNAPP_PACKED_H
#define LINNAPP_PACKED_H

#include <stddef.h>

/* Room for a message: two paths and the words of the program that unpacks. */
#define LT_PACKED_WHY 9216

/**
 * lt_packed_open() - open a file for reading, unpacked
 * @path: its name
 * @why: where to write why it cannot be read, at most LT_PACKED_WHY bytes
 *
 * Return: a descriptor at the start of the contents, or -1 and @why.
 */
int lt_packed_open(const char *path, char *why);

/**
 * lt_packed_unpack() - unpack a file
 * @path: its name
 * @why: where to write why it cannot be read, at most LT_PACKED_WHY bytes
 *
 * Return: a descriptor of the contents, which stays open as long as the process and is the same for
 * every caller until the file changes: open it again by /proc/self/fd. -2 if the file is not
 * packed, -1 and @why if it cannot be read.
 */
int lt_packed_unpack(const char *path, char *why);

/* The ends of packed files' names, ".gz" first; NULL after the last one. */
extern const char *const lt_packed_suffixes[];

#endif
