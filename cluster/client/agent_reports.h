/* SPDX-License-Identifier: MIT */
/* Queries to agents, and their reports. The caller holds the lock of the client. */
#ifndef LINNOS_CLUSTER_AGENT_REPORTS_H
#define LINNOS_CLUSTER_AGENT_REPORTS_H

#include "client_state.h"

/* Queue a query to the agent of one of the candidates to which the read is not sent. */
void queue_candidate_query(struct linnos_cluster *c, const uint32_t *candidates, unsigned int n,
			   unsigned int chosen, uint64_t now_ns);

#endif
