/* SPDX-License-Identifier: MIT */
/* Queries to agents, and their reports. The lock of the client is held. */
#ifndef LINNOS_CLUSTER_AGENT_REPORTS_H
#define LINNOS_CLUSTER_AGENT_REPORTS_H

#include "client_state.h"

/* Queue one of the candidates that the read is not sent to for a query to its agent. */
void report_candidates_for_query(struct linnos_cluster *c, const uint32_t *candidates,
				 unsigned int n, unsigned int chosen, uint64_t now_ns);

#endif
