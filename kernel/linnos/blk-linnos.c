// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: count the I/O of a drive, as a policy of its queue (rq_qos).
 *
 * An SSD is slow in bursts, because of garbage collection, buffer flushes or failing chips. A model
 * of the drive predicts how it would serve a read right now. A caller that has the same data on
 * several drives queries each of them (blk-linnos-expect.c) and sends its read to the best one.
 *
 * The inputs of a model are collected per request (linnos_drive.c): the 4 KiB pages of reads and
 * writes in flight, and for each of the last four reads its latency, from issue to completion, and
 * the pages that were in flight when it started. I/O that is held back by cgroups, tags, schedulers
 * or plugs is not counted as load, and the time it waits there is not counted as latency. Discards,
 * flushes without data and passthrough requests are not counted.
 *
 * Models are trained in user space and uploaded per drive (blk-linnos-model.c). There are two
 * kinds: decision trees predict the latency in microseconds (linnos_latency.c), and a network
 * classifies reads as slow or fast.
 *
 * From time to time, a probe is sent to a drive that is predicted slow (linnos_probe.c).
 *
 * The policy is added to the queue when it is first switched on, and remains there until the
 * disk is removed. Switching it off only sets a flag, whatever is in flight.
 */
#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "blk.h"
#include "blk-linnos.h"
#include "blk-linnos-policy.h"
#include "blk-stat.h"

DEFINE_STATIC_KEY_FALSE(blk_linnos_key);

static struct linnos_io *linnos_io_of(struct request *rq)
{
	static_assert(sizeof(struct linnos_io) == sizeof(rq->linnos));

	return (struct linnos_io *)rq->linnos;
}

static struct blk_linnos *linnos_of(struct rq_qos *rqos)
{
	return container_of(rqos, struct blk_linnos, rqos);
}

static void blk_linnos_track(struct rq_qos *rqos, struct request *rq,
			     struct bio *bio)
{
	struct blk_linnos *linnos = linnos_of(rqos);
	u64 now_ns = 0;
	u8 flags = 0;

	if (!linnos_is_on(linnos) || !linnos_is_load(bio))
		return;
	if (bio_op(bio) == REQ_OP_READ) {
		flags = LINNOS_IO_READ;
#ifdef CONFIG_BLK_LATCRIT
		/* if the bio was split, only the last part has this flag */
		if (bio_flagged(bio, BIO_LATCRIT_DECIDED))
			flags |= bio->bi_opf & REQ_LATCRIT ? LINNOS_IO_FAST :
							     LINNOS_IO_SLOW;
#endif
		linnos_count(linnos, LINNOS_STAT_READS);
		if (READ_ONCE(linnos->drive.tracks_starts))
			now_ns = ktime_get_ns();
	}
	linnos_io_begin(&linnos->drive, linnos_io_of(rq),
			linnos_region_at(bio->bi_iter.bi_sector),
			linnos_pages_of(bio->bi_iter.bi_size), flags, now_ns);
}

static void blk_linnos_merge(struct rq_qos *rqos, struct request *rq,
			     struct bio *bio)
{
	linnos_io_grow(&linnos_of(rqos)->drive, linnos_io_of(rq),
		       linnos_pages_of(bio->bi_iter.bi_size));
}

static void blk_linnos_issue(struct rq_qos *rqos, struct request *rq)
{
	struct linnos_io *io = linnos_io_of(rq);

	/* not blk_time_get_ns(), which returns the time of the first I/O of a plug */
	if (io->flags & LINNOS_IO_COUNTED && io->flags & LINNOS_IO_READ)
		linnos_io_issue(io, ktime_get_ns());
}

void __blk_linnos_join(struct request *rq, struct request *next)
{
	struct blk_linnos *linnos = rq->q->disk->linnos;

	if (linnos)
		linnos_io_join(&linnos->drive, linnos_io_of(rq),
			       linnos_io_of(next));
}

/*
 * Record whether the drive completed a request successfully. If there are several calls for a
 * request, the last one counts: when a read fails, SCSI first completes its good part, which may
 * be 0 bytes, with success, and then the rest with an error. If a multipath driver has taken back
 * the bios of a request, there is no call, and the request does not count as successful.
 */
void __blk_linnos_answer(struct request *rq, blk_status_t status)
{
	struct linnos_io *io = linnos_io_of(rq);

	if (status)
		io->flags &= ~LINNOS_IO_ANSWERED;
	else
		io->flags |= LINNOS_IO_ANSWERED;
}

static void blk_linnos_done(struct rq_qos *rqos, struct request *rq)
{
	struct linnos_io *io = linnos_io_of(rq);

	if (io->flags & LINNOS_IO_COUNTED)
		linnos_request_done(linnos_of(rqos), io,
				    io->issued_ns ? ktime_get_ns() : 0);
}

static void blk_linnos_exit(struct rq_qos *rqos)
{
	blk_stat_disable_accounting(linnos_of(rqos)->disk->queue);
	static_branch_dec(&blk_linnos_key);
}

#ifdef CONFIG_BLK_DEBUG_FS
static int linnos_in_flight_show(void *data, struct seq_file *m)
{
	struct linnos_load load;

	linnos_load_snapshot(&linnos_of(data)->drive, &load);
	seq_printf(m, "%u pages, %u reads\n",
		   load.read_pages + load.write_pages, load.reads);
	return 0;
}

static const struct blk_mq_debugfs_attr blk_linnos_debugfs_attrs[] = {
	{ "in_flight", 0400, linnos_in_flight_show },
	{},
};
#endif

const struct rq_qos_ops blk_linnos_ops = {
	.track = blk_linnos_track,
	.merge = blk_linnos_merge,
	.issue = blk_linnos_issue,
	.done = blk_linnos_done,
	.exit = blk_linnos_exit,
#ifdef CONFIG_BLK_DEBUG_FS
	.debugfs_attrs = blk_linnos_debugfs_attrs,
#endif
};

static int linnos_attach(struct blk_linnos *linnos)
{
	struct request_queue *q = linnos->disk->queue;
	int ret;

	if (linnos->attached)
		return 0;
	mutex_lock(&q->rq_qos_mutex);
	ret = rq_qos_add(&linnos->rqos, linnos->disk, RQ_QOS_LINNOS,
			 &blk_linnos_ops);
	mutex_unlock(&q->rq_qos_mutex);
	if (ret)
		return ret;
	/* without accounting, rq_qos_issue() is not called */
	blk_stat_enable_accounting(q);
	static_branch_inc(&blk_linnos_key);
	linnos->attached = true;
	return 0;
}

/*
 * Set the mode. When a policy is switched on for the first time, it is added to the queue's
 * list, which waits for the I/O in flight. No other change of the mode waits, because it must
 * be possible to switch the policy off on a drive that does not respond. I/O whose request was
 * allocated while the policy was off is not counted.
 */
int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode)
{
	int ret;

	lockdep_assert_held(&linnos->lock);

	if (mode != LINNOS_OFF && linnos->mode == LINNOS_OFF) {
		ret = linnos_alloc_stats(linnos) ?: linnos_attach(linnos);
		if (ret)
			return ret;
		linnos_reset_history(linnos);
	}
	/* pairs with linnos_is_on(): the counters have been allocated */
	smp_store_release(&linnos->mode, mode);
	return 0;
}

static bool linnos_virtual;
module_param_named(virtual, linnos_virtual, bool, 0644);
MODULE_PARM_DESC(virtual, "also for disks without hardware (loop, nbd, ram)");

/*
 * Register the policy of a disk. Without the parameter "virtual", skip disks that cannot be SSDs,
 * because they have no hardware or are removable.
 */
int blk_linnos_register(struct gendisk *disk)
{
	bool hardware = disk_to_dev(disk)->parent &&
			!(disk->flags & GENHD_FL_REMOVABLE);
	struct blk_linnos *linnos;

	if (!hardware && !linnos_virtual)
		return 0;
	linnos = linnos_alloc(disk);
	if (!linnos)
		return -ENOMEM;
	/* blk_linnos_release() frees it, even if this function fails */
	disk->linnos = linnos;
	return kobject_init_and_add(&linnos->kobj, &linnos_ktype,
				    &disk_to_dev(disk)->kobj, "linnos");
}

/* Switch the policy off for good. It is freed later, because the disk may still be open. */
void blk_linnos_unregister(struct gendisk *disk)
{
	struct blk_linnos *linnos = disk->linnos;

	if (!linnos)
		return;
	/* when this returns, the policy cannot be switched on again */
	kobject_del(&linnos->kobj);
	guard(mutex)(&linnos->lock);
	linnos_set_mode(linnos, LINNOS_OFF);
}

void blk_linnos_release(struct gendisk *disk)
{
	struct blk_linnos *linnos = disk->linnos;

	if (!linnos)
		return;
	disk->linnos = NULL;
	kobject_put(&linnos->kobj);
}
