/* SPDX-License-Identifier: MIT */
/**
 * DOC: linnos_ceph, read Ceph objects from the OSD that is expected to answer first
 *
 * This library is for clients of librados. It needs no changes to Ceph and uses only public calls
 * of librados. Its functions read parts of objects, and liblinnos-cluster chooses among the OSDs
 * that hold the object. Writes and all other operations use librados as before.
 *
 *	linnos_ceph_open ──► linnos_ceph_aio_read ──► done()
 *	                     rados_aio_write … linnos_ceph_wrote
 *
 * For each host there is a librados handle that claims to be on that host (crush_location). Its
 * reads use LIBRADOS_OPERATION_LOCALIZE_READS and are therefore sent to the OSD on that host. A
 * separate thread asks the monitors for the location of objects, once for each placement group and
 * epoch. Until the location is known, and for a while after a write, an object is read from its
 * primary, as librados does by default.
 *
 * A replica that does not know yet that a write is complete redirects the read to the primary, as
 * Ceph always does. This costs one more round trip and is counted (&linnos_ceph_stats.bounced).
 *
 * Any number of threads may use one handle. Errors are negative errno values, and
 * linnos_ceph_error() returns the text. docs/cluster.md has the measured benefit.
 *
 * ABI: structures that may grow contain their size or are passed with it. New members are appended,
 * and zero in them means the previous behaviour, so a program that was built with an older header
 * works. A program that was built with a newer header works unless it sets a member that this
 * library does not have; such a call fails with -%E2BIG. The ..._SIZE_VER0 constants are the sizes
 * of the first version.
 */
#ifndef LIBLINNOS_CEPH_H
#define LIBLINNOS_CEPH_H

#include <linnos_cluster.h>
#include <rados/librados.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The default port of linnos-agent. */
#define LINNOS_CEPH_AGENT_PORT 7316

/**
 * struct linnos_ceph_options - configuration for reading a pool
 * @size: sizeof(struct linnos_ceph_options) of the caller
 * @configuration: path of ceph.conf; NULL to search as librados does, $CEPH_CONF first
 * @user: name of the user without `client.`; NULL for admin
 * @choosing: options of liblinnos-cluster; NULL for its defaults. %LINNOS_CLUSTER_HEDGE is not
 *	supported, because only one read at a time can use a buffer
 * @agent_port: port of linnos-agent on the OSDs' hosts, at the public addresses of the OSDs; each
 *	agent must have the drives of its host's OSDs in the order of the OSD numbers; 0 to query no
 *	agents
 * @fresh_ms: the time for which an object is read from its primary after this client has written to
 *	it. It ends earlier when this client has written to the object's group four more times
 */
struct linnos_ceph_options {
	size_t size;
	const char *configuration;
	const char *user;
	const struct linnos_cluster_options *choosing;
	uint32_t agent_port;
	uint32_t fresh_ms;
};

/* The size of the first version, which never changes. */
#define LINNOS_CEPH_OPTIONS_SIZE_VER0 40

/* The defaults, which are also used if the options are NULL. */
#define LINNOS_CEPH_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(struct linnos_ceph_options), NULL, NULL, NULL, 0, 30000                     \
	}

struct linnos_ceph;

/**
 * linnos_ceph_error() - get the text of the last error
 *
 * Return: a description of the last call of this thread that failed: the object, what is wrong with
 * it and what to do; "" if none failed.
 */
const char *linnos_ceph_error(void);

/**
 * linnos_ceph_open() - connect to a pool
 * @ceph: set to the new handle; NULL on failure
 * @pool: name of a replicated pool
 * @options: NULL for the defaults
 *
 * Return: 0 or a negative errno; -%ENOTSUP if the pool is erasure-coded.
 */
int linnos_ceph_open(struct linnos_ceph **ceph, const char *pool,
		     const struct linnos_ceph_options *options);

/**
 * linnos_ceph_close() - wait for all reads to complete and free the handle
 * @ceph: a handle that no other call is using, or NULL
 */
void linnos_ceph_close(struct linnos_ceph *ceph);

/**
 * typedef linnos_ceph_done - callback for a completed read
 * @data: the pointer that was passed with the read
 * @bytes: the number of bytes read, fewer than requested at the end of the object, or a negative
 *	errno
 * @osd: the OSD that the read was sent to; -1 if Ceph chose it, and the primary answered
 *
 * The callback runs on a librados thread that also delivers other answers, so it must not block.
 * Calls of linnos_ceph_read() or linnos_ceph_close() in it may never return.
 */
typedef void (*linnos_ceph_done)(void *data, ssize_t bytes, int osd);

/**
 * linnos_ceph_aio_read() - read a part of an object
 * @ceph: the handle from linnos_ceph_open()
 * @object: its name, in the default namespace and without a locator
 * @buffer: at least @bytes long; it must stay valid until @done
 * @bytes: the maximum number of bytes to read; 1 to 2^31 - 1, the limit of librados
 * @offset: offset in the object
 * @done: called exactly once, unless this function fails
 * @data: passed to @done
 *
 * Return: 0 or a negative errno.
 */
int linnos_ceph_aio_read(struct linnos_ceph *ceph, const char *object, void *buffer, size_t bytes,
			 uint64_t offset, linnos_ceph_done done, void *data);

/**
 * linnos_ceph_aio_read_from() - read a part of an object from a given OSD
 * @ceph: the handle from linnos_ceph_open()
 * @osd: one of linnos_ceph_osds(), or -1 for the primary
 * @object: as for linnos_ceph_aio_read()
 * @buffer: as for linnos_ceph_aio_read()
 * @bytes: as for linnos_ceph_aio_read()
 * @offset: as for linnos_ceph_aio_read()
 * @done: as for linnos_ceph_aio_read()
 * @data: as for linnos_ceph_aio_read()
 *
 * Such reads are not used to predict others. The function is meant for comparisons of policies or
 * replicas.
 *
 * Return: 0 or a negative errno.
 */
int linnos_ceph_aio_read_from(struct linnos_ceph *ceph, int osd, const char *object, void *buffer,
			      size_t bytes, uint64_t offset, linnos_ceph_done done, void *data);

/**
 * linnos_ceph_read() - read a part of an object and wait for it
 * @ceph: the handle from linnos_ceph_open()
 * @object: its name
 * @buffer: at least @bytes long
 * @bytes: the maximum number of bytes to read
 * @offset: offset in the object
 *
 * Return: as for @bytes of &linnos_ceph_done.
 */
ssize_t linnos_ceph_read(struct linnos_ceph *ceph, const char *object, void *buffer, size_t bytes,
			 uint64_t offset);

/**
 * linnos_ceph_wrote() - report that an object has been written, or is about to be
 * @ceph: the handle from linnos_ceph_open()
 * @object: its name
 *
 * This call is optional: a replica never returns outdated data, but redirects the read to the
 * primary.
 */
void linnos_ceph_wrote(struct linnos_ceph *ceph, const char *object);

/**
 * linnos_ceph_osds() - get the OSDs that are known to hold an object
 * @ceph: the handle from linnos_ceph_open()
 * @object: its name
 * @osds: filled with its primary, followed by the other OSDs that can be read from
 *
 * Return: the number of OSDs; 0 if they are not known yet, in which case this call requests them
 * from the monitors.
 */
unsigned int linnos_ceph_osds(struct linnos_ceph *ceph, const char *object,
			      int osds[LINNOS_CLUSTER_CANDIDATES]);

/**
 * linnos_ceph_pool() - get the librados handle of the pool, for all other operations
 * @ceph: the handle from linnos_ceph_open()
 *
 * A namespace, locator or snapshot set in it has no effect on reads by this library.
 *
 * Return: the handle, which linnos_ceph_close() closes.
 */
rados_ioctx_t linnos_ceph_pool(struct linnos_ceph *ceph);

/**
 * linnos_ceph_cluster() - get the client of liblinnos-cluster, in which each OSD is a node
 * @ceph: the handle from linnos_ceph_open()
 *
 * Return: the client, for linnos_cluster_get_stats() and linnos_cluster_get_node().
 */
struct linnos_cluster *linnos_ceph_cluster(struct linnos_ceph *ceph);

/**
 * struct linnos_ceph_stats - statistics of a handle
 * @reads: reads by linnos_ceph_aio_read()
 * @unknown: reads sent to the primary because the location of the object was not known yet
 * @fresh: reads sent to the primary because the object had just been written
 * @replica_reads: reads sent to another OSD
 * @bounced: reads that a replica redirected to the primary, including those of
 *	linnos_ceph_aio_read_from() and probe copies; UINT64_MAX if librados' counters could not be
 *	read
 * @retried: reads that failed at another OSD and were sent to the primary
 * @monitor_queries: queries to the monitors for the locations of placement groups
 * @misplaced: placement groups for which the monitors and this library disagree on the location;
 *	their objects are read from the primary
 * @handles: librados handles, one for each host that is read from and one more
 */
struct linnos_ceph_stats {
	uint64_t reads;
	uint64_t unknown;
	uint64_t fresh;
	uint64_t replica_reads;
	uint64_t bounced;
	uint64_t retried;
	uint64_t monitor_queries;
	uint64_t misplaced;
	uint64_t handles;
};

/**
 * linnos_ceph_get_stats() - get the statistics of a handle
 * @ceph: the handle from linnos_ceph_open()
 * @stats: filled with the members that this library knows; the rest is zeroed
 * @bytes: sizeof(struct linnos_ceph_stats) of the caller
 *
 * This call reads librados' counters through its admin sockets. It is meant for monitoring, not for
 * each read.
 */
void linnos_ceph_get_stats(struct linnos_ceph *ceph, struct linnos_ceph_stats *stats, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_CEPH_H */
