/* SPDX-License-Identifier: MIT */
/* I/O buffers in sizes of powers of two from 4 KiB, reused, and given back only when the kernel is
 * done with them. */
#ifndef REPLAYER_BUFFERS_H
#define REPLAYER_BUFFERS_H

#include <stdint.h>

struct buffer {
	struct buffer *next;
	void *data;    /* page-aligned */
	uint32_t *low; /* one per 4 KiB block: content_note() */
	uint8_t size_class;
};

struct buffer_pool;

#define BUFFER_BYTES_MAX (64u << 20)

struct buffer_pool *buffers_new(void);
struct buffer *buffer_get(struct buffer_pool *p, uint32_t bytes);
void buffer_put(struct buffer_pool *p, struct buffer *b);

#endif
