// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS as a module: observe I/O through the block layer's trace points.
 *
 * An unpatched kernel has no hooks for a policy. The module therefore attaches to the block
 * layer's trace points, which it finds by name. They are called when a request starts, is
 * issued and completes:
 *
 *	block_io_start ──► block_rq_issue ──► block_rq_complete
 *	  in flight          latency             added to the
 *	                     begins              history
 *
 * Linux before 6.5 does not have block_io_start. There, a request is counted as in flight from
 * block_rq_insert on, or from its issue if it does not wait in a scheduler.
 *
 * Merges: if bios were merged into a request, the module notices when the request is issued,
 * because it has grown. If two requests are merged, block_rq_merge reports the one that ceases
 * to exist.
 *
 * A struct request has no room for the state of an I/O. Each drive has a table instead, with a
 * slot for each hardware queue and tag. A slot belongs to the request that has the tag, so that
 * no lock is needed, and no I/O needs an allocation.
 *
 * No trace point reports the end of requests that fail before they are issued, or that a stacked
 * driver takes back. A slot can therefore still contain a request that ended long ago. When such
 * a slot is reused, the old request is first removed from the load.
 *
 * As soon as one drive is observed, the trace points are called for the I/O of all disks. The
 * observed disks are looked up in a small hash table. If no drive is observed, the module is not
 * attached to the trace points.
 */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/hashtable.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include <trace/events/block.h>

#include "blk-linnos.h"
#include "blk-linnos-policy.h"
#include "linnos_versions.h"

/* The observed drives by queue. Written under linnos_drives_lock, read under RCU. */
static DEFINE_HASHTABLE(linnos_by_queue, 6);
static unsigned int linnos_n_drives;

static struct blk_linnos *linnos_of_queue(const struct request_queue *q)
{
	struct blk_linnos *linnos;

	hash_for_each_possible_rcu(linnos_by_queue, linnos, tap.by_queue,
				   (unsigned long)q)
		if (linnos->tap.queue == q)
			return linnos;
	return NULL;
}

struct blk_linnos *linnos_of_disk(const struct gendisk *disk)
{
	return linnos_of_queue(disk->queue);
}

/* Return true if a request is load of the drive: a read or a write with data. */
static bool linnos_rq_counts(const struct request *rq)
{
	if (!blk_rq_bytes(rq))
		return false;
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
	case REQ_OP_ZONE_APPEND:
		return true;
	default:
		return false;
	}
}

/* Return the scheduler's tag of a request or, if there is no scheduler, the driver's tag. */
static unsigned int linnos_tag_of(const struct request *rq)
{
	return rq->internal_tag >= 0 ? rq->internal_tag : rq->tag;
}

/* Return the slot of a request, or NULL if it has none, because the queue has grown. */
static struct linnos_slot *linnos_slot_of(const struct blk_linnos *linnos,
					  const struct request *rq)
{
	struct linnos_slots *slots = rcu_dereference(linnos->tap.slots);
	unsigned int tag = linnos_tag_of(rq);

	if (!slots || rq->mq_hctx->queue_num >= slots->n_queues ||
	    tag >= slots->depth)
		return NULL;
	return &slots->at[rq->mq_hctx->queue_num * slots->depth + tag];
}

/* Return the slot of a request that is counted as in flight, or NULL if it is not. */
static struct linnos_slot *linnos_counted(const struct blk_linnos *linnos,
					  const struct request *rq)
{
	struct linnos_slot *slot = linnos_slot_of(linnos, rq);

	if (!slot || slot->rq != rq || !(slot->io.flags & LINNOS_IO_COUNTED))
		return NULL;
	return slot;
}

/* Stop counting a request whose result is unknown. If it was the probe, allow another. */
static void linnos_lose(struct blk_linnos *linnos, struct linnos_slot *slot)
{
	slot->io.flags &= ~LINNOS_IO_ANSWERED;
	linnos_request_done(linnos, &slot->io, 0);
}

static void linnos_grow(struct blk_linnos *linnos, struct linnos_slot *slot,
			const struct request *rq)
{
	u32 pages = linnos_pages_of(blk_rq_bytes(rq));

	if (unlikely(pages > slot->io.pages))
		linnos_io_grow(&linnos->drive, &slot->io,
			       pages - slot->io.pages);
}

/*
 * Count a request as in flight. Without block_io_start, several reads may have been merged into
 * the request before it is first reported. Its size class is nevertheless that of its first
 * read, as with block_io_start, because the drive was queried for each read separately, and one
 * of them may be the probe.
 */
static struct linnos_slot *linnos_count_in(struct blk_linnos *linnos,
					   const struct request *rq)
{
	struct linnos_slot *slot = linnos_slot_of(linnos, rq);
	u64 now_ns = 0;
	u8 flags = 0;

	if (unlikely(!slot)) {
		atomic_inc(&linnos->tap.missed);
		return NULL;
	}
	/* the end of the previous request in this slot was not reported */
	if (unlikely(slot->io.flags & LINNOS_IO_COUNTED))
		linnos_lose(linnos, slot);
	if (req_op(rq) == REQ_OP_READ) {
		flags = LINNOS_IO_READ;
		linnos_count(linnos, LINNOS_STAT_READS);
		if (READ_ONCE(linnos->drive.watching))
			now_ns = ktime_get_ns();
	}
	slot->rq = rq;
	linnos_io_begin(&linnos->drive, &slot->io,
			linnos_region_at(blk_rq_pos(rq)),
			linnos_pages_of(rq->bio->bi_iter.bi_size), flags,
			now_ns);
	linnos_grow(linnos, slot, rq);
	return slot;
}

/* Handle the start of a request of an observed drive. Called under RCU. */
static void linnos_start(struct blk_linnos *linnos, const struct request *rq)
{
	struct linnos_slot *slot;

	/* without block_io_start, a request that is requeued is reported again */
	slot = LINNOS_HAS_IO_START ? NULL : linnos_counted(linnos, rq);
	if (slot && !slot->io.issued_ns)
		linnos_grow(linnos, slot, rq);
	else if (!slot && linnos_is_on(linnos) && linnos_rq_counts(rq))
		linnos_count_in(linnos, rq);
}

/* block_io_start: a request was allocated for a bio. Before 6.5: block_rq_insert. */
static void linnos_on_start(void *data, struct request *rq)
{
	struct blk_linnos *linnos;

	rcu_read_lock();
	linnos = linnos_of_queue(rq->q);
	if (linnos)
		linnos_start(linnos, rq);
	rcu_read_unlock();
}

/* block_rq_issue: a request is issued to the drive, perhaps again after a requeue. */
static void linnos_on_issue(void *data, struct request *rq)
{
	struct blk_linnos *linnos;
	struct linnos_slot *slot;

	rcu_read_lock();
	linnos = linnos_of_queue(rq->q);
	if (!linnos)
		goto out;
	if (!LINNOS_HAS_IO_START)
		linnos_start(linnos, rq);
	slot = linnos_counted(linnos, rq);
	if (!slot)
		goto out;
	if (!slot->io.issued_ns)
		linnos_grow(linnos, slot, rq);
	if (slot->io.flags & LINNOS_IO_READ)
		linnos_io_issue(&slot->io, ktime_get_ns());
out:
	rcu_read_unlock();
}

/*
 * block_rq_merge: a request was merged into another one. The growth of the other one is detected
 * when it is issued.
 */
static void linnos_on_merge(void *data, struct request *rq)
{
	struct linnos_io joined = {};
	struct blk_linnos *linnos;
	struct linnos_slot *slot;

	rcu_read_lock();
	linnos = linnos_of_queue(rq->q);
	slot = linnos ? linnos_counted(linnos, rq) : NULL;
	if (slot)
		linnos_io_join(&linnos->drive, &joined, &slot->io);
	rcu_read_unlock();
}

/*
 * block_rq_complete: the drive has completed a request, or a part of it. If there are several calls
 * for a request, the last one counts: when a read fails, SCSI first completes its good part, which
 * may be 0 bytes, with success, and then the rest with an error. A request whose bios a multipath
 * driver has taken back does not count as successful.
 */
static void linnos_on_complete(void *data, struct request *rq,
			       blk_status_t error, unsigned int bytes)
{
	struct blk_linnos *linnos;
	struct linnos_slot *slot;
	struct linnos_io *io;

	rcu_read_lock();
	linnos = linnos_of_queue(rq->q);
	slot = linnos ? linnos_counted(linnos, rq) : NULL;
	if (!slot)
		goto out;
	io = &slot->io;
	if (rq->bio && !error)
		io->flags |= LINNOS_IO_ANSWERED;
	else if (rq->bio)
		io->flags &= ~LINNOS_IO_ANSWERED;
	if (bytes >= blk_rq_bytes(rq))
		linnos_request_done(linnos, io,
				    io->issued_ns ? ktime_get_ns() : 0);
out:
	rcu_read_unlock();
}

struct linnos_point {
	const char *name;
	void *called;
	struct tracepoint *point;
};

static struct linnos_point linnos_points[] = {
	{ LINNOS_HAS_IO_START ? "block_io_start" : "block_rq_insert",
	  linnos_on_start },
	{ "block_rq_issue", linnos_on_issue },
	{ "block_rq_merge", linnos_on_merge },
	{ "block_rq_complete", linnos_on_complete },
};

/* Check the types of the callbacks at compile time: they are registered as void pointers. */
static void __maybe_unused linnos_check_points(void)
{
#if LINNOS_HAS_IO_START
	check_trace_callback_type_block_io_start(linnos_on_start);
#else
	check_trace_callback_type_block_rq_insert(linnos_on_start);
#endif
	check_trace_callback_type_block_rq_issue(linnos_on_issue);
	check_trace_callback_type_block_rq_merge(linnos_on_merge);
	check_trace_callback_type_block_rq_complete(linnos_on_complete);
}

static void linnos_find_point(struct tracepoint *point, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(linnos_points); i++)
		if (!strcmp(linnos_points[i].name, point->name))
			linnos_points[i].point = point;
}

/**
 * linnos_tap_find_points() - find the block layer's trace points
 *
 * Return: 0, or -ENOENT if one is missing; a message in the kernel log names it.
 */
int linnos_tap_find_points(void)
{
	int i;

	for_each_kernel_tracepoint(linnos_find_point, NULL);
	for (i = 0; i < ARRAY_SIZE(linnos_points); i++) {
		if (linnos_points[i].point)
			continue;
		pr_err("this kernel has no trace point %s\n",
		       linnos_points[i].name);
		return -ENOENT;
	}
	return 0;
}

static void linnos_unregister_tracepoints(int n)
{
	while (n--)
		tracepoint_probe_unregister(linnos_points[n].point,
					    linnos_points[n].called, NULL);
	/* when this returns, no CPU runs our functions any more */
	tracepoint_synchronize_unregister();
}

static int linnos_listen(void)
{
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(linnos_points); i++) {
		ret = tracepoint_probe_register(linnos_points[i].point,
						linnos_points[i].called, NULL);
		if (ret) {
			linnos_unregister_tracepoints(i);
			return ret;
		}
	}
	return 0;
}

/**
 * linnos_tap_begin() - start to observe the I/O of a drive
 * @linnos: the drive, its mode off
 *
 * Context: Process context, linnos_drives_lock held.
 * Return: 0 or an errno.
 */
int linnos_tap_begin(struct blk_linnos *linnos)
{
	int ret = linnos_n_drives ? 0 : linnos_listen();

	if (ret)
		return ret;
	linnos_n_drives++;
	linnos->tap.queue = linnos->disk->queue;
	hash_add_rcu(linnos_by_queue, &linnos->tap.by_queue,
		     (unsigned long)linnos->tap.queue);
	return 0;
}

/**
 * linnos_tap_end() - stop observing the I/O of a drive
 * @linnos: the drive, its mode off for good
 *
 * The state of I/O in flight is discarded. When this returns, no query uses the drive any more.
 *
 * Context: Process context, linnos_drives_lock held.
 */
void linnos_tap_end(struct blk_linnos *linnos)
{
	hash_del_rcu(&linnos->tap.by_queue);
	synchronize_rcu();
	if (!--linnos_n_drives)
		linnos_unregister_tracepoints(ARRAY_SIZE(linnos_points));
	kvfree(rcu_dereference_protected(linnos->tap.slots, true));
}

/*
 * Get the number of hardware queues and tags, while the queue is not being changed. A scheduler
 * has nr_requests tags, a driver has those of its tag set. A queue is frozen for a short time
 * while it is changed, and forever if its disk is dying.
 */
static int linnos_size_of(struct blk_linnos *linnos, unsigned int *n_queues,
			  unsigned int *depth)
{
	struct request_queue *q = linnos->tap.queue;
	int tries;

	for (tries = 0; !percpu_ref_tryget_live(&q->q_usage_counter); tries++) {
		if (test_bit(GD_DEAD, &linnos->disk->state))
			return -ENODEV;
		if (tries == 100)
			return -EBUSY;
		msleep(20);
	}
	*n_queues = q->nr_hw_queues;
	/* leave room for the default number of tags of a scheduler that is selected later */
	*depth = max3((unsigned int)q->nr_requests, q->tag_set->queue_depth,
		      2U * BLKDEV_DEFAULT_RQ);
	percpu_ref_put(&q->q_usage_counter);
	return 0;
}

/* Free slots that no other CPU can access any more. */
static void linnos_drop_slots(struct blk_linnos *linnos,
			      struct linnos_slots *slots)
{
	unsigned int i;

	for (i = 0; i < slots->n_queues * slots->depth; i++)
		linnos_lose(linnos, &slots->at[i]);
	kvfree(slots);
}

/**
 * linnos_tap_fit() - provide a slot for each request that a drive may have in flight
 * @linnos: the drive
 *
 * If the number of slots grows, I/O that is in flight is no longer counted.
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0; -ENOMEM, -ENODEV, or -EBUSY if the queue has been frozen for 2 s.
 */
int linnos_tap_fit(struct blk_linnos *linnos)
{
	struct linnos_slots *old, *fresh;
	unsigned int n_queues, depth;
	int ret;

	ret = linnos_size_of(linnos, &n_queues, &depth);
	if (ret)
		return ret;
	old = rcu_dereference_protected(linnos->tap.slots,
					lockdep_is_held(&linnos->lock));
	atomic_set(&linnos->tap.missed, 0);
	if (old && n_queues <= old->n_queues && depth <= old->depth)
		return 0;
	fresh = kvzalloc(struct_size(fresh, at, (size_t)n_queues * depth),
			 GFP_KERNEL);
	if (!fresh)
		return -ENOMEM;
	fresh->n_queues = n_queues;
	fresh->depth = depth;
	rcu_assign_pointer(linnos->tap.slots, fresh);
	if (old) {
		synchronize_rcu();
		linnos_drop_slots(linnos, old);
	}
	return 0;
}

/**
 * linnos_set_mode() - switch a drive off or to observing
 * @linnos: the drive
 * @mode: the new mode
 *
 * When the mode changes from off, the history is reset. I/O that was already in flight is not
 * counted.
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0; -EOPNOTSUPP for enforce; -ENOMEM; the errors of linnos_tap_fit().
 */
int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode)
{
	int ret;

	lockdep_assert_held(&linnos->lock);

	if (mode == LINNOS_ENFORCE) {
		pr_warn("%s: a module cannot refuse reads, a kernel with the LinnOS patches can; with mode observe, md raid1 and raid10 and programs that ask choose\n",
			linnos->disk->disk_name);
		return -EOPNOTSUPP;
	}
	if (mode != LINNOS_OFF && linnos->mode == LINNOS_OFF) {
		ret = linnos_alloc_stats(linnos) ?: linnos_tap_fit(linnos);
		if (ret)
			return ret;
		linnos_reset_history(linnos);
	}
	/* pairs with linnos_is_on(): the counters have been allocated */
	smp_store_release(&linnos->mode, mode);
	return 0;
}
