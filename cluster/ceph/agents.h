/* SPDX-License-Identifier: MIT */
/*
 * Reports of the nodes' agents: a socket for each node, and a thread that receives from all of
 * them.
 */
#ifndef LINNOS_CEPH_AGENTS_H
#define LINNOS_CEPH_AGENTS_H

#include "linnos_cluster.h"

#include <stdint.h>

struct agents;

int agents_create(struct agents **agents, struct linnos_cluster *cluster, uint32_t n_nodes,
		  uint16_t port);
void agents_free(struct agents *agents);

/*
 * Set the address of a node's agent and the index of the node's drive on that agent. Both may
 * change later.
 */
void agents_resolve(struct agents *agents, uint32_t node, const char *address, unsigned int drive);

/* Query the agent that liblinnos-cluster chooses, about a read of this size, without waiting. */
void agents_query(struct agents *agents, uint32_t bytes, uint64_t now_ns);

#endif
