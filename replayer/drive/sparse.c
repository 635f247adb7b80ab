// SPDX-License-Identifier: MIT
/* A sparse array of small leaves: see sparse.h. */
#include "sparse.h"
#include "error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t n_tops(const struct sparse *s)
{
	return (s->n + SPARSE_NODE - 1) / SPARSE_NODE;
}

/* Reserve address space for the largest size. Only pages that are touched take memory. */
static void *reserve(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die("no address space for a table of %llu bytes: %s", (unsigned long long)bytes,
		    strerror(errno));
	return p;
}

void sparse_init(struct sparse *s, uint64_t n, uint32_t leaf_bytes)
{
	*s = (struct sparse){.n = n, .leaf_bytes = leaf_bytes};
	if (n >= UINT32_MAX)
		die("a drive is too large: a table of %llu entries", (unsigned long long)n);
	s->top = reserve(n_tops(s) * sizeof(*s->top));
	s->nodes = reserve(n_tops(s) * SPARSE_NODE * sizeof(*s->nodes));
	s->leaves = reserve(n * leaf_bytes);
	/* The top level is small, and accesses are spread over all of it. */
	madvise(s->top, n_tops(s) * sizeof(*s->top), MADV_NOHUGEPAGE);
}

void sparse_free(struct sparse *s)
{
	if (!s->top)
		return;
	munmap(s->top, n_tops(s) * sizeof(*s->top));
	munmap(s->nodes, n_tops(s) * SPARSE_NODE * sizeof(*s->nodes));
	munmap(s->leaves, s->n * s->leaf_bytes);
	memset(s, 0, sizeof(*s));
}

void *sparse_make(struct sparse *s, uint64_t i)
{
	void *leaf = sparse_get(s, i);
	uint32_t *node = &s->top[i / SPARSE_NODE];

	if (leaf)
		return leaf;
	if (!*node)
		*node = ++s->n_nodes;
	s->nodes[(*node - 1) * (uint64_t)SPARSE_NODE + i % SPARSE_NODE] = s->n_leaves + 1;
	return s->leaves + s->n_leaves++ * (uint64_t)s->leaf_bytes;
}
