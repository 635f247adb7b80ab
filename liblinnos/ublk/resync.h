/* SPDX-License-Identifier: MIT */
/* Make the replicas equal before the mirror is served. */
#ifndef LINNOS_UBLK_RESYNC_H
#define LINNOS_UBLK_RESYNC_H

#include "replicas.h"
#include "state.h"

#define WHY_BYTES 128
/*
 * Make the regions that may differ equal: copy the data of a replica in @current to the other
 * opened replicas where it differs. Return the replicas that are equal now, and write the reason
 * for each of the others to why[]. Dies if no replica in @current can be read.
 */
uint32_t replicas_resync(const struct replica *replicas, const struct mirror_state *s,
			 uint64_t bytes, uint32_t opened, uint32_t current, char why[][WHY_BYTES]);
/* Flush the replicas in @opened. Return those for which this succeeded. */
uint32_t replicas_flush(const struct replica *replicas, uint32_t opened, char why[][WHY_BYTES]);
void replicas_compare(const struct replica *replicas, unsigned int n, uint64_t bytes);

#endif
