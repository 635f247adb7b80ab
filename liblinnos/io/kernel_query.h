/* SPDX-License-Identifier: MIT */
/* Query the kernel for the predictions that a chooser would otherwise make. */
#ifndef LINNOS_BEST_H
#define LINNOS_BEST_H

#include "array.h"

/* Return true if the kernel can be queried for these replicas: they are block devices, and the
 * kernel has LinnOS. The query announces no read. */
bool best_is_known(const struct linnos_array *a);
/* Query the kernel for a read that will be sent. Return false if it returns no prediction. Do not
 * hold the array's lock. */
bool best_tell(const struct linnos_array *a, uint64_t offset_bytes, size_t bytes,
	       struct told *told);

#endif
