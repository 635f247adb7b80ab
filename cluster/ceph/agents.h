/* SPDX-License-Identifier: MIT */
/* What agents of the nodes tell: a socket for each node, and a thread that listens to all. */
#ifndef LINNOS_CEPH_AGENTS_H
#define LINNOS_CEPH_AGENTS_H

#include "linnos_cluster.h"

#include <stdint.h>

struct agents;

int agents_create(struct agents **agents, struct linnos_cluster *cluster, uint32_t n_nodes,
		  uint16_t port);
void agents_free(struct agents *agents);

/* A node's agent is at this address, and its drive is that agent's how many-th; perhaps another one
 * than before. */
void agents_resolve(struct agents *agents, uint32_t node, const char *address, unsigned int drive);

/* Ask whom the library would like to hear of next, for a read of so many bytes; waits for nobody.
 */
void agents_ask(struct agents *agents, uint32_t bytes, uint64_t now_ns);

#endif
