// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: refuse a read that this drive would serve slowly.
 *
 * An SSD is fast most of the time and slow in bursts: garbage collection,
 * buffer flushes, failing chips. An application that has its data on several
 * drives can avoid a burst if it is told before it waits. It marks such a read
 * as latency-critical (RWF_LATCRIT), and for every one of them this policy asks
 * a small neural network whether the drive would serve it fast or slow right
 * now. A read predicted to be slow is revoked: it ends with -EBUSY before it
 * is throttled or accounted to a cgroup and before it has a request, a tag or a
 * place in any queue, and the application reads another replica.
 *
 *	submit_bio
 *	    │
 *	    ▼    fast
 *	  decide ──► cgroup limits, tag ──► request ──► issue
 *	    │                                  │          │
 *	    │ slow                             ▼          ▼
 *	    └► -EBUSY                  pending pages    drive
 *	                                       ▲          │
 *	                            history ◄──┴── complete
 *
 * The drive is a black box. What the network sees is counted here:
 *
 *  - pending: 4 KiB pages of all reads and writes in flight, each I/O rounded
 *    up, the one that arrives included;
 *  - for each of the last four completed reads, its latency and what was
 *    pending when it joined them, itself included.
 *
 * Both are the drive's and not the host's. The latency of a read is the time
 * from its issue to the driver to its completion: what a cgroup's limits, the
 * wait for a tag, a scheduler or a plug add is not in it. If the driver hands
 * it back and is given it again, the longest of these times. An I/O is in flight
 * from when it has a request, or has been merged into one, until it ends: what
 * is plugged or scheduled will reach the drive before those that come later,
 * but a bio that iocost, io.max or a lack of tags holds back is no load, and
 * must not give the drive a bad name with everyone else.
 *
 * From the queue length and the latencies it led to the network recognises a
 * drive that is slower than its load explains. After Hao et al., "LinnOS:
 * Predictability on Unpredictable Flash Storage with a Light Neural Network",
 * OSDI 2020. The arithmetic is in linnos_engine.c, training is done in user
 * space, and a model is uploaded per drive: blk-linnos-model.c.
 *
 * There is a second kind of model, which says how long a read would take: trees
 * in the place of the network, linnos_latency.c. A read is slow when that is
 * longer than the model finds worth waiting for. Trees see more of the drive,
 * above all ages: blk-linnos-watch.c. What only they see is kept while a drive
 * has such a model. All else is the same for both.
 *
 * A bio is decided when it is submitted, and remembered when it reaches the
 * queue, each once and as a whole, before the block layer splits it. It
 * completes when the last of its parts does. Each part is pending from its own
 * request on, and the latency of the whole is that of the part that the drive
 * took longest over. Reads without the hint, writes and everything else are
 * only counted, or not even that (discards, flushes without data, passthrough).
 *
 * Stale history. A drive all of whose reads are revoked completes nothing and
 * would keep its bad name for ever. So when the last completed read is too long
 * ago, or too many reads have been revoked since, one read that would be
 * revoked is admitted as a probe, and no other until it has returned.
 *
 *	revoked, revoked, ... probe ──► slow: wait twice as long ──► probe ...
 *	                        │
 *	                        └► fast: the next one is a probe, at once,
 *	                           until the network says fast by itself
 *
 * A probe that returns slow was a mistake, so probes become rarer while the
 * drive stays slow. One that returns fast replaces one of four slow reads in
 * the history: the others must follow quickly, or the drive would be shunned
 * for four waits after it has recovered. One that fails, or ends before it
 * reaches the drive, has told nothing: the next read may be a probe.
 *
 * A probe is chosen when it is submitted, and may then be held up by the limits
 * of its cgroup or for want of a tag, for as long as others care to hold it up.
 * It must not take the rest hostage: if the drive has not been given it within
 * a wait, another is sent, and its own end tells nothing any more.
 *
 * Stalls. The history shows a burst when its first slow read completes, and not
 * before: until then the reads that arrive look fast. The stall rule, off
 * unless stall_us is set, refuses a read when others are in flight and none
 * has completed for that long. In flight is from the request on, as above: what
 * a scheduler or a plug holds back is in this time.
 *
 * Peers. To refuse a read that nobody else would serve sooner costs a failover
 * and gains nothing. A drive with a model of latencies can be told which drives
 * have the same data (linnos/peers, blk-linnos-peers.c). It then asks each of
 * them how long this read would take there, and refuses it only if one would
 * serve it sooner by more than failover_us:
 *
 *	slow ──► peers named? ──► one of them sooner? ──► probe, or -EBUSY
 *	              │ no              │ no
 *	              ▼                 ▼
 *	       probe, or -EBUSY       admit: kept
 *
 * A peer of which nothing is known (off, asleep, dying, without a model or with a
 * network) is not sooner. What is asked wakes up a peer that is asleep, and keeps
 * it awake, for else nothing would ever be known of one that is read from only
 * when others refuse. It is no arrival there. A drive that stalls is later than
 * all that do not. A network tells no microseconds, and its drive no peers.
 *
 * Asked. Whoever has the same data on several drives, as md raid1 and raid10
 * have, need not try one after the other: before it sends a read it asks each
 * of them what to expect, blk_linnos_expect(), and sends the read, without the
 * hint, to one that should be fast. Nothing is revoked then and nothing
 * decided, and observing is enough. What the drive does with the reads that it
 * is given tells of it as ever. A drive that is not chosen goes stale like one
 * whose reads are revoked, and the same rule has it looked at: the answer is to
 * send it this read, and the next read to arrive there, which has no hint to be
 * known by, is the probe.
 *
 * Programs ask by an ioctl, BLKEXPECT, several drives at once: blk-linnos-ioctl.c.
 *
 * Where the models tell microseconds, a drive is passed over that is not slow,
 * only later than others. Then its history grows old too, and may be wrong by
 * now. So it is looked at when it has been passed over for both as long and as
 * often as makes one stale: that is one read in a hundred at most.
 *
 * Asleep. Drives without hinted reads should not pay for those with. One that
 * is on and gets neither a hinted read nor a question for SLEEP_AFTER falls
 * asleep: nothing is counted, and I/O goes past it with a test or two. It stays
 * in the queue's list: to leave it, and to come back, the queue would have to be
 * drained, and all I/O would wait meanwhile for the slowest in flight. The next
 * hinted read or question wakes it. Until it is awake reads are admitted unasked
 * and nothing is known, and then the history starts empty. I/Os that arrived
 * while the drive slept are not pending, those counted before are counted out
 * when they complete, and so nothing is ever counted out that was not counted
 * in.
 *
 * Off. The policy is in the queue's list only while its mode is not off.
 *
 * Many CPUs. What several CPUs write on every I/O, a line of memory, goes from
 * one to the next, and costs each of them more than all else here. So a CPU that
 * meets others there too often counts by itself for a while, and leaves its reads
 * out of the history: blk-linnos-cpus.h. What is pending is then right but for a
 * few pages.
 */
#include <linux/blk-linnos.h>
#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/slab.h>

#include "blk.h"
#include "blk-linnos.h"
#include "blk-linnos-cpus.h"
#include "blk-linnos-policy.h"

#define CREATE_TRACE_POINTS
#include <trace/events/linnos.h>

EXPORT_TRACEPOINT_SYMBOL_GPL(linnos_decision);
EXPORT_TRACEPOINT_SYMBOL_GPL(linnos_expected);
EXPORT_TRACEPOINT_SYMBOL_GPL(linnos_peer);

static_assert(LINNOS_TRACE_HISTORY == LINNOS_HISTORY);

/*
 * Bursts last from milliseconds (a flush) to many seconds (garbage collection,
 * a failing chip). Look again after as long as the short ones last, or after a
 * hundred revocations where reads come faster than that. Were every probe slow,
 * that would make one read in a hundred slow and spoil the 99th percentile, so
 * each slow probe doubles the wait, up to eight times as long: in a long burst
 * at most one hinted read in 800 is a probe, or one in 80 ms, and a drive that
 * recovers is back in use 80 ms later at worst.
 */
#define PROBE_AFTER_REVOKES 100
#define PROBE_AFTER_US (10 * USEC_PER_MSEC)
#define PROBE_MAX_BACKOFF 3

/*
 * A drive in use has hinted reads many times a second. Waking up costs the
 * history, so do not fall asleep in the pauses of a busy application.
 */
#define SLEEP_AFTER (10 * HZ)

/* What the paper found a revocation and a second submission to cost. */
#define FAILOVER_US 15

/* Pages are counted in this unit, whatever the machine's page size. */
#define LINNOS_PAGE_BYTES 4096

/*
 * linnos->probe says whether a probe is in flight, whether the drive has been
 * given it, whether the next read to arrive will be it, because somebody who
 * asked was told to send one, and above that which one it is. They are numbered,
 * so that one that was given up and ends after all is not taken for another. A
 * bio bears the low bits of its number.
 */
#define PROBE_IN_FLIGHT BIT(0)
#define PROBE_ISSUED BIT(1)
#define PROBE_OPEN BIT(2)
#define PROBE_STATE (PROBE_IN_FLIGHT | PROBE_ISSUED | PROBE_OPEN)
#define PROBE_NUMBER GENMASK(11, 3)

static_assert(PROBE_NUMBER >> 3 == LINNOS_BIO_NUMBER >> 21);

DEFINE_STATIC_KEY_FALSE(blk_linnos_key);

/**
 * linnos_stat() - read a counter
 * @linnos: the disk's policy
 * @stat: which
 *
 * Return: the sum over all CPUs, 0 if the policy has never been on.
 */
u64 linnos_stat(struct blk_linnos *linnos, enum linnos_stat stat)
{
	/* pairs with linnos_alloc_percpu() */
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
 * linnos_pending_pages() - pages in flight
 * @linnos: the disk's policy
 *
 * Return: 4 KiB pages of counted I/Os that have a request and have not ended.
 */
u32 linnos_pending_pages(struct blk_linnos *linnos)
{
	return max(linnos_pages_of(linnos_in_flight_all(linnos)), 0);
}

/**
 * linnos_reads_in_flight() - reads in flight
 * @linnos: the disk's policy
 *
 * Return: counted reads that have a request, all of it, and have not ended.
 */
u32 linnos_reads_in_flight(struct blk_linnos *linnos)
{
	return max(linnos_reads_of(linnos_in_flight_all(linnos)), 0);
}

/**
 * linnos_see() - what is in flight, as this CPU sees it
 * @linnos: the disk's policy
 * @seen: is filled in
 *
 * What other CPUs hold is not in it, see blk-linnos-cpus.h.
 */
void linnos_see(const struct blk_linnos *linnos, struct linnos_seen *seen)
{
	/* a drive that has never been on may be asked, as a peer */
	struct linnos_cpu __percpu *cpus = READ_ONCE(linnos->cpus);
	s64 in_flight = 0, write_pages = 0;

	if (likely(cpus)) {
		struct linnos_cpu *cpu = raw_cpu_ptr(cpus);

		in_flight = atomic64_read(&cpu->in_flight);
		write_pages = atomic64_read(&cpu->write_pages);
	}
	in_flight += atomic64_read(&linnos->in_flight);
	write_pages += atomic64_read(&linnos->write_pages);
	seen->pages = max(linnos_pages_of(in_flight), 0);
	seen->reads = max(linnos_reads_of(in_flight), 0);
	seen->write_pages = max_t(s64, write_pages, 0);
}

/**
 * linnos_free() - free what linnos_alloc() gave
 * @linnos: a policy that nobody uses any more
 *
 * Context: Process context.
 */
void linnos_free(struct blk_linnos *linnos)
{
	linnos_active_free(rcu_dereference_protected(linnos->model, true));
	kfree(rcu_dereference_protected(linnos->peers, true));
	kvfree(linnos->upload.file);
	kfree(linnos->watch);
	free_percpu(linnos->cpus);
	free_percpu(linnos->prepared);
	free_percpu(linnos->stats);
	kfree(linnos);
}

static void linnos_idle_work(struct work_struct *work)
{
	struct blk_linnos *linnos =
		container_of(work, struct blk_linnos, idle_work);
	struct gendisk *disk = linnos->disk;
	struct module *owner = disk->fops->owner;

	/* this may free linnos */
	put_disk(disk);
	module_put(owner);
}

/*
 * A bio that was split may outlive the disk that counts it: its last part was
 * taken to another path by a multipath driver, the rest completed here, and
 * then this path was removed. Its end looks the disk up. So keep a disk that
 * goes while such bios are in flight, as one that somebody has open is kept.
 */
static void linnos_hold_disk(struct blk_linnos *linnos)
{
	linnos_count_exactly(linnos);
	if (atomic64_read(&linnos->in_flight) == IN_FLIGHT_DISK)
		return;
	__module_get(linnos->disk->fops->owner);
	get_device(disk_to_dev(linnos->disk));
	if (!atomic64_sub_return(IN_FLIGHT_DISK, &linnos->in_flight))
		queue_work(system_wq, &linnos->idle_work);
}

static void linnos_wake_work(struct work_struct *work);
static void linnos_sleep_work(struct work_struct *work);

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
	atomic64_set(&linnos->in_flight, IN_FLIGHT_DISK);
	linnos->held_most = clamp_t(u32, HELD_PAGES / num_possible_cpus(),
				    HELD_LEAST, HELD_MOST);
	linnos_count_apart(linnos);
	raw_spin_lock_init(&linnos->history_lock);
	seqcount_raw_spinlock_init(&linnos->history_seq, &linnos->history_lock);
	mutex_init(&linnos->lock);
	INIT_WORK(&linnos->idle_work, linnos_idle_work);
	INIT_WORK(&linnos->wake_work, linnos_wake_work);
	INIT_DELAYED_WORK(&linnos->sleep_work, linnos_sleep_work);
	return linnos;
}

/**
 * linnos_alloc_percpu() - allocate what only a policy in use needs
 * @linnos: the disk's policy
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0 or -ENOMEM.
 */
int linnos_alloc_percpu(struct blk_linnos *linnos)
{
	struct linnos_stats __percpu *stats;

	if (!linnos->prepared)
		linnos->prepared = alloc_percpu(struct linnos_prepared);
	if (!linnos->prepared)
		return -ENOMEM;
	if (!linnos->cpus)
		/* linnos_see() does not take the lock */
		smp_store_release(&linnos->cpus,
				  alloc_percpu(struct linnos_cpu));
	if (!linnos->cpus)
		return -ENOMEM;
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
 * linnos_forget_past() - start with an empty history
 * @linnos: the disk's policy
 * @now_ns: the time
 *
 * A probe in flight remains one, and ends as one.
 */
void linnos_forget_past(struct blk_linnos *linnos, u64 now_ns)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	memset(linnos->history.pending, 0, sizeof(linnos->history.pending));
	memset(linnos->history.latency_us, 0,
	       sizeof(linnos->history.latency_us));
	memset(&linnos->answered, 0, sizeof(linnos->answered));
	linnos->history.generation++;
	write_seqcount_end(&linnos->history_seq);
	WRITE_ONCE(linnos->last_read_ns, now_ns);
	linnos->recorded_ns = 0;
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
	atomic_set(&linnos->revokes, 0);
	WRITE_ONCE(linnos->probe_again, false);
	WRITE_ONCE(linnos->probe_backoff, 0);
}

/*
 * Completions write the history from interrupts, on any CPU, and must agree on
 * an order: a lock, raw because completion may not sleep on PREEMPT_RT either,
 * held for a few stores. Arrivals only want a consistent copy, and there may be
 * many at once: the sequence count lets them have it without writing to the
 * lock's cache line. An interrupt that completes a read in the midst of the
 * copying makes the copy start again.
 */
static void linnos_history_read(struct blk_linnos *linnos,
				struct linnos_view *view, bool answered)
{
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&linnos->history_seq);
		view->history = linnos->history;
		if (answered)
			view->answered = linnos->answered;
	} while (read_seqcount_retry(&linnos->history_seq, seq));
}

/* When: the drive has answered this read, and another at most an instant later. */
static void linnos_answered_add(struct blk_linnos *linnos, u32 pages)
{
	struct linnos_answered *a = &linnos->answered;
	int i;

	for (i = 0; i < LINNOS_HISTORY - 1; i++) {
		a->pages[i] = a->pages[i + 1];
		a->end_ns[i] = a->end_ns[i + 1];
	}
	a->pages[i] = pages;
	a->end_ns[i] = READ_ONCE(linnos->last_read_ns);
}

/*
 * Add a read to the history, and leave a copy of it in @copy; not if this CPU is
 * quiet, or another adds one at this moment. A probe has too much to tell to be
 * left out. Return: whether it was added.
 */
static bool linnos_history_add(struct blk_linnos *linnos,
			       const struct bio_linnos *io, u32 pages,
			       struct linnos_history *copy)
{
	struct linnos_cpu *cpu = raw_cpu_ptr(linnos->cpus);
	bool is_probe = io->verdict == LINNOS_VERDICT_PROBE;
	struct linnos_history *h = &linnos->history;
	u64 now_ns = READ_ONCE(linnos->last_read_ns);
	s64 ago_ns = S64_MAX;
	unsigned long flags;
	int i;

	if (linnos_is_quiet(linnos, cpu) && !is_probe) {
		this_cpu_inc(linnos->cpus->left_out);
		return false;
	}
	/* who takes it between these two makes this one wait, but not for long */
	if (!is_probe && raw_spin_is_locked(&linnos->history_lock)) {
		this_cpu_inc(linnos->cpus->left_out);
		linnos_meet(linnos, cpu, 0, now_ns);
		return false;
	}
	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	for (i = 0; i < LINNOS_HISTORY - 1; i++) {
		h->pending[i] = h->pending[i + 1];
		h->latency_us[i] = h->latency_us[i + 1];
	}
	h->pending[i] = io->pending;
	h->latency_us[i] = io->served_us;
	h->generation++;
	if (h->cpu != raw_smp_processor_id()) {
		ago_ns = now_ns - linnos->recorded_ns;
		h->cpu = raw_smp_processor_id();
	}
	if (READ_ONCE(linnos->watching))
		linnos_answered_add(linnos, pages);
	write_seqcount_end(&linnos->history_seq);
	linnos->recorded_ns = now_ns;
	*copy = *h;
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
	linnos_meet(linnos, cpu, ago_ns, now_ns);
	/* only read, most of the time, and not by all CPUs at once */
	if (atomic_read(&linnos->revokes))
		atomic_set(&linnos->revokes, 0);
	return true;
}

/*
 * Is it time to look whether the drive is still slow, and are we the one? If
 * so, *@number is the probe's; without @number the next read to arrive is it.
 */
static bool linnos_probe_claim(struct blk_linnos *linnos, u64 now_ns,
			       u32 *number)
{
	/* pairs with linnos_probe_done(): what the last one has told */
	u32 probe = atomic_read_acquire(&linnos->probe);
	u32 next = ((probe | PROBE_STATE) + 1) | PROBE_IN_FLIGHT |
		   (number ? 0 : PROBE_OPEN);
	u32 after_us = READ_ONCE(linnos->probe_after_us);
	u64 after_ns = (u64)after_us * NSEC_PER_USEC;
	u64 patience_ns = (u64)(after_us ?: PROBE_AFTER_US) * NSEC_PER_USEC;
	u64 after_revokes = READ_ONCE(linnos->probe_after_revokes);
	u8 backoff = READ_ONCE(linnos->probe_backoff);
	/* A read that completed just now may make the age negative. */
	s64 age_ns = now_ns - READ_ONCE(linnos->last_read_ns);
	s64 held_ns = now_ns - READ_ONCE(linnos->probe_since_ns);
	u64 revokes = atomic_read(&linnos->revokes);

	if (!READ_ONCE(linnos->probe_again) &&
	    !(after_ns && age_ns > (s64)(after_ns << backoff)) &&
	    !(after_revokes && revokes >= after_revokes << backoff))
		return false;
	/* one at a time, but not if the host holds it back */
	if (probe & PROBE_ISSUED)
		return false;
	if (probe & PROBE_IN_FLIGHT && held_ns <= (s64)(patience_ns << backoff))
		return false;
	/* before anyone can see the probe that it is the time of */
	WRITE_ONCE(linnos->probe_since_ns, now_ns);
	/* nor may it find the one in its place that was given up */
	if (READ_ONCE(linnos->watch))
		linnos_watch_probe(linnos->watch, 0);
	/* not if another has come, even gone, since we looked: think again */
	if (atomic_cmpxchg(&linnos->probe, probe, next) != probe)
		return false;
	if (number)
		*number = FIELD_GET(PROBE_NUMBER, next);
	linnos_count(linnos, LINNOS_STAT_PROBES);
	return true;
}

/* Has it answered no read for as long as makes its history stale? */
static bool linnos_is_silent(const struct blk_linnos *linnos, u64 now_ns)
{
	u64 after_ns = (u64)READ_ONCE(linnos->probe_after_us) * NSEC_PER_USEC;
	s64 age_ns = now_ns - READ_ONCE(linnos->last_read_ns);

	return after_ns && age_ns > (s64)after_ns;
}

/* Have reads gone elsewhere for long, and many of them? */
static bool linnos_passed_over(struct blk_linnos *linnos, u64 now_ns)
{
	u64 after_revokes = READ_ONCE(linnos->probe_after_revokes);
	u64 revokes = atomic_read(&linnos->revokes);

	return linnos_is_silent(linnos, now_ns) && after_revokes &&
	       revokes >= after_revokes;
}

/* A read without the hint arrives: is it the probe that somebody was to send? */
static void linnos_probe_take(struct blk_linnos *linnos, struct bio_linnos *io)
{
	u32 probe = atomic_read(&linnos->probe);

	if (likely(!(probe & PROBE_OPEN)) ||
	    atomic_cmpxchg(&linnos->probe, probe, probe & ~PROBE_OPEN) != probe)
		return;
	io->verdict = LINNOS_VERDICT_PROBE;
	io->probe = FIELD_GET(PROBE_NUMBER, probe);
}

/* Is this bio the probe in flight, rather than one that was given up? */
static bool linnos_is_probe(u32 probe, const struct bio_linnos *io)
{
	return io->verdict == LINNOS_VERDICT_PROBE && probe & PROBE_IN_FLIGHT &&
	       FIELD_GET(PROBE_NUMBER, probe) == io->probe;
}

/**
 * linnos_issued() - the drive is given a read: no other probe, if it is one
 * @linnos: the disk's policy
 * @bio: a bio in the account
 */
void linnos_issued(struct blk_linnos *linnos, const struct bio *bio)
{
	struct bio_linnos io = linnos_unpack(bio);
	u32 probe = atomic_read(&linnos->probe);

	if (!(probe & PROBE_ISSUED) && linnos_is_probe(probe, &io))
		atomic_cmpxchg(&linnos->probe, probe, probe | PROBE_ISSUED);
}

/*
 * A probe has returned: was the drive still slow? One that failed, went to
 * another path or never got as far as the drive (-EAGAIN for want of a tag)
 * does not tell: the next read may be a probe, at the same wait as this.
 */
static void linnos_probe_done(struct blk_linnos *linnos,
			      const struct bio_linnos *io, bool told, bool slow)
{
	u32 probe = atomic_read(&linnos->probe);
	u8 backoff = READ_ONCE(linnos->probe_backoff);

	if (!linnos_is_probe(probe, io))
		return;
	if (told) {
		WRITE_ONCE(linnos->probe_again, !slow);
		if (!slow)
			WRITE_ONCE(linnos->probe_backoff, 0);
		else if (backoff < PROBE_MAX_BACKOFF)
			WRITE_ONCE(linnos->probe_backoff, backoff + 1);
	}
	/*
	 * Whoever is to send the next one sees the above; pairs with
	 * linnos_probe_claim(). No loop: if it is another by now, this one had
	 * been given up.
	 */
	atomic_cmpxchg_release(&linnos->probe, probe, probe & ~PROBE_STATE);
}

/* Reads are in flight, and none has completed for too long. */
static bool linnos_stalled(struct blk_linnos *linnos, u64 now_ns)
{
	/* pairs with stall_us_store() */
	u64 stall_ns = (u64)smp_load_acquire(&linnos->stall_us) * NSEC_PER_USEC;
	u64 since_ns;

	/* pairs with linnos_start(): since when, if there are any */
	if (!stall_ns ||
	    linnos_reads_of(atomic64_read_acquire(&linnos->in_flight)) <= 0)
		return false;
	since_ns = max(READ_ONCE(linnos->last_read_ns),
		       READ_ONCE(linnos->busy_since_ns));
	return (s64)(now_ns - since_ns) > (s64)stall_ns;
}

/* The largest bio is close to 4 GiB: round up in 64 bits. */
static u32 linnos_pages(unsigned int bytes)
{
	return DIV_ROUND_UP_ULL(bytes, LINNOS_PAGE_BYTES);
}

static u32 linnos_bio_pages(const struct bio *bio)
{
	return linnos_pages(bio->bi_iter.bi_size);
}

/*
 * What a read of so many pages finds; linnos_foresee() looks at the rest. Nobody
 * has filled the view with zeros before, as kernels do with what is on the stack:
 * there are features where there are @n_features, and nowhere else.
 */
static void linnos_view_init(struct blk_linnos *linnos,
			     struct linnos_view *view, u32 pages, u64 now_ns,
			     bool traced)
{
	linnos_collect_late(linnos, now_ns);
	linnos_see(linnos, &view->seen);
	view->now_ns = now_ns;
	view->pages = pages;
	/* it waits for what is pending: not for what the host holds back */
	view->pending = view->seen.pages + pages;
	view->traced = traced;
	view->n_features = 0;
	view->out[0] = 0;
	view->out[1] = 0;
}

/* What is predicted for a read? To look changes nothing. */
static enum linnos_reason linnos_look(struct blk_linnos *linnos,
				      struct linnos_view *view)
{
	enum linnos_reason reason = LINNOS_NO_MODEL;
	struct linnos_active_model *active;

	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	linnos_history_read(linnos, view, active && active->latency);
	if (active && linnos_predict(linnos, active, view))
		reason = LINNOS_PREDICTED_SLOW;
	else if (active)
		reason = linnos_stalled(linnos, view->now_ns) ?
				 LINNOS_STALLED :
				 LINNOS_PREDICTED_FAST;
	rcu_read_unlock();
	return reason;
}

/* The same for somebody who has a read: he keeps the drive awake. */
static enum linnos_reason linnos_foresee(struct blk_linnos *linnos,
					 struct linnos_view *view)
{
	enum linnos_reason reason;

	if (!READ_ONCE(linnos->hinted))
		WRITE_ONCE(linnos->hinted, true);

	reason = linnos_look(linnos, view);
	/* by its model the drive has its good name back */
	if (unlikely(READ_ONCE(linnos->probe_again)) &&
	    (reason == LINNOS_PREDICTED_FAST || reason == LINNOS_STALLED))
		WRITE_ONCE(linnos->probe_again, false);
	return reason;
}

static bool linnos_is_slow(enum linnos_reason reason)
{
	return reason == LINNOS_PREDICTED_SLOW || reason == LINNOS_STALLED;
}

/* Is the drive on? Then wake it up: somebody wants to know. */
static bool linnos_wake_up(struct blk_linnos *linnos)
{
	/* pairs with linnos_alloc_percpu(); the counters are there once on */
	if (!smp_load_acquire(&linnos->stats) ||
	    READ_ONCE(linnos->mode) == LINNOS_OFF)
		return false;
	queue_work(system_wq, &linnos->wake_work);
	return true;
}

/* In microseconds, of a model of latencies; stalled is later than all else. */
static enum blk_linnos_expected linnos_in_us(enum linnos_reason reason,
					     const struct linnos_view *view)
{
	u32 us = reason == LINNOS_STALLED ? BLK_LINNOS_US_MASK : view->out[1];

	return BLK_LINNOS_US | us |
	       (linnos_is_slow(reason) ? BLK_LINNOS_US_SLOW : 0);
}

/* How long would it take a peer? It is not promised the read. */
static enum blk_linnos_expected linnos_ask_peer(struct blk_linnos *peer,
						struct linnos_view *view,
						u32 pages, u64 now_ns)
{
	enum linnos_reason reason;

	linnos_view_init(peer, view, pages, now_ns, false);
	/* a network cannot tell; a dying disk answers nothing any more */
	if (!READ_ONCE(peer->watching) || test_bit(GD_DEAD, &peer->disk->state))
		return BLK_LINNOS_UNKNOWN;
	/* pairs with linnos_set_awake(): no history from before */
	if (!smp_load_acquire(&peer->awake)) {
		linnos_wake_up(peer);
		return BLK_LINNOS_UNKNOWN;
	}
	reason = linnos_foresee(peer, view);
	/* it may have been given a network by now */
	return view->n_features ? linnos_in_us(reason, view) :
				  BLK_LINNOS_UNKNOWN;
}

/* The least that any of the peers tells; BLK_LINNOS_US_MASK if none does. */
static u32 linnos_soonest_us(struct blk_linnos *linnos,
			     struct linnos_peers *peers, const struct bio *bio,
			     const struct linnos_view *own)
{
	enum blk_linnos_expected answer;
	u32 soonest_us = BLK_LINNOS_US_MASK;
	struct blk_linnos *peer;
	struct linnos_view view __uninitialized;
	int i;

	for (i = 0; i < LINNOS_PEERS_MAX; i++) {
		peer = rcu_dereference(peers->at[i]);
		if (!peer)
			continue;
		answer = linnos_ask_peer(peer, &view, own->pages, own->now_ns);
		trace_linnos_peer(disk_devt(linnos->disk),
				  bio->bi_iter.bi_sector, disk_devt(peer->disk),
				  view.pending, answer, view.features,
				  view.n_features);
		if (answer & BLK_LINNOS_US)
			soonest_us = min_t(u32, soonest_us,
					   answer & BLK_LINNOS_US_MASK);
	}
	return soonest_us;
}

/*
 * A slow read is not refused if peers are named and none would serve it sooner.
 * If one would, *@gain_us is by how much more than a failover costs.
 */
static bool linnos_keeps(struct blk_linnos *linnos, const struct bio *bio,
			 const struct linnos_view *view,
			 enum linnos_reason reason, u32 *gain_us)
{
	struct linnos_peers *peers;
	u32 here_us, there_us = 0;

	if (!view->n_features)
		return false;
	rcu_read_lock();
	peers = rcu_dereference(linnos->peers);
	if (peers)
		there_us = linnos_soonest_us(linnos, peers, bio, view) +
			   READ_ONCE(linnos->failover_us);
	rcu_read_unlock();
	if (!peers)
		return false;
	here_us = linnos_in_us(reason, view) & BLK_LINNOS_US_MASK;
	if (there_us >= here_us)
		return true;
	/* nobody knows how long it would have stalled */
	if (reason != LINNOS_STALLED)
		*gain_us = here_us - there_us;
	return false;
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
	struct bio_linnos io = {
		.verdict = LINNOS_VERDICT_NONE,
		.served_us = LINNOS_NOT_SERVED,
		.decided = true,
	};
	enum linnos_mode mode = READ_ONCE(linnos->mode);
	enum linnos_reason reason;
	struct linnos_view view __uninitialized;
	bool slow, admit;
	u32 gain_us = 0;

	linnos_count(linnos, LINNOS_STAT_READS);
	linnos_quiet_ends(raw_cpu_ptr(linnos->cpus), now_ns);
	linnos_view_init(linnos, &view, linnos_bio_pages(bio), now_ns,
			 trace_linnos_decision_enabled());
	reason = linnos_foresee(linnos, &view);
	slow = linnos_is_slow(reason);
	if (reason != LINNOS_NO_MODEL)
		io.verdict = slow ? LINNOS_VERDICT_SLOW : LINNOS_VERDICT_FAST;

	if (slow && linnos_keeps(linnos, bio, &view, reason, &gain_us))
		reason = LINNOS_KEPT;

	/* not "observe": the mode may have been switched off meanwhile */
	admit = !slow || reason == LINNOS_KEPT || mode != LINNOS_ENFORCE;
	if (!admit && linnos_probe_claim(linnos, now_ns, &io.probe)) {
		admit = true;
		reason = LINNOS_PROBE;
		io.verdict = LINNOS_VERDICT_PROBE;
	}

	linnos_count(linnos, LINNOS_STAT_LATENCY_CRITICAL);
	linnos_count(linnos,
		     admit ? LINNOS_STAT_ADMITTED : LINNOS_STAT_REVOKED);
	if (!admit) {
		atomic_inc(&linnos->revokes);
		this_cpu_add(linnos->stats->count[LINNOS_STAT_EXPECTED_GAIN_US],
			     gain_us);
	}
	if (reason == LINNOS_STALLED)
		linnos_count(linnos, LINNOS_STAT_STALLED);
	if (reason == LINNOS_KEPT)
		linnos_count(linnos, LINNOS_STAT_KEPT);
	trace_linnos_decision(disk_devt(linnos->disk), bio->bi_iter.bi_sector,
			      bio_sectors(bio), view.pending,
			      view.history.pending, view.history.latency_us,
			      view.out, !admit, reason, view.features,
			      view.n_features);
	if (admit) {
		linnos_pack(bio, &io);
		bio_set_flag(bio, BIO_QOS_ADMITTED);
	}
	return admit;
}

/* What is known of a drive, in full; @expected is the answer to give. */
static void linnos_tell(const struct blk_linnos *linnos,
			const struct linnos_view *view,
			enum linnos_reason reason,
			enum blk_linnos_expected expected,
			struct blk_expect_drive *drive)
{
	drive->flags = 0;
	drive->latency_us = 0;
	if (reason == LINNOS_NO_MODEL) {
		drive->known = BLK_EXPECT_NO_MODEL;
		return;
	}
	drive->known = BLK_EXPECT_VERDICT;
	if (view->n_features) {
		drive->known = BLK_EXPECT_LATENCY;
		drive->latency_us = view->out[1];
	}
	if (linnos_is_slow(reason))
		drive->flags |= BLK_EXPECT_SLOW;
	if (reason == LINNOS_STALLED)
		drive->flags |= BLK_EXPECT_STALLED;
	if (linnos_is_silent(linnos, view->now_ns))
		drive->flags |= BLK_EXPECT_STALE;
	if (expected == BLK_LINNOS_PROBE)
		drive->flags |= BLK_EXPECT_PROBE;
}

/**
 * linnos_expect() - what to expect of a read, should it be sent
 * @linnos: the disk's policy, awake
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
	enum linnos_reason reason;
	struct linnos_view view __uninitialized;
	u32 latency_us = 0;
	bool slow, stale;

	linnos_quiet_ends(raw_cpu_ptr(linnos->cpus), now_ns);
	linnos_view_init(linnos, &view, linnos_pages(bytes), now_ns, false);
	reason = look ? linnos_look(linnos, &view) :
			linnos_foresee(linnos, &view);
	slow = linnos_is_slow(reason);
	stale = slow || (view.n_features && linnos_passed_over(linnos, now_ns));
	if (reason == LINNOS_NO_MODEL)
		goto out;
	if (view.n_features)
		latency_us = view.out[1];
	if (!look && stale && linnos_probe_claim(linnos, now_ns, NULL)) {
		expected = BLK_LINNOS_PROBE;
		goto out;
	}
	if (!look && (slow || view.n_features))
		/* it goes stale as one whose reads are revoked */
		atomic_inc(&linnos->revokes);
	expected = slow ? BLK_LINNOS_SLOW : BLK_LINNOS_FAST;
out:
	trace_linnos_expected(disk_devt(linnos->disk), view.pending, expected,
			      latency_us);
	if (drive)
		linnos_tell(linnos, &view, reason, expected, drive);
	if (!latency_us || expected == BLK_LINNOS_PROBE)
		return expected;
	return linnos_in_us(reason, &view);
}

/**
 * linnos_bio_counts() - is this bio part of a drive's load?
 * @bio: a bio
 *
 * Return: true for reads and writes with data.
 */
bool linnos_bio_counts(const struct bio *bio)
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

/*
 * For a model of latencies a read that arrives gets a place, in which is how
 * large it is, all of it. Since when it is in flight comes later, and only from
 * itself: the parts of a bio that is split may get their requests on other CPUs
 * while its rest is submitted from a cgroup's worker, or long before that. So
 * they leave the whole's word alone, and the time in which the host holds back
 * the rest of a read does not make the drive look slow.
 */
static void linnos_reserve(struct blk_linnos *linnos, struct bio_linnos *io,
			   u32 pages)
{
	/* pairs with linnos_set_watching() */
	if (!smp_load_acquire(&linnos->watching))
		return;
	if (io->verdict != LINNOS_VERDICT_PROBE)
		io->watched = linnos_watch_take(linnos->watch, pages);
	else if (linnos_is_probe(atomic_read(&linnos->probe), io))
		linnos_watch_probe(linnos->watch, pages);
}

/**
 * linnos_arrive() - remember a bio that has reached its queue
 * @linnos: the disk's policy, on
 * @bio: a bio that counts
 */
void linnos_arrive(struct blk_linnos *linnos, struct bio *bio)
{
	struct bio_linnos io = {
		.verdict = LINNOS_VERDICT_NONE,
		.served_us = LINNOS_NOT_SERVED,
	};

	if (bio_flagged(bio, BIO_QOS_ADMITTED)) {
		/* the remainder of one that was split */
		if (!(READ_ONCE(bio->bi_linnos) & LINNOS_BIO_DECIDED))
			return;
		io = linnos_unpack(bio);
		/* it may have been throttled on the way */
		io.decided = false;
	} else if (bio_op(bio) == REQ_OP_READ) {
		linnos_count(linnos, LINNOS_STAT_READS);
		linnos_probe_take(linnos, &io);
	}
	if (bio_op(bio) == REQ_OP_READ)
		linnos_reserve(linnos, &io, linnos_bio_pages(bio));
	linnos_pack(bio, &io);
	bio_set_flag(bio, BIO_QOS_ADMITTED);
}

/*
 * Is this a part of a bio in the account of the same disk? Only the last part
 * of a bio that is split is the bio itself.
 */
static bool linnos_is_part(struct bio *bio)
{
	struct bio *whole = bio->bi_private;

	return bio->bi_end_io == bio_chain_endio &&
	       whole->bi_bdev == bio->bi_bdev &&
	       bio_flagged(whole, BIO_QOS_ADMITTED) &&
	       !(READ_ONCE(whole->bi_linnos) &
		 (LINNOS_BIO_PART | LINNOS_BIO_DECIDED));
}

/*
 * What goes into the history beside the latency: what was pending when the bio,
 * or its first part, was counted in, all of itself included. Not when it
 * arrived: it may since have waited for the host.
 */
static void linnos_keep_pending(struct bio *bio, s64 in_flight, u32 of_these,
				u32 itself)
{
	u16 load = READ_ONCE(bio->bi_linnos_load);
	/* what another CPU has counted out, and this one in, is less than none */
	s32 others = max(linnos_pages_of(in_flight) - (s32)of_these, 0);
	u32 pending = min_t(u32, others + itself, LINNOS_BIO_PENDING);

	if (!(load & LINNOS_BIO_PENDING))
		WRITE_ONCE(bio->bi_linnos_load,
			   load | FIELD_PREP(LINNOS_BIO_PENDING, pending));
}

/* A read, or what is left of it, is in flight: since now, if it has a place. */
static void linnos_watch(struct blk_linnos *linnos, const struct bio *bio,
			 u64 now_ns)
{
	struct linnos_watch *watch = READ_ONCE(linnos->watch);
	struct bio_linnos io;

	if (!now_ns || !watch)
		return;
	io = linnos_unpack(bio);
	if (io.watched || linnos_is_probe(atomic_read(&linnos->probe), &io))
		linnos_watch_start(watch, io.watched, now_ns);
}

/*
 * A read is not in flight any more, if it ever was. Of how many pages was it? Of
 * a read that was split, and arrived while reads were not watched or all places
 * were taken, those of its last part.
 */
static u32 linnos_unwatch(struct blk_linnos *linnos,
			  const struct bio_linnos *io)
{
	struct linnos_watch *watch = READ_ONCE(linnos->watch);
	u32 pages = 0;

	if (io->watched ||
	    (watch && linnos_is_probe(atomic_read(&linnos->probe), io)))
		pages = linnos_watch_end(watch, io->watched);
	return pages ?: io->pages;
}

/* A write is counted in, or a part of one. */
static void linnos_start_write(struct blk_linnos *linnos, struct bio *bio,
			       u32 pages)
{
	bool watched = READ_ONCE(linnos->watching);

	linnos_count_io(linnos, pages, watched ? pages : 0);
	if (watched)
		bio->bi_linnos |= FIELD_PREP(LINNOS_BIO_NUMBER, 1);
}

static void linnos_start_part(struct blk_linnos *linnos, struct bio *part,
			      u32 pages)
{
	s64 in_flight = linnos_count_in(linnos, pages);
	struct bio *whole = part->bi_private;
	u64 bytes = part->bi_iter.bi_size;

	/* what is left of the whole follows this part */
	bytes += READ_ONCE(whole->bi_iter.bi_size);
	linnos_keep_pending(whole, in_flight, pages,
			    DIV_ROUND_UP_ULL(bytes, LINNOS_PAGE_BYTES));
}

/**
 * linnos_start() - a bio has a request now: count it in
 * @linnos: the disk's policy
 * @bio: a bio, maybe a part of one
 * @now_ns: the time, or 0 if nobody will want to know
 */
void linnos_start(struct blk_linnos *linnos, struct bio *bio, u64 now_ns)
{
	bool stall = now_ns && READ_ONCE(linnos->stall_us);
	s64 in_flight;
	u32 pages;

	if (!bio_flagged(bio, BIO_QOS_ADMITTED)) {
		if (!linnos_is_part(bio))
			return;
		linnos_pack(bio, &(struct bio_linnos){ .part = true });
		bio_set_flag(bio, BIO_QOS_ADMITTED);
	} else if (bio->bi_linnos &
		   (LINNOS_BIO_PAGES | LINNOS_BIO_PART | LINNOS_BIO_DECIDED)) {
		/* counted, or it arrived while the drive slept */
		return;
	}
	pages = linnos_bio_pages(bio);
	bio->bi_linnos |= FIELD_PREP(LINNOS_BIO_PAGES, pages);

	if (bio_op(bio) != REQ_OP_READ) {
		linnos_start_write(linnos, bio, pages);
		return;
	}
	if (bio->bi_linnos & LINNOS_BIO_PART) {
		linnos_start_part(linnos, bio, pages);
		return;
	}
	linnos_watch(linnos, bio, now_ns);
	/*
	 * Whoever sees a read in flight must know since when: before it can be
	 * seen. And again if another was the only one then and has ended since.
	 */
	if (stall && !linnos_reads_of(atomic64_read(&linnos->in_flight)))
		WRITE_ONCE(linnos->busy_since_ns, now_ns);
	in_flight = linnos_count_in(linnos, pages + IN_FLIGHT_READ);
	if (stall && linnos_reads_of(in_flight) == 1)
		WRITE_ONCE(linnos->busy_since_ns, now_ns);
	linnos_keep_pending(bio, in_flight, pages, pages);
}

/* Parts complete on several CPUs at once. */
static void linnos_keep_longest(struct bio *bio, u32 us)
{
	u32 old = READ_ONCE(bio->bi_linnos_served_us);

	do {
		if (old != LINNOS_NOT_SERVED && old >= us)
			return;
	} while (!try_cmpxchg(&bio->bi_linnos_served_us, &old, us));
}

/**
 * linnos_tried() - the drive has had a read, or a part of it, for some time
 * @bio: the bio, or the part
 * @time_ns: for how long, until it was served or handed back
 */
void linnos_tried(struct bio *bio, u64 time_ns)
{
	u32 us = min_t(u64, div_u64(time_ns, NSEC_PER_USEC), LINNOS_SERVED_MAX);

	if (bio->bi_linnos & LINNOS_BIO_PART) {
		struct bio *whole = bio->bi_private;

		/* a multipath driver may have taken it elsewhere */
		if (!bio_flagged(whole, BIO_QOS_ADMITTED) ||
		    whole->bi_bdev != bio->bi_bdev)
			return;
		bio = whole;
	}
	if (likely(!bio_flagged(bio, BIO_CHAIN) &&
		   bio->bi_linnos_served_us == LINNOS_NOT_SERVED))
		WRITE_ONCE(bio->bi_linnos_served_us, us);
	else
		linnos_keep_longest(bio, us);
}

/**
 * linnos_served() - the drive has answered a read, or a part of it
 * @linnos: the disk's policy
 * @bio: the bio, or the part
 * @latency_ns: how long it took
 * @now_ns: the time
 */
void linnos_served(struct blk_linnos *linnos, struct bio *bio, u64 latency_ns,
		   u64 now_ns)
{
	struct linnos_cpu *cpu = raw_cpu_ptr(linnos->cpus);

	linnos_quiet_ends(cpu, now_ns);
	/* a probe ends what all others wait for */
	if (!linnos_is_quiet(linnos, cpu) ||
	    linnos_unpack(bio).verdict == LINNOS_VERDICT_PROBE)
		WRITE_ONCE(linnos->last_read_ns, now_ns);
	linnos_tried(bio, latency_ns);
}

static void linnos_read_ended(struct blk_linnos *linnos,
			      const struct bio_linnos *io, blk_status_t status)
{
	u32 pages = linnos_unwatch(linnos, io);
	/* nor does one that was not counted, for the drive slept */
	bool told = !status && io->pages && io->served_us != LINNOS_NOT_SERVED;
	struct linnos_history history;
	bool slow = false;

	if (told) {
		linnos_count_latency(linnos, io->served_us);
		slow = io->served_us > READ_ONCE(linnos->threshold_us);
		if (linnos_history_add(linnos, io, pages, &history))
			linnos_prepare(linnos, &history);

		if (slow)
			linnos_count(linnos, LINNOS_STAT_SLOW);
		if (slow && io->verdict == LINNOS_VERDICT_FAST)
			linnos_count(linnos, LINNOS_STAT_FALSE_SUBMITS);
		if (!slow && io->verdict == LINNOS_VERDICT_SLOW)
			linnos_count(linnos, LINNOS_STAT_FALSE_REVOKES);
	}
	if (io->verdict == LINNOS_VERDICT_PROBE)
		linnos_probe_done(linnos, io, told, slow);
}

/**
 * linnos_end() - count a bio out, and remember how a read went
 * @linnos: the disk's policy; may be freed
 * @bio: a bio in the account
 * @status: how it ended
 */
void linnos_end(struct blk_linnos *linnos, struct bio *bio, blk_status_t status)
{
	struct bio_linnos io = linnos_unpack(bio);
	bool is_read = bio_op(bio) == REQ_OP_READ && !io.part;
	s64 pages = io.pages;

	bio_clear_flag(bio, BIO_QOS_ADMITTED);
	if (is_read)
		linnos_read_ended(linnos, &io, status);
	/* not if it failed before it had a request */
	if (pages)
		linnos_count_io(linnos, -pages - (is_read ? IN_FLIGHT_READ : 0),
				!is_read && io.watched ? -pages : 0);
}

/* A read with the hint, for a drive that is off or asleep, goes unasked. */
static void linnos_wake(struct blk_linnos *linnos, struct bio *bio)
{
	struct bio_linnos io = {
		.verdict = LINNOS_VERDICT_NONE,
		.served_us = LINNOS_NOT_SERVED,
		.decided = true,
	};

	if (!linnos_wake_up(linnos))
		return;
	linnos_count(linnos, LINNOS_STAT_READS);
	linnos_count(linnos, LINNOS_STAT_LATENCY_CRITICAL);
	linnos_count(linnos, LINNOS_STAT_ADMITTED);
	/* it may be awake when the read arrives, which is not another one then */
	linnos_pack(bio, &io);
	bio_set_flag(bio, BIO_QOS_ADMITTED);
}

/**
 * blk_linnos_decide() - may this read go to its drive?
 * @bio: a read with REQ_LATCRIT, not yet throttled nor accounted
 *
 * No reference on the queue is held: whoever submits a bio holds the disk, and
 * the disk the policy.
 *
 * However it is answered, the read loses its hint. One that was admitted bears
 * BIO_QOS_ADMITTED from now on, however long it is throttled before it arrives
 * at its queue.
 *
 * Context: Process context.
 * Return: BLK_STS_OK, or BLK_STS_REVOKED for one that must be ended.
 */
blk_status_t blk_linnos_decide(struct bio *bio)
{
	struct blk_linnos *linnos = bio->bi_bdev->bd_disk->linnos;

	/* a stacked driver leaves it to the drives below */
	if (!linnos)
		return BLK_STS_OK;
	bio->bi_opf &= ~REQ_LATCRIT;
	if (bio_op(bio) != REQ_OP_READ || !linnos_bio_counts(bio) ||
	    bio_flagged(bio, BIO_QOS_ADMITTED))
		return BLK_STS_OK;
	/* pairs with linnos_set_awake(): no history from before */
	if (!smp_load_acquire(&linnos->awake)) {
		linnos_wake(linnos, bio);
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
 * @look: no read will follow: nothing is promised or counted, and a drive that
 *	is asleep is left so
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

	/* a stacked driver has no policy */
	if (!linnos) {
		linnos_nothing_known(drive, BLK_EXPECT_NO_POLICY);
		return BLK_LINNOS_UNKNOWN;
	}
	/* pairs with linnos_set_awake(): no history from before */
	if (smp_load_acquire(&linnos->awake))
		return linnos_expect(linnos, bytes, now_ns, look, drive);
	if (!look)
		linnos_wake_up(linnos);
	linnos_nothing_known(drive, READ_ONCE(linnos->mode) == LINNOS_OFF ?
					    BLK_EXPECT_OFF :
					    BLK_EXPECT_ASLEEP);
	return BLK_LINNOS_UNKNOWN;
}

/**
 * blk_linnos_expect() - what would a drive do with a read now?
 * @bdev: the drive, or a part of it, held open by the caller
 * @bytes: the size of the read
 *
 * For those who have the same data elsewhere, to be asked for each drive that
 * may serve a read, right before it is sent to one of them without the hint;
 * blk_linnos_best() tells which. That is no decision: nothing is revoked nor
 * counted but the inference (and a probe), and modes observe and enforce answer
 * alike. A question keeps the drive awake, or wakes it, as a hinted read does.
 *
 * Faults are not foreseen. Of a drive that has failed and is gone nothing is
 * known; of one that fails its reads, what it did with the last that it served.
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

static void blk_linnos_arrive(struct rq_qos *rqos, struct bio *bio)
{
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);

	/* pairs with linnos_set_awake(): no history from before */
	if (smp_load_acquire(&linnos->awake) && linnos_bio_counts(bio))
		linnos_arrive(linnos, bio);
}

static void blk_linnos_track(struct rq_qos *rqos, struct request *rq,
			     struct bio *bio)
{
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);
	u64 now_ns = 0;

	/* asleep */
	if (!READ_ONCE(linnos->awake))
		return;
	if (bio_op(bio) == REQ_OP_READ &&
	    (READ_ONCE(linnos->stall_us) || READ_ONCE(linnos->watching)))
		now_ns = ktime_get_ns();
	linnos_start(linnos, bio, now_ns);
}

/* The first bio may be one that is not counted: only its request is not timed. */
static bool linnos_timed(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ && rq->bio &&
	       bio_flagged(rq->bio, BIO_QOS_ADMITTED);
}

/**
 * __blk_linnos_issue_rq() - the drive gets a request
 * @rq: the request
 *
 * Context: Any.
 */
void __blk_linnos_issue_rq(struct request *rq)
{
	struct blk_linnos *linnos;
	struct bio *bio;

	if (!linnos_timed(rq))
		return;
	/* not blk_time_get_ns(), as above */
	rq->io_start_time_ns = ktime_get_ns();
	linnos = rq->q->disk->linnos;
	/* is a probe on its way to the drive? */
	if (likely((atomic_read(&linnos->probe) & PROBE_STATE) !=
		   PROBE_IN_FLIGHT))
		return;
	for (bio = rq->bio; bio; bio = bio->bi_next)
		if (bio_flagged(bio, BIO_QOS_ADMITTED))
			linnos_issued(linnos, bio);
}

/*
 * The driver hands a request back, to be given it again: it was busy, or the
 * drive has failed it or not answered in time. That, too, is time that the
 * drive took; else a read that was lost and repeated would have been fast.
 */
static void blk_linnos_requeue(struct rq_qos *rqos, struct request *rq)
{
	u64 time_ns;
	struct bio *bio;

	if (!linnos_timed(rq) || !rq->io_start_time_ns ||
	    !blk_mq_request_started(rq))
		return;
	time_ns = ktime_get_ns() - rq->io_start_time_ns;
	for (bio = rq->bio; bio; bio = bio->bi_next)
		if (bio_flagged(bio, BIO_QOS_ADMITTED))
			linnos_tried(bio, time_ns);
}

/**
 * __blk_linnos_complete_rq() - the drive has answered a request without error
 * @rq: the request
 * @nr_bytes: as far as this
 *
 * Context: Any.
 */
void __blk_linnos_complete_rq(struct request *rq, unsigned int nr_bytes)
{
	u64 latency_ns, now_ns;
	struct bio *bio;

	/* 0: issued before the policy was on */
	if (!linnos_timed(rq) || !rq->io_start_time_ns)
		return;
	now_ns = ktime_get_ns();
	latency_ns = now_ns - rq->io_start_time_ns;
	for (bio = rq->bio; bio; bio = bio->bi_next) {
		if (bio_flagged(bio, BIO_QOS_ADMITTED))
			linnos_served(rq->q->disk->linnos, bio, latency_ns,
				      now_ns);
		if (bio->bi_iter.bi_size >= nr_bytes)
			break;
		nr_bytes -= bio->bi_iter.bi_size;
	}
}

/**
 * blk_linnos_done_bio() - an admitted bio has ended
 * @bio: the bio, all of its parts completed
 *
 * The disk is there: a bio ends with a reference on the queue, or is one for
 * which linnos_hold_disk() keeps it, or its submitter has it open.
 *
 * Context: Any.
 */
void blk_linnos_done_bio(struct bio *bio)
{
	linnos_end(bio->bi_bdev->bd_disk->linnos, bio, bio->bi_status);
}

/**
 * blk_linnos_forget_bio() - a bio finds that its disk has gone
 * @bio: a bio that cannot get a request any more
 *
 * Its first parts may have been counted, and a multipath driver may have taken
 * them to another path. The bio ends with the last of them, when this disk may
 * not be there any more to be looked up. So it leaves the account now.
 *
 * Context: Process context, whoever submits the bio holds the disk.
 */
void blk_linnos_forget_bio(struct bio *bio)
{
	if (bio_flagged(bio, BIO_QOS_ADMITTED))
		linnos_end(bio->bi_bdev->bd_disk->linnos, bio, BLK_STS_IOERR);
}

/**
 * blk_linnos_forget_bios() - bios go to another drive without having ended
 * @rq: the request whose bios
 *
 * A multipath driver takes the bios of a failed request away and submits them
 * to another path, where they are counted anew. They may bear the name of
 * another drive already; they were counted on the request's.
 */
void blk_linnos_forget_bios(struct request *rq)
{
	struct bio *bio;

	for (bio = rq->bio; bio; bio = bio->bi_next)
		if (bio_flagged(bio, BIO_QOS_ADMITTED))
			linnos_end(rq->q->disk->linnos, bio, BLK_STS_TRANSPORT);
}

/* Never: a disk that goes has been switched off. But the list asks for one. */
static void blk_linnos_exit(struct rq_qos *rqos)
{
}

#ifdef CONFIG_BLK_DEBUG_FS
static int linnos_in_flight_show(void *data, struct seq_file *m)
{
	struct rq_qos *rqos = data;
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);

	seq_printf(m, "%u pages, %u reads\n", linnos_pending_pages(linnos),
		   linnos_reads_in_flight(linnos));
	return 0;
}

/* Those that were left out of the history, for their CPU was quiet. */
static int linnos_left_out_show(void *data, struct seq_file *m)
{
	struct rq_qos *rqos = data;
	struct blk_linnos *linnos = container_of(rqos, struct blk_linnos, rqos);
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(linnos->cpus, cpu)->left_out);
	seq_printf(m, "%llu reads\n", sum);
	return 0;
}

static const struct blk_mq_debugfs_attr blk_linnos_debugfs_attrs[] = {
	{ "in_flight", 0400, linnos_in_flight_show },
	{ "left_out", 0400, linnos_left_out_show },
	{},
};
#endif

static const struct rq_qos_ops blk_linnos_ops = {
	.arrive = blk_linnos_arrive,
	.track = blk_linnos_track,
	.merge = blk_linnos_track,
	.requeue = blk_linnos_requeue,
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
	linnos->attached = !ret;
	return ret;
}

/* Waits for the I/O in flight. */
static void linnos_detach(struct blk_linnos *linnos)
{
	struct request_queue *q = linnos->disk->queue;

	if (!linnos->attached)
		return;
	mutex_lock(&q->rq_qos_mutex);
	rq_qos_del(&linnos->rqos);
	mutex_unlock(&q->rq_qos_mutex);
	linnos->attached = false;
}

static void linnos_hold_key(struct blk_linnos *linnos)
{
	if (!linnos->key_held)
		static_branch_inc(&blk_linnos_key);
	linnos->key_held = true;
}

static void linnos_release_key(struct blk_linnos *linnos)
{
	if (linnos->key_held)
		static_branch_dec(&blk_linnos_key);
	linnos->key_held = false;
}

/* Context: Process context, @linnos->lock held. */
static void linnos_set_awake(struct blk_linnos *linnos)
{
	linnos_forget_past(linnos, ktime_get_ns());
	WRITE_ONCE(linnos->hinted, false);
	/* pairs with blk_linnos_decide() and blk_linnos_arrive() */
	smp_store_release(&linnos->awake, true);
	mod_delayed_work(system_wq, &linnos->sleep_work, SLEEP_AFTER);
}

static void linnos_wake_work(struct work_struct *work)
{
	struct blk_linnos *linnos =
		container_of(work, struct blk_linnos, wake_work);

	mutex_lock(&linnos->lock);
	if (linnos->mode != LINNOS_OFF && !linnos->awake) {
		linnos_hold_key(linnos);
		linnos_set_awake(linnos);
	}
	mutex_unlock(&linnos->lock);
}

static void linnos_sleep_work(struct work_struct *work)
{
	struct blk_linnos *linnos =
		container_of(work, struct blk_linnos, sleep_work.work);

	mutex_lock(&linnos->lock);
	/* it may have been switched off meanwhile */
	if (linnos->awake && READ_ONCE(linnos->hinted)) {
		WRITE_ONCE(linnos->hinted, false);
		mod_delayed_work(system_wq, &linnos->sleep_work, SLEEP_AFTER);
	} else if (linnos->awake) {
		WRITE_ONCE(linnos->awake, false);
		linnos_release_key(linnos);
	}
	mutex_unlock(&linnos->lock);
}

/**
 * linnos_set_mode() - switch the policy off, to observing or to enforcing
 * @linnos: the disk's policy
 * @mode: the new mode
 *
 * Leaving off waits until the disk has no I/O in flight, so that what is
 * pending is known, and starts with an empty history. So does switching off:
 * the policy is taken off the queue, and I/O costs what it did without.
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0 or -ENOMEM.
 */
int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode)
{
	struct request_queue *q = linnos->disk->queue;
	int ret;

	lockdep_assert_held(&linnos->lock);

	if (mode == LINNOS_OFF) {
		WRITE_ONCE(linnos->mode, mode);
		WRITE_ONCE(linnos->awake, false);
		linnos_release_key(linnos);
		linnos_detach(linnos);
		return 0;
	}
	if (linnos->mode != LINNOS_OFF) {
		WRITE_ONCE(linnos->mode, mode);
		return 0;
	}

	ret = linnos_alloc_percpu(linnos);
	if (ret)
		return ret;
	ret = linnos_attach(linnos);
	if (ret)
		return ret;
	linnos_hold_key(linnos);

	blk_mq_freeze_queue(q);
	WRITE_ONCE(linnos->mode, mode);
	linnos_set_awake(linnos);
	blk_mq_unfreeze_queue(q);
	return 0;
}

/**
 * linnos_set_stall() - when do reads count as stalled?
 * @linnos: the disk's policy
 * @stall_us: when none completes for so long; 0: never
 *
 * That no read is in flight any more is known only where all are counted in one
 * place.
 *
 * Context: Process context, @linnos->lock held. May wait for a grace period.
 */
void linnos_set_stall(struct blk_linnos *linnos, u32 stall_us)
{
	lockdep_assert_held(&linnos->lock);

	if (stall_us)
		linnos_count_exactly(linnos);
	/* it has not been kept while nobody asked */
	WRITE_ONCE(linnos->busy_since_ns, ktime_get_ns());
	/* pairs with linnos_stalled() */
	smp_store_release(&linnos->stall_us, stall_us);
	if (!stall_us)
		linnos_count_apart(linnos);
}

/**
 * blk_linnos_register() - give a new disk its policy and its sysfs directory
 * @disk: the disk, blk-mq
 *
 * Return: 0 or an errno.
 */
int blk_linnos_register(struct gendisk *disk)
{
	struct blk_linnos *linnos = linnos_alloc(disk);
	int ret;

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
	/* nor ask it for another drive, and wake it up */
	linnos_leave(linnos);
	mutex_lock(&linnos->lock);
	linnos_set_mode(linnos, LINNOS_OFF);
	mutex_unlock(&linnos->lock);
	/*
	 * It is off, so they do nothing, and sleep_work does not come again.
	 * wake_work may: blk_linnos_release().
	 */
	cancel_work_sync(&linnos->wake_work);
	cancel_delayed_work_sync(&linnos->sleep_work);
	linnos_hold_disk(linnos);
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
	/*
	 * A read that found the policy on may have queued it since it was
	 * switched off. Whoever submitted that held the disk.
	 */
	cancel_work_sync(&linnos->wake_work);
	cancel_delayed_work_sync(&linnos->sleep_work);
	kobject_put(&linnos->kobj);
}
