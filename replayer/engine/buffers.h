/* SPDX-License-Identifier: MIT */
/*
 * I/O buffers in powers of two from 4 KiB. They are reused, and returned only when the kernel has
 * finished with them.
 */
#ifndef REPLAYER_BUFFERS_H
#define REPLAYER_BUFFERS_H

#include <liburing.h>
#include <stdint.h>

struct buffer {
	struct buffer *next;
	void *data;	    /* page-aligned */
	uint32_t *low;	    /* one per 4 KiB block: content_note() */
	int16_t registered; /* index of its memory in the ring; -1 if not registered */
	uint8_t size_class;
};

struct buffer_pool;

#define BUFFER_BYTES_MAX (64u << 20)

/*
 * Create a pool. Buffers are registered with the ring, so that the kernel need not look up and pin
 * their pages for every I/O.
 */
struct buffer_pool *buffers_new(struct io_uring *ring);
struct buffer *buffer_get(struct buffer_pool *p, uint32_t bytes);
void buffer_put(struct buffer_pool *p, struct buffer *b);

#endif
