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

/* I/Os that are due within this interval, and within the next one, may all be in flight. */
#define BURST_NS 10000000ull
/* Beyond this, buffers are mapped on demand. */
#define RESERVED_BYTES_MAX (64u << 20)

struct expected { /* for one size class */
	uint64_t bin;
	uint32_t in_last_bin, in_bin; /* I/Os due */
	uint32_t peak, of_all_traces;
};

struct buffer_pool {
	struct buffer *free[N_CLASSES];
	struct expected expected[N_CLASSES];
	uint64_t n_mapped, n_reserved;
	struct io_uring *ring;
	int n_registered, may_register;
};

struct buffer_pool *buffers_new(struct io_uring *ring, const struct buffer_pool *like)
{
	struct buffer_pool *p = xcalloc(1, sizeof(*p));

	p->ring = ring;
	if (like)
		memcpy(p->expected, like->expected, sizeof(p->expected));
	/* Before Linux 5.19, entries cannot be added later, so nothing is registered. */
	if (!io_uring_register_buffers_sparse(ring, REGISTERED_MAX))
		p->may_register = REGISTERED_MAX;
	return p;
}

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
	p->n_mapped++;
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

static unsigned int class_of(uint32_t bytes)
{
	unsigned int size_class = 0;

	while ((BLOCK_BYTES << size_class) < bytes)
		size_class++;
	return size_class;
}

void buffers_expect_trace(struct buffer_pool *p)
{
	for (struct expected *e = p->expected; e < p->expected + N_CLASSES; e++)
		*e = (struct expected){.of_all_traces = e->of_all_traces + e->peak};
}

void buffers_expect(struct buffer_pool *p, uint64_t at_ns, uint32_t bytes)
{
	struct expected *e = &p->expected[class_of(bytes)];
	uint64_t bin = at_ns / BURST_NS;

	if (bin != e->bin) {
		e->in_last_bin = bin == e->bin + 1 ? e->in_bin : 0;
		e->in_bin = 0;
		e->bin = bin;
	}
	e->in_bin++;
	if (e->in_last_bin + e->in_bin > e->peak)
		e->peak = e->in_last_bin + e->in_bin;
}

void buffers_reserve(struct buffer_pool *p, unsigned int copies, uint32_t most)
{
	uint64_t reserved = 0;

	buffers_expect_trace(p);
	for (unsigned int k = 0; k < N_CLASSES; k++) {
		uint32_t bytes = BLOCK_BYTES << k, slab = bytes < SLAB_BYTES ? SLAB_BYTES : bytes;
		uint64_t want = p->expected[k].of_all_traces, have = 0;

		want = (want < most ? want : most) * copies;
		for (struct buffer *b = p->free[k]; b; b = b->next)
			have++;
		for (; have < want && reserved + slab <= RESERVED_BYTES_MAX; have += slab / bytes) {
			grow(p, k);
			reserved += slab;
		}
	}
	p->n_reserved = p->n_mapped;
}

uint64_t buffers_mapped_late(const struct buffer_pool *p)
{
	return p->n_mapped - p->n_reserved;
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
