// SPDX-License-Identifier: MIT
/*
 * Reads and writes a file of a volume by liblinnos-gluster, as its standard input says.
 *
 *	reads ORDINARY REPLICAS MODE FRESH_MS AGENT_PORT
 *
 * ORDINARY and REPLICAS are the handles' volume files, MODE an enum linnos_cluster_mode. Lines are
 * `w LETTER`: fill the file with it; `r N`: read so many blocks, which prints how many had the last
 * letter, another one, and failed; `s`: print counters. It waits half a millisecond between reads.
 */
#include <linnos_gluster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS = 256, BETWEEN_US = 500 };

static const char path[] = "/data";
static struct linnos_gluster *gluster;
static struct linnos_gluster_file *file;
static char letter, block[BLOCK];

/* Before glibc's: why, eval/experiments/cluster/guest/reads.c says. */
int pthread_setname_np(pthread_t thread, const char *name)
{
	(void)thread;
	(void)name;
	return 0;
}

static void check(int is_right, const char *what)
{
	if (is_right)
		return;
	perror(what);
	puts(linnos_gluster_error());
	exit(1);
}

/* The ordinary handle is made first. */
static int set_up(glfs_t *handle, void *of)
{
	static int n;
	char **volfiles = of;

	glfs_set_logging(handle, "/dev/null", 1);
	return glfs_set_volfile(handle, volfiles[n++ != 0]);
}

static void write_all(glfs_fd_t *fd, char with)
{
	memset(block, with, BLOCK);
	for (unsigned int k = 0; k < BLOCKS; k++)
		check(glfs_pwrite(fd, block, BLOCK, (off_t)k * BLOCK, 0, NULL, NULL) == BLOCK,
		      "write");
	letter = with;
}

static void read_some(unsigned int n)
{
	unsigned int n_right = 0, n_wrong = 0, n_failed = 0;

	for (unsigned int k = 0; k < n; k++) {
		ssize_t bytes = linnos_gluster_pread(file, block, BLOCK,
						     (off_t)(rand() % BLOCKS) * BLOCK);

		if (bytes != BLOCK)
			n_failed++;
		else if (block[0] == letter && !memcmp(block, block + 1, BLOCK - 1))
			n_right++;
		else
			n_wrong++;
		usleep(BETWEEN_US);
	}
	printf("%u %u %u\n", n_right, n_wrong, n_failed);
}

static void say_stats(unsigned int n_nodes)
{
	struct linnos_cluster *cluster = linnos_gluster_cluster(gluster);
	struct linnos_gluster_stats stats;
	struct linnos_cluster_stats chosen;
	struct linnos_cluster_node node;

	linnos_gluster_get_stats(gluster, &stats, sizeof(stats));
	linnos_cluster_get_stats(cluster, &chosen, sizeof(chosen));
	printf("%ju %ju %ju %ju %ju %ju", stats.reads, stats.fresh, stats.retried, stats.looked,
	       chosen.moved, chosen.answers);
	for (unsigned int k = 0; k < n_nodes; k++) {
		linnos_cluster_get_node(cluster, k, 1, &node, sizeof(node));
		printf(" %ju", node.answered);
	}
	puts("");
}

int main(int argc, char **argv)
{
	struct linnos_cluster_options choosing = LINNOS_CLUSTER_OPTIONS_INIT;
	struct linnos_gluster_options options = LINNOS_GLUSTER_OPTIONS_INIT;
	struct linnos_gluster_stats stats;
	unsigned int n;
	char line[32], with;
	glfs_fd_t *fd;

	if (argc != 6)
		return 2;
	choosing.mode = atoi(argv[3]);
	options.choosing = &choosing;
	options.fresh_ms = atoi(argv[4]);
	options.agent_port = atoi(argv[5]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	check(!linnos_gluster_open(&gluster, "data", set_up, argv + 1, &options), "volume");
	linnos_gluster_get_stats(gluster, &stats, sizeof(stats));
	fd = glfs_creat(linnos_gluster_volume(gluster), path, O_WRONLY, 0644);
	check(!!fd, "create");
	write_all(fd, 'a');
	check(!glfs_close(fd), "close");
	check(!linnos_gluster_open_file(gluster, path, O_RDWR | O_DIRECT, &file), "file");
	puts("open");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "w %c", &with) == 1) {
			write_all(linnos_gluster_fd(file), with);
			linnos_gluster_wrote(file);
			puts("written");
		} else if (sscanf(line, "r %u", &n) == 1) {
			read_some(n);
		} else {
			say_stats(stats.nodes);
		}
	}
	linnos_gluster_close_file(file);
	linnos_gluster_close(gluster);
	puts("closed");
	fflush(stdout);
	_exit(0);
}
