/* SPDX-License-Identifier: MIT */
/**
 * DOC: linnos_ceph, reads of Ceph from the OSD that is expected to answer first
 *
 * For a client of librados, of a Ceph as it is: nothing of it is changed, and only librados' public
 * calls are made. Reads of whole objects' parts are sent by these functions, and liblinnos-cluster
 * chooses among the OSDs that hold the object; writes, and everything else, go by librados as ever.
 *
 *	linnos_ceph_open ──► linnos_ceph_aio_read ──► done()
 *	                     rados_aio_write … linnos_ceph_wrote
 *
 * For each host there is a handle of librados that claims to be there (crush_location), and its
 * reads are asked of that host's OSD by LIBRADOS_OPERATION_LOCALIZE_READS. Where objects lie the
 * monitors are asked, once for each placement group and epoch, by a thread of its own. Until that
 * is known, and for a while after a write, an object is read from its primary, as librados would.
 *
 * A replica that has not been told that a write is complete has the read sent to the primary, by
 * Ceph's own doing, which costs a round trip more and is counted (&linnos_ceph_stats.bounced).
 *
 * Any number of threads may use one. Errors are negative errno values, and linnos_ceph_error() has
 * the text. docs/cluster.md says what it is worth.
 *
 * ABI: structures that may grow carry their size, or come with it. New members are appended, and
 * zero in them is what was before. So a program that was built with an older header works. One with
 * a newer header works as long as the members that this library does not know are zero: else it is
 * refused with -%E2BIG. ..._SIZE_VER0 are the sizes of the first version.
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

/* The port of linnos-agent. */
#define LINNOS_CEPH_AGENT_PORT 7316

/**
 * struct linnos_ceph_options - how a pool is read
 * @size: sizeof(struct linnos_ceph_options) of the caller
 * @configuration: ceph.conf; NULL: where librados looks, $CEPH_CONF first
 * @user: as whom, without `client.`; NULL: admin
 * @choosing: of liblinnos-cluster; %LINNOS_CLUSTER_HEDGE cannot be: a buffer has one read at once;
 *	NULL: its defaults
 * @agent_port: where linnos-agent listens on the OSDs' hosts, at the OSDs' public addresses; it has
 *	their drives in the order of their numbers; 0: nobody is asked
 * @fresh_ms: an object that was written is read from its primary for so long, or until its group
 *	has seen four later writes of this client; by then others may have written to it
 */
struct linnos_ceph_options {
	size_t size;
	const char *configuration;
	const char *user;
	const struct linnos_cluster_options *choosing;
	uint32_t agent_port;
	uint32_t fresh_ms;
};

/* Its size in the first version, which never changes. */
#define LINNOS_CEPH_OPTIONS_SIZE_VER0 40

/* The defaults, which are also those of NULL. */
#define LINNOS_CEPH_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(struct linnos_ceph_options), NULL, NULL, NULL, 0, 30000                     \
	}

struct linnos_ceph;

/**
 * linnos_ceph_error() - say what went wrong
 *
 * Return: of the call of this thread that failed last, the thing, what is wrong with it and what to
 * do; "" when none has.
 */
const char *linnos_ceph_error(void);

/**
 * linnos_ceph_open() - connect to a pool
 * @ceph: set; NULL on failure
 * @pool: its name; it is replicated
 * @options: NULL for the defaults
 *
 * Return: 0 or a negative errno; -%ENOTSUP: the pool is erasure-coded.
 */
int linnos_ceph_open(struct linnos_ceph **ceph, const char *pool,
		     const struct linnos_ceph_options *options);

/**
 * linnos_ceph_close() - give it back, when all that was sent has ended
 * @ceph: no call is in it; or NULL
 */
void linnos_ceph_close(struct linnos_ceph *ceph);

/**
 * typedef linnos_ceph_done - a read has ended
 * @of: as it was given
 * @bytes: that were read, fewer than asked for at the end of the object, or a negative errno
 * @osd: that it was asked of; -1: Ceph was left to choose, and the primary has answered
 *
 * On a thread of librados', by which other answers come: it must not block. linnos_ceph_read() or
 * linnos_ceph_close() in it may never return.
 */
typedef void (*linnos_ceph_done)(void *of, ssize_t bytes, int osd);

/**
 * linnos_ceph_aio_read() - read a part of an object
 * @ceph: of linnos_ceph_open()
 * @object: its name, in the default namespace, without a locator
 * @buffer: for so many bytes; it stays until @done
 * @bytes: at most; 1 to 2^31 - 1, which is what librados counts to
 * @offset: in the object
 * @done: called once unless this fails
 * @of: for @done
 *
 * Return: 0 or a negative errno.
 */
int linnos_ceph_aio_read(struct linnos_ceph *ceph, const char *object, void *buffer, size_t bytes,
			 uint64_t offset, linnos_ceph_done done, void *of);

/**
 * linnos_ceph_aio_read_from() - read it from an OSD of the caller's choice
 * @ceph: of linnos_ceph_open()
 * @osd: one of linnos_ceph_osds(), or -1: the primary
 * @object: likewise
 * @buffer: likewise
 * @bytes: likewise
 * @offset: likewise
 * @done: likewise
 * @of: likewise
 *
 * Nothing is learnt from it. For who compares rules, or replicas.
 *
 * Return: 0 or a negative errno.
 */
int linnos_ceph_aio_read_from(struct linnos_ceph *ceph, int osd, const char *object, void *buffer,
			      size_t bytes, uint64_t offset, linnos_ceph_done done, void *of);

/**
 * linnos_ceph_read() - read a part of an object, and wait for it
 * @ceph: of linnos_ceph_open()
 * @object: its name
 * @buffer: for so many bytes
 * @bytes: at most
 * @offset: in the object
 *
 * Return: as @bytes of &linnos_ceph_done.
 */
ssize_t linnos_ceph_read(struct linnos_ceph *ceph, const char *object, void *buffer, size_t bytes,
			 uint64_t offset);

/**
 * linnos_ceph_wrote() - an object has been written, or is about to be
 * @ceph: of linnos_ceph_open()
 * @object: its name
 *
 * Not to call it is no error: a replica never gives what is out of date, but has the read sent on.
 */
void linnos_ceph_wrote(struct linnos_ceph *ceph, const char *object);

/**
 * linnos_ceph_osds() - who holds an object, as far as is known
 * @ceph: of linnos_ceph_open()
 * @object: its name
 * @osds: filled: its primary, then the other OSDs that can be read from
 *
 * Return: how many; 0: that is not known yet, and is asked for now.
 */
unsigned int linnos_ceph_osds(struct linnos_ceph *ceph, const char *object,
			      int osds[LINNOS_CLUSTER_CANDIDATES]);

/**
 * linnos_ceph_pool() - librados' own handle, for everything else
 * @ceph: of linnos_ceph_open()
 *
 * A namespace, a locator or a snapshot that is set in it is of no effect on reads by this library.
 *
 * Return: it is closed with @ceph.
 */
rados_ioctx_t linnos_ceph_pool(struct linnos_ceph *ceph);

/**
 * linnos_ceph_cluster() - what is known of the OSDs, each a node
 * @ceph: of linnos_ceph_open()
 *
 * Return: for linnos_cluster_get_stats() and linnos_cluster_get_node().
 */
struct linnos_cluster *linnos_ceph_cluster(struct linnos_ceph *ceph);

/**
 * struct linnos_ceph_stats - what was done
 * @reads: by linnos_ceph_aio_read()
 * @unknown: those of them that the primary had because nobody knew yet who else holds the object
 * @fresh: that it had because the object had just been written
 * @replica_reads: that another OSD was asked for
 * @bounced: reads that a replica had sent to the primary, those of linnos_ceph_aio_read_from() and
 *	copies among them; UINT64_MAX: librados' counters could not be read
 * @retried: reads that failed at another OSD and were sent to the primary
 * @asked_monitors: where a group lies
 * @misplaced: groups that the monitors see elsewhere than this library: their objects are left to
 *	the primary
 * @handles: of librados, one for each host that is read from and one more
 */
struct linnos_ceph_stats {
	uint64_t reads;
	uint64_t unknown;
	uint64_t fresh;
	uint64_t replica_reads;
	uint64_t bounced;
	uint64_t retried;
	uint64_t asked_monitors;
	uint64_t misplaced;
	uint64_t handles;
};

/**
 * linnos_ceph_get_stats() - count it
 * @ceph: of linnos_ceph_open()
 * @stats: filled with what this library knows of it, the rest zeroed
 * @bytes: sizeof(struct linnos_ceph_stats) of the caller
 *
 * Asks librados for its counters, by its admin sockets: a call for who looks, not for each read.
 */
void linnos_ceph_get_stats(struct linnos_ceph *ceph, struct linnos_ceph_stats *stats, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* LIBLINNOS_CEPH_H */
