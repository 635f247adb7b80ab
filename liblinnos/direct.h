/* SPDX-License-Identifier: MIT */
/* What O_DIRECT wants of a device or a file. */
#ifndef LINNOS_DIRECT_H
#define LINNOS_DIRECT_H

#include <stdint.h>

/* To what offsets and sizes, and addresses of memory, must be aligned: powers of two. */
void direct_io_needs(int fd, uint32_t *align_bytes, uint32_t *memory_align_bytes);

#endif
