/* SPDX-License-Identifier: MIT */
/* A volume's handles and files. */
#ifndef LINNOS_GLUSTER_VOLUME_H
#define LINNOS_GLUSTER_VOLUME_H

#include "agents.h"
#include "graph.h"
#include "linnos_gluster.h"

#include <pthread.h>
#include <stdatomic.h>

struct linnos_gluster {
	struct linnos_cluster *cluster;
	struct agents *agents;
	struct graph graph;
	glfs_t *ordinary, *replicas[REPLICAS_MAX];
	uint64_t fresh_ns;
	/* when a file was, by the last bytes of its number; many share one */
	atomic_ullong written_ns[1024];
	atomic_ullong reads, fresh, retried, looked;

	/* for what is in flight */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* reads that may have to be sent again, of a volume that hedges */
	struct read *late;
	bool hedges, is_ending;
	pthread_t thread;
};

struct linnos_gluster_file {
	struct linnos_gluster *gluster;
	uint8_t gfid[GFID_BYTES];
	/* the set's first brick, or -1: nobody knows; that GlusterFS reads from, counted from there
	 */
	int first, home;
	glfs_fd_t *ordinary, *replicas[REPLICAS_MAX];
	/* the replicas' handles have, the last time; one that reads has them do so, or could not,
	 * and nobody does before then */
	atomic_ullong looked_ns, look_after_ns;
	uint64_t in_flight;
	char path[];
};

/* What was written to it may not be, or not be known to be, where replicas are read. A look at it
 * waits for the network, once after the file was written. */
bool is_fresh(struct linnos_gluster_file *file, uint64_t now_ns);
void mark_fresh(struct linnos_gluster_file *file, uint64_t now_ns);

/* The thread that sends reads a second time. */
void *send_late(void *of);

#endif
