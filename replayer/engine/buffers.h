/* SPDX-License-Identifier: MIT */
/* I/O buffers in sizes of powers of two from 4 KiB, reused, and given back only when the kernel is
 * done with them. */
#ifndef REPLAYER_BUFFERS_H
#define REPLAYER_BUFFERS_H

#include <liburing.h>
#include <stdint.h>

struct buffer {
	struct buffer *next;
	void *data;	    /* page-aligned */
	uint32_t *low;	    /* one per 4 KiB block: content_note() */
	int16_t registered; /* the ring's number of the memory it lies in; -1: none */
	uint8_t size_class;
};

struct buffer_pool;

#define BUFFER_BYTES_MAX (64u << 20)

/* Buffers are registered with the ring, so that the kernel need not look up and pin their pages for
 * every I/O. What another pool expects is expected here, if there is one. */
struct buffer_pool *buffers_new(struct io_uring *ring, const struct buffer_pool *like);
/* While the traces are scanned: one begins; an I/O of it, in their order. */
void buffers_expect_trace(struct buffer_pool *p);
void buffers_expect(struct buffer_pool *p, uint64_t at_ns, uint32_t bytes);
/* So many more of a size may be in flight at once. */
void buffers_expect_more(struct buffer_pool *p, uint32_t bytes, uint32_t n);
/* Before the run: maps and registers what its bursts will want, for so many copies of each I/O and
 * of no size more than `most` I/Os, so that it is not done amid a burst. */
void buffers_reserve(struct buffer_pool *p, unsigned int copies, uint32_t most);
/* How many times memory was mapped since. */
uint64_t buffers_mapped_late(const struct buffer_pool *p);
struct buffer *buffer_get(struct buffer_pool *p, uint32_t bytes);
void buffer_put(struct buffer_pool *p, struct buffer *b);

#endif
