// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: refuse a read that this drive would serve slowly.
 *
 * An SSD is slow in bursts: garbage collection, buffer flushes, failing chips. An
 * application that has its data on several drives marks a read as latency-critical
 * (RWF_LATCRIT), and a model of the drive predicts whether it would be slow right
 * now. Such a read ends with -EBUSY before it is throttled or charged to a cgroup and
 * before it has a request or a tag, and the application reads another replica.
 *
 *	submit_bio
 *	    │
 *	    ▼    fast
 *	  decide ──► cgroup limits, tag ──► request: track ──► issue
 *	    │                                   │                │
 *	    │ slow                              ▼                ▼
 *	    └► -EBUSY                     pending pages        drive
 *	                                        ▲                │
 *	                             history ◄──┴──── done ◄─────┘
 *
 * What a model sees is counted by request: the 4 KiB pages of reads and writes in
 * flight, and of each of the last four reads its latency and what was pending when
 * it joined (linnos_drive.c). Latency is from issue to completion, without what
 * cgroups, tags, schedulers or plugs add. A bio is in flight once it has a request:
 * what is held back before is no load.
 *
 * There are two kinds of model, trained in user space and uploaded per drive
 * (blk-linnos-model.c). The network of Hao et al., "LinnOS: Predictability on
 * Unpredictable Flash Storage with a Light Neural Network", OSDI 2020, tells slow
 * from fast (linnos_network.c). Trees predict microseconds (linnos_latency.c).
 *
 * A read is decided once, before the block layer splits it; each part is then
 * remembered as a request of its own. Reads without the hint and writes are only
 * counted; discards, flushes without data and passthrough are not.
 *
 * Stale history: a drive all of whose reads are refused completes none and would stay
 * slow for ever. So now and then one is admitted all the same, a probe
 * (linnos_look.c).
 *
 * Stalls: the history shows a burst when its first slow read completes. The stall
 * rule, off unless stall_us is set, refuses reads when none in flight has completed
 * for that long.
 *
 * Peers: a drive with a model of latencies can be told which others have the same
 * data (blk-linnos-peers.c). It then refuses a read only if one of them is predicted
 * to serve it sooner by more than failover_us.
 *
 * Asking: md raid1 and raid10, and programs (blk-linnos-ioctl.c), ask each drive what
 * to expect and send the read, without the hint, to the best one. Nothing is refused
 * then. A drive that is passed over goes stale too, and the answer to one asker is to
 * probe it with this read.
 *
 * The policy joins the queue when it is first switched on and stays until the disk
 * goes. Switching it off is a flag, whatever is in flight.
 */
#include <linux/blk-linnos.h>
#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "blk.h"
#include "blk-linnos.h"
#include "blk-linnos-policy.h"
#include "blk-stat.h"

#define CREATE_TRACE_POINTS
#include <trace/events/linnos.h>

static_assert(LINNOS_TRACE_HISTORY == LINNOS_HISTORY);

/*
 * Probe after as long as the short bursts last, or after a hundred refusals where
 * reads come faster: were every probe slow, one read in a hundred would be, and that
 * spoils the 99th percentile. So the wait doubles while probes are slow.
 */
#define PROBE_AFTER_REVOKES 100
#define PROBE_AFTER_US (10 * USEC_PER_MSEC)

/* What the paper found a refusal and a second submission to cost. */
#define FAILOVER_US 15

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

/* A counter's sum over all CPUs, 0 if the policy has never been on. */
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

/* A disk's policy, off and without a model; NULL if there is no memory. */
struct blk_linnos *linnos_alloc(struct gendisk *disk)
{
	struct blk_linnos *linnos = kzalloc(sizeof(*linnos), GFP_KERNEL);

	if (!linnos)
		return NULL;
	linnos->disk = disk;
	linnos->threshold_us = LINNOS_NO_THRESHOLD;
	linnos->probe_after_us = PROBE_AFTER_US;
	linnos->probe_after_revokes = PROBE_AFTER_REVOKES;
	linnos->failover_us = FAILOVER_US;
	INIT_LIST_HEAD(&linnos->drives);
	raw_spin_lock_init(&linnos->history_lock);
	seqcount_raw_spinlock_init(&linnos->history_seq, &linnos->history_lock);
	mutex_init(&linnos->lock);
	return linnos;
}

void linnos_free(struct blk_linnos *linnos)
{
	free_percpu(linnos->stats);
	kvfree(linnos->upload.file);
	linnos_active_free(rcu_dereference_protected(linnos->model, true));
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
static inline void linnos_history_update(struct blk_linnos *linnos,
					 const struct linnos_ended *ended)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	if (ended)
		linnos_history_add(&linnos->drive.history, ended);
	else
		linnos_drive_forget(&linnos->drive, ktime_get_ns());
	write_seqcount_end(&linnos->history_seq);
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
}

/* Start with an empty history. */
void linnos_forget(struct blk_linnos *linnos)
{
	linnos_history_update(linnos, NULL);
}

static void linnos_history_copy(const struct blk_linnos *linnos, u32 size,
				struct linnos_ended past[LINNOS_HISTORY])
{
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&linnos->history_seq);
		linnos_history_see(&linnos->drive.history, size, past);
	} while (read_seqcount_retry(&linnos->history_seq, seq));
}

static struct linnos_rules linnos_rules_of(const struct blk_linnos *linnos)
{
	return (struct linnos_rules){
		.probe_after_us = READ_ONCE(linnos->probe_after_us),
		.probe_after_refused = READ_ONCE(linnos->probe_after_revokes),
		.late_us = (u64)READ_ONCE(linnos->threshold_us) +
			   READ_ONCE(linnos->failover_us),
	};
}

/* Reads are in flight, and none has completed for too long. */
static bool linnos_is_stalled(const struct blk_linnos *linnos, u64 now_ns)
{
	u64 stall_ns = (u64)READ_ONCE(linnos->stall_us) * NSEC_PER_USEC;
	struct linnos_load load;
	u64 since_ns;

	if (likely(!stall_ns))
		return false;
	linnos_see_load(&linnos->drive, &load);
	if (!load.reads)
		return false;
	/* those that were in flight before are as old as the rule */
	since_ns = linnos_oldest_ns(&linnos->drive.places) ?:
			   READ_ONCE(linnos->stall_since_ns);
	since_ns = max(since_ns, READ_ONCE(linnos->drive.history.end_ns));
	return (s64)(now_ns - since_ns) > (s64)stall_ns;
}

/* The most that a request has; a test's disk has no queue. */
static u32 linnos_request_pages_max(const struct blk_linnos *linnos)
{
	const struct request_queue *q = linnos->disk->queue;

	return q ? linnos_pages_of((u64)queue_max_sectors(q) << SECTOR_SHIFT) :
		   LINNOS_IO_PAGES_MAX;
}

/* Of a place on the disk, not on a partition. */
static u8 linnos_region_at(sector_t sector)
{
	return linnos_region_of((u64)sector << SECTOR_SHIFT);
}

/* Predict a read of so many bytes. Changes nothing. */
static void linnos_predict_read(struct blk_linnos *linnos, u8 region,
				unsigned int bytes, u64 now_ns, bool traced,
				struct linnos_found *found)
{
	u32 most_pages = linnos_request_pages_max(linnos);
	struct linnos_view *view = &found->view;
	struct linnos_active_model *active;

	view->now_ns = now_ns;
	view->pages = linnos_pages_of(bytes);
	view->size = linnos_size_order(view->pages);
	linnos_see_load(&linnos->drive, &view->load);
	view->in_region = linnos_see_region(&linnos->drive, region);
	linnos_history_copy(linnos, view->size, view->past);
	found->size = linnos_size_order(min(view->pages, most_pages));
	found->rules = linnos_rules_of(linnos);
	found->traced = traced;
	found->reason = LINNOS_NO_MODEL;
	found->n_features = 0;
	found->out[0] = 0;
	found->out[1] = 0;

	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	if (active) {
		bool slow = linnos_predict(linnos, active, found);

		if (!active->chooses)
			found->reason = LINNOS_NO_CHOICE;
		else if (slow)
			found->reason = LINNOS_PREDICTED_SLOW;
		else if (linnos_is_stalled(linnos, now_ns))
			found->reason = LINNOS_STALLED;
		else
			found->reason = LINNOS_PREDICTED_FAST;
	}
	rcu_read_unlock();
}

/* Neither fast nor slow: there is no model, or one that does not choose. */
static bool linnos_is_unknown(const struct linnos_found *found)
{
	return found->reason == LINNOS_NO_MODEL ||
	       found->reason == LINNOS_NO_CHOICE;
}

static bool linnos_is_slow(const struct linnos_found *found)
{
	return found->reason == LINNOS_PREDICTED_SLOW ||
	       found->reason == LINNOS_STALLED;
}

/* What a model of latencies predicts; 0 if there is none. */
static u32 linnos_predicted_us(const struct linnos_found *found)
{
	return found->n_features ? found->out[1] : 0;
}

/* With @more_us added; a stalled drive is later than all that are not. */
static enum blk_linnos_expected
linnos_expected_us(const struct linnos_found *found, u32 more_us)
{
	u32 us = found->reason == LINNOS_STALLED ? BLK_LINNOS_US_MASK :
						   found->out[1];

	if (us != BLK_LINNOS_US_MASK)
		us = min_t(u32, us + more_us, BLK_LINNOS_US_MASK - 1);
	return BLK_LINNOS_US | us |
	       (linnos_is_slow(found) ? BLK_LINNOS_US_SLOW : 0);
}

/* How long would it take a peer, if its model tells? */
static enum blk_linnos_expected linnos_ask_peer(struct blk_linnos *peer,
						const struct bio *bio,
						u64 now_ns,
						struct linnos_found *found)
{
	found->view = (struct linnos_view){};
	found->n_features = 0;
	found->reason = LINNOS_NO_MODEL;
	/* a dying disk answers nothing any more */
	if (linnos_is_on(peer) && !test_bit(GD_DEAD, &peer->disk->state))
		linnos_predict_read(peer,
				    linnos_region_at(bio->bi_iter.bi_sector),
				    bio->bi_iter.bi_size, now_ns, false, found);
	if (!found->n_features || linnos_is_unknown(found))
		return BLK_LINNOS_UNKNOWN;
	return linnos_expected_us(found, 0);
}

/* The least that any peer predicts; BLK_LINNOS_US_MASK if none does. */
static u32 linnos_soonest_peer_us(struct blk_linnos *linnos,
				  const struct bio *bio, u64 now_ns)
{
	struct linnos_found found __uninitialized;
	enum blk_linnos_expected answer;
	u32 soonest_us = BLK_LINNOS_US_MASK;
	struct blk_linnos *peer;
	int i;

	rcu_read_lock();
	for (i = 0; i < LINNOS_PEERS_MAX; i++) {
		peer = rcu_dereference(linnos->peers[i]);
		if (!peer)
			continue;
		answer = linnos_ask_peer(peer, bio, now_ns, &found);
		trace_linnos_peer(disk_devt(linnos->disk),
				  bio->bi_iter.bi_sector, disk_devt(peer->disk),
				  answer, &found);
		if (answer & BLK_LINNOS_US)
			soonest_us = min_t(u32, soonest_us,
					   answer & BLK_LINNOS_US_MASK);
	}
	rcu_read_unlock();
	return soonest_us;
}

/*
 * Are peers named, and would none serve this slow read sooner? If one would, *@gain_us
 * is by how much more than a failover costs, as far as one knows.
 */
static bool linnos_peers_are_later(struct blk_linnos *linnos,
				   const struct bio *bio,
				   const struct linnos_found *found,
				   u32 *gain_us)
{
	u32 here_us, there_us;

	if (!found->n_features || !READ_ONCE(linnos->has_peers))
		return false;
	here_us = linnos_expected_us(found, 0) & BLK_LINNOS_US_MASK;
	there_us = linnos_soonest_peer_us(linnos, bio, found->view.now_ns) +
		   READ_ONCE(linnos->failover_us);
	if (there_us < here_us && found->reason != LINNOS_STALLED)
		*gain_us = here_us - there_us;
	return there_us >= here_us;
}

/* Is a slow read admitted all the same? Without a probe not if a peer is sooner. */
static bool linnos_admit_probe(struct blk_linnos *linnos,
			       const struct linnos_found *found, bool sooner)
{
	u64 now_ns = found->view.now_ns;
	u32 size = found->size;

	if (found->reason == LINNOS_PREDICTED_SLOW && !sooner &&
	    linnos_look_allows(&linnos->drive, &found->rules, size, now_ns))
		return true;
	return linnos_look_claim(&linnos->drive.look[size], &found->rules,
				 false, now_ns);
}

static void linnos_count_decision(struct blk_linnos *linnos,
				  enum linnos_reason reason, bool admit,
				  u32 gain_us)
{
	linnos_count(linnos, LINNOS_STAT_LATENCY_CRITICAL);
	linnos_count(linnos,
		     admit ? LINNOS_STAT_ADMITTED : LINNOS_STAT_REVOKED);
	if (!admit) {
		/* those that are admitted are counted when they have a request */
		linnos_count(linnos, LINNOS_STAT_READS);
		this_cpu_add(linnos->stats->count[LINNOS_STAT_EXPECTED_GAIN_US],
			     gain_us);
	}
	if (reason == LINNOS_STALLED)
		linnos_count(linnos, LINNOS_STAT_STALLED);
	if (reason == LINNOS_KEPT)
		linnos_count(linnos, LINNOS_STAT_KEPT);
	if (reason == LINNOS_PROBE)
		linnos_count(linnos, LINNOS_STAT_PROBES);
}

/* Admit or refuse a latency-critical read. Return: true if it is admitted. */
bool linnos_decide(struct blk_linnos *linnos, struct bio *bio, u64 now_ns)
{
	struct linnos_found found __uninitialized;
	enum linnos_reason reason;
	struct linnos_look *look;
	bool slow, admit;
	u32 gain_us = 0;

	linnos_predict_read(linnos, linnos_region_at(bio->bi_iter.bi_sector),
			    bio->bi_iter.bi_size, now_ns,
			    trace_linnos_decision_enabled(), &found);
	look = &linnos->drive.look[found.size];
	reason = found.reason;
	slow = linnos_is_slow(&found);
	if (reason == LINNOS_PREDICTED_FAST)
		linnos_look_fast(look);
	if (slow && linnos_peers_are_later(linnos, bio, &found, &gain_us))
		reason = LINNOS_KEPT;

	admit = !slow || reason == LINNOS_KEPT;
	if (admit) {
		linnos_look_chosen(look, &found.rules, now_ns);
	} else if (READ_ONCE(linnos->mode) != LINNOS_ENFORCE) {
		/* not "observe": it may have been switched off meanwhile */
		admit = true;
	} else if (linnos_admit_probe(linnos, &found, gain_us)) {
		admit = true;
		reason = LINNOS_PROBE;
	} else {
		atomic_inc(&look->refused);
	}
	linnos_count_decision(linnos, reason, admit, gain_us);
	trace_linnos_decision(disk_devt(linnos->disk), bio->bi_iter.bi_sector,
			      bio_sectors(bio), !admit, reason, &found);

	/* its request will know by this what was predicted */
	if (!linnos_is_unknown(&found) && reason != LINNOS_KEPT)
		bio_set_flag(bio, BIO_LATCRIT_DECIDED);
	if (slow || linnos_is_unknown(&found))
		bio->bi_opf &= ~REQ_LATCRIT;
	return admit;
}

/* What the ioctl tells of a drive; @expected is the answer to the question. */
static void linnos_fill_answer(const struct blk_linnos *linnos,
			       const struct linnos_found *found,
			       enum blk_linnos_expected expected,
			       struct blk_expect_drive *drive)
{
	drive->flags = 0;
	drive->latency_us = linnos_predicted_us(found);
	drive->known = BLK_EXPECT_NO_MODEL;
	if (found->reason == LINNOS_NO_MODEL)
		return;
	drive->known = found->n_features ? BLK_EXPECT_LATENCY :
					   BLK_EXPECT_VERDICT;
	if (found->reason == LINNOS_NO_CHOICE)
		drive->flags |= BLK_EXPECT_NO_CHOICE;
	if (linnos_is_slow(found))
		drive->flags |= BLK_EXPECT_SLOW;
	if (found->reason == LINNOS_STALLED)
		drive->flags |= BLK_EXPECT_STALLED;
	if (linnos_is_silent(&linnos->drive, &found->rules, found->size,
			     found->view.now_ns))
		drive->flags |= BLK_EXPECT_STALE;
	if (expected == BLK_LINNOS_PROBE)
		drive->flags |= BLK_EXPECT_PROBE;
}

/* The answer to one who may send his read: is the drive to be probed with it? */
static enum blk_linnos_expected
linnos_answer_sender(struct blk_linnos *linnos,
		     const struct linnos_found *found)
{
	struct linnos_look *look = &linnos->drive.look[found->size];
	const struct linnos_rules *rules = &found->rules;
	u64 now_ns = found->view.now_ns;
	bool slow = linnos_is_slow(found);
	/* passed over, for it is later than others */
	bool silent =
		found->n_features &&
		linnos_is_silent(&linnos->drive, rules, found->size, now_ns);
	bool many = rules->probe_after_refused &&
		    atomic_read(&look->refused) >= rules->probe_after_refused;

	if ((slow || (silent && many)) &&
	    linnos_look_claim(look, rules,
			      found->reason == LINNOS_PREDICTED_SLOW, now_ns)) {
		linnos_count(linnos, LINNOS_STAT_PROBES);
		return BLK_LINNOS_PROBE;
	}
	if (slow || silent)
		atomic_inc(&look->refused);
	if (slow)
		return BLK_LINNOS_SLOW;
	linnos_look_fast(look);
	linnos_look_chosen(look, rules, now_ns);
	return BLK_LINNOS_FAST;
}

/* blk_linnos_ask() of a policy that is on. */
enum blk_linnos_expected linnos_expect(struct blk_linnos *linnos, u8 region,
				       unsigned int bytes, u64 now_ns,
				       bool look,
				       struct blk_expect_drive *drive)
{
	enum blk_linnos_expected expected = BLK_LINNOS_FAST;
	struct linnos_found found __uninitialized;

	linnos_predict_read(linnos, region, bytes, now_ns, false, &found);
	if (linnos_is_unknown(&found))
		expected = BLK_LINNOS_UNKNOWN;
	else if (!look)
		expected = linnos_answer_sender(linnos, &found);
	else if (linnos_is_slow(&found))
		expected = BLK_LINNOS_SLOW;
	trace_linnos_expected(disk_devt(linnos->disk),
			      linnos_pending(&found.view), expected,
			      linnos_predicted_us(&found));
	if (drive)
		linnos_fill_answer(linnos, &found, expected, drive);
	if (!found.n_features || expected == BLK_LINNOS_PROBE ||
	    expected == BLK_LINNOS_UNKNOWN)
		return expected;
	return linnos_expected_us(&found,
				  linnos_crowding_us(found.view.load.reads,
						     found.overdue_us));
}

/* Is this bio part of a drive's load? Reads and writes with data are. */
static bool linnos_is_load(const struct bio *bio)
{
	return bio->bi_iter.bi_size &&
	       (bio_op(bio) == REQ_OP_READ || bio_op(bio) == REQ_OP_WRITE ||
		bio_op(bio) == REQ_OP_ZONE_APPEND);
}

/**
 * blk_linnos_decide() - may this read go to its drive?
 * @bio: a read with REQ_LATCRIT, not yet throttled nor accounted
 *
 * Whoever submits a bio holds the disk, and the disk the policy. It is decided once,
 * however often it is submitted.
 *
 * Context: Process context.
 * Return: BLK_STS_OK, or BLK_STS_REVOKED for one that must be ended.
 */
blk_status_t blk_linnos_decide(struct bio *bio)
{
	struct blk_linnos *linnos = bio->bi_bdev->bd_disk->linnos;

	/* a stacked driver leaves it to the drives below */
	if (!linnos || bio_flagged(bio, BIO_LATCRIT_DECIDED))
		return BLK_STS_OK;
	if (bio_op(bio) != REQ_OP_READ || !linnos_is_load(bio) ||
	    !linnos_is_on(linnos)) {
		bio->bi_opf &= ~REQ_LATCRIT;
		return BLK_STS_OK;
	}
	/* not blk_time_get_ns(), which is the time of a plug's first I/O */
	return linnos_decide(linnos, bio, ktime_get_ns()) ? BLK_STS_OK :
							    BLK_STS_REVOKED;
}

/**
 * blk_linnos_ask() - blk_linnos_expect() for one who wants to know more
 * @bdev: the drive, or a part of it, held open by the caller
 * @sector: where on @bdev the read begins, or %LINNOS_ANYWHERE
 * @bytes: the size of the read
 * @now_ns: the time, the same for all drives that may serve it
 * @look: no read will follow: nothing is promised or counted
 * @drive: is told what is known, unless it is NULL
 *
 * Context: Process context. Takes no lock, does not sleep, allocates nothing.
 * Return: what blk_linnos_expect() returns; with @look no BLK_LINNOS_PROBE.
 */
enum blk_linnos_expected blk_linnos_ask(struct block_device *bdev,
					sector_t sector, unsigned int bytes,
					u64 now_ns, bool look,
					struct blk_expect_drive *drive)
{
	struct blk_linnos *linnos = bdev->bd_disk->linnos;
	enum blk_expect_known known = BLK_EXPECT_OFF;
	u8 region = LINNOS_REGION_UNKNOWN;

	if (sector != LINNOS_ANYWHERE)
		region = linnos_region_at(bdev->bd_start_sect + sector);
	/* md sees to it itself that it asks no drive that is gone */
	if (drive && test_bit(GD_DEAD, &bdev->bd_disk->state))
		known = BLK_EXPECT_GONE;
	else if (!linnos)
		known = BLK_EXPECT_NO_POLICY; /* as of a stacked driver */
	else if (linnos_is_on(linnos))
		return linnos_expect(linnos, region, bytes, now_ns, look,
				     drive);
	if (drive) {
		drive->known = known;
		drive->flags = 0;
		drive->latency_us = 0;
	}
	return known == BLK_EXPECT_GONE ? BLK_LINNOS_NOT_ASKED :
					  BLK_LINNOS_UNKNOWN;
}

/**
 * blk_linnos_expect() - what would a drive do with a read now?
 * @bdev: the drive, or a part of it, held open by the caller
 * @sector: where on @bdev the read begins
 * @bytes: the size of the read
 *
 * For those who have the same data on several drives, to be asked of each right
 * before the read is sent, without the hint, to one of those that blk_linnos_best()
 * returns. Nothing is refused, and modes observe and enforce answer alike. A failed
 * drive is not noticed by itself: nothing is known of one that is gone.
 *
 * Context: Process context. Takes no lock, does not sleep, allocates nothing.
 * Return: see enum blk_linnos_expected.
 */
enum blk_linnos_expected blk_linnos_expect(struct block_device *bdev,
					   sector_t sector, unsigned int bytes)
{
	return blk_linnos_ask(bdev, sector, bytes, ktime_get_ns(), false, NULL);
}
EXPORT_SYMBOL_GPL(blk_linnos_expect);

/* A bio has got a request: it is in flight. */
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
		/* of one that was split, its last part */
		if (bio_flagged(bio, BIO_LATCRIT_DECIDED))
			flags |= bio->bi_opf & REQ_LATCRIT ? LINNOS_IO_FAST :
							     LINNOS_IO_SLOW;
		linnos_count(linnos, LINNOS_STAT_READS);
		if (READ_ONCE(linnos->drive.watching))
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

	/* not blk_time_get_ns(), as above */
	if (io->flags & LINNOS_IO_COUNTED && io->flags & LINNOS_IO_READ)
		linnos_io_issue(io, ktime_get_ns());
}

/* A scheduler has merged @next into @rq, which has its bios now. */
void __blk_linnos_join(struct request *rq, struct request *next)
{
	struct blk_linnos *linnos = rq->q->disk->linnos;

	if (linnos)
		linnos_io_join(&linnos->drive, linnos_io_of(rq),
			       linnos_io_of(next));
}

/*
 * The drive has answered a request with a bio, or a part of it. The last answer
 * counts: SCSI ends what is good of a read that failed first, and that may be no byte
 * at all. A request whose bios a multipath driver has taken away gets none.
 */
void __blk_linnos_answer(struct request *rq, blk_status_t status)
{
	struct linnos_io *io = linnos_io_of(rq);

	if (status)
		io->flags &= ~LINNOS_IO_ANSWERED;
	else
		io->flags |= LINNOS_IO_ANSWERED;
}

/* An I/O is not in flight any more; @now_ns: the time, if it was issued. */
void linnos_done(struct blk_linnos *linnos, struct linnos_io *io, u64 now_ns)
{
	struct linnos_ended ended;
	struct linnos_rules rules;
	bool slow;

	if (!linnos_io_end(&linnos->drive, io, now_ns, &ended))
		return;
	linnos_history_update(linnos, &ended);
	slow = ended.latency_us > READ_ONCE(linnos->threshold_us);
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
	rules = linnos_rules_of(linnos);
	linnos_look_ended(&linnos->drive, &rules, io, &ended);
}

static void blk_linnos_done(struct rq_qos *rqos, struct request *rq)
{
	struct linnos_io *io = linnos_io_of(rq);

	if (io->flags & LINNOS_IO_COUNTED)
		linnos_done(linnos_of(rqos), io,
			    io->issued_ns ? ktime_get_ns() : 0);
}

/* The disk goes, and nothing is in flight. */
static void blk_linnos_exit(struct rq_qos *rqos)
{
	blk_stat_disable_accounting(linnos_of(rqos)->disk->queue);
	static_branch_dec(&blk_linnos_key);
}

#ifdef CONFIG_BLK_DEBUG_FS
static int linnos_in_flight_show(void *data, struct seq_file *m)
{
	struct linnos_load load;

	linnos_see_load(&linnos_of(data)->drive, &load);
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
	/* without it nobody is told of a request's issue */
	blk_stat_enable_accounting(q);
	static_branch_inc(&blk_linnos_key);
	linnos->attached = true;
	return 0;
}

/*
 * The first time that a policy leaves off it joins the queue's list, which waits for the
 * I/O in flight. Nothing else waits: to switch off must work on a drive that does not
 * answer. I/O that got its request while it was off is not counted.
 */
int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode)
{
	int ret;

	lockdep_assert_held(&linnos->lock);

	if (mode != LINNOS_OFF && linnos->mode == LINNOS_OFF) {
		ret = linnos_alloc_stats(linnos) ?: linnos_attach(linnos);
		if (ret)
			return ret;
		linnos_forget(linnos);
	}
	/* pairs with linnos_is_on(): the counters are there */
	smp_store_release(&linnos->mode, mode);
	return 0;
}

/*
 * A model of latencies and the stall rule want to know since when reads are in flight.
 * @linnos->lock is held.
 */
void linnos_set_watching(struct blk_linnos *linnos)
{
	struct linnos_active_model *active;

	active = rcu_dereference_protected(linnos->model,
					   lockdep_is_held(&linnos->lock));
	WRITE_ONCE(linnos->drive.watching,
		   linnos->stall_us || (active && active->latency));
}

static bool linnos_virtual;
module_param_named(virtual, linnos_virtual, bool, 0644);
MODULE_PARM_DESC(virtual, "also for disks without hardware (loop, nbd, ram)");

/*
 * Give a new disk its policy and its sysfs directory, but not one that cannot be an SSD
 * behind a queue of its own: it has no hardware, or it is removable.
 */
int blk_linnos_register(struct gendisk *disk)
{
	bool hardware = disk_to_dev(disk)->parent &&
			!(disk->flags & GENHD_FL_REMOVABLE);
	struct blk_linnos *linnos;
	int ret;

	if (!hardware && !linnos_virtual)
		return 0;
	linnos = linnos_alloc(disk);
	if (!linnos)
		return -ENOMEM;
	/* blk_linnos_release() drops it, whatever happens here */
	disk->linnos = linnos;
	linnos_join(linnos);
	ret = kobject_init_and_add(&linnos->kobj, &linnos_ktype,
				   &disk_to_dev(disk)->kobj, "linnos");
	if (ret)
		linnos_leave(linnos);
	return ret;
}

/* A disk goes, which may stay open for long: switch its policy off for good. */
void blk_linnos_unregister(struct gendisk *disk)
{
	struct blk_linnos *linnos = disk->linnos;

	if (!linnos)
		return;
	/* nobody can switch it on again, or name its peers */
	kobject_del(&linnos->kobj);
	/* nor ask it for another drive */
	linnos_leave(linnos);
	mutex_lock(&linnos->lock);
	linnos_set_mode(linnos, LINNOS_OFF);
	mutex_unlock(&linnos->lock);
}

/* The disk is released. */
void blk_linnos_release(struct gendisk *disk)
{
	struct blk_linnos *linnos = disk->linnos;

	if (!linnos)
		return;
	disk->linnos = NULL;
	kobject_put(&linnos->kobj);
}
