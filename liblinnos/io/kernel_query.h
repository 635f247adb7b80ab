/* SPDX-License-Identifier: MIT */
/* Query the kernel for the predictions that a chooser would otherwise make. */
#ifndef LINNOS_KERNEL_QUERY_H
#define LINNOS_KERNEL_QUERY_H

#include "replica.h"

/* Return true if the kernel can be queried for these replicas, that is, if they are block devices
 * and the kernel has LinnOS. The kernel does not expect a read after this query. */
bool kernel_can_predict(const struct replica_set *set);
/* Query the kernel for a read that will be sent. Return false if the answer has no latency, names
 * no replica that is gone, and requests no probe. */
bool kernel_predict(const struct replica_set *set, uint64_t offset_bytes, size_t bytes,
		    struct external_predictions *external);

#endif
