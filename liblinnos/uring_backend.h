/* SPDX-License-Identifier: MIT */
/* The backend of files and block devices: a ring for each queue. */
#ifndef LINNOS_URING_BACKEND_H
#define LINNOS_URING_BACKEND_H

#include "array.h"

void uring_backend_init(struct linnos_backend *backend);
/* What a queue wants to have registered; a ring of which that is said is its own for good. */
int uring_register(void *ring, const struct linnos_array *a, const struct linnos_queue_options *o);
bool uring_is_registered(const void *ring);
/* Can the ring not be entered any more? Requests that were submitted may still complete. */
bool uring_is_broken(const void *ring);
/* And is that because its descriptor was closed? */
bool uring_descriptor_is_gone(const void *ring);
/* Is there a request that the kernel has not taken yet? */
bool uring_has_unsubmitted(const void *ring);

#endif
