// SPDX-License-Identifier: MIT
/* What a volume is made of: see graph.h. */
#include "graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool append(struct name **names, unsigned int *n, const struct name *name)
{
	struct name *more = realloc(*names, (*n + 1) * sizeof(*more));

	if (!more)
		return false;
	*names = more;
	more[(*n)++] = *name;
	return true;
}

int graph_read(struct graph *g, char *volfile)
{
	unsigned int n_arbiters = 0;
	struct name name = {""}, type = {""}, host = {""};
	bool is_sharded = false, has_room = true;
	char *rest, any;

	*g = (struct graph){.hosts = NULL};
	for (char *line = strtok_r(volfile, "\n", &rest); line && has_room;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, " option thin-arbiter %c", &any) == 1)
			n_arbiters = 1;
		else if (!strcmp(line, "end-volume") && !strcmp(type.text, "protocol/client"))
			has_room = append(&g->hosts, &g->n_bricks, &host);
		else if (!strcmp(line, "end-volume") && !strcmp(type.text, "cluster/replicate"))
			has_room = append(&g->sets, &g->n_sets, &name);
		else if (sscanf(line, " volume %255s", name.text) != 1 &&
			 sscanf(line, " option remote-host %255s", host.text) != 1 &&
			 sscanf(line, " option arbiter-count %u", &n_arbiters) != 1 &&
			 sscanf(line, " type %255s", type.text) == 1)
			is_sharded |= !strcmp(type.text, "features/shard");
	}
	if (!has_room)
		return -ENOMEM;
	g->set_bricks = g->n_sets ? g->n_bricks / g->n_sets : 0;
	g->n_replicas = g->set_bricks - n_arbiters;
	return is_sharded || g->n_sets * g->set_bricks != g->n_bricks || !g->n_replicas ||
			       g->n_replicas > REPLICAS_MAX
		       ? -ENOTSUP
		       : 0;
}

void graph_free(struct graph *g)
{
	free(g->hosts);
	free(g->sets);
}

int set_of(const struct graph *g, const char *pathinfo)
{
	const char *at = strstr(pathinfo, "<REPLICATE:");
	struct name name;

	if (at && sscanf(at, "<REPLICATE:%255[^>]", name.text) == 1)
		for (unsigned int k = 0; k < g->n_sets; k++)
			if (!strcmp(g->sets[k].text, name.text))
				return k;
	return -1;
}

/* Paul Hsieh's, of 16 bytes, by which GlusterFS spreads files over replicas. */
static uint32_t hash(const uint8_t gfid[GFID_BYTES])
{
	uint32_t h = GFID_BYTES;

	for (unsigned int k = 0; k < GFID_BYTES; k += 4) {
		h += gfid[k] | (uint32_t)gfid[k + 1] << 8;
		h = h << 16 ^ (gfid[k + 2] | (uint32_t)gfid[k + 3] << 8) << 11 ^ h;
		h += h >> 11;
	}
	h ^= h << 3;
	h += h >> 5;
	h ^= h << 4;
	h += h >> 17;
	h ^= h << 25;
	return h + (h >> 6);
}

static int number_behind(const char *text, const char *words)
{
	const char *at = strstr(text, words);

	return at ? atoi(at + strlen(words)) : -1;
}

int home_of(const struct graph *g, const char *private, const uint8_t gfid[GFID_BYTES])
{
	enum { FIRST, BY_FILE };
	int child = number_behind(private, "\nread_child = ");
	int mode = number_behind(private, "\nread-hash-mode = ");
	int n_children = number_behind(private, "\nchild_count = ");

	if (child < 0 && mode == BY_FILE && n_children > 0)
		child = hash(gfid) % n_children;
	else if (child < 0 && mode != FIRST)
		return LINNOS_HOME_TURNS;
	/* an arbiter has nothing to read, and the first one is asked */
	return child < 0 || child >= (int)g->n_replicas ? 0 : child;
}
