// SPDX-License-Identifier: MIT
/* I/O buffers: see buffers.h. */
#include "buffers.h"
#include "content.h"
#include "error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define N_CLASSES 15 /* 4 KiB to 64 MiB */
#define SLAB_BYTES (256u << 10)

struct buffer_pool {
	struct buffer *free[N_CLASSES];
};

struct buffer_pool *buffers_new(void)
{
	return xcalloc(1, sizeof(struct buffer_pool));
}

/* One mapping serves many small buffers: a mapping each would fill the process's map. */
static void grow(struct buffer_pool *p, unsigned int size_class)
{
	uint32_t bytes = BLOCK_BYTES << size_class;
	uint32_t slab = bytes < SLAB_BYTES ? SLAB_BYTES : bytes;
	char *data = mmap(NULL, slab, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (data == MAP_FAILED)
		die("no memory for an I/O buffer of %u bytes: %s", slab, strerror(errno));
	for (uint32_t at = 0; at < slab; at += bytes) {
		struct buffer *b = xcalloc(1, sizeof(*b));

		b->data = data + at;
		b->low = xcalloc(bytes / BLOCK_BYTES, sizeof(*b->low));
		b->size_class = size_class;
		b->next = p->free[size_class];
		p->free[size_class] = b;
	}
}

struct buffer *buffer_get(struct buffer_pool *p, uint32_t bytes)
{
	unsigned int size_class = 0;
	struct buffer *b;

	while ((BLOCK_BYTES << size_class) < bytes)
		size_class++;
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
