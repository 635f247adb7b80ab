// SPDX-License-Identifier: MIT
/*
 * Debian's GlusterFS: a handle (gfapi) for each node, whose volume file has the node as
 * read-subvolume-index, reads from that node. Another handle lets the engine choose by one of its
 * read-hash-modes, engine-0 to engine-5.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <glusterfs/api/glfs.h>

enum { EXTENTS = 512, CHUNK = 1 << 20 };

static const char file_name[] = "/data";
static glfs_fd_t *files[NODES_MAX], *written[NODES_MAX];
static struct fiemap *extents[NODES_MAX];
static uint64_t first_sector[NODES_MAX];

static glfs_t *mounted(const char *volfile)
{
	char path[256];
	glfs_t *fs = glfs_new("replicas");

	snprintf(path, sizeof(path), "%s/%s.vol", getenv("LINNOS_CLUSTER"), volfile);
	if (!fs || glfs_set_volfile(fs, path) ||
	    glfs_set_logging(fs, "/run/cluster/client.log", 4) || glfs_init(fs))
		die(path);
	return fs;
}

static glfs_fd_t *opened(const char *volfile)
{
	glfs_fd_t *file = glfs_open(mounted(volfile), file_name, O_RDWR | O_DIRECT);

	if (!file)
		die(file_name);
	return file;
}

bool engine_has(const char *rule)
{
	return strlen(rule) == strlen("engine-0") && !strncmp(rule, "engine-", 7) &&
	       rule[7] >= '0' && rule[7] <= '5';
}

/* Write all blocks to a node and those with the same blocks. */
static void write_set(const char *volfile, uint64_t bytes)
{
	glfs_fd_t *file = glfs_creat(mounted(volfile), file_name, O_WRONLY, 0644);
	char *chunk = aligned_alloc(BLOCK, CHUNK);

	if (!file || !chunk)
		die(file_name);
	/* until every node is connected; otherwise one would have to be healed */
	sleep(1);
	for (uint64_t at = 0; at < bytes; at += CHUNK) {
		for (size_t k = 0; k < CHUNK; k += BLOCK)
			fill(chunk + k, (at + k) / BLOCK);
		if (glfs_pwrite(file, chunk, CHUNK, at, 0, NULL, NULL) != CHUNK)
			die("write");
	}
	if (glfs_fsync(file, NULL, NULL) || glfs_close(file))
		die("fsync");
	free(chunk);
}

void engine_write(uint64_t bytes, unsigned int n_nodes)
{
	char name[64];

	for (unsigned int k = 0; k < n_nodes; k += REPLICAS) {
		snprintf(name, sizeof(name), "read-node%u", k);
		write_set(name, bytes);
	}
}

/* Find the extents of the file on the node's drive, for the oracle. */
static uint64_t map_brick(unsigned int k)
{
	char name[64];
	FILE *start;
	uint64_t bytes;
	int fd;

	snprintf(name, sizeof(name), "/sys/class/block/flash%up1/start", k);
	start = fopen(name, "re");
	if (!start || fscanf(start, "%" SCNu64, &first_sector[k]) != 1)
		die(name);
	fclose(start);
	snprintf(name, sizeof(name), "%s/node%u/brick%s", getenv("LINNOS_CLUSTER"), k, file_name);
	fd = open(name, O_RDONLY);
	extents[k] = calloc(1, sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent));
	extents[k]->fm_length = FIEMAP_MAX_OFFSET;
	extents[k]->fm_flags = FIEMAP_FLAG_SYNC;
	extents[k]->fm_extent_count = EXTENTS;
	if (fd < 0 || ioctl(fd, FS_IOC_FIEMAP, extents[k]))
		die(name);
	bytes = lseek(fd, 0, SEEK_END);
	close(fd);
	return bytes / BLOCK;
}

uint64_t engine_open(unsigned int n_nodes, const char *rule, uint64_t seed)
{
	uint64_t n_blocks = 0;
	char name[64];

	(void)seed;
	for (unsigned int k = 0; k < n_nodes; k++) {
		bool is_first = k % REPLICAS == 0;

		if (!rule)
			snprintf(name, sizeof(name), "read-node%u", k);
		else if (k < REPLICAS)
			snprintf(name, sizeof(name), "read-hash-mode%s", strchr(rule, '-') + 1);
		else
			snprintf(name, sizeof(name), "read-hash-mode%s-%u", strchr(rule, '-') + 1,
				 k / REPLICAS);
		/* if the engine chooses, nodes with the same blocks share a handle */
		files[k] = !rule || is_first ? opened(name) : files[k - 1];
		written[k] = is_first ? files[k] : written[k - 1];
		n_blocks = map_brick(k);
	}
	/* until every node is known */
	sleep(1);
	return n_blocks;
}

static void ended(glfs_fd_t *file, ssize_t bytes, struct glfs_stat *before, struct glfs_stat *after,
		  void *of)
{
	(void)file;
	(void)before;
	(void)after;
	on_end(of, bytes);
}

void engine_read(unsigned int node, uint64_t block, char *buffer, void *of)
{
	if (glfs_pread_async(files[node], buffer, BLOCK, block * BLOCK, 0, ended, of))
		die("read");
}

static void write_ended(glfs_fd_t *file, ssize_t bytes, struct glfs_stat *before,
			struct glfs_stat *after, void *of)
{
	(void)file;
	(void)before;
	(void)after;
	(void)of;
	on_written(bytes);
}

void engine_write_block(unsigned int node, uint64_t block, const char *buffer)
{
	if (glfs_pwrite_async(written[node], buffer, BLOCK, block * BLOCK, 0, write_ended, NULL))
		die("write");
}

uint64_t engine_sector(unsigned int node, uint64_t block)
{
	const struct fiemap *map = extents[node];
	uint64_t byte = block * BLOCK;

	for (unsigned int k = 0; k < map->fm_mapped_extents; k++) {
		const struct fiemap_extent *e = &map->fm_extents[k];

		if (byte >= e->fe_logical && byte < e->fe_logical + e->fe_length)
			return first_sector[node] + (e->fe_physical + byte - e->fe_logical) / 512;
	}
	errno = ENODATA;
	die("place of a block on a drive");
}

uint64_t engine_queries(void)
{
	return 0;
}

uint64_t engine_redirects(void)
{
	return 0;
}
