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
 * their pages for every I/O. The expected sizes are copied from @like, if it is not NULL.
 */
struct buffer_pool *buffers_new(struct io_uring *ring, const struct buffer_pool *like);
/* For the scan of the traces: a trace begins; the next I/O of a trace, in order. */
void buffers_expect_trace(struct buffer_pool *p);
void buffers_expect(struct buffer_pool *p, uint64_t at_ns, uint32_t bytes);
/*
 * Before the run, map and register the buffers that its bursts are expected to need, for @copies
 * attempts of each I/O and at most @most I/Os of a size, so that this is not done during a burst.
 */
void buffers_reserve(struct buffer_pool *p, unsigned int copies, uint32_t most);
/* Return how often memory was mapped since then. */
uint64_t buffers_mapped_late(const struct buffer_pool *p);
struct buffer *buffer_get(struct buffer_pool *p, uint32_t bytes);
void buffer_put(struct buffer_pool *p, struct buffer *b);

#endif
