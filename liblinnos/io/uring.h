/* SPDX-License-Identifier: MIT */
/* The backend for files and block devices, with one ring for each queue. */
#ifndef LINNOS_URING_BACKEND_H
#define LINNOS_URING_BACKEND_H

#include "array.h"

void uring_backend_init(struct linnos_backend *backend);
/* Register the files and buffers of a queue in its ring. A ring with registrations is never given
 * to another queue. */
int uring_register(void *ring, const struct linnos_array *a, const struct linnos_queue_options *o);
bool uring_is_registered(const void *ring);
/* Return true if the ring cannot be entered any more. Requests that were submitted may still
 * complete. */
bool uring_is_broken(const void *ring);
/* Return true if this is because its descriptor was closed. */
bool uring_descriptor_is_gone(const void *ring);
/* Return true if there is a request that the kernel has not accepted yet. */
bool uring_has_unsubmitted(const void *ring);

#endif
