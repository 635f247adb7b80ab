// SPDX-License-Identifier: MIT
/* Page-aligned memory for attempts, which is reused: see bounce.h. */
#include "bounce.h"

#include <stdlib.h>
#include <sys/mman.h>

static unsigned int class_of(size_t bytes)
{
	unsigned int size_class = 0;

	while (size_class < BOUNCE_CLASSES && (size_t)BOUNCE_ALIGN << size_class < bytes)
		size_class++;
	return size_class;
}

struct bounce *bounce_get(struct bounces *all, size_t bytes)
{
	unsigned int size_class = class_of(bytes);
	struct bounce *b;

	if (size_class < BOUNCE_CLASSES && all->free[size_class]) {
		b = all->free[size_class];
		all->free[size_class] = b->next;
		return b;
	}
	b = malloc(sizeof(*b));
	if (!b)
		return NULL;
	b->size_class = size_class;
	if (size_class < BOUNCE_CLASSES)
		bytes = (size_t)BOUNCE_ALIGN << size_class;
	b->bytes = bytes;
	b->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->data == MAP_FAILED) {
		free(b);
		return NULL;
	}
	return b;
}

static void release(struct bounce *b)
{
	munmap(b->data, b->bytes);
	free(b);
}

void bounce_quarantine(struct bounce *b)
{
	if (!b)
		return;
	/* A drive keeps writing to the pages it was given, and a copy by the kernel fails. If the
	 * mapping cannot be replaced, the memory is leaked. */
	mmap(b->data, b->bytes, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	     -1, 0);
	free(b);
}

void bounce_put(struct bounces *all, struct bounce *b)
{
	if (!b)
		return;
	if (!all || b->size_class == BOUNCE_CLASSES) {
		release(b);
		return;
	}
	b->next = all->free[b->size_class];
	all->free[b->size_class] = b;
}

void bounces_free(struct bounces *all)
{
	for (unsigned int i = 0; i < BOUNCE_CLASSES; i++)
		while (all->free[i]) {
			struct bounce *b = all->free[i];

			all->free[i] = b->next;
			release(b);
		}
}
