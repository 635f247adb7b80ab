/* SPDX-License-Identifier: MIT */
/*
 * A sparse array of small leaves, for tables with an entry for every block of a drive.
 *
 * A drive of 4 TB has a thousand million blocks and a trace may touch a few of them, far apart. A
 * flat table would take a page of memory for each, or two megabytes where huge pages are on. Here a
 * touched place takes its own leaf and a node of 64 indices; what was never touched takes four
 * bytes for 64 leaves. Leaves never move, and making one costs the same at any size. One thread at
 * a time may make leaves, while others look for them.
 */
#ifndef REPLAYER_SPARSE_H
#define REPLAYER_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#define SPARSE_NODE 64u /* leaves per node */

struct sparse {
	uint32_t *top;	 /* node of SPARSE_NODE leaves, plus one; 0: none */
	uint32_t *nodes; /* leaf, plus one; 0: none */
	char *leaves;
	uint64_t n;
	uint32_t leaf_bytes, n_nodes, n_leaves;
};

/* An array of n leaves, all zero; dies when out of memory. At most 2^32 - 1 of them. */
void sparse_init(struct sparse *s, uint64_t n, uint32_t leaf_bytes);
void sparse_free(struct sparse *s);
void *sparse_make_slowly(struct sparse *s, uint64_t i);

/* Leaf i, or NULL when it was never made. */
static inline void *sparse_get(const struct sparse *s, uint64_t i)
{
	uint32_t node = __atomic_load_n(&s->top[i / SPARSE_NODE], __ATOMIC_ACQUIRE), leaf;

	if (!node)
		return NULL;
	leaf = __atomic_load_n(&s->nodes[(node - 1) * (uint64_t)SPARSE_NODE + i % SPARSE_NODE],
			       __ATOMIC_ACQUIRE);
	return leaf ? s->leaves + (leaf - 1) * (uint64_t)s->leaf_bytes : NULL;
}

/* Leaf i; it is made where there is none. */
static inline void *sparse_make(struct sparse *s, uint64_t i)
{
	void *leaf = sparse_get(s, i);

	return leaf ? leaf : sparse_make_slowly(s, i);
}

#endif
