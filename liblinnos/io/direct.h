/* SPDX-License-Identifier: MIT */
/* Alignment requirements of O_DIRECT for a device or a file. */
#ifndef LINNOS_DIRECT_H
#define LINNOS_DIRECT_H

#include <stdint.h>

/* Get the required alignment of offsets and sizes, and of memory addresses. Both are powers of
 * two. */
void direct_io_needs(int fd, uint32_t *align_bytes, uint32_t *memory_align_bytes);

#endif
