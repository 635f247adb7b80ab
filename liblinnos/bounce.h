/* SPDX-License-Identifier: MIT */
/* Page-aligned memory that attempts read into where they cannot, or must not, read into the
 * caller's; reused by the thread whose queue it is. */
#ifndef LINNOS_BOUNCE_H
#define LINNOS_BOUNCE_H

#include <stddef.h>

#define BOUNCE_ALIGN 4096u
/* Sizes in powers of two from BOUNCE_ALIGN on; what is larger is not kept. */
#define BOUNCE_CLASSES 10u

struct bounce {
	struct bounce *next;
	void *data;
	size_t bytes;
	unsigned int size_class; /* BOUNCE_CLASSES: larger than any */
};

struct bounces {
	struct bounce *free[BOUNCE_CLASSES];
};

/* NULL when there is no memory. */
struct bounce *bounce_get(struct bounces *all, size_t bytes);
/* To the others, or, without them, back to the system. */
void bounce_put(struct bounces *all, struct bounce *b);
/* Of what the kernel may still write to, and nobody will say when it no longer does: the addresses
 * stay taken, the memory goes. */
void bounce_quarantine(struct bounce *b);
void bounces_free(struct bounces *all);

#endif
