/* SPDX-License-Identifier: MIT */
/* What a volume is made of: what gfapi's handles say of themselves in /.meta, as words. */
#ifndef LINNOS_GLUSTER_GRAPH_H
#define LINNOS_GLUSTER_GRAPH_H

#include "linnos_cluster.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPLICAS_MAX = LINNOS_CLUSTER_CANDIDATES, NAME_BYTES = 256, GFID_BYTES = 16 };

struct name {
	char text[NAME_BYTES];
};

struct graph {
	/* bricks' hosts, and sets of bricks that have the same files, all of one size */
	struct name *hosts, *sets;
	unsigned int n_bricks, n_sets, set_bricks;
	/* of a set, those that have data, which are its first */
	unsigned int n_replicas;
};

/* Of a volume file, which is written to; 0, -ENOMEM or -ENOTSUP: there is nothing to choose.
 * Freed by graph_free() in any case. */
int graph_read(struct graph *graph, char *volfile);
void graph_free(struct graph *graph);

/* The set that a file is in, of its pathinfo; -1: nobody says. */
int set_of(const struct graph *graph, const char *pathinfo);

/* Which replica GlusterFS reads a file from, of its set's `private`; LINNOS_HOME_TURNS: that
 * depends. */
int home_of(const struct graph *graph, const char *private, const uint8_t gfid[GFID_BYTES]);

#endif
