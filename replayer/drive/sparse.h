/* SPDX-License-Identifier: MIT */
/*
 * A sparse array of small leaves, for tables with an entry for every block of a drive.
 *
 * A drive of 4 TB has a billion blocks, and a trace may touch a few of them, far apart. A flat
 * table would take a page of memory for each, or 2 MiB with huge pages. Here a touched entry takes
 * a leaf and a node of 64 indices, and untouched entries take four bytes for 64 leaves. Leaves
 * never move, and the cost of creating one does not depend on the size.
 */
#ifndef REPLAYER_SPARSE_H
#define REPLAYER_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#define SPARSE_NODE 64u /* leaves per node */

struct sparse {
	uint32_t *top;	 /* index of a node of SPARSE_NODE leaves, plus one; 0 if there is none */
	uint32_t *nodes; /* index of a leaf, plus one; 0 if there is none */
	char *leaves;
	uint64_t n;
	uint32_t leaf_bytes, n_nodes, n_leaves;
};

/* Create an array of n leaves, all zero, at most 2^32 - 1; exit if out of memory. */
void sparse_init(struct sparse *s, uint64_t n, uint32_t leaf_bytes);
void sparse_free(struct sparse *s);

/* Return leaf i, or NULL if it was never created. */
static inline void *sparse_get(const struct sparse *s, uint64_t i)
{
	uint32_t node = s->top[i / SPARSE_NODE], leaf;

	if (!node)
		return NULL;
	leaf = s->nodes[(node - 1) * (uint64_t)SPARSE_NODE + i % SPARSE_NODE];
	return leaf ? s->leaves + (leaf - 1) * (uint64_t)s->leaf_bytes : NULL;
}

/* Return leaf i; create it if there is none. */
void *sparse_make(struct sparse *s, uint64_t i);

#endif
