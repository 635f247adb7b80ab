/* SPDX-License-Identifier: MIT */
/*
 * Serves the device's requests. Each of its queues has a worker, a thread with a ring:
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
 * That holds between workers, too. `in` is read once for a write, when its legs are sent, and
 * replicas only ever leave it. To drop one is, under the lock and in this order: liblinnos chooses
 * it for no read any more; that is recorded; it leaves `in`. Now take a replica k and a write that
 * is committed. If the write found k out, all three had been done before its legs were sent. If it
 * found k in, it has k's answer: k has the write; or it failed there, and the worker has taken the
 * lock, under which it dropped k or found it dropped. Either way no read that begins after the
 * commit is sent to k unless k has the write: the kernel hands the read to its worker after it was
 * given the commit, and in between orders what both do. Two workers with a failed write each judge
 * one after the other, so that the last replica stays.
 *
 * Writes that touch the same blocks are done one after the other, in the order in which they came
 * to the lock, for on one replica the one could be last and on another the other: so replicas are
 * equal wherever no write is under way. The list of writes is of all workers. Who ends a write
 * tells the worker whose write waited for it, by a message from ring to ring; only the latter may
 * commit it. A flush goes to all replicas, and covers what has been committed, by whichever worker:
 * that is on all of them.
 *
 * After a crash replicas may differ where a write was under way or not yet flushed. So before the
 * first write to a region of 64 MiB is sent, a bit for the region is on a file (state.h), and a
 * replica that is dropped is recorded there before the write that it lacks is committed. A write
 * to a region whose bit is set costs nothing more. One that needs a bit waits, and so do those that
 * come meanwhile: the file is written once for all of them, by the worker of the first. If the file
 * cannot be written, the writes that need it fail, and no replica has them. If it cannot say that a
 * replica was dropped, all writes and flushes fail from then on: after a crash that replica could
 * be read, so no write that it lacks may be committed.
 *
 * A server that takes the place of a killed one is given again what that had not committed. A write
 * of these may be on some of the replicas; done once more it is on all. None of the dead server's
 * own comes later: the replicas can be opened only when it has let go of them, after its last I/O.
 * A flush that failed on a replica is no proof when it succeeds the second time: so that replica is
 * dropped, and that recorded, as soon as it has answered.
 */
#ifndef LINNOS_UBLK_MIRROR_H
#define LINNOS_UBLK_MIRROR_H

#include "state.h"
#include "ublk.h"

#include <liblinnos.h>
#include <pthread.h>
#include <sys/signalfd.h>

struct request;
struct worker;

struct mirror_stats {
	uint64_t reads, read_bytes, reads_failed;
	uint64_t writes, written_bytes, writes_failed; /* of any replica: none has it */
	uint64_t flushes, zeroed, zeroed_bytes;
	uint64_t waited;	  /* writes to blocks that another one was writing to */
	uint64_t given, answered; /* requests */
};

struct mirror {
	unsigned int n;
	struct replica replicas[REPLICAS_MAX];
	/* Of what follows: what is written to by all workers. */
	pthread_mutex_t lock;
	uint32_t in; /* replicas in the mirror, by bit; read without the lock, see mirror_in() */
	char why_dropped[REPLICAS_MAX][WHY_BYTES]; /* does not change when it is not in */
	struct mirror_state state;		   /* after a crash this says what may differ */
	struct request *first_write, *last_write;  /* in the order in which they came */
	unsigned int n_waiting;
	/* Who is in is recorded, for a server that takes the place of a killed one; NULL: it is
	 * not. */
	const char *const *recorded;
	struct geometry geometry;
	struct linnos_array *array;
	bool hedges;
	struct ublk_device device;
	struct worker *workers;	 /* one a queue; the first also has all that follows */
	pthread_mutex_t gate;	 /* the others begin when it is open */
	unsigned int n_serving;	 /* others */
	unsigned int n_commands; /* START, STOP, and the wait before that, under way */
	bool is_starting, stops_when_started;
	bool is_stopping;      /* the others look at it */
	uint64_t given_before; /* requests until the last pause */
	unsigned int n_pauses;
	struct __kernel_timespec pause; /* before STOP */
	int start_error;
	int signals; /* a signalfd */
	struct signalfd_siginfo signal;
	/* SIGUSR1, and once when the device is there. */
	void (*report)(const struct mirror *m, const char *state, void *context);
	void *context;
};

static inline uint32_t mirror_in(const struct mirror *m)
{
	return __atomic_load_n(&m->in, __ATOMIC_ACQUIRE);
}

/* Of all workers, also while they serve. */
void mirror_count(const struct mirror *m, struct mirror_stats *sum);
/* Requests that one has been given. */
uint64_t mirror_given(const struct mirror *m, unsigned int queue);
/* Sets up what serves; n, replicas, in, geometry, array, hedges, device and report are there. */
void mirror_prepare(struct mirror *m);
/* Until the device is stopped, by a signal or from elsewhere. 0, or why it could not be started. */
int mirror_serve(struct mirror *m);
void mirror_close(struct mirror *m);

#endif
