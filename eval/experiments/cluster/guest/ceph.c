// SPDX-License-Identifier: MIT
/*
 * Debian's Ceph: OSD k is on node k. Reads use liblinnos-ceph, which has a librados handle for each
 * OSD. Own rules: `primary`, `balance` (LIBRADOS_OPERATION_BALANCE_READS), and those of
 * liblinnos-ceph, `ceph-library` without agents and `ceph-library-agents`.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "linnos_ceph.h"

enum { OBJECT = 1 << 20, BLOCKS_AN_OBJECT = OBJECT / BLOCK, OBJECTS_MAX = 4096 };

/*
 * A replica serves only data that are older than a later write to their placement group. So many
 * objects are written later, in rounds of this distance, that each group gets one.
 */
enum { ROUNDS = 10, ROUND_S = 2 };

enum { PRIMARY = -1 };

static struct linnos_ceph *ceph;
static uint64_t *sectors[NODES_MAX], n_redirects_before;
static bool is_balanced, is_library, is_primary;

static void name_object(char name[32], const char *prefix, uint64_t number)
{
	snprintf(name, 32, "%s.%08" PRIx64, prefix, number);
}

static void opened(const struct linnos_ceph_options *options)
{
	int status = linnos_ceph_open(&ceph, "data", options);

	if (status) {
		errno = -status;
		die(linnos_ceph_error());
	}
}

bool engine_has(const char *rule)
{
	static const char *const rules[] = {"primary", "balance", "ceph-library",
					    "ceph-library-agents"};

	for (size_t k = 0; k < sizeof(rules) / sizeof(*rules); k++)
		if (!strcmp(rule, rules[k]))
			return true;
	return false;
}

static void write_object(const char *prefix, uint64_t number, const char *data, size_t bytes)
{
	int status;
	char name[32];

	name_object(name, prefix, number);
	status = rados_write_full(linnos_ceph_pool(ceph), name, data, bytes);
	if (status) {
		errno = -status;
		die(name);
	}
}

static uint64_t first_sector(unsigned int node)
{
	char name[64];
	FILE *start;
	uint64_t sector;

	snprintf(name, sizeof(name), "/sys/class/block/flash%up1/start", node);
	start = fopen(name, "re");
	if (!start || fscanf(start, "%" SCNu64, &sector) != 1)
		die(name);
	fclose(start);
	return sector;
}

static FILE *open_places(unsigned int node, const char *mode)
{
	char name[128];
	FILE *file;

	snprintf(name, sizeof(name), "%s/places%u", getenv("LINNOS_CLUSTER"), node);
	file = fopen(name, mode);
	if (!file)
		die(name);
	return file;
}

/*
 * Find the blocks on the drive by their content, because BlueStore does not report their places.
 * Only the oracle uses the result.
 */
static void find_blocks(unsigned int node, uint64_t n_blocks)
{
	char name[64], expected[BLOCK], *chunk = aligned_alloc(BLOCK, OBJECT);
	uint64_t *found = calloc(n_blocks, sizeof(*found)), number;
	uint64_t sector = first_sector(node);
	ssize_t bytes;
	FILE *file;
	int drive;

	snprintf(name, sizeof(name), "/dev/flash%up1", node);
	drive = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (drive < 0)
		die(name);
	while ((bytes = read(drive, chunk, OBJECT)) > 0)
		for (ssize_t at = 0; at < bytes; at += BLOCK, sector += BLOCK / 512) {
			memcpy(&number, chunk + at, sizeof(number));
			number /= BLOCK;
			if (number >= n_blocks)
				continue;
			fill(expected, number);
			if (!memcmp(chunk + at, expected, BLOCK))
				found[number] = sector;
		}
	if (bytes < 0)
		die(name);
	close(drive);
	for (uint64_t k = 0; k < n_blocks; k++)
		if (!found[k]) {
			errno = ENODATA;
			die("place of a block on a drive");
		}
	file = open_places(node, "we");
	fwrite(found, sizeof(*found), n_blocks, file);
	if (fclose(file))
		die("places");
	free(found);
	free(chunk);
}

static void load_places(unsigned int node, uint64_t n_blocks)
{
	FILE *file = open_places(node, "re");

	sectors[node] = calloc(n_blocks, sizeof(**sectors));
	if (fread(sectors[node], sizeof(**sectors), n_blocks, file) != n_blocks)
		die("places");
	fclose(file);
}

void engine_write(uint64_t bytes, unsigned int n_nodes)
{
	char *data = malloc(OBJECT);

	opened(NULL);
	for (uint64_t k = 0; k < bytes / OBJECT; k++) {
		for (size_t block = 0; block < BLOCKS_AN_OBJECT; block++)
			fill(data + block * BLOCK, k * BLOCKS_AN_OBJECT + block);
		write_object("data", k, data, OBJECT);
	}
	/* a block that is never read */
	fill(data, bytes / BLOCK);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (uint64_t k = 0; k < bytes / OBJECT; k++)
			write_object("later", k * ROUNDS + round, data, BLOCK);
		sleep(ROUND_S);
	}
	for (unsigned int k = 0; k < n_nodes; k++)
		find_blocks(k, bytes / BLOCK);
}

/* Learn the places of all objects before the first read. */
static void wait_for_placement(uint64_t n_objects, unsigned int n_nodes)
{
	int osds[LINNOS_CLUSTER_CANDIDATES];
	char name[32];

	for (uint64_t k = 0; k < n_objects; k++) {
		name_object(name, "data", k);
		while (linnos_ceph_osds(ceph, name, osds) < n_nodes)
			usleep(1000);
	}
}

struct warmup {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned int left;
};

static void first_read_ended(void *of, ssize_t bytes, int osd)
{
	struct warmup *warmup = of;

	(void)osd;
	if (bytes != BLOCK) {
		errno = bytes < 0 ? -bytes : EIO;
		die("first read");
	}
	pthread_mutex_lock(&warmup->lock);
	warmup->left--;
	pthread_cond_signal(&warmup->ended);
	pthread_mutex_unlock(&warmup->lock);
}

/* Open all connections by reading once from each OSD. */
static void open_connections(uint64_t n_objects, unsigned int n_nodes)
{
	struct warmup warmup = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
	char name[32], *data = malloc(BLOCK);

	for (uint64_t k = 0; k < n_objects; k++)
		for (int osd = PRIMARY; osd < (int)n_nodes; osd++) {
			name_object(name, "data", k);
			warmup.left = 1;
			if (linnos_ceph_aio_read_from(ceph, osd, name, data, BLOCK, 0,
						      first_read_ended, &warmup))
				die(linnos_ceph_error());
			pthread_mutex_lock(&warmup.lock);
			while (warmup.left)
				pthread_cond_wait(&warmup.ended, &warmup.lock);
			pthread_mutex_unlock(&warmup.lock);
		}
	free(data);
}

static uint64_t objects(void)
{
	uint64_t n = 0, bytes;
	char name[32];
	time_t time;

	do
		name_object(name, "data", n++);
	while (n < OBJECTS_MAX && !rados_stat(linnos_ceph_pool(ceph), name, &bytes, &time));
	return n - 1;
}

static uint64_t count_redirects(void)
{
	struct linnos_ceph_stats stats;

	linnos_ceph_get_stats(ceph, &stats, sizeof(stats));
	return stats.bounced;
}

uint64_t engine_open(unsigned int n_nodes, const char *rule, uint64_t seed)
{
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
	struct linnos_cluster_options choosing = LINNOS_CLUSTER_OPTIONS_INIT;
	uint64_t n_objects;

	is_balanced = rule && !strcmp(rule, "balance");
	is_library = rule && !strncmp(rule, "ceph-library", strlen("ceph-library"));
	is_primary = rule && !strcmp(rule, "primary");
	choosing.seed = seed;
	options.choosing = &choosing;
	if (rule && !strcmp(rule, "ceph-library-agents"))
		options.agent_port = LINNOS_CEPH_AGENT_PORT;
	opened(&options);
	n_objects = objects();
	wait_for_placement(n_objects, n_nodes);
	open_connections(n_objects, n_nodes);
	n_redirects_before = count_redirects();
	for (unsigned int k = 0; k < n_nodes; k++)
		load_places(k, n_objects * BLOCKS_AN_OBJECT);
	return n_objects * BLOCKS_AN_OBJECT;
}

static void ended(void *of, ssize_t bytes, int osd)
{
	(void)osd;
	on_end(of, bytes);
}

/* A read that Ceph balances; liblinnos-ceph has no such reads. */
struct balanced {
	rados_read_op_t op;
	size_t bytes;
	int status;
	void *of;
};

static void balanced_ended(rados_completion_t completion, void *of)
{
	struct balanced *read = of;
	int status = rados_aio_get_return_value(completion);

	rados_release_read_op(read->op);
	on_end(read->of, status < 0 ? status : (ssize_t)read->bytes);
	free(read);
}

static int read_balanced(const char *name, uint64_t offset, char *buffer, void *of)
{
	struct balanced *read = calloc(1, sizeof(*read));
	rados_completion_t completion;
	int status;

	read->of = of;
	read->op = rados_create_read_op();
	rados_read_op_read(read->op, offset, BLOCK, buffer, &read->bytes, &read->status);
	rados_aio_create_completion2(read, balanced_ended, &completion);
	status = rados_aio_read_op_operate(read->op, linnos_ceph_pool(ceph), completion, name,
					   LIBRADOS_OPERATION_BALANCE_READS);
	rados_aio_release(completion);
	return status;
}

void engine_read(unsigned int node, uint64_t block, char *buffer, void *of)
{
	uint64_t offset = block % BLOCKS_AN_OBJECT * BLOCK;
	char name[32];
	int status;

	name_object(name, "data", block / BLOCKS_AN_OBJECT);
	if (is_balanced)
		status = read_balanced(name, offset, buffer, of);
	else if (is_library)
		status = linnos_ceph_aio_read(ceph, name, buffer, BLOCK, offset, ended, of);
	else
		status = linnos_ceph_aio_read_from(ceph, is_primary ? PRIMARY : (int)node, name,
						   buffer, BLOCK, offset, ended, of);
	if (status) {
		errno = -status;
		die("read");
	}
}

/* Writes are not supported: replicas send reads of new data on to the primary. */
void engine_write_block(unsigned int node, uint64_t block, const char *buffer)
{
	(void)node;
	(void)block;
	(void)buffer;
	errno = ENOTSUP;
	die("write of a block");
}

uint64_t engine_sector(unsigned int node, uint64_t block)
{
	return sectors[node][block];
}

uint64_t engine_queries(void)
{
	struct linnos_cluster_stats stats;

	linnos_cluster_get_stats(linnos_ceph_cluster(ceph), &stats, sizeof(stats));
	return stats.queries;
}

uint64_t engine_redirects(void)
{
	return count_redirects() - n_redirects_before;
}
