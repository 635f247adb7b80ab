/* SPDX-License-Identifier: MIT */
/*
 * Serve the requests of the device. Each of its queues has a worker, which is a thread with a ring:
 *
 *   fetched ──► read ────────────► liblinnos: the best replica, the next one, a hedge ──┐
 *           └─► write, flush, zeros ──► one write per replica in the mirror ──► judge ──┴─► commit
 *
 * The users of the device may rely on the following:
 *
 * A write is committed when every replica in the mirror has completed it. A replica on which it
 * failed is dropped before that. A read that is sent later is sent to a replica in the mirror, and
 * therefore to one that has the write, whether as its first attempt, by failover or as a hedge. A
 * read that was fetched before the commit, and is in flight to the dropped replica, was concurrent
 * with the write. The device may return either content for it, as any device may. The same is true
 * of an orphaned attempt that completes late: a read that may be hedged is read into the library's
 * own memory, never into the request's buffer, which belongs to another request by then. Copies of
 * reads also have their own memory, and their data is never returned.
 *
 * This also holds between workers. A write reads `in` once, when its replica writes are sent, and a
 * replica can only be removed from it. To drop a replica means, under the lock and in this order:
 * liblinnos chooses it for no further read; the drop is recorded; it is removed from `in`. Consider
 * a replica k and a write that is committed. If the write found that k was not in, all three steps
 * had been done before its replica writes were sent. If it found k in, it has k's result. Either k
 * has the write, or it failed there and the worker has taken the lock, under which it dropped k or
 * found it dropped. In both cases no read that begins after the commit is sent to k unless k has
 * the write: the kernel hands the read to its worker after it has received the commit, which orders
 * the memory accesses of both. If two workers each have a failed write, they judge one after the
 * other, so that the last replica is kept.
 *
 * Writes to the same blocks are done one after the other, in the order in which they took the lock.
 * Otherwise a different one could be the last on each replica. Replicas are therefore equal
 * wherever no write is in flight. All workers share the list of writes. When a write completes, its
 * worker notifies the worker of a write that was deferred for it by a message from ring to ring;
 * only that worker may commit the deferred write. A flush is sent to all replicas and covers every
 * write that has been committed, by any worker, because each of these is on all replicas.
 *
 * After a crash replicas may differ where a write was in flight or not yet flushed. Before the
 * first write to a region of 64 MiB is sent, a bit for the region is therefore stored in a file
 * (state.h), and a replica that is dropped is recorded there before the write that it lacks is
 * committed. A write to a region whose bit is set has no further cost. A write that needs a new bit
 * waits, as do those that arrive in the meantime: the worker of the first one writes the file once
 * for all of them. If the file cannot be written, the writes that need it fail, and no replica has
 * them. If a drop cannot be recorded in it, all writes and flushes fail from then on: after a crash
 * that replica could be read, so no write that it lacks may be committed.
 *
 * A server that takes over from a killed one receives again the requests that the killed one had
 * not committed. Such a write may be on some of the replicas. After it was repeated it is on all of
 * them. No I/O of the killed server itself can arrive later, because the replicas can be opened
 * only after the kernel has released them, which it does after the last I/O. A flush that failed on
 * a replica and succeeds when repeated proves nothing. That replica is therefore dropped, and the
 * drop recorded, as soon as the failure is known.
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
	uint64_t writes, written_bytes, writes_failed; /* writes_failed: completed with an error */
	uint64_t flushes, zeroed, zeroed_bytes;
	uint64_t waited;	  /* writes deferred for another one to the same blocks */
	uint64_t given, answered; /* requests */
};

struct mirror {
	unsigned int n;
	struct replica replicas[REPLICAS_MAX];
	/* Protects those of the following members that all workers write to. */
	pthread_mutex_t lock;
	uint32_t in; /* bitmap of replicas in the mirror; read without the lock, see mirror_in() */
	char why_dropped[REPLICAS_MAX][WHY_BYTES]; /* constant once it is dropped */
	struct mirror_state state;		   /* tells after a crash what may differ */
	struct request *first_write, *last_write;  /* in the order of their arrival */
	unsigned int n_waiting;
	/* Paths of the replicas if `in` is recorded for a server that takes over from a killed one;
	 * otherwise NULL. */
	const char *const *recorded;
	struct geometry geometry;
	struct linnos_array *array;
	bool hedges;
	struct ublk_device device;
	struct worker *workers;	 /* one per queue; all that follows is the first one's */
	pthread_mutex_t gate;	 /* the other workers begin when it is open */
	unsigned int n_serving;	 /* other workers that have not ended */
	unsigned int n_commands; /* START, STOP, and the wait before it, in flight */
	bool is_starting, stops_when_started;
	bool is_stopping;      /* also read by the other workers */
	uint64_t given_before; /* requests up to the last pause */
	unsigned int n_pauses;
	struct __kernel_timespec pause; /* before STOP */
	int start_error;
	int signals; /* a signalfd */
	struct signalfd_siginfo signal;
	/* Called for SIGUSR1, and once when the device is ready. */
	void (*report)(const struct mirror *m, const char *state, void *context);
	void *context;
};

static inline uint32_t mirror_in(const struct mirror *m)
{
	return __atomic_load_n(&m->in, __ATOMIC_ACQUIRE);
}

/* Sum the statistics of all workers, which may be serving meanwhile. */
void mirror_count(const struct mirror *m, struct mirror_stats *sum);
/* Return the number of requests that a worker has received. */
uint64_t mirror_given(const struct mirror *m, unsigned int queue);
/* Set up the workers. The caller has set n, replicas, in, geometry, array, hedges, device and
 * report. */
void mirror_prepare(struct mirror *m);
/* Serve until the device is stopped, by a signal or by another process. Return 0, or the error with
 * which it could not be started. */
int mirror_serve(struct mirror *m);
void mirror_close(struct mirror *m);

#endif
