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
 * observed queues are looked up in a small hash table. If no drive is observed, the module is not
 * attached to the trace points.
 *
 * A drive has one queue, except the head of an NVMe multipath drive. The head passes its bios on
 * to paths, each of which is a disk with a queue, and the requests of all paths are the load of
 * one drive. If a path fails, its bios are sent again on another one: the failed request does not
 * count as successful, and the new request is counted.
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
#include "linnos_compat.h"

/* The observed queues. Written under linnos_drives_lock, read under RCU. */
static DEFINE_HASHTABLE(linnos_by_queue, 6);
static unsigned int linnos_n_drives;

static struct linnos_queue *linnos_find_queue(const struct request_queue *q)
{
	struct linnos_queue *queue;

	hash_for_each_possible_rcu(linnos_by_queue, queue, by_queue,
				   (unsigned long)q)
		if (queue->queue == q)
			return queue;
	return NULL;
}

struct blk_linnos *linnos_of_disk(const struct gendisk *disk)
{
	struct linnos_queue *queue = linnos_find_queue(disk->queue);

	return queue ? queue->linnos : NULL;
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
static struct linnos_slot *linnos_slot_of(const struct linnos_queue *queue,
					  const struct request *rq)
{
	struct linnos_slots *slots = rcu_dereference(queue->slots);
	unsigned int tag = linnos_tag_of(rq);

	if (!slots || rq->mq_hctx->queue_num >= slots->n_queues ||
	    tag >= slots->depth)
		return NULL;
	return &slots->at[rq->mq_hctx->queue_num * slots->depth + tag];
}

/* Return the slot of a request that is counted as in flight, or NULL if it is not. */
static struct linnos_slot *linnos_counted(const struct linnos_queue *queue,
					  const struct request *rq)
{
	struct linnos_slot *slot = linnos_slot_of(queue, rq);

	if (!slot || slot->rq != rq || !(slot->io.flags & LINNOS_IO_COUNTED))
		return NULL;
	return slot;
}

/* Stop counting a request whose result is unknown. If it was the probe, another one may follow. */
static void linnos_drop_slot(struct blk_linnos *linnos,
			     struct linnos_slot *slot)
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
static struct linnos_slot *linnos_count_in(struct linnos_queue *queue,
					   const struct request *rq)
{
	struct linnos_slot *slot = linnos_slot_of(queue, rq);
	struct blk_linnos *linnos = queue->linnos;
	u64 now_ns = 0;
	u8 flags = 0;

	if (unlikely(!slot)) {
		atomic_inc(&queue->missed);
		return NULL;
	}
	/* the end of the previous request in this slot was not reported */
	if (unlikely(slot->io.flags & LINNOS_IO_COUNTED))
		linnos_drop_slot(linnos, slot);
	if (req_op(rq) == REQ_OP_READ) {
		flags = LINNOS_IO_READ;
		linnos_count(linnos, LINNOS_STAT_READS);
		if (READ_ONCE(linnos->drive.tracks_starts))
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
static void linnos_start(struct linnos_queue *queue, const struct request *rq)
{
	struct linnos_slot *slot;

	/* without block_io_start, a request that is requeued is reported again */
	slot = LINNOS_HAS_BLOCK_IO_START ? NULL : linnos_counted(queue, rq);
	if (slot && !slot->io.issued_ns)
		linnos_grow(queue->linnos, slot, rq);
	else if (!slot && linnos_is_on(queue->linnos) && linnos_rq_counts(rq))
		linnos_count_in(queue, rq);
}

/* block_io_start: a request was allocated for a bio. Before 6.5: block_rq_insert. */
static void linnos_on_start(void *data, struct request *rq)
{
	struct linnos_queue *queue;

	rcu_read_lock();
	queue = linnos_find_queue(rq->q);
	if (queue)
		linnos_start(queue, rq);
	rcu_read_unlock();
}

/* block_rq_issue: a request is issued to the drive, perhaps again after a requeue. */
static void linnos_on_issue(void *data, struct request *rq)
{
	struct linnos_queue *queue;
	struct linnos_slot *slot;

	rcu_read_lock();
	queue = linnos_find_queue(rq->q);
	if (!queue)
		goto out;
	if (!LINNOS_HAS_BLOCK_IO_START)
		linnos_start(queue, rq);
	slot = linnos_counted(queue, rq);
	if (!slot)
		goto out;
	if (!slot->io.issued_ns)
		linnos_grow(queue->linnos, slot, rq);
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
	struct linnos_queue *queue;
	struct linnos_slot *slot;

	rcu_read_lock();
	queue = linnos_find_queue(rq->q);
	slot = queue ? linnos_counted(queue, rq) : NULL;
	if (slot)
		linnos_io_join(&queue->linnos->drive, &joined, &slot->io);
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
	struct linnos_queue *queue;
	struct linnos_slot *slot;
	struct linnos_io *io;

	rcu_read_lock();
	queue = linnos_find_queue(rq->q);
	slot = queue ? linnos_counted(queue, rq) : NULL;
	if (!slot)
		goto out;
	io = &slot->io;
	if (rq->bio && !error)
		io->flags |= LINNOS_IO_ANSWERED;
	else if (rq->bio)
		io->flags &= ~LINNOS_IO_ANSWERED;
	if (bytes >= blk_rq_bytes(rq))
		linnos_request_done(queue->linnos, io,
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
	{ LINNOS_HAS_BLOCK_IO_START ? "block_io_start" : "block_rq_insert",
	  linnos_on_start },
	{ "block_rq_issue", linnos_on_issue },
	{ "block_rq_merge", linnos_on_merge },
	{ "block_rq_complete", linnos_on_complete },
};

/* Check the types of the callbacks at compile time: they are registered as void pointers. */
static void __maybe_unused linnos_check_points(void)
{
#if LINNOS_HAS_BLOCK_IO_START
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
	/* when this returns, no CPU runs the callbacks any more */
	tracepoint_synchronize_unregister();
}

static int linnos_register_tracepoints(void)
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

/* Context: linnos_drives_lock and @linnos->lock held, or @linnos not yet visible to others. */
static void linnos_add_queue(struct blk_linnos *linnos,
			     struct linnos_queue *queue, struct gendisk *disk)
{
	queue->linnos = linnos;
	queue->disk = disk;
	queue->queue = disk->queue;
	list_add_tail(&queue->of_drive, &linnos->tap.queues);
	hash_add_rcu(linnos_by_queue, &queue->by_queue,
		     (unsigned long)queue->queue);
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
	int ret = linnos_n_drives ? 0 : linnos_register_tracepoints();

	if (ret)
		return ret;
	linnos_n_drives++;
	INIT_LIST_HEAD(&linnos->tap.queues);
	linnos_add_queue(linnos, &linnos->tap.own, linnos->disk);
	return 0;
}

/**
 * linnos_tap_end() - stop observing the I/O of a drive
 * @linnos: the drive, its mode off for good
 *
 * The state of I/O in flight is discarded. When this returns, no query uses the drive any more.
 *
 * Context: Process context, linnos_drives_lock held. No sysfs or debugfs file of the drive is in
 * use, so that @linnos->lock is not needed.
 */
void linnos_tap_end(struct blk_linnos *linnos)
{
	struct linnos_queue *queue, *next;

	list_for_each_entry(queue, &linnos->tap.queues, of_drive)
		hash_del_rcu(&queue->by_queue);
	synchronize_rcu();
	if (!--linnos_n_drives)
		linnos_unregister_tracepoints(ARRAY_SIZE(linnos_points));
	list_for_each_entry_safe(queue, next, &linnos->tap.queues, of_drive) {
		kvfree(rcu_dereference_protected(queue->slots, true));
		if (queue != &linnos->tap.own)
			kfree(queue);
	}
}

/*
 * Get the number of hardware queues and tags, while the queue is not being changed. A scheduler
 * has nr_requests tags, a driver has those of its tag set. A queue is frozen for a short time
 * while it is changed, and forever if its disk is dying.
 */
static int linnos_size_of(const struct linnos_queue *queue,
			  unsigned int *n_queues, unsigned int *depth)
{
	struct request_queue *q = queue->queue;
	int tries;

	for (tries = 0; !percpu_ref_tryget_live(&q->q_usage_counter); tries++) {
		if (test_bit(GD_DEAD, &queue->disk->state))
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
		linnos_drop_slot(linnos, &slots->at[i]);
	kvfree(slots);
}

/* Provide a slot for each request of a queue. Context and errors: linnos_tap_fit(). */
static int linnos_fit_queue(struct linnos_queue *queue)
{
	struct linnos_slots *old, *fresh;
	unsigned int n_queues, depth;
	int ret;

	/* a head has no requests */
	if (!queue_is_mq(queue->queue))
		return 0;
	ret = linnos_size_of(queue, &n_queues, &depth);
	if (ret)
		return ret;
	old = rcu_dereference_protected(queue->slots,
					lockdep_is_held(&queue->linnos->lock));
	atomic_set(&queue->missed, 0);
	if (old && n_queues <= old->n_queues && depth <= old->depth)
		return 0;
	fresh = kvzalloc(struct_size(fresh, at, (size_t)n_queues * depth),
			 GFP_KERNEL);
	if (!fresh)
		return -ENOMEM;
	fresh->n_queues = n_queues;
	fresh->depth = depth;
	rcu_assign_pointer(queue->slots, fresh);
	if (old) {
		synchronize_rcu();
		linnos_drop_slots(queue->linnos, old);
	}
	return 0;
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
	struct linnos_queue *queue;
	int ret;

	list_for_each_entry(queue, &linnos->tap.queues, of_drive) {
		ret = linnos_fit_queue(queue);
		/* a path that is being removed is not needed */
		if (ret == -ENODEV && queue != &linnos->tap.own)
			continue;
		if (ret)
			return ret;
	}
	return 0;
}

/**
 * linnos_tap_missed() - count requests without a slot
 * @linnos: the drive
 *
 * Context: @linnos->lock held.
 * Return: The number since the slots were last provided.
 */
unsigned int linnos_tap_missed(const struct blk_linnos *linnos)
{
	const struct linnos_queue *queue;
	unsigned int missed = 0;

	list_for_each_entry(queue, &linnos->tap.queues, of_drive)
		missed += atomic_read(&queue->missed);
	return missed;
}

/* Context: linnos_drives_lock held. */
static struct linnos_queue *linnos_find_path(const struct blk_linnos *linnos,
					     const struct gendisk *path)
{
	struct linnos_queue *queue;

	list_for_each_entry(queue, &linnos->tap.queues, of_drive)
		if (queue->disk == path)
			return queue;
	return NULL;
}

/**
 * linnos_tap_add_path() - observe the I/O of a path to a drive
 * @linnos: the drive, the head of an NVMe multipath drive
 * @path: the disk of the path; if it is observed already, nothing is done
 *
 * No reference to @path is held: linnos_tap_remove_path() has to be called before it is deleted.
 *
 * Context: Process context, linnos_drives_lock held.
 * Return: 0 or -ENOMEM.
 */
int linnos_tap_add_path(struct blk_linnos *linnos, struct gendisk *path)
{
	struct linnos_queue *queue;

	if (linnos_find_path(linnos, path))
		return 0;
	queue = kzalloc(sizeof(*queue), GFP_KERNEL);
	if (!queue)
		return -ENOMEM;
	mutex_lock(&linnos->lock);
	linnos_add_queue(linnos, queue, path);
	/* without slots, requests are missed, and linnos_resize_taps() tries again */
	if (linnos->mode != LINNOS_OFF)
		linnos_fit_queue(queue);
	mutex_unlock(&linnos->lock);
	return 0;
}

/**
 * linnos_tap_remove_path() - stop observing the I/O of a path to a drive
 * @linnos: the drive
 * @path: a disk that is being removed; if it is not an observed path, nothing is done
 *
 * I/O that is in flight on the path is no longer counted. When this returns, no CPU accesses the
 * path's queue any more.
 *
 * Context: Process context, linnos_drives_lock held.
 */
void linnos_tap_remove_path(struct blk_linnos *linnos,
			    const struct gendisk *path)
{
	struct linnos_queue *queue = linnos_find_path(linnos, path);
	struct linnos_slots *slots;

	if (!queue || queue == &linnos->tap.own)
		return;
	mutex_lock(&linnos->lock);
	list_del(&queue->of_drive);
	mutex_unlock(&linnos->lock);
	hash_del_rcu(&queue->by_queue);
	synchronize_rcu();
	slots = rcu_dereference_protected(queue->slots, true);
	if (slots)
		linnos_drop_slots(linnos, slots);
	kfree(queue);
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
		pr_warn("%s: a module cannot refuse reads; this needs a kernel with the LinnOS patches. In mode observe, md raid1 and raid10 and programs that query LinnOS choose a drive\n",
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
