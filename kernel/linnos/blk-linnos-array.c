// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: redirect the reads of an md array while that makes them faster.
 *
 * A stacked driver (md) selects a disk for each read by a rule of its own. This disk is called
 * the default disk of the read, and "home" in the names below. If the predictions say that
 * another disk is faster, the read is redirected or, at random, kept at the default disk as a
 * control. The latencies of both groups decide how many reads are redirected
 * (core/linnos_guard.c). An array whose disks have misleading models is therefore soon read as
 * if it had no models.
 *
 * A prediction takes time, too. The default disk is therefore queried first, and the other
 * disks only if the read may be redirected according to the answer. If fewer than %FEW of 1024
 * reads of a slowness class are redirected, the other disks are queried for only one read in
 * %EXPLORE_EVERY of that class, chosen at random. The same applies to the class
 * %LINNOS_SLOWNESS_NORMAL if the other disks include a better one for fewer than one in
 * %SELDOM of its reads. While no class is mostly redirected, the array is suspended: it queries
 * disks for only one read in %SUSPENDED_EVERY, to notice a change.
 *
 * An array has one guard, with a lock. With a guard per CPU, each of them would need the minimum
 * number of samples before it knows anything. Reads for which another disk is better take the
 * lock twice, for less than a microsecond. Reads of the class %LINNOS_SLOWNESS_NORMAL for which
 * other disks were queried take it once more: one in %SAMPLE_EVERY of them, or all while the
 * other disks are queried for only one read in %EXPLORE_EVERY. Of the reads that the guard does
 * not assign, one in %SAMPLE_EVERY, chosen at random, takes it when it completes: the guard needs
 * the mean latency. All other reads load two words that change rarely, and count on their CPU.
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

#define FEW 64
#define MOST (LINNOS_GUARD_ALL / 2)
/*
 * Querying the other disks costs less than 1 % of the latency of a normal read, and a better disk
 * saves at least a quarter of it. Queries therefore pay off if about one read in %SELDOM finds a
 * better disk.
 */
#define SELDOM 32
#define ASKED_ENOUGH 64
#define ASKED_MOST 1024

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
	u8 explored; /* bitmap of the classes for which other disks are rarely queried */

	/* protects the rest; raw, because completions take it on PREEMPT_RT, too */
	raw_spinlock_t lock ____cacheline_aligned_in_smp;
	struct linnos_guard core; /* assigns single reads */
	/* bitmaps of the classes of which few or most reads are redirected */
	unsigned long few, most;
	/* counters of reads of the class LINNOS_SLOWNESS_NORMAL, halved above %ASKED_MOST */
	u32 asked; /* reads for which other disks were queried */
	u32 better; /* those of them for which another disk was better */
};

/*
 * Set the hints. Most calls change nothing; they must not write to the cache line, which all CPUs
 * read. The lock is held.
 */
static void linnos_set_hints(struct blk_linnos_guard *g, bool suspended)
{
	u8 explored = g->few;

	if (g->asked >= ASKED_ENOUGH && g->better * SELDOM < g->asked)
		explored |= BIT(LINNOS_SLOWNESS_NORMAL);
	if (g->suspended == suspended && g->explored == explored)
		return;
	WRITE_ONCE(g->suspended, suspended);
	WRITE_ONCE(g->explored, explored);
}

/*
 * Count a read for which other disks were queried although the default disk is not slow. @better:
 * true if one of them is better.
 */
static void linnos_count_query(struct blk_linnos_guard *g, bool better)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&g->lock, flags);
	g->asked++;
	g->better += better;
	if (g->asked > ASKED_MOST) {
		g->asked /= 2;
		g->better /= 2;
	}
	linnos_set_hints(g, g->suspended);
	raw_spin_unlock_irqrestore(&g->lock, flags);
}

static bool linnos_any_queried(const enum blk_linnos_expected *answers,
			       unsigned int n, unsigned int home)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (i != home && answers[i] != BLK_LINNOS_NOT_QUERIED)
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
 * should be queried for a read. The caller keeps @lot for blk_linnos_record_latency().
 */
bool __blk_linnos_array_should_query(struct blk_linnos_array *array,
				     struct blk_linnos_assignment *lot)
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
		lot->start_ns = now_ns;
	lot->tries = random % EXPLORE_EVERY == 0;
	return !READ_ONCE(array->guard->suspended) ||
	       random % SUSPENDED_EVERY == 0;
}
EXPORT_SYMBOL_GPL(__blk_linnos_array_should_query);

/**
 * blk_linnos_may_redirect() - check whether the other disks have to be queried, too
 * @array: the array
 * @lot: from blk_linnos_array_should_query()
 * @home: answer of blk_linnos_expect() for the default disk
 *
 * Return: false if the default disk serves the read, whatever is expected of the others.
 */
bool blk_linnos_may_redirect(const struct blk_linnos_array *array,
			     const struct blk_linnos_assignment *lot,
			     enum blk_linnos_expected home)
{
	enum linnos_slowness wish = linnos_answer_slowness(home);

	if (home == BLK_LINNOS_NOT_QUERIED)
		return true;
	/* no disk is better than a fast or unknown one; a disk to be probed gets this read */
	if (wish == LINNOS_SLOWNESS_NONE)
		return false;
	return READ_ONCE(array->mode) != BLK_LINNOS_ARRAY_ON || lot->tries ||
	       !(READ_ONCE(array->guard->explored) & BIT(wish));
}
EXPORT_SYMBOL_GPL(blk_linnos_may_redirect);

/**
 * blk_linnos_redirect() - choose the disks that should serve a read
 * @array: the array
 * @answers: answer of blk_linnos_expect() for each disk
 * @n: number of disks, at most %BITS_PER_LONG
 * @home: index of the default disk
 * @lot: from blk_linnos_array_should_query()
 *
 * Context: Any. Does not sleep.
 * Return: a bitmap of disks; 0 if the default disk should serve the read.
 */
unsigned long blk_linnos_redirect(struct blk_linnos_array *array,
				  const enum blk_linnos_expected *answers,
				  unsigned int n, unsigned int home,
				  struct blk_linnos_assignment *lot)
{
	unsigned long best = blk_linnos_best(answers, n);
	bool guarded = READ_ONCE(array->mode) == BLK_LINNOS_ARRAY_ON;
	enum linnos_slowness wish = linnos_answer_slowness(answers[home]);
	bool leaves = best && !(best & BIT(home));
	struct blk_linnos_guard *g = array->guard;
	struct linnos_assignment drawn;
	unsigned long flags;

	if (wish == LINNOS_SLOWNESS_NORMAL && guarded &&
	    (lot->start_ns || READ_ONCE(g->explored) & BIT(wish)) &&
	    linnos_any_queried(answers, n, home))
		linnos_count_query(g, leaves);
	if (!leaves)
		return 0;
	/* the default disk cannot serve the read, or another disk is to be probed: no test */
	if (wish == LINNOS_SLOWNESS_NONE || !guarded)
		return best;
	lot->wish = wish;
	/* only a latency model predicts microseconds */
	lot->home_us = answers[home] & BLK_LINNOS_US ?
			       answers[home] & BLK_LINNOS_US_MASK :
			       U32_MAX;
	raw_spin_lock_irqsave(&g->lock, flags);
	drawn = linnos_guard_assign(&g->core, wish, lot->home_us);
	__assign_bit(wish, &g->few, drawn.share < FEW);
	__assign_bit(wish, &g->most, drawn.share > MOST);
	linnos_set_hints(g, !g->most);
	raw_spin_unlock_irqrestore(&g->lock, flags);
	lot->left = drawn.redirected;
	lot->start_ns = lot->start_ns ?: ktime_get_ns();
	return lot->left ? best : 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_redirect);

/* blk_linnos_record_latency() for a read that the guard has assigned or sampled. */
void __blk_linnos_record_latency(struct blk_linnos_array *array,
				 const struct blk_linnos_assignment *lot)
{
	struct blk_linnos_guard *g = array->guard;
	u64 us = div_u64(ktime_get_ns() - lot->start_ns, NSEC_PER_USEC);
	struct linnos_assignment drawn = {
		.default_us = lot->home_us,
		.slowness = lot->wish,
		.redirected = lot->left,
	};
	unsigned long flags;

	raw_spin_lock_irqsave(&g->lock, flags);
	linnos_guard_record_latency(&g->core, drawn, us);
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
 * Set the mode. Writing "on" resets the guard, even if the mode is on already: do so after
 * loading other models for the disks. Reads that are in flight are then recorded in the new
 * measurement, which can have a few wrong samples. Return: 0 or -EINVAL.
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
