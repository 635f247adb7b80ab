/* SPDX-License-Identifier: MIT */
/*
 * Serves the device's requests, all in one thread around one ring:
 *
 *   fetched ──► read ────────────► liblinnos: the best replica, the next one, a hedge ──┐
 *           └─► write, flush, zeros ──► one leg to each replica that is in ──► judged ──┴─►
 * committed
 *
 * What its users may rely on:
 *
 * A write is committed when every replica that is in the mirror has it. One on which it failed is
 * dropped before that. A read that is sent later is sent to a replica that is in, and so to one
 * that has it: by whatever way it gets there, as its first attempt, by failover or as a hedge. A
 * read that was fetched before the commit, and is on its way to the dropped replica, was concurrent
 * with the write; the device promises it either content, as any does. The same is true of an
 * attempt that lost its race and comes late: a read that may be hedged is read into memory of the
 * library's own, never into the request's buffer, which has another owner by then. So are copies of
 * reads, which nobody is given.
 *
 * Writes that touch the same blocks are done one after the other, in the order in which they came,
 * for on one replica the one could be last and on another the other: so replicas are equal wherever
 * no write is under way. A flush goes to all replicas, and covers what has been committed.
 *
 * A server that takes the place of a killed one is given again what that had not committed. A write
 * of these may be on some of the replicas; done once more it is on all. None of the dead server's
 * own comes later: the replicas can be opened only when it has let go of them, after its last I/O.
 * A flush that failed on a replica is no proof when it succeeds the second time: so that replica is
 * dropped, and that recorded, as soon as it has answered.
 */
#ifndef LINNOS_UBLK_MIRROR_H
#define LINNOS_UBLK_MIRROR_H

#include "ublk.h"

#include <liblinnos.h>
#include <sys/signalfd.h>

struct request;

struct mirror_stats {
	uint64_t reads, read_bytes, reads_failed;
	uint64_t writes, written_bytes, writes_failed; /* of any replica: none has it */
	uint64_t flushes, zeroed, zeroed_bytes;
	uint64_t waited; /* writes to blocks that another one was writing to */
};

struct mirror {
	unsigned int n;
	struct replica replicas[REPLICAS_MAX];
	uint32_t in; /* replicas in the mirror, by bit */
	char why_dropped[REPLICAS_MAX][128];
	/* Who is in is recorded, for a server that takes the place of a killed one; NULL: it is
	 * not. */
	const char *const *recorded;
	struct geometry geometry;
	struct linnos_array *array;
	struct linnos_queue *queue; /* of the thread that serves */
	bool hedges;
	struct ublk_device device;
	struct io_uring ring;
	struct request *requests; /* by tag */
	char *buffers;
	struct request *first_write, *last_write; /* in the order in which they came */
	unsigned int n_waiting;
	unsigned int n_fetching; /* tags that the kernel has or we serve */
	unsigned int n_commands; /* START and STOP under way */
	bool is_starting, stops_when_started, is_stopping;
	uint64_t given, answered, given_before; /* requests; until the last pause */
	unsigned int n_pauses;
	struct __kernel_timespec pause; /* before STOP */
	int start_error;
	int signals; /* a signalfd */
	struct signalfd_siginfo signal;
	struct mirror_stats stats;
	/* SIGUSR1, and once when the device is there. */
	void (*report)(const struct mirror *m, const char *state, void *context);
	void *context;
};

/* Sets up what serves; n, replicas, in, geometry, array, queue, hedges, device and report are
 * there. */
void mirror_prepare(struct mirror *m);
/* Until the device is stopped, by a signal or from elsewhere. 0, or why it could not be started. */
int mirror_serve(struct mirror *m);

#endif
