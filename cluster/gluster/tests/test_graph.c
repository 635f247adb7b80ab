// SPDX-License-Identifier: MIT
/* What a volume says of itself. */
#include "../graph.h"

#include "../../../liblinnos/tests/test.h"

#include <errno.h>
#include <unistd.h>

#define CLIENT(name, host)                                                                         \
	"volume " name "\n    type protocol/client\n    option opversion 100000\n"                 \
	"    option remote-host " host "\nend-volume\n\n"
#define REPLICATE(name, option, subvolumes)                                                        \
	"volume " name "\n    type cluster/replicate\n" option "    subvolumes " subvolumes        \
	"\nend-volume\n\n"
#define OTHER(name, type)                                                                          \
	"volume " name "\n    type " type "\n    subvolumes data-dht\nend-volume\n"

static struct graph graph;

static int reads(const char *volfile)
{
	char copy[4096];

	assert(strlen(volfile) < sizeof(copy));
	strcpy(copy, volfile);
	graph_free(&graph);
	return graph_read(&graph, copy);
}

TEST(replicas_of_several_sets_are_told_apart)
{
	assert(!reads(
		CLIENT("data-client-0", "alpha") CLIENT("data-client-1", "beta")
			CLIENT("data-client-2", "beta") CLIENT("data-client-3", "gamma") REPLICATE(
				"data-replicate-0", "", "data-client-0 data-client-1")
				REPLICATE("data-replicate-1", "", "data-client-2 data-client-3")
					OTHER("data-dht", "cluster/distribute")));
	assert(graph.n_bricks == 4 && graph.n_sets == 2);
	assert(graph.set_bricks == 2 && graph.n_replicas == 2);
	assert(!strcmp(graph.hosts[2].text, "beta") && !strcmp(graph.hosts[3].text, "gamma"));
	assert(!strcmp(graph.sets[1].text, "data-replicate-1"));
	assert(set_of(&graph, "(<DISTRIBUTE:data-dht> (<REPLICATE:data-replicate-1> "
			      "<POSIX(/b):gamma:/b/f>))") == 1);
	assert(set_of(&graph, "(<REPLICATE:other> ") == -1 && set_of(&graph, "") == -1);
}

TEST(an_arbiter_is_not_read_from)
{
	assert(!reads(CLIENT("a", "x") CLIENT("b", "y") CLIENT("c", "z")
			      REPLICATE("r", "    option arbiter-count 1\n", "a b c")));
	assert(graph.n_bricks == 3 && graph.set_bricks == 3 && graph.n_replicas == 2);
	assert(!reads(CLIENT("a", "x") CLIENT("b", "y") CLIENT("c", "z")
			      REPLICATE("r", "    option thin-arbiter z:/ta\n", "a b c")));
	assert(graph.n_replicas == 2);
}

TEST(where_there_is_nothing_to_choose_is_told)
{
	assert(reads("") == -ENOTSUP);
	assert(reads(CLIENT("a", "x") OTHER("d", "cluster/distribute")) == -ENOTSUP);
	assert(reads(CLIENT("a", "x") CLIENT("b", "y") REPLICATE("r", "", "a b")
			     OTHER("s", "features/shard")) == -ENOTSUP);
	assert(reads(CLIENT("a", "x") CLIENT("b", "y") CLIENT("c", "z") REPLICATE("r", "", "a b")
			     REPLICATE("q", "", "c")) == -ENOTSUP);
	assert(reads("volume r\n    type cluster/replicate\nend-volume\n") == -ENOTSUP);
	assert(reads("end-volume\nvolume\noption remote-host\ntype\n") == -ENOTSUP);
}

/* Numbers of files, and the replica that served their reads, of a volume of GlusterFS 10.3. */
TEST(home_is_where_glusterfs_reads)
{
	static const struct {
		const char *number;
		int child;
	} known[] = {
		{"534a71852e7e4a58bf223e38a59a19b0", 0}, {"abd3c58b5dee491b9f9e1096b403d18f", 0},
		{"bc7c761ba1784854997732847e7c8dff", 2}, {"d7a8a05ed371477499edebedf5ccef7e", 0},
		{"02b25623e58a499a806ebf8b5e06a7e3", 2}, {"a446ba214f2247e7aee9f08cd9f7bdc8", 0},
		{"e3570e10b52a4b7cb2d90c4842cac668", 1}, {"4c0b08d545224a71ac4affe44594c97f", 2},
	};
	uint8_t gfid[GFID_BYTES];

	assert(!reads(CLIENT("a", "x") CLIENT("b", "y") CLIENT("c", "z")
			      REPLICATE("r", "", "a b c")));
	for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++) {
		for (unsigned int n = 0; n < GFID_BYTES; n++)
			assert(sscanf(known[k].number + 2 * n, "%2hhx", &gfid[n]) == 1);
		assert(home_of(&graph,
			       "[r]\nchild_count = 3\nread_child = -1\nread-hash-mode = 1\n",
			       gfid) == known[k].child);
	}
	assert(home_of(&graph, "[r]\nchild_count = 3\nread_child = 2\nread-hash-mode = 1\n",
		       gfid) == 2);
	assert(home_of(&graph, "[r]\nchild_count = 3\nread_child = -1\nread-hash-mode = 0\n",
		       gfid) == 0);
	assert(home_of(&graph, "[r]\nchild_count = 3\nread_child = -1\nread-hash-mode = 3\n",
		       gfid) == LINNOS_HOME_TURNS);
	assert(home_of(&graph, "", gfid) == LINNOS_HOME_TURNS);
	/* the arbiter's reads are the first one's */
	graph.n_replicas = 2;
	assert(home_of(&graph, "[r]\nchild_count = 3\nread_child = 2\nread-hash-mode = 1\n",
		       gfid) == 0);
	graph_free(&graph);
}
