// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: redirect the reads of an md array while that makes them faster.
 *
 * A stacked driver (md) selects a disk for each read by a rule of its own. This disk is called
 * the default disk of the read. If the predictions say that another disk is faster, the read is
 * redirected or, at random, kept at the default disk as a control. The latencies of both groups
 * decide how many reads are redirected (core/linnos_guard.c). An array whose disks have misleading
 * models is therefore soon read as if it had no models.
 *
 * A prediction takes time, too. The default disk is therefore queried first, and the other disks
 * only if the read may be redirected according to the answer. If fewer than %FEW_REDIRECTED of
 * 1024 reads of a slowness class are redirected, the other disks are queried for only one read in
 * %EXPLORE_EVERY of that class, chosen at random. The same applies to the class
 * %LINNOS_SLOWNESS_NORMAL if the other disks include a better one for fewer than one in
 * %BETTER_EVERY of its reads. While no class is mostly redirected, the array is suspended: it
 * queries disks for only one read in %SUSPENDED_EVERY, to notice a change.
 *
 * An array has one guard, with a lock. With a guard per CPU, each of them would need the minimum
 * number of samples before it knows anything. Reads for which another disk is better take the
 * lock twice, for less than a microsecond. Reads of the class %LINNOS_SLOWNESS_NORMAL for which
 * other disks were queried take it once more: one in %SAMPLE_EVERY of them, or all while the
 * other disks are queried for only one read in %EXPLORE_EVERY. Of the reads that the guard does
 * not assign, one in %SAMPLE_EVERY, chosen at random, takes it when it completes: the guard needs
 * the mean latency. All other reads only load two words that rarely change, and increment a counter
 * of their CPU.
 *
 * A read that probes a disk is not assigned at random, because it is sent to measure that disk.
 */
#include <linux/bitfield.h>
#include <linux/bitops.h>
#include <linux/blk-linnos-array.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "linnos_guard.h"

/* Limits of the share of a slowness class that is redirected, in 1/%LINNOS_GUARD_ALL. */
#define FEW_REDIRECTED 64
#define MOST_REDIRECTED (LINNOS_GUARD_ALL / 2)

/*
 * Querying the other disks costs less than 1 % of the latency of a normal read, and a better disk
 * saves at least a quarter of it. Queries therefore pay off if about one read in %BETTER_EVERY
 * finds a better disk.
 */
#define BETTER_EVERY 32
#define QUERIED_ENOUGH 64
#define QUERIED_MOST 1024

/*
 * Powers of two. SUSPENDED_EVERY is a multiple of EXPLORE_EVERY: the few reads for which a
 * suspended array queries disks test all classes.
 */
#define SAMPLE_EVERY 8
#define EXPLORE_EVERY 4
#define SUSPENDED_EVERY 8

static const char *const linnos_array_modes[] = { "off", "on", "unguarded" };
static const char *const linnos_slowness_names[] = { NULL, "normal", "over_p90",
						     "over_2x_p90",
						     "over_3x_p90" };

struct blk_linnos_guard {
	/*
	 * This cache line is read for each read, without the lock. Its members are only hints that
	 * save queries. All other data are used under the lock, so the order in which a CPU sees
	 * these members change does not matter.
	 */
	bool suspended; /* no class is mostly redirected */
	u8 rarely_queried; /* bitmap of the slowness classes that rarely query other disks */

	/* protects the rest; raw, because completions take it on PREEMPT_RT, too */
	raw_spinlock_t lock ____cacheline_aligned_in_smp;
	struct linnos_guard core; /* assigns single reads */
	/* bitmaps of the slowness classes: few or most of their reads are redirected */
	unsigned long few, most;
	/* counters of reads of the class LINNOS_SLOWNESS_NORMAL, halved above %QUERIED_MOST */
	u32 queried; /* reads for which other disks were queried */
	u32 better; /* those of them for which another disk was better */
};

/*
 * Set the hints. Most calls change nothing; they must not write to the cache line, which all CPUs
 * read. The lock is held.
 */
static void linnos_set_hints(struct blk_linnos_guard *g, bool suspended)
{
	u8 rarely_queried = g->few;

	if (g->queried >= QUERIED_ENOUGH &&
	    g->better * BETTER_EVERY < g->queried)
		rarely_queried |= BIT(LINNOS_SLOWNESS_NORMAL);
	if (g->suspended == suspended && g->rarely_queried == rarely_queried)
		return;
	WRITE_ONCE(g->suspended, suspended);
	WRITE_ONCE(g->rarely_queried, rarely_queried);
}

/*
 * Count a read for which other disks were queried although the default disk is not slow. @better:
 * true if one of them is better.
 */
static void linnos_count_query(struct blk_linnos_guard *g, bool better)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&g->lock, flags);
	g->queried++;
	g->better += better;
	if (g->queried > QUERIED_MOST) {
		g->queried /= 2;
		g->better /= 2;
	}
	linnos_set_hints(g, g->suspended);
	raw_spin_unlock_irqrestore(&g->lock, flags);
}

static bool linnos_any_queried(const enum blk_linnos_expected *answers,
			       unsigned int n, unsigned int preferred)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (i != preferred && answers[i] != BLK_LINNOS_NOT_QUERIED)
			return true;
	return false;
}

/* Initialize an array; must be called first. Return: 0 or -ENOMEM. */
int blk_linnos_array_init(struct blk_linnos_array *array)
{
	array->mode = BLK_LINNOS_ARRAY_OFF;
	array->guard = kzalloc(sizeof(*array->guard), GFP_KERNEL);
	if (!array->guard)
		return -ENOMEM;
	raw_spin_lock_init(&array->guard->lock);
	return 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_init);

/* Return the slowness class of an answer of the default disk. */
static enum linnos_slowness
linnos_answer_slowness(enum blk_linnos_expected answer)
{
	if (answer & BLK_LINNOS_US)
		return FIELD_GET(BLK_LINNOS_US_SLOWNESS, answer);
	return answer == BLK_LINNOS_SLOW ? LINNOS_SLOWNESS_OVER_P90 :
					   LINNOS_SLOWNESS_NONE;
}

/* Reads of all arrays with guards on this CPU. */
static DEFINE_PER_CPU(u32, linnos_array_reads);

/*
 * blk_linnos_array_should_query() for an array whose mode is not off. Return true if disks
 * should be queried for a read. The caller keeps @group for blk_linnos_record_latency().
 */
bool __blk_linnos_array_should_query(struct blk_linnos_array *array,
				     struct blk_linnos_assignment *group)
{
	u64 now_ns;
	u32 random;

	if (READ_ONCE(array->mode) != BLK_LINNOS_ARRAY_ON)
		return true;
	now_ns = ktime_get_ns();
	/* random without a state that CPUs share; the clock alone may be too coarse */
	random = hash_64(now_ns + this_cpu_inc_return(linnos_array_reads),
			 ilog2(SAMPLE_EVERY * SUSPENDED_EVERY));
	if (random / SUSPENDED_EVERY == 0)
		group->start_ns = now_ns;
	group->queries_all = random % EXPLORE_EVERY == 0;
	return !READ_ONCE(array->guard->suspended) ||
	       random % SUSPENDED_EVERY == 0;
}
EXPORT_SYMBOL_GPL(__blk_linnos_array_should_query);

/**
 * blk_linnos_may_redirect() - check whether the other disks have to be queried, too
 * @array: the array
 * @group: from blk_linnos_array_should_query()
 * @answer: answer of blk_linnos_expect() for the default disk
 *
 * Return: false if the default disk serves the read, whatever is expected of the others.
 */
bool blk_linnos_may_redirect(const struct blk_linnos_array *array,
			     const struct blk_linnos_assignment *group,
			     enum blk_linnos_expected answer)
{
	enum linnos_slowness slowness = linnos_answer_slowness(answer);

	if (answer == BLK_LINNOS_NOT_QUERIED)
		return true;
	/* no disk is better than a fast or unknown one; a disk to be probed gets this read */
	if (slowness == LINNOS_SLOWNESS_NONE)
		return false;
	return READ_ONCE(array->mode) != BLK_LINNOS_ARRAY_ON ||
	       group->queries_all ||
	       !(READ_ONCE(array->guard->rarely_queried) & BIT(slowness));
}
EXPORT_SYMBOL_GPL(blk_linnos_may_redirect);

/**
 * blk_linnos_redirect() - choose the disks that should serve a read
 * @array: the array
 * @answers: answer of blk_linnos_expect() for each disk
 * @n: number of disks, at most %BITS_PER_LONG
 * @preferred: index of the default disk
 * @group: from blk_linnos_array_should_query()
 *
 * Context: Any. Does not sleep.
 * Return: a bitmap of disks; 0 if the default disk should serve the read.
 */
unsigned long blk_linnos_redirect(struct blk_linnos_array *array,
				  const enum blk_linnos_expected *answers,
				  unsigned int n, unsigned int preferred,
				  struct blk_linnos_assignment *group)
{
	unsigned long best = blk_linnos_best(answers, n);
	bool guarded = READ_ONCE(array->mode) == BLK_LINNOS_ARRAY_ON;
	enum linnos_slowness slowness =
		linnos_answer_slowness(answers[preferred]);
	bool other_better = best && !(best & BIT(preferred));
	struct blk_linnos_guard *g = array->guard;
	struct linnos_assignment assigned;
	unsigned long flags;

	if (slowness == LINNOS_SLOWNESS_NORMAL && guarded &&
	    (group->start_ns || READ_ONCE(g->rarely_queried) & BIT(slowness)) &&
	    linnos_any_queried(answers, n, preferred))
		linnos_count_query(g, other_better);
	if (!other_better)
		return 0;
	/* the default disk cannot serve the read, or another disk is to be probed: no test */
	if (slowness == LINNOS_SLOWNESS_NONE || !guarded)
		return best;
	group->slowness = slowness;
	/* only a latency model predicts microseconds */
	group->default_us = answers[preferred] & BLK_LINNOS_US ?
				    answers[preferred] & BLK_LINNOS_US_MASK :
				    U32_MAX;
	raw_spin_lock_irqsave(&g->lock, flags);
	assigned = linnos_guard_assign(&g->core, slowness, group->default_us);
	__assign_bit(slowness, &g->few, assigned.share < FEW_REDIRECTED);
	__assign_bit(slowness, &g->most, assigned.share > MOST_REDIRECTED);
	linnos_set_hints(g, !g->most);
	raw_spin_unlock_irqrestore(&g->lock, flags);
	group->redirected = assigned.redirected;
	group->start_ns = group->start_ns ?: ktime_get_ns();
	return group->redirected ? best : 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_redirect);

/* blk_linnos_record_latency() for a read that was assigned to a group, or sampled. */
void __blk_linnos_record_latency(struct blk_linnos_array *array,
				 const struct blk_linnos_assignment *group)
{
	struct blk_linnos_guard *g = array->guard;
	u64 us = div_u64(ktime_get_ns() - group->start_ns, NSEC_PER_USEC);
	struct linnos_assignment assigned = {
		.default_us = group->default_us,
		.slowness = group->slowness,
		.redirected = group->redirected,
	};
	unsigned long flags;

	raw_spin_lock_irqsave(&g->lock, flags);
	linnos_guard_record_latency(&g->core, assigned, us);
	raw_spin_unlock_irqrestore(&g->lock, flags);
}
EXPORT_SYMBOL_GPL(__blk_linnos_record_latency);

/* Show the mode in sysfs: off, on or unguarded. Return: number of bytes written to @page. */
ssize_t blk_linnos_array_show(struct blk_linnos_array *array, char *page)
{
	return sysfs_emit(page, "%s\n",
			  linnos_array_modes[READ_ONCE(array->mode)]);
}
EXPORT_SYMBOL_GPL(blk_linnos_array_show);

/*
 * Set the mode. "on" resets the guard even if the mode is on already, which is useful after other
 * models have been loaded. The new measurement then has a few wrong samples, because it includes
 * the reads that are in flight. Return: 0 or -EINVAL.
 */
int blk_linnos_array_store(struct blk_linnos_array *array, const char *word)
{
	struct blk_linnos_guard *g = array->guard;
	int mode = sysfs_match_string(linnos_array_modes, word);
	unsigned long flags;

	if (mode < 0)
		return mode;
	raw_spin_lock_irqsave(&g->lock, flags);
	if (mode == BLK_LINNOS_ARRAY_ON) {
		memset_after(g, 0, lock);
		linnos_set_hints(g, false);
	}
	WRITE_ONCE(array->mode, mode);
	raw_spin_unlock_irqrestore(&g->lock, flags);
	return 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_store);

/* Show the state and the measurements of the guard in sysfs. */
ssize_t blk_linnos_array_show_guard(struct blk_linnos_array *array, char *page)
{
	u8 mode = READ_ONCE(array->mode);
	const char *state = linnos_array_modes[mode];
	struct linnos_redirect_benefit benefit;
	struct linnos_guard core;
	unsigned long flags;
	u64 redirected = 0;
	int i, at;

	raw_spin_lock_irqsave(&array->guard->lock, flags);
	core = array->guard->core;
	raw_spin_unlock_irqrestore(&array->guard->lock, flags);
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++)
		redirected += core.redirected[i];
	if (mode == BLK_LINNOS_ARRAY_ON)
		state = READ_ONCE(array->guard->suspended) ? "suspended" :
							     "redirecting";
	at = sysfs_emit(page, "state %s\nredirected %llu\n", state, redirected);
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		linnos_guard_get_benefit(&core, i, &benefit);
		at += sysfs_emit_at(page, at, "%s reads %llu redirected %llu ",
				    linnos_slowness_names[i], core.eligible[i],
				    core.redirected[i]);
		at += sysfs_emit_at(page, at,
				    "control_us %u redirected_us %u share %u\n",
				    benefit.control_us, benefit.redirected_us,
				    benefit.share);
	}
	return at;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_show_guard);
