// SPDX-License-Identifier: MIT
/* I/O buffers: see buffers.h. */
#include "buffers.h"
#include "drive/content.h"
#include "error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define N_CLASSES 15 /* 4 KiB to 64 MiB */
#define SLAB_BYTES (256u << 10)
#define REGISTERED_MAX 1024

struct buffer_pool {
	struct buffer *free[N_CLASSES];
	struct io_uring *ring;
	int n_registered, may_register;
};

/*
 * Register memory with the ring and return its index. If the limit on locked memory is exceeded,
 * buffers are used without registration.
 */
static int registered(struct buffer_pool *p, void *data, uint32_t bytes)
{
	struct iovec memory = {.iov_base = data, .iov_len = bytes};

	if (p->n_registered == p->may_register)
		return -1;
	if (io_uring_register_buffers_update_tag(p->ring, p->n_registered, &memory, NULL, 1) < 0) {
		p->may_register = p->n_registered;
		return -1;
	}
	return p->n_registered++;
}

/*
 * One mapping contains many small buffers, because one mapping for each would exceed the process's
 * limit.
 */
static void grow(struct buffer_pool *p, unsigned int size_class)
{
	uint32_t bytes = BLOCK_BYTES << size_class;
	uint32_t slab = bytes < SLAB_BYTES ? SLAB_BYTES : bytes;
	char *data = mmap(NULL, slab, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int number;

	if (data == MAP_FAILED)
		die("no memory for an I/O buffer of %u bytes: %s", slab, strerror(errno));
	number = registered(p, data, slab);
	for (uint32_t at = 0; at < slab; at += bytes) {
		struct buffer *b = xcalloc(1, sizeof(*b));

		b->data = data + at;
		b->low = xcalloc(bytes / BLOCK_BYTES, sizeof(*b->low));
		b->registered = number;
		b->size_class = size_class;
		b->next = p->free[size_class];
		p->free[size_class] = b;
	}
}

struct buffer_pool *buffers_new(struct io_uring *ring)
{
	struct buffer_pool *p = xcalloc(1, sizeof(*p));

	p->ring = ring;
	if (!io_uring_register_buffers_sparse(ring, REGISTERED_MAX))
		p->may_register = REGISTERED_MAX;
	/* Most bursts need no more than this, so that nothing is mapped while they last. */
	for (unsigned int k = 0; BLOCK_BYTES << k <= SLAB_BYTES; k++)
		grow(p, k);
	return p;
}

static unsigned int class_of(uint32_t bytes)
{
	unsigned int size_class = 0;

	while ((BLOCK_BYTES << size_class) < bytes)
		size_class++;
	return size_class;
}

struct buffer *buffer_get(struct buffer_pool *p, uint32_t bytes)
{
	unsigned int size_class = class_of(bytes);
	struct buffer *b;

	if (!p->free[size_class])
		grow(p, size_class);
	b = p->free[size_class];
	p->free[size_class] = b->next;
	return b;
}

void buffer_put(struct buffer_pool *p, struct buffer *b)
{
	b->next = p->free[b->size_class];
	p->free[b->size_class] = b;
}
