// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: the history of a drive and its lock, predictions for a read, and answers to queries. The
 * policy in the block layer (blk-linnos.c), or the module that attaches to the block layer's trace
 * points, counts the requests in flight (linnos_drive.c) and reports their completion.
 */
#include <linux/bitfield.h>
#include <linux/blk-linnos.h>
#include <linux/blkdev.h>
#include <linux/export.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "blk-linnos-policy.h"
#include "linnos_guard.h"

/* linnos.ko creates its trace points in linnos_main.c */
#ifndef MODULE
#define CREATE_TRACE_POINTS
#endif
#include <trace/events/linnos.h>

/*
 * By default, a probe is sent after 10 ms, the duration of a short burst, or earlier, after a
 * hundred refusals. If all probes were slow, one read in a hundred would then be slow, which
 * would degrade the 99th percentile. The wait therefore doubles while probes are late.
 */
#define PROBE_AFTER_REVOKES 100
#define PROBE_AFTER_US (10 * USEC_PER_MSEC)

/* Cost of a refusal and a second submission, as measured in the paper. */
#define FAILOVER_US 15

u64 linnos_stat(struct blk_linnos *linnos, enum linnos_stat stat)
{
	/* pairs with linnos_alloc_stats() */
	struct linnos_stats __percpu *stats = smp_load_acquire(&linnos->stats);
	u64 sum = 0;
	int cpu;

	if (!stats)
		return 0;
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(stats, cpu)->count[stat]);
	return sum;
}

struct blk_linnos *linnos_alloc(struct gendisk *disk)
{
	struct blk_linnos *linnos = kzalloc(sizeof(*linnos), GFP_KERNEL);
	struct linnos_history_lock *lock;

	if (!linnos)
		return NULL;
	lock = &linnos->drive.history_lock;
	linnos->disk = disk;
	linnos->threshold_us = LINNOS_NO_THRESHOLD;
	linnos->drive.probe_after_us = PROBE_AFTER_US;
	linnos->drive.probe_after_refused = PROBE_AFTER_REVOKES;
	linnos->failover_us = FAILOVER_US;
	raw_spin_lock_init(&lock->writers);
	seqcount_raw_spinlock_init(&lock->seq, &lock->writers);
	mutex_init(&linnos->lock);
	return linnos;
}

void linnos_free(struct blk_linnos *linnos)
{
	free_percpu(linnos->stats);
	kvfree(linnos->upload.file);
	kvfree(rcu_dereference_protected(linnos->model, true));
	kfree(linnos);
}

/* Allocate the counters when the policy is first used. @linnos->lock is held. */
int linnos_alloc_stats(struct blk_linnos *linnos)
{
	struct linnos_stats __percpu *stats;

	if (linnos->stats)
		return 0;
	stats = alloc_percpu(struct linnos_stats);
	if (!stats)
		return -ENOMEM;
	/* linnos_stat() does not take the lock */
	smp_store_release(&linnos->stats, stats);
	return 0;
}

/*
 * Add a read to the history, or reset it if @ended is NULL. Completions write the history in
 * interrupts on any CPU. The lock is raw because completions must not sleep on PREEMPT_RT
 * either. Decisions copy the history under the sequence count, so that they do not write to
 * the lock's cache line. The load is on the same line and the end of the I/O has just written it:
 * the CPU already owns the line when it takes the lock.
 */
static void linnos_history_update(struct blk_linnos *linnos,
				  const struct linnos_completed_io *ended)
{
	struct linnos_history_lock *lock = &linnos->drive.history_lock;
	unsigned long flags;

	raw_spin_lock_irqsave(&lock->writers, flags);
	write_seqcount_begin(&lock->seq);
	if (ended)
		linnos_history_add(&linnos->drive.history, ended);
	else
		linnos_drive_reset_history(&linnos->drive, ktime_get_ns());
	write_seqcount_end(&lock->seq);
	raw_spin_unlock_irqrestore(&lock->writers, flags);
}

void linnos_reset_history(struct blk_linnos *linnos)
{
	linnos_history_update(linnos, NULL);
}

/* Predict a read, without side effects on the drive. */
void linnos_predict_read(struct blk_linnos *linnos, u8 region,
			 unsigned int bytes, u64 now_ns,
			 struct linnos_prediction *found)
{
	u64 max_bytes = (u64)queue_max_sectors(linnos->disk->queue)
			<< SECTOR_SHIFT;
	const struct linnos_history_lock *lock = &linnos->drive.history_lock;
	u32 pages = linnos_pages_of(bytes);
	struct linnos_model *active;
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&lock->seq);
		linnos_drive_view(&linnos->drive, &linnos->drive.history,
				  region, pages, now_ns, &found->view);
	} while (read_seqcount_retry(&lock->seq, seq));
	found->size = linnos_size_class(min(pages, linnos_pages_of(max_bytes)));
	found->reason = LINNOS_NO_MODEL;
	found->n_features = 0;
	found->out[0] = 0;
	found->out[1] = 0;

	guard(rcu)();
	active = rcu_dereference(linnos->model);
	if (!active)
		return;
	found->reason = linnos_predict(linnos, active, found) ?
				LINNOS_PREDICTED_SLOW :
				LINNOS_PREDICTED_FAST;
}

/* Answer a caller that may send its read to the drive, and decide whether that is a probe. */
static enum blk_linnos_expected
linnos_answer_sender(struct blk_linnos *linnos,
		     const struct linnos_prediction *found)
{
	struct linnos_drive *drive = &linnos->drive;
	struct linnos_probe_state *probe = &drive->probes[found->size];
	u32 most = READ_ONCE(drive->probe_after_refused);
	u64 now_ns = found->view.now_ns;
	bool slow = linnos_is_slow(found);
	/* no read has completed for long, perhaps because other drives seem to be faster */
	bool stale = found->n_features &&
		     linnos_history_is_stale(drive, found->size, now_ns);
	bool many = most && atomic_read(&probe->refused) >= most;

	if ((slow || (stale && many)) &&
	    linnos_probe_claim(drive, found->size, slow, now_ns)) {
		linnos_count(linnos, LINNOS_STAT_PROBES);
		return BLK_LINNOS_PROBE;
	}
	if (slow || stale)
		atomic_inc(&probe->refused);
	if (slow)
		return BLK_LINNOS_SLOW;
	linnos_probe_close_window(probe);
	linnos_probe_note_fast_read(drive, found->size, now_ns);
	return BLK_LINNOS_FAST;
}

/*
 * Answer a query, and set @found to the prediction. @will_send: the read may be sent to this drive.
 * If it is false, no probe is claimed, and the query does not affect when the drive is probed.
 */
enum blk_linnos_expected linnos_expect_read(struct blk_linnos *linnos,
					    u8 region, unsigned int bytes,
					    u64 now_ns, bool will_send,
					    struct linnos_prediction *found)
{
	enum blk_linnos_expected expected = BLK_LINNOS_FAST;
	u32 us;

	linnos_predict_read(linnos, region, bytes, now_ns, found);
	if (found->reason == LINNOS_NO_MODEL)
		expected = BLK_LINNOS_UNKNOWN;
	else if (will_send)
		expected = linnos_answer_sender(linnos, found);
	else if (linnos_is_slow(found))
		expected = BLK_LINNOS_SLOW;
	trace_linnos_expected(disk_devt(linnos->disk),
			      linnos_pending(&found->view), expected,
			      linnos_predicted_us(found));
	if (expected == BLK_LINNOS_PROBE || expected == BLK_LINNOS_UNKNOWN ||
	    !found->n_features)
		return expected;
	us = found->out[1] + linnos_queueing_penalty_us(found->view.load.reads,
							found->overdue_us);
	return BLK_LINNOS_US | min_t(u32, us, BLK_LINNOS_US_MASK) |
	       FIELD_PREP(BLK_LINNOS_US_SLOWNESS,
			  linnos_classify_slowness(found->out[1],
						   found->overdue_us)) |
	       (linnos_is_slow(found) ? BLK_LINNOS_US_SLOW : 0);
}

/**
 * blk_linnos_expect() - predict how a drive would serve a read now
 * @bdev: the drive, or a partition of it, held open by the caller
 * @sector: first sector of the read on @bdev
 * @bytes: size of the read
 *
 * For callers that store the same data on several drives. Call it right before the read is sent,
 * without the hint, to one of the drives that blk_linnos_best() returns. Query all drives, or only
 * the default drive if blk_linnos_may_redirect() returns false for it. The answers are the same in
 * the modes observe and enforce. The answer for a drive that is gone is %BLK_LINNOS_UNKNOWN.
 *
 * Context: Process context. Takes no lock, does not sleep, allocates nothing.
 */
enum blk_linnos_expected blk_linnos_expect(struct block_device *bdev,
					   sector_t sector, unsigned int bytes)
{
	u8 region = linnos_region_at(bdev->bd_start_sect + sector);
	struct linnos_prediction found __uninitialized;
	struct blk_linnos *linnos;

	/* the module may stop observing the drive at any time */
	guard(rcu)();
	linnos = linnos_of_disk(bdev->bd_disk);
	if (!linnos || !linnos_is_on(linnos))
		return BLK_LINNOS_UNKNOWN;
	return linnos_expect_read(linnos, region, bytes, ktime_get_ns(), true,
				  &found);
}
EXPORT_SYMBOL_GPL(blk_linnos_expect);

/* Handle the end of an I/O. @now_ns: the current time, or 0 if the I/O was never issued. */
void linnos_request_done(struct blk_linnos *linnos, struct linnos_io *io,
			 u64 now_ns)
{
	struct linnos_completed_io ended;
	u64 threshold_us;
	bool slow, late;

	if (!linnos_io_end(&linnos->drive, io, now_ns, &ended))
		return;
	linnos_history_update(linnos, &ended);
	threshold_us = READ_ONCE(linnos->threshold_us);
	slow = ended.latency_us > threshold_us;
	late = ended.latency_us > threshold_us + READ_ONCE(linnos->failover_us);
	linnos_count(linnos, LINNOS_STAT_LATENCY +
				     linnos_latency_bucket(ended.latency_us));
	if (slow)
		linnos_count(linnos, LINNOS_STAT_SLOW);
	if (slow && io->flags & LINNOS_IO_FAST)
		linnos_count(linnos, LINNOS_STAT_FALSE_SUBMITS);
	if (READ_ONCE(linnos->mode) != LINNOS_ENFORCE) {
		/*
		 * In mode enforce, a read that was admitted although predicted slow is a probe,
		 * and not a false revoke. In mode observe it is not a probe: clear its flag, so
		 * that it does not move the window.
		 */
		if (!slow && io->flags & LINNOS_IO_SLOW)
			linnos_count(linnos, LINNOS_STAT_FALSE_REVOKES);
		io->flags &= ~LINNOS_IO_SLOW;
	}
	linnos_probe_complete(&linnos->drive, io, ended.end_ns, late);
}
