// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: refuse a read that this drive would serve slowly.
 *
 * An SSD is fast most of the time and slow in bursts: garbage collection, buffer
 * flushes, failing chips. An application that has its data on several drives can
 * avoid a burst if it is told before it waits. It marks such a read as
 * latency-critical (RWF_LATCRIT), and for every one of them this policy asks a model
 * of the drive whether it would be fast or slow right now. A read predicted to be
 * slow is revoked: it ends with -EBUSY before it is throttled or accounted to a
 * cgroup and before it has a request, a tag or a place in any queue, and the
 * application reads another replica.
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
 * The drive is a black box. What a model sees of it is counted here, as every other
 * rq-qos policy counts, by request: 4 KiB pages of all reads and writes in flight;
 * and of each of the last four reads its latency, and what was pending when it
 * joined, itself included (linnos_drive.c). Both are the drive's and not the
 * host's. The latency is the time from a request's issue to its completion: what a
 * cgroup's limits, the wait for a tag, a scheduler or a plug add is not in it. In
 * flight is from the request on: what is plugged or scheduled will reach the drive
 * before those that come later, but a bio that iocost, io.max or a lack of tags
 * holds back is no load.
 *
 * Two kinds of model. The paper's network (linnos_network.c) tells slow from
 * fast: Hao et al., "LinnOS: Predictability on Unpredictable Flash Storage with a
 * Light Neural Network", OSDI 2020. Trees (linnos_latency.c) tell how long a
 * read would take, and slow is what is not worth waiting for. Training is done in
 * user space, and a model is uploaded per drive: blk-linnos-model.c.
 *
 * A read is decided once, as a whole, before the block layer splits it. What the
 * drive does with it is remembered request by request: each part of one that was
 * split is a read that the drive has served. Reads without the hint and writes are
 * only counted; discards, flushes without data and passthrough not even that.
 *
 * Stale history. A drive all of whose reads are revoked completes nothing and would
 * keep its bad name for ever. So now and then one is admitted all the same, a probe:
 * linnos_look.c.
 *
 * Stalls. The history shows a burst when its first slow read completes, and not
 * before. The stall rule, off unless stall_us is set, refuses a read when the oldest
 * in flight is older than that and none has completed for so long.
 *
 * Peers. To refuse a read that nobody else would serve sooner costs a failover and
 * gains nothing. A drive with a model of latencies can be told which drives have the
 * same data (blk-linnos-peers.c). It then refuses a read only if one of them would
 * serve it sooner by more than failover_us. A peer of which nothing is known is not
 * sooner; a drive that stalls is later than all that do not.
 *
 * Asked. Whoever has the same data on several drives, as md raid1 and raid10 have,
 * need not try one after the other: he asks each what to expect,
 * blk_linnos_expect(), and sends the read, without the hint, to one that should be
 * fast. Nothing is revoked then. A drive that is not chosen goes stale like one
 * whose reads are revoked, and is looked at likewise: the answer is to send it this
 * read. So is one that was passed over, for it is not slow but later than others,
 * when it has answered nothing for as long as makes one stale. Programs ask by an
 * ioctl: blk-linnos-ioctl.c.
 *
 * The policy joins the queue's list when it is first switched on, and stays until the
 * disk goes. To switch it off is a flag: it takes effect at once, whatever is in
 * flight, and what was counted in is counted out when it ends.
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
 * Bursts last from milliseconds (a flush) to many seconds (garbage collection, a
 * failing chip). Look again after as long as the short ones last, or after a hundred
 * revocations where reads come faster than that: were every probe slow, one read in
 * a hundred would be, and that spoils the 99th percentile. So the wait is doubled
 * while probes are slow, see linnos_look.c.
 */
#define PROBE_AFTER_REVOKES 100
#define PROBE_AFTER_US (10 * USEC_PER_MSEC)

/* What the paper found a revocation and a second submission to cost. */
#define FAILOVER_US 15

DEFINE_STATIC_KEY_FALSE(blk_linnos_key);

static struct linnos_io *linnos_io_of(struct request *rq)
{
	static_assert(sizeof(struct linnos_io) == sizeof(rq->linnos));

	return (struct linnos_io *)rq->linnos;
}

/**
 * linnos_stat() - read a counter
 * @linnos: the disk's policy
 * @stat: which
 *
 * Return: the sum over all CPUs, 0 if the policy has never been on.
 */
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

/**
 * linnos_alloc() - allocate a disk's policy, off and without a model
 * @disk: the disk
 *
 * Return: the policy, to be freed with linnos_free(), or NULL.
 */
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

/**
 * linnos_free() - free a disk's policy
 * @linnos: the policy; nobody uses it any more
 */
void linnos_free(struct blk_linnos *linnos)
{
	free_percpu(linnos->stats);
	kvfree(linnos->upload.file);
	linnos_active_free(rcu_dereference_protected(linnos->model, true));
	kfree(linnos);
}

/**
 * linnos_alloc_stats() - allocate the counters, which only a policy in use needs
 * @linnos: the disk's policy
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0 or -ENOMEM.
 */
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

/**
 * linnos_forget() - start with an empty history
 * @linnos: the disk's policy
 */
void linnos_forget(struct blk_linnos *linnos)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	linnos_drive_forget(&linnos->drive, ktime_get_ns());
	write_seqcount_end(&linnos->history_seq);
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
}

/*
 * Completions write the history from interrupts, on any CPU, and must agree on an
 * order: a lock, raw because completion may not sleep on PREEMPT_RT either, held for
 * a few stores. Whoever asks only wants a consistent copy, and there may be many at
 * once: the sequence count lets them have it without writing to the lock's line. An
 * interrupt that completes a read in the midst of the copying makes it start again.
 */
static void linnos_remember(struct blk_linnos *linnos,
			    const struct linnos_ended *ended)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	linnos_history_add(&linnos->drive.history, ended);
	write_seqcount_end(&linnos->history_seq);
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
}

static void linnos_recall(const struct blk_linnos *linnos, u32 size,
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
static bool linnos_stalled(const struct blk_linnos *linnos, u64 now_ns)
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

/* A request has no more. */
static u32 linnos_most_pages(const struct blk_linnos *linnos)
{
	const struct request_queue *q = linnos->disk->queue;

	/* a test's disk has none */
	return q ? linnos_pages_of((u64)queue_max_sectors(q) << SECTOR_SHIFT) :
		   LINNOS_IO_PAGES_MAX;
}

/* What is predicted for a read of so many bytes? To look changes nothing. */
static void linnos_find(struct blk_linnos *linnos, unsigned int bytes,
			u64 now_ns, bool traced, struct linnos_found *found)
{
	struct linnos_view *view = &found->view;
	struct linnos_active_model *active;

	view->now_ns = now_ns;
	view->pages = linnos_pages_of(bytes);
	view->size = linnos_size_order(view->pages);
	found->size =
		linnos_size_order(min(view->pages, linnos_most_pages(linnos)));
	linnos_see_load(&linnos->drive, &view->load);
	linnos_recall(linnos, view->size, view->past);
	found->traced = traced;
	found->reason = LINNOS_NO_MODEL;
	found->n_features = 0;
	found->out[0] = 0;
	found->out[1] = 0;

	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	if (active && linnos_predict(linnos, active, found))
		found->reason = LINNOS_PREDICTED_SLOW;
	else if (active)
		found->reason = linnos_stalled(linnos, now_ns) ?
					LINNOS_STALLED :
					LINNOS_PREDICTED_FAST;
	if (active && !active->chooses)
		found->reason = LINNOS_NO_CHOICE;
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

/* In microseconds, of a model of latencies; stalled is later than all else. */
static enum blk_linnos_expected linnos_in_us(const struct linnos_found *found)
{
	u32 us = found->reason == LINNOS_STALLED ? BLK_LINNOS_US_MASK :
						   found->out[1];

	return BLK_LINNOS_US | us |
	       (linnos_is_slow(found) ? BLK_LINNOS_US_SLOW : 0);
}

/* The same for one of many who choose; none but a stalled drive is as late as that. */
static enum blk_linnos_expected
linnos_among_many(const struct linnos_found *found)
{
	enum blk_linnos_expected answer = linnos_in_us(found);
	u32 us = answer & BLK_LINNOS_US_MASK;

	if (us == BLK_LINNOS_US_MASK)
		return answer;
	us += linnos_crowding_us(found->view.load.reads, found->overdue_us);
	us = min_t(u32, us, BLK_LINNOS_US_MASK - 1);
	return (answer & ~BLK_LINNOS_US_MASK) | us;
}

/* How long would it take a peer? It is not promised the read. */
static enum blk_linnos_expected linnos_ask_peer(struct blk_linnos *peer,
						const struct bio *bio,
						u64 now_ns,
						struct linnos_found *found)
{
	found->view = (struct linnos_view){};
	found->n_features = 0;
	/* a network cannot tell; a dying disk answers nothing any more */
	if (!linnos_is_on(peer) || test_bit(GD_DEAD, &peer->disk->state))
		return BLK_LINNOS_UNKNOWN;
	linnos_find(peer, bio->bi_iter.bi_size, now_ns, false, found);
	return found->n_features && !linnos_is_unknown(found) ?
		       linnos_in_us(found) :
		       BLK_LINNOS_UNKNOWN;
}

/* The least that any of the peers tells; BLK_LINNOS_US_MASK if none does. */
static u32 linnos_soonest_us(struct blk_linnos *linnos,
			     struct linnos_peers *peers, const struct bio *bio,
			     u64 now_ns)
{
	struct linnos_found found __uninitialized;
	enum blk_linnos_expected answer;
	u32 soonest_us = BLK_LINNOS_US_MASK;
	struct blk_linnos *peer;
	int i;

	for (i = 0; i < LINNOS_PEERS_MAX; i++) {
		peer = rcu_dereference(peers->at[i]);
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
	return soonest_us;
}

/*
 * A slow read is not refused if peers are named and none would serve it sooner. If
 * one would, *@gain_us is by how much more than a failover costs.
 */
static bool linnos_keeps(struct blk_linnos *linnos, const struct bio *bio,
			 const struct linnos_found *found, u32 *gain_us)
{
	struct linnos_peers *peers;
	u32 here_us, there_us = 0;

	if (!found->n_features)
		return false;
	rcu_read_lock();
	peers = rcu_dereference(linnos->peers);
	if (peers)
		there_us = linnos_soonest_us(linnos, peers, bio,
					     found->view.now_ns) +
			   READ_ONCE(linnos->failover_us);
	rcu_read_unlock();
	if (!peers)
		return false;
	here_us = linnos_in_us(found) & BLK_LINNOS_US_MASK;
	if (there_us >= here_us)
		return true;
	/* nobody knows how long it would have stalled */
	if (found->reason != LINNOS_STALLED)
		*gain_us = here_us - there_us;
	return false;
}

/* May a slow read go there all the same? Not against a peer who is sooner. */
static bool linnos_probes(struct blk_linnos *linnos,
			  const struct linnos_found *found, bool sooner)
{
	struct linnos_rules rules = linnos_rules_of(linnos);
	u32 size = found->size;

	if (found->reason == LINNOS_PREDICTED_SLOW && !sooner &&
	    linnos_look_allows(&linnos->drive, &rules, size,
			       found->view.now_ns))
		return true;
	return linnos_look_claim(&linnos->drive.look[size], &rules, false,
				 found->view.now_ns);
}

/* It is sent there, and expected to be fast. */
static void linnos_chosen(struct blk_linnos *linnos,
			  const struct linnos_found *found)
{
	struct linnos_look *look = &linnos->drive.look[found->size];
	struct linnos_rules rules = linnos_rules_of(linnos);

	linnos_look_chosen(look, &rules, found->view.now_ns);
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

/**
 * linnos_decide() - admit or refuse a latency-critical read
 * @linnos: the disk's policy, on
 * @bio: the read
 * @now_ns: the time
 *
 * Return: true if it is admitted.
 */
bool linnos_decide(struct blk_linnos *linnos, struct bio *bio, u64 now_ns)
{
	struct linnos_found found __uninitialized;
	enum linnos_reason reason;
	struct linnos_look *look;
	bool slow, admit;
	u32 gain_us = 0;

	linnos_find(linnos, bio->bi_iter.bi_size, now_ns,
		    trace_linnos_decision_enabled(), &found);
	look = &linnos->drive.look[found.size];
	reason = found.reason;
	slow = linnos_is_slow(&found);
	if (reason == LINNOS_PREDICTED_FAST)
		linnos_look_fast(look);
	if (slow && linnos_keeps(linnos, bio, &found, &gain_us))
		reason = LINNOS_KEPT;
	if (!slow || reason == LINNOS_KEPT)
		linnos_chosen(linnos, &found);

	/* not "observe": the mode may have been switched off meanwhile */
	admit = !slow || reason == LINNOS_KEPT ||
		READ_ONCE(linnos->mode) != LINNOS_ENFORCE;
	if (!admit && linnos_probes(linnos, &found, gain_us)) {
		admit = true;
		reason = LINNOS_PROBE;
	}
	if (!admit)
		atomic_inc(&look->refused);
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

/* What is known of a drive, in full; @expected is the answer to give. */
static void linnos_tell(const struct blk_linnos *linnos,
			const struct linnos_found *found,
			enum blk_linnos_expected expected,
			struct blk_expect_drive *drive)
{
	struct linnos_rules rules = linnos_rules_of(linnos);

	drive->flags = 0;
	drive->latency_us = 0;
	drive->known = BLK_EXPECT_NO_MODEL;
	if (found->reason == LINNOS_NO_MODEL)
		return;
	drive->known = BLK_EXPECT_VERDICT;
	if (found->n_features) {
		drive->known = BLK_EXPECT_LATENCY;
		drive->latency_us = found->out[1];
	}
	if (found->reason == LINNOS_NO_CHOICE)
		drive->flags |= BLK_EXPECT_NO_CHOICE;
	if (linnos_is_slow(found))
		drive->flags |= BLK_EXPECT_SLOW;
	if (found->reason == LINNOS_STALLED)
		drive->flags |= BLK_EXPECT_STALLED;
	if (linnos_is_silent(&linnos->drive, &rules, found->size,
			     found->view.now_ns))
		drive->flags |= BLK_EXPECT_STALE;
	if (expected == BLK_LINNOS_PROBE)
		drive->flags |= BLK_EXPECT_PROBE;
}

/* Who asks may send his read there: is it to be looked at with it? */
static enum blk_linnos_expected linnos_promise(struct blk_linnos *linnos,
					       const struct linnos_found *found)
{
	u32 size = found->size;
	struct linnos_look *look = &linnos->drive.look[size];
	struct linnos_rules rules = linnos_rules_of(linnos);
	bool slow = linnos_is_slow(found);
	/* passed over, for it is later than others */
	bool silent = found->n_features &&
		      linnos_is_silent(&linnos->drive, &rules, size,
				       found->view.now_ns);
	bool many = rules.probe_after_refused &&
		    atomic_read(&look->refused) >= rules.probe_after_refused;

	if ((slow || (silent && many)) &&
	    linnos_look_claim(look, &rules,
			      found->reason == LINNOS_PREDICTED_SLOW,
			      found->view.now_ns)) {
		linnos_count(linnos, LINNOS_STAT_PROBES);
		return BLK_LINNOS_PROBE;
	}
	if (slow || silent)
		atomic_inc(&look->refused);
	if (slow)
		return BLK_LINNOS_SLOW;
	linnos_look_fast(look);
	linnos_look_chosen(look, &rules, found->view.now_ns);
	return BLK_LINNOS_FAST;
}

/**
 * linnos_expect() - what to expect of a read, should it be sent
 * @linnos: the disk's policy, on
 * @bytes: its size
 * @now_ns: the time
 * @look: it will not be: promise it nothing, and count nothing
 * @drive: is told what is known, unless it is NULL
 *
 * Return: what blk_linnos_expect() returns.
 */
enum blk_linnos_expected linnos_expect(struct blk_linnos *linnos,
				       unsigned int bytes, u64 now_ns,
				       bool look,
				       struct blk_expect_drive *drive)
{
	enum blk_linnos_expected expected = BLK_LINNOS_UNKNOWN;
	struct linnos_found found __uninitialized;
	u32 latency_us = 0;

	linnos_find(linnos, bytes, now_ns, false, &found);
	if (found.n_features)
		latency_us = found.out[1];
	if (linnos_is_unknown(&found))
		expected = BLK_LINNOS_UNKNOWN;
	else if (!look)
		expected = linnos_promise(linnos, &found);
	else
		expected = linnos_is_slow(&found) ? BLK_LINNOS_SLOW :
						    BLK_LINNOS_FAST;
	trace_linnos_expected(disk_devt(linnos->disk),
			      linnos_pending(&found.view), expected,
			      latency_us);
	if (drive)
		linnos_tell(linnos, &found, expected, drive);
	if (!latency_us || expected == BLK_LINNOS_PROBE ||
	    expected == BLK_LINNOS_UNKNOWN)
		return expected;
	return linnos_among_many(&found);
}

/* Is this bio part of a drive's load? Reads and writes with data are. */
static bool linnos_bio_counts(const struct bio *bio)
{
	if (!bio->bi_iter.bi_size)
		return false;
	switch (bio_op(bio)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
	case REQ_OP_ZONE_APPEND:
		return true;
	default:
		return false;
	}
}

/**
 * blk_linnos_decide() - may this read go to its drive?
 * @bio: a read with REQ_LATCRIT, not yet throttled nor accounted
 *
 * No reference on the queue is held: whoever submits a bio holds the disk, and the
 * disk the policy. It is decided once, however often it is submitted.
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
	if (bio_op(bio) != REQ_OP_READ || !linnos_bio_counts(bio) ||
	    !linnos_is_on(linnos)) {
		bio->bi_opf &= ~REQ_LATCRIT;
		return BLK_STS_OK;
	}
	/*
	 * Not blk_time_get_ns(): its time is that of the first I/O of the
	 * plug, which may be many submissions ago.
	 */
	return linnos_decide(linnos, bio, ktime_get_ns()) ? BLK_STS_OK :
							    BLK_STS_REVOKED;
}

static void linnos_nothing_known(struct blk_expect_drive *drive,
				 enum blk_expect_known why)
{
	if (drive)
		*drive = (struct blk_expect_drive){ .fd = drive->fd,
						    .known = why };
}

/**
 * blk_linnos_ask() - blk_linnos_expect() for one who wants to know more
 * @bdev: the drive, or a part of it, held open by the caller
 * @bytes: the size of the read
 * @now_ns: the time, the same for all drives that may serve it
 * @look: no read will follow: nothing is promised or counted
 * @drive: is told what is known, unless it is NULL
 *
 * Context: Process context. Takes no lock, does not sleep, allocates nothing.
 * Return: what blk_linnos_expect() returns; with @look no BLK_LINNOS_PROBE.
 */
enum blk_linnos_expected blk_linnos_ask(struct block_device *bdev,
					unsigned int bytes, u64 now_ns,
					bool look,
					struct blk_expect_drive *drive)
{
	struct blk_linnos *linnos = bdev->bd_disk->linnos;

	if (linnos && linnos_is_on(linnos))
		return linnos_expect(linnos, bytes, now_ns, look, drive);
	/* a stacked driver has no policy */
	linnos_nothing_known(drive,
			     linnos ? BLK_EXPECT_OFF : BLK_EXPECT_NO_POLICY);
	return BLK_LINNOS_UNKNOWN;
}

/**
 * blk_linnos_expect() - what would a drive do with a read now?
 * @bdev: the drive, or a part of it, held open by the caller
 * @bytes: the size of the read
 *
 * For those who have the same data elsewhere, to be asked for each drive that may
 * serve a read, right before it is sent to one of them without the hint;
 * blk_linnos_best() tells which. That is no decision: nothing is revoked nor counted
 * but the inference (and a probe), and modes observe and enforce answer alike.
 *
 * Faults are not foreseen. Of a drive that has failed and is gone nothing is known;
 * of one that fails its reads, what it did with the last that it served.
 *
 * Context: Process context. Takes no lock, does not sleep, allocates nothing.
 * Return: see enum blk_linnos_expected.
 */
enum blk_linnos_expected blk_linnos_expect(struct block_device *bdev,
					   unsigned int bytes)
{
	return blk_linnos_ask(bdev, bytes, ktime_get_ns(), false, NULL);
}
EXPORT_SYMBOL_GPL(blk_linnos_expect);

/* What was predicted of the read whose last part, or all, this bio is. */
static u8 linnos_predicted(struct bio *bio)
{
	if (!bio_flagged(bio, BIO_LATCRIT_DECIDED))
		return 0;
	return bio->bi_opf & REQ_LATCRIT ? LINNOS_IO_FAST : LINNOS_IO_SLOW;
}

/* A bio has got a request: it is in flight. */
static void blk_linnos_track(struct rq_qos *rqos, struct request *rq,
			     struct bio *bio)
{
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);
	u64 now_ns = 0;
	u8 flags = 0;

	if (!linnos_is_on(linnos) || !linnos_bio_counts(bio))
		return;
	if (bio_op(bio) == REQ_OP_READ) {
		flags = LINNOS_IO_READ | linnos_predicted(bio);
		linnos_count(linnos, LINNOS_STAT_READS);
		if (READ_ONCE(linnos->drive.watching))
			now_ns = ktime_get_ns();
	}
	linnos_io_begin(&linnos->drive, linnos_io_of(rq),
			linnos_pages_of(bio->bi_iter.bi_size), flags, now_ns);
}

static void blk_linnos_merge(struct rq_qos *rqos, struct request *rq,
			     struct bio *bio)
{
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);

	linnos_io_grow(&linnos->drive, linnos_io_of(rq),
		       linnos_pages_of(bio->bi_iter.bi_size));
}

static void blk_linnos_issue(struct rq_qos *rqos, struct request *rq)
{
	struct linnos_io *io = linnos_io_of(rq);

	/* not blk_time_get_ns(), as above */
	if (io->flags & LINNOS_IO_COUNTED && io->flags & LINNOS_IO_READ)
		linnos_io_issue(io, ktime_get_ns());
}

/**
 * __blk_linnos_join() - a scheduler merges two requests
 * @rq: the one that remains
 * @next: the other, whose bios it has now
 *
 * Context: Any.
 */
void __blk_linnos_join(struct request *rq, struct request *next)
{
	struct blk_linnos *linnos = rq->q->disk->linnos;

	if (linnos)
		linnos_io_join(&linnos->drive, linnos_io_of(rq),
			       linnos_io_of(next));
}

/**
 * __blk_linnos_answer() - the drive has answered a request, or a part of it
 * @rq: the request, with a bio
 * @status: how
 *
 * The last answer counts: SCSI ends what is good of a read that failed first, and
 * that may be no byte at all. A request whose bios a multipath driver has taken away
 * gets none.
 *
 * Context: Any.
 */
void __blk_linnos_answer(struct request *rq, blk_status_t status)
{
	struct linnos_io *io = linnos_io_of(rq);

	if (status)
		io->flags &= ~LINNOS_IO_ANSWERED;
	else
		io->flags |= LINNOS_IO_ANSWERED;
}

/**
 * linnos_done() - an I/O is not in flight any more
 * @linnos: the disk's policy
 * @io: what its request remembers
 * @now_ns: the time, if it was issued
 */
void linnos_done(struct blk_linnos *linnos, struct linnos_io *io, u64 now_ns)
{
	struct linnos_ended ended;
	struct linnos_rules rules;
	bool slow;

	if (!linnos_io_end(&linnos->drive, io, now_ns, &ended))
		return;
	linnos_remember(linnos, &ended);
	slow = ended.latency_us > READ_ONCE(linnos->threshold_us);
	linnos_count_latency(linnos, ended.latency_us);
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
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);
	struct linnos_io *io = linnos_io_of(rq);

	if (io->flags & LINNOS_IO_COUNTED)
		linnos_done(linnos, io, io->issued_ns ? ktime_get_ns() : 0);
}

/* Never: a disk that goes has been detached. But the list asks for one. */
static void blk_linnos_exit(struct rq_qos *rqos)
{
}

#ifdef CONFIG_BLK_DEBUG_FS
static int linnos_in_flight_show(void *data, struct seq_file *m)
{
	struct rq_qos *rqos = data;
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);
	struct linnos_load load;

	linnos_see_load(&linnos->drive, &load);
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

/* The disk goes. Waits for the I/O in flight. */
static void linnos_detach(struct blk_linnos *linnos)
{
	struct request_queue *q = linnos->disk->queue;

	if (!linnos->attached)
		return;
	mutex_lock(&q->rq_qos_mutex);
	rq_qos_del(&linnos->rqos);
	mutex_unlock(&q->rq_qos_mutex);
	blk_stat_disable_accounting(q);
	static_branch_dec(&blk_linnos_key);
	linnos->attached = false;
}

/**
 * linnos_set_mode() - switch the policy off, to observing or to enforcing
 * @linnos: the disk's policy
 * @mode: the new mode
 *
 * The first time that it leaves off it joins the queue's list, which waits for the
 * I/O in flight. Nothing else waits: to switch off must work on a drive that does
 * not answer. Leaving off starts with an empty history, and I/O that got its request
 * before is not counted.
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0 or -ENOMEM.
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

/**
 * linnos_set_watching() - since when reads in flight are is kept, or not any more
 * @linnos: the disk's policy
 *
 * For a model of latencies and for the stall rule. Of those in flight now nothing is
 * known.
 *
 * Context: Process context, @linnos->lock held.
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

/**
 * blk_linnos_register() - give a new disk its policy and its sysfs directory
 * @disk: the disk, blk-mq
 *
 * Not one that cannot be an SSD behind a queue of its own: it has no hardware, or it
 * is removable.
 *
 * Return: 0 or an errno.
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

/**
 * blk_linnos_unregister() - a disk goes: switch its policy off for good
 * @disk: the disk; it may stay open for long
 *
 * Context: Process context.
 */
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
	linnos_detach(linnos);
	mutex_unlock(&linnos->lock);
}

/**
 * blk_linnos_release() - the disk is released
 * @disk: the disk
 */
void blk_linnos_release(struct gendisk *disk)
{
	struct blk_linnos *linnos = disk->linnos;

	if (!linnos)
		return;
	disk->linnos = NULL;
	kobject_put(&linnos->kobj);
}
