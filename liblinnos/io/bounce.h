/* SPDX-License-Identifier: MIT */
/* Page-aligned memory for attempts that cannot or must not read into the caller's memory. The
 * thread of a queue reuses it. */
#ifndef LINNOS_BOUNCE_H
#define LINNOS_BOUNCE_H

#include <stddef.h>

#define BOUNCE_ALIGN 4096u
/* Sizes are powers of two from BOUNCE_ALIGN. Larger buffers are not kept for reuse. */
#define BOUNCE_CLASSES 10u

struct bounce {
	struct bounce *next;
	void *data;
	size_t bytes;
	unsigned int size_class; /* BOUNCE_CLASSES if larger than any class */
};

struct bounces {
	struct bounce *free[BOUNCE_CLASSES];
};

/* Return NULL if there is no memory. */
struct bounce *bounce_get(struct bounces *all, size_t bytes);
/* Return a buffer to @all, or to the system if @all is NULL. */
void bounce_put(struct bounces *all, struct bounce *b);
/* Discard a buffer to which the kernel may still write for an unknown time. The memory is freed,
 * but its addresses stay reserved. */
void bounce_quarantine(struct bounce *b);
void bounces_free(struct bounces *all);

#endif
