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
 *    pending when it joined them, itself included. Of reads that were not larger
 *    in order than the one that asks (up to 64 KiB, up to 1 MiB, more): how long
 *    1 MiB took says nothing of 4 KiB, and whoever reads large would own the
 *    history that others are judged by.
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
 * OSDI 2020. The arithmetic is in linnos_network.c, training is done in user
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
 * would keep its bad name for ever. So when the policy has let no read go there
 * for too long, or has revoked too many since it last looked, one read that would
 * be revoked is admitted as a probe, and no other until it has returned.
 *
 *	revoked, revoked, ... probe ──► late: wait twice as long ──► probe ...
 *	                        │
 *	                        └► in time: the next one is a probe, at once,
 *	                           until the model says fast by itself
 *
 * A probe that returns late was a mistake, so probes become rarer while the
 * drive stays slow. Late is what took longer than fast and a failover: less is
 * not lost by who is not refused. One that returns in time replaces one of four
 * slow reads in the history: the others must follow quickly, or the drive would be
 * shunned for four waits after it has recovered. One that fails, or ends before it
 * reaches the drive, has told nothing: the next read may be a probe.
 *
 * Trust. A model may call a drive slow that is not, and go on doing so however
 * fast its reads are: much larger reads of others are pending, and it has not
 * learnt that small ones pass them. So each read that was admitted against its
 * word and came in time earns trust, and each that came late costs ten times as
 * much. While there is trust, and reads of a larger order are in flight or have
 * ended within the time after which probes come, the model's word that a read will
 * be slow does not count, for as many reads at once as there is trust. A drive that
 * is slow earns none, and where all reads are of one order the model's word always
 * counts.
 *
 * Who can keep a drive from being looked at? What others read there must not make
 * it seem looked at, or whoever reads 1 MiB now and then, which the drive does
 * slowly by nature, has everybody else's reads refused for good. So "for too
 * long" is told by reads that the policy chose: those with the hint that it
 * admitted as fast or kept, and those of askers (below) whom it told that the drive
 * is not slow. "Too many" ends with a probe alone: what is admitted between two
 * refusals does not take them back. All of this is so for each order of size by
 * itself: a large probe is late by what small ones take, and tells nothing of
 * them, nor may it take the place of a small one. And one who is given a probe
 * and does not send it (his cgroup holds it up, he asked for nothing) comes after
 * the others for the next. And a read that is late costs no trust that smaller
 * ones have earned. What is left: reads of the same size that somebody makes late
 * himself, by what else he has in flight then.
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
 * send it this read, and the next read of this order of size to arrive there, which
 * has no hint to be known by, is the probe. If it comes in time, or there is
 * trust, the next question is answered so again, and also while it has not been
 * sent: who asks and sends nothing takes it from nobody.
 *
 * Programs ask by an ioctl, BLKEXPECT, several drives at once: blk-linnos-ioctl.c.
 *
 * Where the models tell microseconds, a drive is passed over that is not slow,
 * only later than others. Then its history grows old too, and may be wrong by
 * now. So it is looked at when it has been passed over for as long as makes one
 * stale, and as often after that: that is one read in a hundred at most, and earns
 * no trust. Until then nobody counts how often, which would be a line written by
 * each question.
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
 * Off. The policy is in the queue's list from when it is first switched on until
 * the disk goes. To switch it off is what falling asleep is, and so it takes effect
 * at once, whatever is in flight; there is nobody to wake it.
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
#include <linux/sched.h>
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
 * Each read that the model called slow and that came in time earns a trust of one,
 * and each that came late costs TRUST_LOST. So trust lasts where the model is wrong
 * in more than ten of eleven of these: one of eleven is late, and ten are not
 * refused for nothing. When the drive turns slow in earnest, TRUST_MAX / TRUST_LOST
 * reads and those in flight find it out, and after a recovery from a burst, which
 * takes four probes, two do.
 */
#define TRUST_LOST 10
#define TRUST_MAX 50
/* One that is late right after a probe that was not does not end it yet. */
#define TRUST_FIRST (TRUST_LOST + 1)

/*
 * linnos->probe, of each order of size, says whether a probe is in flight, whether
 * the drive has been given it, whether the next read to arrive will be it, because
 * somebody who asked was told to send one, which one it is, and since when. They
 * are numbered, so that one that was given up and ends after all is not taken for
 * another. All is in one word: whoever loses a race for it has changed nothing,
 * and nobody sees a probe without its time. Of that there are 54 bits, 208 days.
 */
#define PROBE_IN_FLIGHT BIT_ULL(0)
#define PROBE_ISSUED BIT_ULL(1)
#define PROBE_OPEN BIT_ULL(2)
#define PROBE_STATE (PROBE_IN_FLIGHT | PROBE_ISSUED | PROBE_OPEN)
#define PROBE_NUMBER GENMASK_ULL(9, 3)
#define PROBE_SINCE GENMASK_ULL(63, 10)
#define PROBE_SINCE_MASK (PROBE_SINCE >> 10)
/* No CPU's clock, and nobody's idea of the time, is further behind than this. */
#define PROBE_BEHIND_NS (60 * NSEC_PER_SEC)

static_assert((PROBE_NUMBER >> 3) * LINNOS_SIZES + LINNOS_SIZES - 1 <=
	      LINNOS_BIO_NUMBER >> 21);

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
	u32 size;

	if (!linnos)
		return NULL;
	for (size = 0; size < LINNOS_SIZES; size++)
		linnos->look[size].limit = LINNOS_NO_LIMIT;
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
	struct linnos_history *h;
	struct linnos_look *look;
	unsigned long flags;
	u32 size;

	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	for (size = 0; size < LINNOS_SIZES; size++) {
		h = &linnos->history[size];
		memset(h->pending, 0, sizeof(h->pending));
		memset(h->latency_us, 0, sizeof(h->latency_us));
		h->generation++;
		linnos->caught_up[size] = size ? h[-1].generation : 0;
	}
	memset(linnos->answered, 0, sizeof(linnos->answered));
	write_seqcount_end(&linnos->history_seq);
	WRITE_ONCE(linnos->last_read_ns, now_ns);
	linnos->recorded_ns = 0;
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
	for (look = linnos->look; look < linnos->look + LINNOS_SIZES; look++) {
		WRITE_ONCE(look->chosen_ns, now_ns);
		atomic_set(&look->revokes, 0);
		WRITE_ONCE(look->again, false);
		WRITE_ONCE(look->trust, 0);
		WRITE_ONCE(look->backoff, 0);
		WRITE_ONCE(look->in_time, 0);
		WRITE_ONCE(look->limit, LINNOS_NO_LIMIT);
	}
}

static void linnos_history_push(struct linnos_history *h, u32 pending,
				u32 latency_us)
{
	int i;

	for (i = 0; i < LINNOS_HISTORY - 1; i++) {
		h->pending[i] = h->pending[i + 1];
		h->latency_us[i] = h->latency_us[i + 1];
	}
	h->pending[i] = pending;
	h->latency_us[i] = latency_us;
}

static void linnos_answered_push(struct linnos_answered *a, u32 pages,
				 u64 end_ns)
{
	int i;

	for (i = 0; i < LINNOS_HISTORY - 1; i++) {
		a->pages[i] = a->pages[i + 1];
		a->end_ns[i] = a->end_ns[i + 1];
	}
	a->pages[i] = pages;
	a->end_ns[i] = end_ns;
}

/*
 * A read is recorded with those of its own order of size alone, so that one that
 * is small, as most are, writes no more than one line. The larger orders see it
 * all the same: when something is made of the history of one of them, the last
 * reads of the next smaller are added that have ended since that was last done.
 * None of its own has been between, for whoever records one does this first.
 */
static void linnos_catch_up(struct linnos_history *history,
			    struct linnos_answered *answered, u32 *caught_up,
			    u32 size)
{
	const struct linnos_history *smaller;
	u32 i, n, last = 0;

	for (; last < size; last++) {
		smaller = &history[last];
		n = smaller->generation - caught_up[last + 1];
		caught_up[last + 1] = smaller->generation;
		history[last + 1].generation += n;
		history[last + 1].cpu = smaller->cpu;
		i = LINNOS_HISTORY - min(n, LINNOS_HISTORY);
		for (; i < LINNOS_HISTORY; i++) {
			linnos_history_push(&history[last + 1],
					    smaller->pending[i],
					    smaller->latency_us[i]);
			linnos_answered_push(&answered[last + 1],
					     answered[last].pages[i],
					     answered[last].end_ns[i]);
		}
	}
}

/*
 * Completions write the history from interrupts, on any CPU, and must agree on
 * an order: a lock, raw because completion may not sleep on PREEMPT_RT either,
 * held for a few stores. Arrivals only want a consistent copy, and there may be
 * many at once: the sequence count lets them have it without writing to the
 * lock's cache line. An interrupt that completes a read in the midst of the
 * copying makes the copy start again.
 */
static void linnos_history_read_small(struct blk_linnos *linnos,
				      struct linnos_view *view, bool answered)
{
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&linnos->history_seq);
		view->history = linnos->history[0];
		if (answered)
			view->answered = linnos->answered[0];
	} while (read_seqcount_retry(&linnos->history_seq, seq));
}

/* The same for a read that is not small. */
static void linnos_history_read_all(struct blk_linnos *linnos,
				    struct linnos_view *view)
{
	struct linnos_history history[LINNOS_SIZES] __uninitialized;
	struct linnos_answered answered[LINNOS_SIZES] __uninitialized;
	u32 caught_up[LINNOS_SIZES] __uninitialized;
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&linnos->history_seq);
		memcpy(history, linnos->history, sizeof(history));
		memcpy(answered, linnos->answered, sizeof(answered));
		memcpy(caught_up, linnos->caught_up, sizeof(caught_up));
	} while (read_seqcount_retry(&linnos->history_seq, seq));
	linnos_catch_up(history, answered, caught_up, view->size);
	view->history = history[view->size];
	view->answered = answered[view->size];
}

/**
 * linnos_history_read() - the last reads that were not larger in order than this
 * @linnos: the disk's policy
 * @view: the read; its history is filled in
 * @answered: and what only a model of latencies sees of it
 */
void linnos_history_read(struct blk_linnos *linnos, struct linnos_view *view,
			 bool answered)
{
	if (likely(!view->size))
		linnos_history_read_small(linnos, view, answered);
	else
		linnos_history_read_all(linnos, view);
}

/*
 * Add a read to the history; not if this CPU is quiet, or another adds one at this
 * moment. A probe has too much to tell to be left out.
 */
static void linnos_history_add(struct blk_linnos *linnos,
			       const struct bio_linnos *io, u32 pages)
{
	struct linnos_cpu *cpu = raw_cpu_ptr(linnos->cpus);
	bool is_probe = io->verdict == LINNOS_VERDICT_PROBE;
	struct linnos_history *h = &linnos->history[io->size];
	u64 now_ns = READ_ONCE(linnos->last_read_ns);
	s64 ago_ns = S64_MAX;
	unsigned long flags;

	if (linnos_is_quiet(linnos, cpu) && !is_probe) {
		this_cpu_inc(linnos->cpus->left_out);
		return;
	}
	/* who takes it between these two makes this one wait, but not for long */
	if (!is_probe && raw_spin_is_locked(&linnos->history_lock)) {
		this_cpu_inc(linnos->cpus->left_out);
		linnos_meet(linnos, cpu, 0, now_ns);
		return;
	}
	raw_spin_lock_irqsave(&linnos->history_lock, flags);
	write_seqcount_begin(&linnos->history_seq);
	linnos_catch_up(linnos->history, linnos->answered, linnos->caught_up,
			io->size);
	linnos_history_push(h, io->pending, io->served_us);
	h->generation++;
	if (linnos->history[0].cpu != raw_smp_processor_id()) {
		ago_ns = now_ns - linnos->recorded_ns;
		linnos->history[0].cpu = raw_smp_processor_id();
	}
	/* the drive has answered this read, and another at most an instant later */
	if (READ_ONCE(linnos->watching))
		linnos_answered_push(&linnos->answered[io->size], pages,
				     now_ns);
	write_seqcount_end(&linnos->history_seq);
	linnos->recorded_ns = now_ns;
	raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
	linnos_meet(linnos, cpu, ago_ns, now_ns);
}

/*
 * The policy has a read sent there, and expects it to be fast. A clock that is
 * right to an eighth of the time that it is asked for is not written by each read.
 */
static void linnos_chosen(struct blk_linnos *linnos, u32 size, u64 now_ns)
{
	u32 after_us = READ_ONCE(linnos->probe_after_us) ?: PROBE_AFTER_US;
	struct linnos_look *look = &linnos->look[size];
	s64 age_ns = now_ns - READ_ONCE(look->chosen_ns);

	if (age_ns > (s64)after_us * (s64)(NSEC_PER_USEC / 8))
		WRITE_ONCE(look->chosen_ns, now_ns);
}

/*
 * Is it time to look whether the drive is still slow, and are we the one? If
 * so, *@number is the probe's; without @number the next read to arrive is it.
 */
static bool linnos_probe_claim(struct blk_linnos *linnos, u32 size, u32 pages,
			       u64 now_ns, bool trusted, u32 *number)
{
	struct linnos_look *look = &linnos->look[size];
	/* pairs with linnos_probe_done(): what the last one has told */
	u64 probe = atomic64_read_acquire(&linnos->probe[size]);
	u64 next = (((probe | PROBE_STATE) + 1) & PROBE_NUMBER) |
		   PROBE_IN_FLIGHT | (number ? 0 : PROBE_OPEN) |
		   FIELD_PREP(PROBE_SINCE, now_ns & PROBE_SINCE_MASK);
	u32 after_us = READ_ONCE(linnos->probe_after_us);
	u64 after_ns = (u64)after_us * NSEC_PER_USEC;
	u64 patience_ns = (u64)(after_us ?: PROBE_AFTER_US) * NSEC_PER_USEC;
	u64 after_revokes = READ_ONCE(linnos->probe_after_revokes);
	u8 backoff = READ_ONCE(look->backoff);
	/* A read that was chosen just now may make the age negative. */
	s64 age_ns = now_ns - READ_ONCE(look->chosen_ns);
	u64 held_ns = (now_ns - FIELD_GET(PROBE_SINCE, probe)) &
		      PROBE_SINCE_MASK;
	struct linnos_watch *watch = READ_ONCE(linnos->watch);
	u64 revokes = atomic_read(&look->revokes), given_up_ns = 0;
	bool large = pages > READ_ONCE(look->limit);
	bool again = trusted || (READ_ONCE(look->again) && !large);

	/* as large a one was late: smaller ones first */
	if (large && !again)
		backoff++;
	if (!again && !(after_ns && age_ns > (s64)(after_ns << backoff)) &&
	    !(after_revokes && revokes >= after_revokes << backoff))
		return false;
	/* one at a time, but not if the host holds it back */
	if (probe & PROBE_ISSUED)
		return false;
	/* it is whose read comes first: let this one send his, too */
	if (again && !number && probe & PROBE_OPEN) {
		linnos_count(linnos, LINNOS_STAT_PROBES);
		return true;
	}
	if (probe & PROBE_IN_FLIGHT) {
		/* who did not make use of the last one comes after the others */
		if (READ_ONCE(look->prober) == task_tgid_nr(current))
			backoff++;
		/* nor may the clock of this CPU be behind the other's */
		if (held_ns <= patience_ns << backoff ||
		    held_ns > PROBE_SINCE_MASK - PROBE_BEHIND_NS)
			return false;
		if (watch)
			given_up_ns = linnos_watch_probe_since(watch, size);
	}
	/* not if another has come, even gone, since we looked: think again */
	if (atomic64_cmpxchg(&linnos->probe[size], probe, next) != probe)
		return false;
	if (given_up_ns)
		linnos_watch_probe_gone(watch, size, given_up_ns);
	WRITE_ONCE(look->prober, task_tgid_nr(current));
	if (number)
		*number = FIELD_GET(PROBE_NUMBER, next);
	linnos_count(linnos, LINNOS_STAT_PROBES);
	return true;
}

/*
 * Are there reads in flight of a larger order than this, or were there just now?
 * What small ones took beside them is in the history for a while.
 */
static bool linnos_has_larger(const struct blk_linnos *linnos, u32 size,
			      u64 now_ns)
{
	u32 after_us = READ_ONCE(linnos->probe_after_us) ?: PROBE_AFTER_US;
	s64 after_ns = (s64)after_us * (s64)NSEC_PER_USEC;
	u64 ended_ns;

	while (++size < LINNOS_SIZES) {
		ended_ns = READ_ONCE(linnos->look[size].ended_ns);
		if (atomic_read(&linnos->look[size].in_flight) > 0 ||
		    (ended_ns && (s64)(now_ns - ended_ns) < after_ns))
			return true;
	}
	return false;
}

/*
 * May a read go there although the model calls it slow, for those before it were
 * fast, and larger ones are why it seems slow? As many at once as make up the
 * trust, and none so large as were late.
 */
static bool linnos_is_trusted(struct blk_linnos *linnos, u32 size, u32 pages,
			      u64 now_ns)
{
	struct linnos_look *look = &linnos->look[size];
	int trust = READ_ONCE(look->trust);

	return trust && pages <= READ_ONCE(look->limit) &&
	       atomic_read(&look->trusted) < trust &&
	       linnos_has_larger(linnos, size, now_ns);
}

/* Has it been given no read that is expected to be fast for so long? */
static bool linnos_is_silent(const struct blk_linnos *linnos, u32 size,
			     u64 now_ns)
{
	u64 after_ns = (u64)READ_ONCE(linnos->probe_after_us) * NSEC_PER_USEC;
	s64 age_ns = now_ns - READ_ONCE(linnos->look[size].chosen_ns);

	return after_ns && age_ns > (s64)after_ns;
}

/* Have reads gone elsewhere for long, and many of them? */
static bool linnos_passed_over(struct blk_linnos *linnos, u32 size, u64 now_ns)
{
	u64 after_revokes = READ_ONCE(linnos->probe_after_revokes);
	u64 revokes = atomic_read(&linnos->look[size].revokes);

	return linnos_is_silent(linnos, size, now_ns) && after_revokes &&
	       revokes >= after_revokes;
}

static bool linnos_probe_open(struct blk_linnos *linnos, u32 size)
{
	return unlikely(atomic64_read(&linnos->probe[size]) & PROBE_OPEN);
}

/*
 * A read without the hint arrives: is it the probe that somebody was to send? What
 * he asked about may come in several bios, of BIO_MAX_VECS pages: then the first
 * of them.
 */
static void linnos_probe_take(struct blk_linnos *linnos, struct bio_linnos *io,
			      u32 pages)
{
	u64 probe;

	if (pages == LINNOS_MEDIUM_PAGES &&
	    !linnos_probe_open(linnos, io->size) &&
	    linnos_probe_open(linnos, io->size + 1))
		io->size++;
	if (likely(!linnos_probe_open(linnos, io->size)))
		return;
	probe = atomic64_read(&linnos->probe[io->size]);
	if (!(probe & PROBE_OPEN) ||
	    atomic64_cmpxchg(&linnos->probe[io->size], probe,
			     probe & ~PROBE_OPEN) != probe)
		return;
	io->verdict = LINNOS_VERDICT_PROBE;
	io->probe = FIELD_GET(PROBE_NUMBER, probe);
}

/*
 * Who asked and was told that the drive is not slow may send his read there, and
 * then the policy has chosen it. He is known by being the task that asked last on
 * this CPU: md and programs send a read right after they have asked. One that has
 * been moved meanwhile, or has others send his reads, is missed, and the drive may
 * be looked at once more than it need be. A stranger is never taken for him, and
 * nobody writes a line for it that others read.
 */
static void linnos_asked(struct blk_linnos *linnos, u32 size, u64 now_ns)
{
	struct linnos_cpu *cpu = raw_cpu_ptr(linnos->cpus);

	WRITE_ONCE(cpu->asked_ns, now_ns);
	WRITE_ONCE(cpu->asked_size, size);
	WRITE_ONCE(cpu->asked_by, current);
}

static void linnos_asked_sends(struct blk_linnos *linnos)
{
	struct linnos_cpu *cpu = raw_cpu_ptr(linnos->cpus);

	if (likely(READ_ONCE(cpu->asked_by) != current))
		return;
	WRITE_ONCE(cpu->asked_by, NULL);
	linnos_chosen(linnos, READ_ONCE(cpu->asked_size),
		      READ_ONCE(cpu->asked_ns));
}

/* Is this bio the probe in flight, rather than one that was given up? */
static bool linnos_is_probe(const struct blk_linnos *linnos,
			    const struct bio_linnos *io)
{
	u64 probe;

	if (io->verdict != LINNOS_VERDICT_PROBE)
		return false;
	probe = atomic64_read(&linnos->probe[io->size]);
	return probe & PROBE_IN_FLIGHT &&
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
	u64 probe;

	if (io.verdict != LINNOS_VERDICT_PROBE)
		return;
	probe = atomic64_read(&linnos->probe[io.size]);
	if (!(probe & PROBE_ISSUED) && linnos_is_probe(linnos, &io))
		atomic64_cmpxchg(&linnos->probe[io.size], probe,
				 probe | PROBE_ISSUED);
}

/*
 * Was it wrong to let it go there? A read that is refused costs a failover, and so
 * much slower than fast may one be that is not. Thresholds of models are often in
 * the midst of what a drive at rest does; but none is late then.
 */
static bool linnos_is_late(const struct blk_linnos *linnos, u32 us)
{
	return us > (u64)READ_ONCE(linnos->threshold_us) +
			    READ_ONCE(linnos->failover_us);
}

static void linnos_in_time(struct linnos_look *look, u32 pages)
{
	u32 in_time = READ_ONCE(look->in_time);

	if (unlikely(pages && (!in_time || pages < in_time)))
		WRITE_ONCE(look->in_time, pages);
}

/*
 * Of reads of one order of size, too, the larger are later: what they take says
 * nothing of smaller ones that came in time. So one that is late and larger than
 * those costs no trust. It limits that to reads half as large, and from there on
 * to larger ones again, a little for each TRUST_LOST that come in time. Not one
 * whose @pages are not known, which are 0 then. Return: whether it was that.
 */
static bool linnos_limit(struct linnos_look *look, u32 pages, bool late)
{
	u32 in_time = READ_ONCE(look->in_time), limit = READ_ONCE(look->limit);
	u8 grown = READ_ONCE(look->grown) + 1;

	if (late && in_time && pages > in_time) {
		WRITE_ONCE(look->limit, max(pages / 2, in_time));
		/* not for ever, if there are no smaller ones any more */
		WRITE_ONCE(look->in_time, min(2 * in_time, pages));
		return true;
	}
	if (late)
		return false;
	linnos_in_time(look, pages);
	if (pages > limit) {
		WRITE_ONCE(look->limit, pages);
	} else if (limit < LINNOS_NO_LIMIT && grown >= TRUST_LOST) {
		WRITE_ONCE(look->limit, limit + max(limit / 8, 1));
		grown = 0;
	}
	WRITE_ONCE(look->grown, limit < LINNOS_NO_LIMIT ? grown : 0);
	return false;
}

/*
 * A read that the model called slow was not, or it was. When there is no trust
 * left the wait begins anew, as after a probe.
 */
static void linnos_trust(struct blk_linnos *linnos, u32 size, bool late)
{
	struct linnos_look *look = &linnos->look[size];
	u8 trust = READ_ONCE(look->trust);

	if (!late) {
		if (trust < TRUST_MAX)
			WRITE_ONCE(look->trust,
				   trust ? trust + 1 : TRUST_FIRST);
		return;
	}
	WRITE_ONCE(look->again, false);
	if (trust > TRUST_LOST) {
		WRITE_ONCE(look->trust, trust - TRUST_LOST);
		return;
	}
	if (!trust)
		return;
	WRITE_ONCE(look->trust, 0);
	WRITE_ONCE(look->chosen_ns, READ_ONCE(linnos->last_read_ns));
	atomic_set(&look->revokes, 0);
}

/*
 * A probe has returned: was the drive still slow? One that failed, went to
 * another path or never got as far as the drive (-EAGAIN for want of a tag)
 * does not tell: the next read may be a probe, at the same wait as this.
 */
static void linnos_probe_done(struct blk_linnos *linnos,
			      const struct bio_linnos *io, u32 pages, bool told,
			      bool late)
{
	u64 probe = atomic64_read(&linnos->probe[io->size]);
	struct linnos_look *look = &linnos->look[io->size];
	u8 backoff = READ_ONCE(look->backoff);

	if (!linnos_is_probe(linnos, io))
		return;
	if (told) {
		atomic_set(&look->revokes, 0);
		if (linnos_limit(look, pages, late))
			told = false;
	}
	if (told) {
		if (!late)
			WRITE_ONCE(look->again, true);
		if (late || READ_ONCE(look->against))
			linnos_trust(linnos, io->size, late);
		if (!late)
			WRITE_ONCE(look->backoff, 0);
		else if (backoff < PROBE_MAX_BACKOFF)
			WRITE_ONCE(look->backoff, backoff + 1);
	}
	/*
	 * Whoever is to send the next one sees the above; pairs with
	 * linnos_probe_claim(). No loop: if it is another by now, this one had
	 * been given up.
	 */
	atomic64_cmpxchg_release(&linnos->probe[io->size], probe,
				 probe & ~PROBE_STATE);
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
	view->size = linnos_size_order(pages);
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
	bool slow;

	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	linnos_history_read(linnos, view, active && active->latency);
	slow = active && linnos_predict(linnos, active, view);
	if (active && !active->chooses)
		reason = LINNOS_NO_CHOICE;
	else if (slow)
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
	bool *again = &linnos->look[view->size].again;
	enum linnos_reason reason;

	if (!READ_ONCE(linnos->hinted))
		WRITE_ONCE(linnos->hinted, true);
	reason = linnos_look(linnos, view);
	/* clear it: the model predicts fast by itself */
	if (unlikely(READ_ONCE(*again)) &&
	    (reason == LINNOS_PREDICTED_FAST || reason == LINNOS_STALLED))
		WRITE_ONCE(*again, false);
	return reason;
}

/* Neither fast nor slow: there is no model, or one that does not choose. */
static bool linnos_is_unknown(enum linnos_reason reason)
{
	return reason == LINNOS_NO_MODEL || reason == LINNOS_NO_CHOICE;
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
	/* it may have been given a network by now, or its model chooses nothing */
	return view->n_features && !linnos_is_unknown(reason) ?
		       linnos_in_us(reason, view) :
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
	bool slow, admit, trust;
	u32 gain_us = 0;

	linnos_count(linnos, LINNOS_STAT_READS);
	linnos_quiet_ends(raw_cpu_ptr(linnos->cpus), now_ns);
	linnos_view_init(linnos, &view, linnos_bio_pages(bio), now_ns,
			 trace_linnos_decision_enabled());
	reason = linnos_foresee(linnos, &view);
	slow = linnos_is_slow(reason);
	io.size = view.size;
	if (!linnos_is_unknown(reason))
		io.verdict = slow ? LINNOS_VERDICT_SLOW : LINNOS_VERDICT_FAST;

	if (slow && linnos_keeps(linnos, bio, &view, reason, &gain_us))
		reason = LINNOS_KEPT;

	/* not "observe": the mode may have been switched off meanwhile */
	admit = !slow || reason == LINNOS_KEPT || mode != LINNOS_ENFORCE;
	/* not if a peer is sooner: there is somebody better to trust */
	trust = reason == LINNOS_PREDICTED_SLOW &&
		linnos_is_trusted(linnos, io.size, view.pages, now_ns);
	if (!admit && trust && !gain_us) {
		admit = true;
		reason = LINNOS_PROBE;
		io.trusted = true;
		linnos_count(linnos, LINNOS_STAT_PROBES);
	} else if (!admit && linnos_probe_claim(linnos, io.size, view.pages,
						now_ns, trust, &io.probe)) {
		admit = true;
		WRITE_ONCE(linnos->look[io.size].against,
			   reason == LINNOS_PREDICTED_SLOW);
		reason = LINNOS_PROBE;
		io.verdict = LINNOS_VERDICT_PROBE;
	}
	if (!slow || reason == LINNOS_KEPT)
		linnos_chosen(linnos, io.size, now_ns);

	linnos_count(linnos, LINNOS_STAT_LATENCY_CRITICAL);
	linnos_count(linnos,
		     admit ? LINNOS_STAT_ADMITTED : LINNOS_STAT_REVOKED);
	if (!admit) {
		atomic_inc(&linnos->look[io.size].revokes);
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
	if (reason == LINNOS_NO_CHOICE)
		drive->flags |= BLK_EXPECT_NO_CHOICE;
	if (linnos_is_slow(reason))
		drive->flags |= BLK_EXPECT_SLOW;
	if (reason == LINNOS_STALLED)
		drive->flags |= BLK_EXPECT_STALLED;
	if (linnos_is_silent(linnos, view->size, view->now_ns))
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
	bool slow, stale, again;

	linnos_quiet_ends(raw_cpu_ptr(linnos->cpus), now_ns);
	linnos_view_init(linnos, &view, linnos_pages(bytes), now_ns, false);
	reason = look ? linnos_look(linnos, &view) :
			linnos_foresee(linnos, &view);
	slow = linnos_is_slow(reason);
	stale = slow || (view.n_features &&
			 linnos_passed_over(linnos, view.size, now_ns));
	again = reason == LINNOS_PREDICTED_SLOW &&
		linnos_is_trusted(linnos, view.size, view.pages, now_ns);
	if (view.n_features)
		latency_us = view.out[1];
	if (linnos_is_unknown(reason))
		goto out;
	if (!look && stale &&
	    linnos_probe_claim(linnos, view.size, view.pages, now_ns, again,
			       NULL)) {
		expected = BLK_LINNOS_PROBE;
		WRITE_ONCE(linnos->look[view.size].against,
			   reason == LINNOS_PREDICTED_SLOW);
		goto out;
	}
	/* it goes stale as one whose reads are revoked, once it is passed over */
	if (!look && (slow || (view.n_features &&
			       linnos_is_silent(linnos, view.size, now_ns))))
		atomic_inc(&linnos->look[view.size].revokes);
	if (!look && !slow)
		linnos_asked(linnos, view.size, now_ns);
	expected = slow ? BLK_LINNOS_SLOW : BLK_LINNOS_FAST;
out:
	trace_linnos_expected(disk_devt(linnos->disk), view.pending, expected,
			      latency_us);
	if (drive)
		linnos_tell(linnos, &view, reason, expected, drive);
	if (!latency_us || expected == BLK_LINNOS_PROBE ||
	    expected == BLK_LINNOS_UNKNOWN)
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
	else if (linnos_is_probe(linnos, io))
		linnos_watch_probe(linnos->watch, io->size, pages);
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
	u32 pages = linnos_bio_pages(bio);

	if (bio_flagged(bio, BIO_QOS_ADMITTED)) {
		/* the remainder of one that was split */
		if (linnos_bio_state(bio) != LINNOS_BIO_DECIDED)
			return;
		io = linnos_unpack(bio);
		/* it may have been throttled on the way */
		io.decided = false;
	} else if (bio_op(bio) == REQ_OP_READ) {
		linnos_count(linnos, LINNOS_STAT_READS);
		io.size = linnos_size_order(pages);
		linnos_probe_take(linnos, &io, pages);
		linnos_asked_sends(linnos);
	}
	if (bio_op(bio) == REQ_OP_READ)
		linnos_reserve(linnos, &io, pages);
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
	       linnos_bio_state(whole) != LINNOS_BIO_PART &&
	       linnos_bio_state(whole) != LINNOS_BIO_DECIDED;
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
	if (io.watched || linnos_is_probe(linnos, &io))
		linnos_watch_start(watch, linnos_place(&io), now_ns);
}

/*
 * A read is not in flight any more, if it ever was. Of how many pages was it, all
 * of it? 0 of one that arrived while reads were not watched or all places were
 * taken.
 */
static u32 linnos_unwatch(struct blk_linnos *linnos,
			  const struct bio_linnos *io)
{
	struct linnos_watch *watch = READ_ONCE(linnos->watch);
	u32 pages = 0;

	if (io->watched || (watch && linnos_is_probe(linnos, io)))
		pages = linnos_watch_end(watch, linnos_place(io));
	return pages;
}

/* A write is counted in, or a part of one. */
static void linnos_start_write(struct blk_linnos *linnos, struct bio *bio,
			       u32 pages)
{
	bool watched = READ_ONCE(linnos->watching);

	linnos_count_io(linnos, pages, watched ? pages : 0);
	if (watched)
		bio->bi_linnos |= FIELD_PREP(LINNOS_BIO_NUMBER, LINNOS_SIZES);
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
	enum linnos_bio_state state = LINNOS_BIO_PART;
	s64 in_flight;
	u32 pages, size;

	if (!bio_flagged(bio, BIO_QOS_ADMITTED)) {
		if (!linnos_is_part(bio))
			return;
		linnos_pack(bio, &(struct bio_linnos){ .part = true });
		bio_set_flag(bio, BIO_QOS_ADMITTED);
	} else {
		state = linnos_bio_state(bio);
		/* counted, or it arrived while the drive slept */
		if (bio->bi_linnos & LINNOS_BIO_PAGES ||
		    state == LINNOS_BIO_PART || state == LINNOS_BIO_DECIDED)
			return;
	}
	pages = linnos_bio_pages(bio);
	bio->bi_linnos |= FIELD_PREP(LINNOS_BIO_PAGES, pages);

	if (bio_op(bio) != REQ_OP_READ) {
		linnos_start_write(linnos, bio, pages);
		return;
	}
	if (state == LINNOS_BIO_PART) {
		linnos_start_part(linnos, bio, pages);
		return;
	}
	linnos_watch(linnos, bio, now_ns);
	size = linnos_unpack(bio).size;
	if (unlikely(size))
		atomic_inc(&linnos->look[size].in_flight);
	if (unlikely(state == LINNOS_BIO_TRUSTED))
		atomic_inc(&linnos->look[size].trusted);
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

	if (linnos_bio_state(bio) == LINNOS_BIO_PART) {
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
	struct bio_linnos io = linnos_unpack(bio);

	linnos_quiet_ends(cpu, now_ns);
	/* a probe ends what all others wait for */
	if (linnos_is_probe(linnos, &io))
		WRITE_ONCE(linnos->look[io.size].chosen_ns, now_ns);
	if (!linnos_is_quiet(linnos, cpu) || io.verdict == LINNOS_VERDICT_PROBE)
		WRITE_ONCE(linnos->last_read_ns, now_ns);
	linnos_tried(bio, latency_ns);
}

static void linnos_read_ended(struct blk_linnos *linnos,
			      const struct bio_linnos *io, blk_status_t status)
{
	u32 whole = linnos_unwatch(linnos, io);
	/* of one that was split, those of its last part */
	u32 pages = whole ?: io->pages;
	/* nor does one that was not counted, for the drive slept */
	bool told = !status && io->pages && io->served_us != LINNOS_NOT_SERVED;
	bool slow = false, late = false;

	/* small ones are not split */
	if (!io->size)
		whole = pages;
	if (unlikely(io->pages && io->size)) {
		WRITE_ONCE(linnos->look[io->size].ended_ns,
			   READ_ONCE(linnos->last_read_ns));
		atomic_dec(&linnos->look[io->size].in_flight);
	}
	if (io->pages && io->trusted)
		atomic_dec(&linnos->look[io->size].trusted);
	if (told) {
		linnos_count_latency(linnos, io->served_us);
		slow = io->served_us > READ_ONCE(linnos->threshold_us);
		linnos_history_add(linnos, io, pages);

		if (slow)
			linnos_count(linnos, LINNOS_STAT_SLOW);
		if (slow && io->verdict == LINNOS_VERDICT_FAST)
			linnos_count(linnos, LINNOS_STAT_FALSE_SUBMITS);
		if (!slow && io->verdict == LINNOS_VERDICT_SLOW)
			linnos_count(linnos, LINNOS_STAT_FALSE_REVOKES);
		late = linnos_is_late(linnos, io->served_us);
		if (io->trusted &&
		    !linnos_limit(&linnos->look[io->size], whole, late))
			linnos_trust(linnos, io->size, late);
		if (!late && io->verdict == LINNOS_VERDICT_FAST)
			linnos_in_time(&linnos->look[io->size], whole);
	}
	if (io->verdict == LINNOS_VERDICT_PROBE)
		linnos_probe_done(linnos, io, whole, told, late);
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
	io.size = linnos_size_order(linnos_bio_pages(bio));
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
	struct bio *bio;

	if (!linnos_timed(rq))
		return;
	/* not blk_time_get_ns(), as above */
	rq->io_start_time_ns = ktime_get_ns();
	for (bio = rq->bio; bio; bio = bio->bi_next)
		if (bio_flagged(bio, BIO_QOS_ADMITTED))
			linnos_issued(rq->q->disk->linnos, bio);
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
 * An answer to a bio is its last byte. SCSI ends what is good of a read that
 * failed first, without an error, and that may be no byte at all: a drive that
 * fails all its reads answers none.
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
		if (bio->bi_iter.bi_size > nr_bytes)
			break;
		if (bio_flagged(bio, BIO_QOS_ADMITTED))
			linnos_served(rq->q->disk->linnos, bio, latency_ns,
				      now_ns);
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

/* Never: a disk that goes has been detached. But the list asks for one. */
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

/* The disk goes. Waits for the I/O in flight. */
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
 * The first time that it leaves off it joins the queue's list, which waits for the
 * I/O in flight. Nothing else waits: to switch off must work on a drive that does
 * not answer, and what is in flight then is counted out when it ends. Leaving off
 * starts with an empty history, and I/O in flight that arrived before is not
 * counted.
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0 or -ENOMEM.
 */
int linnos_set_mode(struct blk_linnos *linnos, enum linnos_mode mode)
{
	int ret;

	lockdep_assert_held(&linnos->lock);

	if (mode == LINNOS_OFF) {
		WRITE_ONCE(linnos->mode, mode);
		WRITE_ONCE(linnos->awake, false);
		linnos_release_key(linnos);
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
	WRITE_ONCE(linnos->mode, mode);
	linnos_set_awake(linnos);
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
	linnos_detach(linnos);
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
