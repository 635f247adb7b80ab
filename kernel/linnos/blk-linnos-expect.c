// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: what a drive has done, and what to expect of a read there: the history and its
 * lock, what a model says of a read, and the answer to one who asks. The policy in the
 * block layer (blk-linnos.c) and the module that listens to its trace points count
 * requests in and out (linnos_drive.c) and tell of their end.
 */
#include <linux/bitfield.h>
#include <linux/blk-linnos.h>
#include <linux/blkdev.h>
#include <linux/export.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "blk-linnos-policy.h"
#include "linnos_guard.h"

#include <trace/events/linnos.h>

/*
 * Probe after as long as the short bursts last, or after a hundred refusals where reads
 * come faster: were every probe slow, one read in a hundred would be, and that spoils the
 * 99th percentile. So the wait doubles while probes are slow.
 */
#define PROBE_AFTER_REVOKES 100
#define PROBE_AFTER_US (10 * USEC_PER_MSEC)

#define FAILOVER_US 15 /* a refusal and a second submission, in the paper */

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

	if (!linnos)
		return NULL;
	linnos->disk = disk;
	linnos->threshold_us = LINNOS_NO_THRESHOLD;
	linnos->drive.probe_after_us = PROBE_AFTER_US;
	linnos->drive.probe_after_refused = PROBE_AFTER_REVOKES;
	linnos->failover_us = FAILOVER_US;
	raw_spin_lock_init(&linnos->history_lock);
	seqcount_raw_spinlock_init(&linnos->history_seq, &linnos->history_lock);
	mutex_init(&linnos->lock);
	return linnos;
}

void linnos_free(struct blk_linnos *linnos)
{
	free_percpu(linnos->stats);
	kvfree(linnos->upload.file);
	linnos_model_free(rcu_dereference_protected(linnos->model, true));
	kfree(linnos);
}

/* Only a policy in use needs counters. @linnos->lock is held. */
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
 * The history is written by completions, in interrupts of any CPU, under a lock that
 * is raw because completion may not sleep on PREEMPT_RT either. Decisions copy it by
 * the sequence count, without writing to the lock's line.
 */
static void linnos_history_update(struct blk_linnos *linnos,
				  const struct linnos_completed_io *ended)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	if (ended)
		linnos_history_add(&linnos->drive.history, ended);
	else
		linnos_drive_reset_history(&linnos->drive, ktime_get_ns());
	write_seqcount_end(&linnos->history_seq);
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
}

void linnos_reset_history(struct blk_linnos *linnos)
{
	linnos_history_update(linnos, NULL);
}

static void linnos_history_copy(const struct blk_linnos *linnos, u32 size,
				struct linnos_completed_io past[LINNOS_HISTORY])
{
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&linnos->history_seq);
		linnos_history_snapshot(&linnos->drive.history, size, past);
	} while (read_seqcount_retry(&linnos->history_seq, seq));
}

/* A read has a place before it is counted in, and until after it is counted out. */
static bool linnos_reads_are_in_flight(const struct blk_linnos *linnos)
{
	struct linnos_load load;

	/* behind a look at places: one that had left its own has been counted out */
	smp_rmb();
	linnos_load_snapshot(&linnos->drive, &load);
	/* before one: what is counted has its place */
	smp_rmb();
	return load.reads;
}

/* Reads are in flight, and none has completed for too long. */
static bool linnos_is_stalled(const struct blk_linnos *linnos, u64 now_ns)
{
	/* pairs with stall_us_store(): since when is known */
	u64 stall_ns = (u64)smp_load_acquire(&linnos->stall_us) * NSEC_PER_USEC;
	u64 since_ns = 0;
	int looks;

	if (likely(!stall_ns))
		return false;
	/*
	 * No place taken: the only read has ended since it was counted, and the history
	 * may not say so yet. One counted after that look is another, its place taken
	 * before: a second look sees it, unless it has come and gone in between. Or it
	 * never had a place.
	 */
	for (looks = 0; !since_ns && looks < 2; looks++) {
		if (!linnos_reads_are_in_flight(linnos))
			return false;
		since_ns = linnos_oldest_ns(&linnos->drive.places);
	}
	/* those that were in flight before are as old as the rule */
	since_ns = max(since_ns ?: READ_ONCE(linnos->stall_since_ns),
		       READ_ONCE(linnos->drive.history.end_ns));
	return (s64)(now_ns - since_ns) > (s64)stall_ns;
}

/* The most that a request has; a test's disk has no queue. */
static u32 linnos_request_pages_max(const struct blk_linnos *linnos)
{
	const struct request_queue *q = linnos->disk->queue;

	return q ? linnos_pages_of((u64)queue_max_sectors(q) << SECTOR_SHIFT) :
		   LINNOS_IO_PAGES_MAX;
}

/*
 * No burst, whatever a model says: none of the last reads took as long as would be called
 * one, and those in flight have hardly begun, as parts of one read have.
 */
static bool linnos_burst_is_unlikely(const struct blk_linnos *linnos,
				     const struct linnos_drive_snapshot *view,
				     u32 usual_us)
{
	u64 oldest_ns;
	int i;

	for (i = 0; i < LINNOS_HISTORY; i++)
		if (linnos_classify_slowness(view->past[i].latency_us,
					     usual_us) >=
		    LINNOS_SLOWNESS_OVER_2X_P90)
			return false;
	if (!view->load.reads)
		return true;
	oldest_ns = linnos_oldest_ns(&linnos->drive.places);
	return oldest_ns && (s64)(view->now_ns - oldest_ns) <=
				    (s64)usual_us * (s64)NSEC_PER_USEC / 4;
}

/*
 * Changes nothing. @guarded: for one who follows a model of bursts alone; where it is
 * plain that this is none he need not wait for that.
 */
void linnos_predict_read(struct blk_linnos *linnos, u8 region,
			 unsigned int bytes, u64 now_ns, bool guarded,
			 struct linnos_prediction *found)
{
	u32 most_pages = linnos_request_pages_max(linnos);
	struct linnos_drive_snapshot *view = &found->view;
	struct linnos_model *active;

	view->now_ns = now_ns;
	view->pages = linnos_pages_of(bytes);
	view->size = linnos_size_class(view->pages);
	linnos_load_snapshot(&linnos->drive, &view->load);
	view->in_region = linnos_region_reads(&linnos->drive, region);
	linnos_history_copy(linnos, view->size, view->past);
	found->size = linnos_size_class(min(view->pages, most_pages));
	found->guides = false;
	found->stalled = false;
	found->reason = LINNOS_NO_MODEL;
	found->n_features = 0;
	found->out[0] = 0;
	found->out[1] = 0;

	guard(rcu)();
	active = rcu_dereference(linnos->model);
	if (!active)
		return;
	found->stalled = linnos_is_stalled(linnos, now_ns);
	if (guarded && !active->chooses && !found->stalled &&
	    linnos_burst_is_unlikely(linnos, view, active->trees.overdue_us))
		return;
	found->guides = active->guides;
	if (linnos_predict(linnos, active, found))
		found->reason = LINNOS_PREDICTED_SLOW;
	else
		found->reason = found->stalled ? LINNOS_STALLED :
						 LINNOS_PREDICTED_FAST;
	if (!active->chooses)
		found->reason = LINNOS_MODEL_UNVALIDATED;
}

static u32 linnos_predicted_us(const struct linnos_prediction *found)
{
	return found->n_features ? found->out[1] : 0;
}

/* Is this a burst, by a model that knows added bursts alone, and nothing finer? */
static bool linnos_predicts_burst(const struct linnos_prediction *found)
{
	return found->reason == LINNOS_MODEL_UNVALIDATED &&
	       linnos_classify_slowness(found->out[1], found->overdue_us) >=
		       LINNOS_SLOWNESS_OVER_2X_P90;
}

/* With @more_us added; a stalled drive is later than all that are not. */
enum blk_linnos_expected
linnos_expected_us(const struct linnos_prediction *found, u32 more_us)
{
	bool chooses = found->reason != LINNOS_MODEL_UNVALIDATED;
	bool slow = chooses ? linnos_is_slow(found) :
			      linnos_predicts_burst(found);
	enum linnos_slowness wish = LINNOS_SLOWNESS_NONE;

	if (found->stalled)
		return BLK_LINNOS_STALLED;
	/* of a model that does not choose bursts are told, to who has a guard */
	if (chooses || slow)
		wish = linnos_classify_slowness(found->out[1],
						found->overdue_us);
	return BLK_LINNOS_US | (chooses ? 0 : BLK_LINNOS_US_UNVALIDATED) |
	       min_t(u32, found->out[1] + more_us, BLK_LINNOS_US_MASK - 1) |
	       FIELD_PREP(BLK_LINNOS_US_SLOWNESS, wish) |
	       (slow ? BLK_LINNOS_US_SLOW : 0);
}

static void linnos_fill_answer(const struct blk_linnos *linnos,
			       const struct linnos_prediction *found,
			       enum blk_linnos_expected expected,
			       struct blk_expect_drive *drive)
{
	drive->flags = 0;
	drive->latency_us = linnos_predicted_us(found);
	drive->known = BLK_EXPECT_NO_MODEL;
	if (found->reason == LINNOS_NO_MODEL)
		return;
	drive->known = found->n_features ? BLK_EXPECT_LATENCY :
					   BLK_EXPECT_FAST_OR_SLOW;
	if (found->reason == LINNOS_MODEL_UNVALIDATED)
		drive->flags |= BLK_EXPECT_UNVALIDATED;
	if (linnos_is_slow(found) || found->stalled)
		drive->flags |= BLK_EXPECT_SLOW;
	if (found->stalled)
		drive->flags |= BLK_EXPECT_STALLED;
	if (linnos_history_is_stale(&linnos->drive, found->size,
				    found->view.now_ns))
		drive->flags |= BLK_EXPECT_STALE;
	if (expected == BLK_LINNOS_PROBE)
		drive->flags |= BLK_EXPECT_PROBE;
}

/* To one who may send his read: is the drive to be probed with it? */
static enum blk_linnos_expected
linnos_answer_sender(struct blk_linnos *linnos,
		     const struct linnos_prediction *found)
{
	struct linnos_drive *drive = &linnos->drive;
	struct linnos_probe_state *look = &drive->look[found->size];
	u32 most = READ_ONCE(drive->probe_after_refused);
	u64 now_ns = found->view.now_ns;
	bool slow = linnos_is_slow(found) || found->stalled;
	/* passed over, for it is later than others */
	bool later = linnos_predicts_burst(found) ||
		     (found->n_features &&
		      found->reason != LINNOS_MODEL_UNVALIDATED &&
		      linnos_history_is_stale(drive, found->size, now_ns));
	bool many = most && atomic_read(&look->refused) >= most;

	if ((slow || (later && many)) &&
	    linnos_probe_claim(drive, found->size,
			       found->reason == LINNOS_PREDICTED_SLOW,
			       now_ns)) {
		linnos_count(linnos, LINNOS_STAT_PROBES);
		return BLK_LINNOS_PROBE;
	}
	if (slow || later)
		atomic_inc(&look->refused);
	if (slow)
		return BLK_LINNOS_SLOW;
	linnos_probe_close_window(look);
	linnos_probe_note_fast_read(drive, found->size, now_ns);
	return BLK_LINNOS_FAST;
}

enum blk_linnos_expected linnos_expect_read(struct blk_linnos *linnos,
					    u8 region, unsigned int bytes,
					    u64 now_ns,
					    enum linnos_query_kind asker,
					    struct blk_expect_drive *drive)
{
	enum blk_linnos_expected expected = BLK_LINNOS_FAST;
	struct linnos_prediction found __uninitialized;
	bool guarded = asker == LINNOS_QUERY_THEN_READ_GUARDED;
	u32 penalty_us;

	linnos_predict_read(linnos, region, bytes, now_ns, guarded, &found);
	if (linnos_is_unknown(&found) && !(guarded && found.guides))
		expected = BLK_LINNOS_UNKNOWN;
	else if (asker != LINNOS_QUERY_ONLY)
		expected = linnos_answer_sender(linnos, &found);
	else if (linnos_is_slow(&found))
		expected = BLK_LINNOS_SLOW;
	trace_linnos_expected(disk_devt(linnos->disk),
			      linnos_pending(&found.view), expected,
			      linnos_predicted_us(&found));
	if (drive)
		linnos_fill_answer(linnos, &found, expected, drive);
	if (expected == BLK_LINNOS_PROBE || expected == BLK_LINNOS_UNKNOWN)
		return expected;
	/* whatever the model says: nobody stays there to see what it takes */
	if (found.stalled)
		return BLK_LINNOS_STALLED;
	if (!found.n_features)
		return expected;
	penalty_us = linnos_queueing_penalty_us(found.view.load.reads,
						found.overdue_us);
	return linnos_expected_us(&found, penalty_us);
}

/**
 * blk_linnos_query() - blk_linnos_expect() for one who wants to know more
 * @bdev: the drive, or a part of it, held open by the caller
 * @sector: where on @bdev the read begins, or %LINNOS_SECTOR_UNKNOWN
 * @bytes: the size of the read
 * @now_ns: the time, the same for all drives that may serve it
 * @asker: does a read follow? If not, it is never told %BLK_LINNOS_PROBE
 * @drive: is told what is known, unless it is NULL
 *
 * Context: Any. Takes no lock, does not sleep, allocates nothing.
 */
enum blk_linnos_expected blk_linnos_query(struct block_device *bdev,
					  sector_t sector, unsigned int bytes,
					  u64 now_ns,
					  enum linnos_query_kind asker,
					  struct blk_expect_drive *drive)
{
	struct gendisk *disk = bdev->bd_disk;
	/* md sees to it itself that it asks no drive that is gone */
	bool gone = drive && test_bit(GD_DEAD, &disk->state);
	enum blk_linnos_expected expected = gone ? BLK_LINNOS_NOT_QUERIED :
						   BLK_LINNOS_UNKNOWN;
	u8 region = sector == LINNOS_SECTOR_UNKNOWN ?
			    LINNOS_REGION_UNKNOWN :
			    linnos_region_at(bdev->bd_start_sect + sector);
	struct blk_linnos *linnos;

	/* of a module: it may be told to observe the drive no longer */
	guard(rcu)();
	linnos = linnos_of_disk(disk);
	if (!gone && linnos && linnos_is_on(linnos))
		expected = linnos_expect_read(linnos, region, bytes, now_ns,
					      asker, drive);
	else if (drive)
		*drive = (struct blk_expect_drive){
			.fd = drive->fd,
			.known = gone	? BLK_EXPECT_GONE :
				 linnos ? BLK_EXPECT_OFF :
					  BLK_EXPECT_NO_POLICY,
		};
	return expected;
}

/**
 * blk_linnos_expect() - what would a drive do with a read now?
 * @array: asks, or NULL: nobody sees what comes of it
 * @bdev: the drive, or a part of it, held open by the caller
 * @sector: where on @bdev the read begins
 * @bytes: the size of the read
 *
 * For those who have the same data on several drives, to be asked right before the read
 * is sent, without the hint, to one of those that blk_linnos_best() returns: of each, or,
 * if blk_linnos_may_redirect() says so, only of the one that would serve it. Modes observe
 * and enforce answer alike, and nothing is known of a drive that is gone.
 *
 * An array that is on has a guard. So it may follow a model that is not known to predict
 * better than one number for all reads, too, where that knows of bursts.
 *
 * Context: Process context. Takes no lock, does not sleep, allocates nothing.
 */
enum blk_linnos_expected blk_linnos_expect(const struct blk_linnos_array *array,
					   struct block_device *bdev,
					   sector_t sector, unsigned int bytes)
{
	enum linnos_query_kind asker = LINNOS_QUERY_THEN_READ;

	if (array && READ_ONCE(array->mode) == BLK_LINNOS_ARRAY_ON)
		asker = LINNOS_QUERY_THEN_READ_GUARDED;
	return blk_linnos_query(bdev, sector, bytes, ktime_get_ns(), asker,
				NULL);
}
EXPORT_SYMBOL_GPL(blk_linnos_expect);

/* An I/O is not in flight any more; @now_ns: the time, if it was issued. */
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
		/* a probe is no mistake; nor was this one */
		if (!slow && io->flags & LINNOS_IO_SLOW)
			linnos_count(linnos, LINNOS_STAT_FALSE_REVOKES);
		io->flags &= ~LINNOS_IO_SLOW;
	}
	linnos_probe_complete(&linnos->drive, io, ended.end_ns, late);
}

/* Who wants to know since when reads are in flight? @linnos->lock is held. */
void linnos_update_start_tracking(struct blk_linnos *linnos)
{
	struct linnos_model *active;

	active = rcu_dereference_protected(linnos->model,
					   lockdep_is_held(&linnos->lock));
	WRITE_ONCE(linnos->drive.watching,
		   linnos->stall_us || (active && active->latency));
}
