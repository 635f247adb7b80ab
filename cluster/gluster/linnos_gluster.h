/* SPDX-License-Identifier: MIT */
/**
 * DOC: linnos_gluster, reads of GlusterFS from the replica that is expected to answer first
 *
 * For a program that uses gfapi, of a replicated volume as it is: nothing of it is changed, and
 *only gfapi's public calls are made. Reads are sent by these functions, and liblinnos-cluster
 *chooses among the replicas; writes, and everything else, go by gfapi as ever.
 *
 *	linnos_gluster_open ──► linnos_gluster_open_file ──► linnos_gluster_pread
 *	                            glfs_pwrite … linnos_gluster_wrote
 *
 * For each replica there is a handle of gfapi that prefers it (read-subvolume-index) and caches
 * nothing. What was written lately is read by the ordinary handle until those of the replicas have
 * looked at the file again: the pending marks of what one of them has missed no call of gfapi
 *tells, but GlusterFS itself goes by them, and has such a file read elsewhere.
 *
 * Any number of threads may use one. Errors are negative errno values, and linnos_gluster_error()
 * has the text. docs/cluster.md says what it is worth.
 *
 * ABI: structures that may grow come with their size; new members come at the end, and zero in them
 * is what was before.
 */
#ifndef LIBLINNOS_GLUSTER_H
#define LIBLINNOS_GLUSTER_H

#include <glusterfs/api/glfs.h>
#include <linnos_cluster.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The port of linnos-agent. */
#define LINNOS_GLUSTER_AGENT_PORT 7316

/**
 * struct linnos_gluster_options - how a volume is read
 * @size: sizeof(struct linnos_gluster_options) of the caller
 * @choosing: of liblinnos-cluster; NULL: its defaults
 * @agent_port: where linnos-agent listens on the bricks' hosts, which has their drives in the order
 *	of the volume's bricks; 0: nobody is asked
 * @fresh_ms: a file that was written is read by the ordinary handle for so long
 */
struct linnos_gluster_options {
	size_t size;
	const struct linnos_cluster_options *choosing;
	uint32_t agent_port;
	uint32_t fresh_ms;
};

/* The defaults, which are also those of NULL. */
#define LINNOS_GLUSTER_OPTIONS_INIT                                                                \
	{                                                                                          \
		sizeof(struct linnos_gluster_options), NULL, 0, 10000                              \
	}

struct linnos_gluster;
struct linnos_gluster_file;

/**
 * linnos_gluster_error() - say what went wrong
 *
 * Return: of the call of this thread that failed last, the thing, what is wrong with it and what to
 * do; "" when none has.
 */
const char *linnos_gluster_error(void);

/**
 * typedef linnos_gluster_set_up - say where a volume is
 * @volume: of glfs_new(), for glfs_set_volfile_server(), glfs_set_logging() and the like
 * @of: as it was given
 *
 * Return: 0, or not 0 with errno set.
 */
typedef int (*linnos_gluster_set_up)(glfs_t *volume, void *of);

/**
 * linnos_gluster_open() - connect to a volume
 * @gluster: set; NULL on failure
 * @name: the volume's
 * @set_up: called for each handle before glfs_init()
 * @of: for @set_up
 * @options: NULL for the defaults
 *
 * Return: 0 or a negative errno; -%ENOTSUP: it is not replicated, or sharded.
 */
int linnos_gluster_open(struct linnos_gluster **gluster, const char *name,
			linnos_gluster_set_up set_up, void *of,
			const struct linnos_gluster_options *options);

/**
 * linnos_gluster_close() - give it back, which takes as long as glfs_fini() does
 * @gluster: its files are closed; or NULL
 */
void linnos_gluster_close(struct linnos_gluster *gluster);

/**
 * linnos_gluster_volume() - gfapi's own handle, for everything else
 * @gluster: of linnos_gluster_open()
 *
 * Return: it is given back with @gluster.
 */
glfs_t *linnos_gluster_volume(struct linnos_gluster *gluster);

/**
 * linnos_gluster_cluster() - what is known of the bricks, each a node
 * @gluster: of linnos_gluster_open()
 *
 * They are numbered as in the volume, from 0.
 *
 * Return: for linnos_cluster_get_stats() and linnos_cluster_get_node().
 */
struct linnos_cluster *linnos_gluster_cluster(struct linnos_gluster *gluster);

/**
 * linnos_gluster_open_file() - open a file that is there
 * @gluster: of linnos_gluster_open()
 * @path: in the volume
 * @flags: of open(2), without %O_CREAT and %O_TRUNC
 * @file: set; NULL on failure
 *
 * It is opened by each handle.
 *
 * Return: 0 or a negative errno.
 */
int linnos_gluster_open_file(struct linnos_gluster *gluster, const char *path, int flags,
			     struct linnos_gluster_file **file);

/**
 * linnos_gluster_close_file() - give it back, when all that was sent has ended
 * @file: no call is in it; or NULL
 */
void linnos_gluster_close_file(struct linnos_gluster_file *file);

/**
 * linnos_gluster_fd() - gfapi's own file, for everything else
 * @file: of linnos_gluster_open_file()
 *
 * Return: it is closed with @file.
 */
glfs_fd_t *linnos_gluster_fd(struct linnos_gluster_file *file);

/**
 * linnos_gluster_wrote() - the file has been written, or is about to be
 * @file: of linnos_gluster_open_file(), or another one of the same file
 *
 * To be called after each write of this program, and before one that reads may overtake. Without
 * it a read may have what was there before: GlusterFS says that something is written when this
 * handle has it.
 */
void linnos_gluster_wrote(struct linnos_gluster_file *file);

/**
 * typedef linnos_gluster_done - a read has ended
 * @of: as it was given
 * @bytes: that were read, fewer than asked for at the end of the file, or a negative errno
 * @node: that it was asked of; -1: the ordinary handle has answered
 *
 * On a thread of gfapi's, by which other answers come, or in the call itself: it must not block.
 */
typedef void (*linnos_gluster_done)(void *of, ssize_t bytes, int node);

/**
 * linnos_gluster_pread_async() - read a part of a file
 * @file: of linnos_gluster_open_file()
 * @buffer: for so many bytes; it stays until @done
 * @bytes: at most; 1 to 2^31 - 1
 * @offset: in the file
 * @done: called once unless this fails
 * @of: for @done
 *
 * Of a file that was written it may wait for the network, see linnos_gluster_wrote(): it is not to
 * be called by @done, on whose thread the answers come.
 *
 * Return: 0 or a negative errno.
 */
int linnos_gluster_pread_async(struct linnos_gluster_file *file, void *buffer, size_t bytes,
			       off_t offset, linnos_gluster_done done, void *of);

/**
 * linnos_gluster_pread() - read a part of a file, and wait for it
 * @file: of linnos_gluster_open_file()
 * @buffer: for so many bytes
 * @bytes: at most
 * @offset: in the file
 *
 * Return: as @bytes of &linnos_gluster_done.
 */
ssize_t linnos_gluster_pread(struct linnos_gluster_file *file, void *buffer, size_t bytes,
			     off_t offset);

/**
 * struct linnos_gluster_stats - what was done
 * @reads: by linnos_gluster_pread() and linnos_gluster_pread_async()
 * @fresh: those of them that the ordinary handle had because the file was written lately, or a read
 *	of it has failed at a replica, or nobody knows who holds it
 * @retried: that failed at a replica and were sent by it
 * @looked: files that the replicas' handles have looked at again
 * @nodes: bricks of the volume
 */
struct linnos_gluster_stats {
	uint64_t reads;
	uint64_t fresh;
	uint64_t retried;
	uint64_t looked;
	uint64_t nodes;
};

/**
 * linnos_gluster_get_stats() - count it
 * @gluster: of linnos_gluster_open()
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_gluster_stats) of the caller
 */
void linnos_gluster_get_stats(struct linnos_gluster *gluster, struct linnos_gluster_stats *stats,
			      size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_GLUSTER_H */
