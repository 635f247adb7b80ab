/* SPDX-License-Identifier: MIT */
/*
 * Serve the requests of the device. Each of its queues has a worker, which is a thread with a ring:
 *
 *   fetched ──► read ────────────► liblinnos: the best replica, the next one, a hedge ──┐
 *           └─► write, flush, zeros ──► one write per replica in the mirror ──► result ─┴─► commit
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
 * This also holds between workers. A write reads `in` once, when its replica writes are sent, and
 * replicas are only removed from `in`, never added. A replica is dropped in three steps, under the
 * lock and in this order: liblinnos chooses it for no further read, the drop is recorded, and the
 * replica is removed from `in`. Consider a replica k and a write that is committed. If k was not in
 * `in` when the write read it, all three steps had been done before its replica writes were sent.
 * If k was in it, the worker has k's result: either k has the write, or the write failed there, and
 * the worker has taken the lock, under which it dropped k or found that k was already dropped. In
 * all cases no read that begins after the commit is sent to k unless k has the write, because the
 * kernel hands the read to its worker after it has received the commit, which orders the memory
 * accesses of both. If two workers each have a failed write, they evaluate their results one after
 * the other, so that the last replica is kept.
 *
 * Writes to the same blocks are done one after the other, in the order in which they took the lock.
 * Otherwise different replicas could complete them in different orders. Replicas are therefore
 * equal wherever no write is in flight. All workers share the list of writes. If a write was
 * deferred, the worker of the write that it waited for sends a message to the ring of its worker,
 * because only that worker may commit it. A flush is sent to all replicas. It covers every write
 * that any worker has committed, because each of these is on all replicas.
 *
 * After a crash replicas may differ where a write was in flight or not yet flushed. Before the
 * first write to a region of 64 MiB is sent, a bit for the region is therefore stored in a file
 * (state.h), and a replica that is dropped is recorded there before the write that it lacks is
 * committed. A write to a region whose bit is set has no further cost. A write that needs a new bit
 * waits until its worker has written the file, which also covers the writes that have arrived by
 * then. If the file cannot be written, the writes that need it fail, and no replica has them. If a
 * drop cannot be recorded in the file, all writes and flushes fail from then on: after a crash that
 * replica could be read, so no write that it lacks may be committed.
 *
 * A server that takes over from a killed one receives the requests again that the killed one had
 * not committed. Such a write may be on some of the replicas. After it was repeated it is on all of
 * them. No I/O of the killed server can arrive later, because the replicas can be opened only after
 * the kernel has released them, which it does after the last I/O. If a flush has failed on a
 * replica and succeeds when it is repeated, data may still be lost. That replica is therefore
 * dropped, and the drop recorded, as soon as the failure is known.
 */
#ifndef LINNOS_UBLK_MIRROR_H
#define LINNOS_UBLK_MIRROR_H

#include "worker.h"

/* Set up the workers. The caller has set n, replicas, in, geometry, array, hedges, device, recorded
 * and json. */
void mirror_prepare(struct mirror *m);
/* Serve until the device is stopped, by a signal or by another process. Return 0, or the error with
 * which it could not be started. */
int mirror_serve(struct mirror *m);
void mirror_close(struct mirror *m);

#endif
