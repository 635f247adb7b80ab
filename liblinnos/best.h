/* SPDX-License-Identifier: MIT */
/* Has the kernel tell of drives what a chooser would predict. */
#ifndef LINNOS_BEST_H
#define LINNOS_BEST_H

#include "array.h"

/* Can it be asked of these replicas: block devices, on a kernel with LinnOS? Asks for no read. */
bool best_is_known(const struct linnos_array *a);
/* Asks for a read that will be sent; false: nothing is told. Without the array's lock. */
bool best_tell(const struct linnos_array *a, uint64_t offset_bytes, size_t bytes,
	       struct told *told);

#endif
