/* SPDX-License-Identifier: MIT */
/* The backend of files and block devices: a ring for each queue. */
#ifndef LINNOS_URING_BACKEND_H
#define LINNOS_URING_BACKEND_H

#include "array.h"

void uring_backend_init(struct linnos_backend *backend);
/* What a queue wants to have registered; a ring of which that is said is its own for good. */
int uring_register(void *ring, const struct linnos_array *a, const struct linnos_queue_options *o);
bool uring_is_registered(const void *ring);

#endif
